#include "shardwright/frontend/modules/mixture.h"

#include "shardwright/ops/calls.h"

namespace shardwright {

MixtureOfExperts::MixtureOfExperts(const std::string& called, std::int64_t width, std::int64_t inner,
                                   const Options& o)
    : name(called),
      options(o),
      router(name + ".router", width, o.experts, {.bias = false, .start = o.start}),
      gate{name + ".gate", {o.experts, width, inner}, o.start.value_or(normal(0.02))},
      up{name + ".up", {o.experts, width, inner}, o.start.value_or(normal(0.02))},
      down{name + ".down", {o.experts, inner, width}, o.start.value_or(normal(0.02))} {
  if (o.chosen < 1 || o.chosen > o.experts)
    throw error("{}: {} experts of {} cannot be chosen", name, o.chosen, o.experts);
}

Traced MixtureOfExperts::weights_of(Traced scores) const {
  using Dims = std::vector<std::int64_t>;
  Trace& trace = *scores.trace;
  const auto called = [&](const char* what) { return name + "." + what; };
  const Traced p = softmax(called("shares"))(scores);
  const std::vector<Traced> best =
      trace.call_all("top_k", {p}, {{"k", options.chosen}}, called("chosen"));  // [tokens, k]
  const std::string dtype(name_of(p.type().dtype));
  const Traced ones =
      trace.call("one_hot", {best[1]}, {{"depth", options.experts}, {"dtype", dtype}}, called("places"));
  const Traced is_chosen = trace.call("reduce_sum", {ones}, {{"dims", Dims{1}}}, called("is_chosen"));
  const Traced own = multiply(called("own"))(p, is_chosen);
  if (!options.scaled) return own;
  const Traced total = trace.call("reduce_sum", {own}, {{"dims", Dims{1}}, {"keep", true}}, called("total"));
  return trace.call("div", {own, total}, {}, called("scaled"));
}

Traced MixtureOfExperts::operator()(Traced x) const {
  Trace& trace = *x.trace;
  const auto called = [&](const char* what) { return name + "." + what; };
  const auto shaped = [&](Traced t, const char* what, Shape shape) {
    return Operator("reshape", called(what)).with("shape", std::move(shape))(t);
  };
  const Shape whole = x.type().shape;
  const std::int64_t tokens = element_count(whole) / whole.back(), width = whole.back();
  const Traced rows = shaped(x, "rows", {tokens, width});
  // As deep as it is kept: which experts are chosen should not hang on short roundings.
  const Traced scores{&trace, cast_to(trace.builder(), router(rows).id, trace.kept_precision())};
  const Traced w =
      shaped(Operator("transpose", called("by_expert")).with("dims", Shape{1, 0})(weights_of(scores)),
             "weights", {options.experts, tokens, 1});
  const Traced own{&trace, cast_to(trace.builder(), w.id, x.type().dtype)};
  // Every expert sees all: [experts, tokens, width]
  const Traced all =
      Operator("broadcast", called("all"))
          .with("shape", Shape{options.experts, tokens, width})(shaped(rows, "alone", {1, tokens, width}));
  const Traced inner = swiglu(called("swiglu"))(matmul(called("gate.matmul"))(all, gate),
                                                matmul(called("up.matmul"))(all, up));
  const Traced each = matmul(called("down.matmul"))(multiply(called("weighed"))(inner, own), down);
  const Traced sum =
      trace.call("reduce_sum", {each}, {{"dims", std::vector<std::int64_t>{0}}}, called("sum"));
  return shaped(sum, "joined", whole);
}

}  // namespace shardwright
