#include "shardwright/frontend/functions.h"

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
Traced stack(const std::vector<Traced>& values, std::int64_t dim) {
  if (values.empty()) throw error("stack: has no values but takes at least 1");
  Trace& trace = *values.front().trace;
  std::vector<Traced> expanded;
  for (const Traced& v : values)
    expanded.push_back(trace.call("expand_dims", {v}, {{"dims", std::vector<std::int64_t>{dim}}}));
  return trace.call("concat", expanded, {{"dim", dim}});
}

Traced variance(Traced x, const ReducedDims& over, std::int64_t ddof) {
  Trace& trace = *x.trace;
  const Traced mean = trace.call("reduce_mean", {x}, {{"dims", over.dims}, {"keep", true}});
  const Traced squares = trace.call("square", {trace.call("sub", {x, mean})});
  const Traced spread = trace.call("reduce_mean", {squares}, {{"dims", over.dims}, {"keep", over.keep}});
  if (ddof == 0) return spread;
  const std::int64_t count = element_count(x.type().shape) / element_count(mean.type().shape);
  if (ddof < 0 || ddof >= count)
    throw error("variance: ddof is {} but should be from 0 to {}, less than the count of elements", ddof,
                count - 1);
  return trace.call("scale", {spread},
                    {{"factor", static_cast<double>(count) / static_cast<double>(count - ddof)}});
}

Traced l2_normalize(Traced x, std::int64_t dim, double epsilon, const std::string& name) {
  Trace& trace = *x.trace;
  x.id = cast_to(trace.builder(), x.id, trace.kept_precision());
  const std::vector<std::int64_t> dims{dim};
  const Traced squares = trace.call("square", {x}, {}, name + ".squares");
  const Traced sum = trace.call("reduce_sum", {squares}, {{"dims", dims}, {"keep", true}}, name + ".sum");
  const Traced clipped = trace.call("clip", {sum}, {{"min", epsilon}}, name + ".clip");
  const Traced y = trace.call("mul", {x, trace.call("rsqrt", {clipped}, {}, name + ".rsqrt")}, {}, name);
  return {&trace, cast_to(trace.builder(), y.id, trace.precision())};
}

Traced batch_norm_by(Traced x, const ChannelNorm& norm, std::string_view name) {
  Trace& trace = *x.trace;
  const std::size_t rank = x.type().shape.size();
  if (rank < 2) throw error("{} has no dim of channels to norm", to_text(x.type()));
  const Traced deviation = trace.call("shift", {norm.variance}, {{"value", norm.epsilon}});
  const Traced slope = trace.call("mul", {norm.gamma, trace.call("rsqrt", {deviation})});
  const Traced offset = trace.call("sub", {norm.beta, trace.call("mul", {norm.mean, slope})});
  std::vector<std::int64_t> behind;  // the dims behind that of channels
  for (std::size_t d = 2; d < rank; ++d) behind.push_back(static_cast<std::int64_t>(d) - 1);
  const auto expanded = [&](Traced v) {
    return behind.empty() ? v : trace.call("expand_dims", {v}, {{"dims", behind}});
  };
  const Traced full{&trace, cast_to(trace.builder(), x.id, norm.mean.type().dtype)};
  const Traced y =
      trace.call("add", {trace.call("mul", {full, expanded(slope)}), expanded(offset)}, {}, name);
  return {&trace, cast_to(trace.builder(), y.id, x.type().dtype)};
}

Traced dropout(Traced x, const std::string& name, double rate, std::int64_t seed) {
  Trace& trace = *x.trace;
  return trace.call("dropout", {x, {&trace, step_count(trace.builder())}},
                    {{"name", name}, {"rate", rate}, {"seed", seed}}, name);
}

Traced dropped(Traced x, const std::string& name, double rate) {
  return rate > 0 ? dropout(x, name, rate) : x;
}

}  // namespace shardwright
