// Every operator's kernel as the CPU backend prepares it: on its first sample with one loop dim stretched until
// there are 262,144 elements, and with all loop dims of size one, where only the call is left.

#include <fmt/format.h>

#include <optional>

#include "bench/harness/measure.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

Rule rule_of_sample(const OpDef& op, const Sample& sample) {
  const std::vector<Type> operands = types_of(sample);
  const std::vector<Type> results = infer(op, {operands, {}, sample.attributes});
  return rule_of(op, {operands, results, sample.attributes});
}

/// Nothing if the operator does not take these sizes: an attribute speaks of them.
std::optional<Sample> resized(const OpDef& op, Sample sample, const std::vector<std::int64_t>& factors,
                              bool to_one) try {
  const Rule rule = rule_of_sample(op, sample);
  for (std::size_t o = 0; o < sample.operands.size(); ++o)
    for (std::size_t d = 0; d < sample.operands[o].type.shape.size(); ++d)
      for (int loop : rule.operands[o].dims[d]) {
        std::int64_t& size = sample.operands[o].type.shape[d];
        size = to_one ? 1 : size * factors[static_cast<std::size_t>(loop)];
      }
  if (to_one)
    for (SampleOperand& o : sample.operands) o.bound = 1;  // one class, one label
  infer(op, {types_of(sample), {}, sample.attributes});
  rule_of_sample(op, sample);
  return sample;
} catch (const Error&) {
  return std::nullopt;
}

/// All elements that the call reads or writes at most once: of the largest operand or result.
std::int64_t elements_of(const OpDef& op, const Sample& sample) {
  std::int64_t most = 1;
  for (const Type& t : types_of(sample)) most = std::max(most, element_count(t.shape));
  for (const Type& t : infer(op, {types_of(sample), {}, sample.attributes}))
    most = std::max(most, element_count(t.shape));
  return most;
}

/// The first loop dim whose stretching the operator accepts.
std::optional<Sample> stretched(const OpDef& op, const Sample& sample, std::int64_t elements) {
  const std::size_t loops = rule_of_sample(op, sample).loops.size();
  const std::int64_t factor = std::max<std::int64_t>(1, elements / elements_of(op, sample));
  for (std::size_t l = 0; l < loops; ++l) {
    std::vector<std::int64_t> factors(loops, 1);
    factors[l] = factor;
    const auto out = resized(op, sample, factors, false);
    if (out && elements_of(op, *out) >= elements / 2) return out;
  }
  return std::nullopt;
}

struct Prepared {
  std::vector<Tensor> operands;
  std::vector<Tensor> results;
  std::vector<TensorView> operand_views;
  std::vector<TensorView> result_views;
  Attributes attributes;
  Rule rule;
  LoopBox box;
  PreparedKernel kernel;
};

std::unique_ptr<Prepared> prepare(Backend& backend, const OpDef& op, const Sample& sample) {
  auto p = std::make_unique<Prepared>();
  p->operands = draw(sample, Values::reals, 1);
  for (const Type& t : infer(op, {types_of(sample), {}, sample.attributes})) p->results.emplace_back(t);
  for (Tensor& t : p->operands) p->operand_views.push_back(t.view());
  for (Tensor& t : p->results) p->result_views.push_back(t.view());
  p->attributes = sample.attributes;
  p->rule = rule_of_sample(op, sample);
  for (const LoopDim& loop : p->rule.loops) p->box.loops.push_back({0, loop.size, loop.size});
  p->kernel = backend.prepare(op, {p->operand_views, p->result_views, p->attributes, p->rule, p->box});
  return p;
}

std::string types_text(const Sample& sample) {
  std::string out;
  for (const Type& t : types_of(sample)) out += (out.empty() ? "" : ", ") + to_text(t);
  return out;
}

double median_seconds(Backend& backend, const OpDef& op, const Sample& sample, const BenchOptions& options) {
  const auto prepared = prepare(backend, op, sample);
  const auto call = [&] { prepared->kernel(); };
  const int calls = options.is_smoke ? 1 : calls_within(0.003, call);
  std::vector<double> seconds;
  for (int i = 0; i < options.rounds(9); ++i) seconds.push_back(seconds_per_call(calls, call));
  return spread_of(seconds).median;
}

void bench(const BenchOptions& options) {
  pin();
  const auto backend = cpu_backend();
  backend->enter_thread();
  const Table table({"operator                    ", "ns an element", "one element", "operands"});
  table.begin("Kernels on one core");
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute || op.is_alias || op.samples.empty()) continue;
    const Sample sample = parse_sample(op.samples.front());
    const auto large = stretched(op, sample, options.is_smoke ? 1024 : 262144);
    const auto small = resized(op, sample, {}, true);
    std::string element = "-";
    if (large)
      element = fmt::format("{:.3f}", median_seconds(*backend, op, *large, options) * 1e9 /
                                          static_cast<double>(elements_of(op, *large)));
    table.row({op.name, element, small ? time_text(median_seconds(*backend, op, *small, options)) : "-",
               types_text(large.value_or(sample))});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
