#include "shardwright/runtime/backend/cpu/reformat.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <array>
#include <functional>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/runtime/backend/cpu/memory_format.h"

namespace shardwright::cpu {
namespace {

/// By oneDNN, which takes its memory from the workspace.
class Reorder {
 public:
  Reorder(const Type& type, const Format& from, const Format& to, Workspace& workspace)
      : from_(description_of(type.shape, from, type.dtype), engine(), nullptr),
        to_(description_of(type.shape, to, type.dtype), engine(), nullptr),
        stream_(engine()),
        workspace_(&workspace) {
    dnnl::primitive_attr attributes;
    attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
    const dnnl::reorder::primitive_desc what(from_, to_, attributes);
    is_slow_ = std::string_view(what.impl_info_str()).starts_with("simple");
    workspace.reserve(what.scratchpad_desc().get_size());
    scratch_ = dnnl::memory(what.scratchpad_desc(), engine(), nullptr);
    primitive_ = dnnl::reorder(what);
    arguments_ = {
        {{DNNL_ARG_FROM, from_.get()}, {DNNL_ARG_TO, to_.get()}, {DNNL_ARG_SCRATCHPAD, scratch_.get()}}};
  }

  /// oneDNN has no code for these formats and this type: it computes where each element lies.
  bool is_slow() const { return is_slow_; }

  void run(const std::byte* from, std::byte* to) const {
    dnnl_memory_set_data_handle(from_.get(), const_cast<std::byte*>(from));  // NOLINT: it reads it only
    dnnl_memory_set_data_handle(to_.get(), to);
    dnnl_memory_set_data_handle(scratch_.get(), workspace_->data());
    const auto status = dnnl_primitive_execute(primitive_.get(), stream_.get(),
                                               static_cast<int>(arguments_.size()), arguments_.data());
    require(status == dnnl_success, "oneDNN's reorder says {}", static_cast<int>(status));
  }

 private:
  dnnl::memory from_, to_, scratch_;
  dnnl::stream stream_;
  dnnl::reorder primitive_;
  Workspace* workspace_;
  bool is_slow_ = false;
  std::array<dnnl_exec_arg_t, 3> arguments_{};
};

using Move = std::function<void(const std::byte* from, std::byte* to)>;

/// By oneDNN for f32 and the 16-bit types, which are all bf16 to it; else, and of 16 bits without AVX-512, by
/// base/format.h.
Move mover(const Type& type, const Format& from, const Format& to, Workspace& workspace) {
  const std::size_t bytes = size_of(type.dtype);
  if (is_floating(type.dtype) && bytes <= sizeof(float) && type.bytes() > 0) {
    const Type copied{bytes == sizeof(float) ? DType::f32 : DType::bf16, type.shape};
    const auto by = std::make_shared<Reorder>(copied, from, to, workspace);
    if (!by->is_slow()) return [by](const std::byte* x, std::byte* y) { by->run(x, y); };
  }
  return [=](const std::byte* x, std::byte* y) { reformat(x, from, y, to, type.shape, size_of(type.dtype)); };
}

/// A call on row-major copies of what is not row-major.
class OnCopies {
 public:
  OnCopies(const FusedCall& call, Workspace& workspace)
      : operands_(call.call.operands.begin(), call.call.operands.end()),
        results_(call.call.results.begin(), call.call.results.end()) {
    for (std::size_t i = 0; i < operands_.size(); ++i)
      if (!call.operand_format(i).is_row_major()) bring(operands_[i], call.operand_format(i), workspace);
    for (std::size_t r = 0; r < results_.size(); ++r)
      if (r == 0 || !call.result_format(r).is_row_major())
        take(results_[r], call.result_format(r), workspace);
    call_ = std::make_unique<FusedCall>(
        FusedCall{call.op, {operands_, results_, call.call.attributes, call.call.rule, call.call.box}});
  }

  /// The call on the copies; its first result goes to the memory that `run` is told.
  const FusedCall& call() const { return *call_; }
  void use(Rows kernel) { kernel_ = std::move(kernel); }

  void run(std::byte* first_result) {
    for (const Copy& c : before_) c.move(c.own, c.copy);
    kernel_.make(0, kernel_.count, results_[0].data);
    after_[0].own = first_result;
    for (const Copy& c : after_) c.move(c.copy, c.own);
  }

 private:
  struct Copy {
    std::byte* own;
    std::byte* copy;
    Move move;
  };

  /// Gives the view memory of its own. Returns where it was.
  std::byte* replaced(TensorView& view) {
    copies_.emplace_back(static_cast<std::size_t>(view.size()) * size_of(view.dtype));
    return std::exchange(view.data, copies_.back().data());
  }
  void bring(TensorView& view, const Format& format, Workspace& workspace) {
    std::byte* const own = replaced(view);
    before_.push_back({own, view.data, mover({view.dtype, view.shape}, format, {}, workspace)});
  }
  void take(TensorView& view, const Format& format, Workspace& workspace) {
    std::byte* const own = replaced(view);
    after_.push_back({own, view.data, mover({view.dtype, view.shape}, {}, format, workspace)});
  }

  std::vector<TensorView> operands_, results_;
  std::vector<Scratch> copies_;
  std::vector<Copy> before_, after_;
  std::unique_ptr<FusedCall> call_;
  Rows kernel_;
};

}  // namespace

Rows reformat_rows(const FusedCall& call, Workspace& workspace) {
  if (call.op.name != "reformat") return {};
  const TensorView& x = call.call.operands[0];
  return all_at_once(
      [move = mover({x.dtype, x.shape}, call.operand_format(0), call.result_format(0), workspace),
       from = x.data](std::byte* y) { move(from, y); });
}

Rows in_row_major(const FusedCall& call, Workspace& workspace,
                  const std::function<Rows(const FusedCall&)>& kernel_for) {
  const auto on = std::make_shared<OnCopies>(call, workspace);
  on->use(kernel_for(on->call()));
  return all_at_once([on](std::byte* y) { on->run(y); });
}

}  // namespace shardwright::cpu
