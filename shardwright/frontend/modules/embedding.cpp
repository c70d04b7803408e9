#include "shardwright/frontend/modules/embedding.h"

#include "shardwright/ops/calls.h"

namespace shardwright {

Embedding::Embedding(const std::string& name, std::int64_t rows, std::int64_t width)
    : gather(shardwright::gather(name)), weight{name + ".weight", {rows, width}, normal(0.02)} {}

Traced Embedding::operator()(Traced indices) const { return gather(weight, indices); }

Traced without_learning(Traced rows, Traced indices, std::int64_t padding, const std::string& name) {
  Trace& trace = *rows.trace;
  Shape shape = indices.type().shape;
  const Traced one{&trace, constant(trace.builder(), indices.type().dtype, static_cast<double>(padding))};
  const Traced is_padding = trace.call("equal", {indices, one}, {}, name + ".is_padding");
  shape.push_back(1);
  const Traced where = trace.call("reshape", {is_padding}, {{"shape", shape}}, name + ".rows");
  return trace.call("where", {where, trace.call("stop_gradient", {rows}, {}, name + ".still"), rows}, {},
                    name + ".learnt");
}

}  // namespace shardwright
