#include "shardwright/frontend/functions.h"

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/error.h"

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

Traced l2_normalize(Traced x, std::int64_t dim, double epsilon) {
  Trace& trace = *x.trace;
  const Traced sum = trace.call("reduce_sum", {trace.call("square", {x})},
                                {{"dims", std::vector<std::int64_t>{dim}}, {"keep", true}});
  return trace.call("mul", {x, trace.call("rsqrt", {trace.call("clip", {sum}, {{"min", epsilon}})})});
}

Traced dropout(Traced x, const std::string& name, double rate, std::int64_t seed) {
  Trace& trace = *x.trace;
  return trace.call("dropout", {x, {&trace, step_count(trace.builder())}},
                    {{"name", name}, {"rate", rate}, {"seed", seed}}, name);
}

}  // namespace shardwright
