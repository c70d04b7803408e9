#include "shardwright/runtime/eager.h"

#include <cstring>
#include <memory>
#include <unordered_map>

#include "shardwright/runtime/backend/backend.h"

namespace shardwright {
namespace {

LoopBox all_of(const Rule& rule) {
  LoopBox box;
  for (const LoopDim& l : rule.loops) box.loops.push_back({0, l.size, l.size});
  return box;
}

/// A call of small tensors, prepared for memory of its own: operands are copied there and results from there.
class SmallCall {
 public:
  SmallCall(Backend& backend, const OpDef& op, std::vector<Type> operands, std::vector<Type> results,
            const Attributes& attributes)
      : operands_(std::move(operands)), results_(std::move(results)), attributes_(attributes) {
    rule_ = rule_of(op, {operands_, results_, attributes_});
    box_ = all_of(rule_);
    for (const auto* types : {&operands_, &results_})
      for (const Type& type : *types) memory_.push_back(backend.allocate(type.bytes()));
    for (std::size_t i = 0; i < operands_.size(); ++i) in_.push_back(view(operands_[i], i));
    for (std::size_t i = 0; i < results_.size(); ++i) out_.push_back(view(results_[i], operands_.size() + i));
    kernel_ = backend.prepare(op, {in_, out_, attributes_, rule_, box_});
  }
  SmallCall(const SmallCall&) = delete;
  SmallCall& operator=(const SmallCall&) = delete;

  bool is_of(std::span<const Tensor> operands, const Attributes& attributes) const {
    if (operands.size() != operands_.size() || !(attributes == attributes_)) return false;
    for (std::size_t i = 0; i < operands.size(); ++i)
      if (!(operands[i].type() == operands_[i])) return false;
    return true;
  }

  std::vector<Tensor> operator()(std::span<const Tensor> operands) {
    for (std::size_t i = 0; i < operands.size(); ++i) {
      const auto bytes = operands[i].bytes();
      if (!bytes.empty()) std::memcpy(in_[i].data, bytes.data(), bytes.size());
    }
    kernel_();
    std::vector<Tensor> out;
    out.reserve(results_.size());
    for (std::size_t i = 0; i < results_.size(); ++i) {
      const auto bytes = out.emplace_back(results_[i]).bytes();
      if (!bytes.empty()) std::memcpy(bytes.data(), out_[i].data, bytes.size());
    }
    return out;
  }

 private:
  TensorView view(const Type& type, std::size_t i) const {
    return {type.dtype, type.shape, memory_[i].data()};
  }

  std::vector<Type> operands_, results_;
  Attributes attributes_;
  Rule rule_;
  LoopBox box_;
  std::vector<Memory> memory_;
  std::vector<TensorView> in_, out_;
  PreparedKernel kernel_;
};

/// Of one thread.
class Eager {
 public:
  Eager() : backend_(default_devices().backend(0)) {}

  std::vector<Tensor> run(const OpDef& op, std::span<const Tensor> operands, const Attributes& attributes) {
    std::vector<std::unique_ptr<SmallCall>>& known = calls_[&op];
    for (const auto& call : known)
      if (call->is_of(operands, attributes)) return (*call)(operands);
    std::vector<Type> types;
    std::int64_t bytes = 0;
    for (const Tensor& t : operands) bytes += types.emplace_back(t.type()).bytes();
    std::vector<Type> results = infer(op, {types, {}, attributes});
    for (const Type& t : results) bytes += t.bytes();
    if (bytes > most_bytes) return run_large(op, operands, types, results, attributes);
    if (known.size() == most_calls) known.clear();
    known.push_back(
        std::make_unique<SmallCall>(*backend_, op, std::move(types), std::move(results), attributes));
    return (*known.back())(operands);
  }

 private:
  static constexpr std::int64_t most_bytes = 64 * 1024;  // that are sooner copied than prepared
  static constexpr std::size_t most_calls = 32;          // of one operator

  std::vector<Tensor> run_large(const OpDef& op, std::span<const Tensor> operands,
                                const std::vector<Type>& types, const std::vector<Type>& results,
                                const Attributes& attributes) {
    const Rule rule = rule_of(op, {types, results, attributes});
    const LoopBox box = all_of(rule);
    std::vector<TensorView> in, out_views;
    for (const Tensor& t : operands)  // a kernel reads its operands only
      in.push_back({t.dtype(), t.shape(), const_cast<std::byte*>(t.bytes().data())});
    std::vector<Tensor> out;
    for (const Type& t : results) out.emplace_back(t);
    for (Tensor& t : out) out_views.push_back(t.view());
    backend_->prepare(op, {in, out_views, attributes, rule, box})();
    backend_->wait();
    return out;
  }

  std::unique_ptr<Backend> backend_;
  std::unordered_map<const OpDef*, std::vector<std::unique_ptr<SmallCall>>> calls_;
};

}  // namespace

std::vector<Tensor> run_operator(const OpDef& op, std::span<const Tensor> operands,
                                 const Attributes& attributes) {
  if (op.kind != OpKind::compute) throw error("operator {} is no computation", op.name);
  thread_local Eager eager;
  return eager.run(op, operands, attributes);
}

}  // namespace shardwright
