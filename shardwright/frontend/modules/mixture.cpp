#include "shardwright/frontend/modules/mixture.h"

#include <algorithm>

#include "shardwright/ops/calls.h"

namespace shardwright {

MixtureOfExperts::MixtureOfExperts(const std::string& called, std::int64_t width, std::int64_t inner,
                                   const Options& o)
    : name(called),
      options(o),
      router(name + ".router", width, o.experts, {.bias = false, .start = o.start}),
      gate{name + ".gate", {o.experts, width, inner}, o.start.value_or(normal(0.02))},
      up{name + ".up", {o.experts, width, inner}, o.start.value_or(normal(0.02))},
      down{name + ".down", {o.experts, inner, width}, o.start.value_or(normal(0.02))},
      correction{name + ".router.correction", {o.experts}, zeros(), true} {
  correction.is_frozen = true;
  if (o.shared > 0)
    shared.emplace(name + ".shared", width, o.shared, Dense::Options{.bias = false, .start = o.start});
  if (o.groups < 1 || o.experts % o.groups != 0 || o.chosen_groups < 1 || o.chosen_groups > o.groups ||
      o.chosen > o.chosen_groups * (o.experts / o.groups))
    throw error("{}: {} experts cannot be chosen in {} of {} groups of {} experts", name, o.chosen,
                o.chosen_groups, o.groups, o.experts);
  if (o.chosen < 1 || o.chosen > o.experts)
    throw error("{}: {} experts of {} cannot be chosen", name, o.chosen, o.experts);
}

Traced MixtureOfExperts::weights_of(Traced scores) const {
  using Dims = std::vector<std::int64_t>;
  Trace& trace = *scores.trace;
  const auto called = [&](const char* what) { return name + "." + what; };
  const Traced p = options.by_sigmoid ? sigmoid(called("shares"))(scores) : softmax(called("shares"))(scores);
  const Traced by = options.by_sigmoid ? in_chosen_groups(add(called("corrected"))(p, correction)) : p;
  const std::vector<Traced> best =
      trace.call_all("top_k", {by}, {{"k", options.chosen}}, called("chosen"));  // [tokens, k]
  const std::string dtype(name_of(p.type().dtype));
  const Traced ones =
      trace.call("one_hot", {best[1]}, {{"depth", options.experts}, {"dtype", dtype}}, called("places"));
  const Traced is_chosen = trace.call("reduce_sum", {ones}, {{"dims", Dims{1}}}, called("is_chosen"));
  const Traced own = multiply(called("own"))(p, is_chosen);
  const auto times_factor = [&](Traced w) {
    return options.factor == 1 ? w : Operator("scale", called("by_factor")).with("factor", options.factor)(w);
  };
  if (!options.scaled) return times_factor(own);
  const Traced total = trace.call("reduce_sum", {own}, {{"dims", Dims{1}}, {"keep", true}}, called("total"));
  return times_factor(trace.call("div", {own, total}, {}, called("scaled")));
}

Traced MixtureOfExperts::in_chosen_groups(Traced p) const {
  using Dims = std::vector<std::int64_t>;
  if (options.groups == 1) return p;
  Trace& trace = *p.trace;
  const auto called = [&](const char* what) { return name + ".groups." + what; };
  const std::int64_t tokens = p.type().shape[0], each = options.experts / options.groups;
  const auto shaped = [&](Traced t, const char* what, Shape shape) {
    return Operator("reshape", called(what)).with("shape", std::move(shape))(t);
  };
  const Traced grouped = shaped(p, "split", {tokens, options.groups, each});
  const Traced largest =
      trace.call_all("top_k", {grouped}, {{"k", std::min<std::int64_t>(2, each)}}, called("best"))[0];
  const Traced sums = trace.call("reduce_sum", {largest}, {{"dims", Dims{2}}}, called("sums"));
  const Traced chosen = trace.call_all("top_k", {sums}, {{"k", options.chosen_groups}}, called("chosen"))[1];
  const Traced places = trace.call(
      "one_hot", {chosen}, {{"depth", options.groups}, {"dtype", std::string(name_of(p.type().dtype))}},
      called("places"));
  const Traced count = shaped(trace.call("reduce_sum", {places}, {{"dims", Dims{1}}}, called("count")),
                              "rows", {tokens, options.groups, 1});
  const auto number = [&](double n) { return Traced{&trace, constant(trace.builder(), p.type().dtype, n)}; };
  const Traced takes_part = trace.call("greater", {count, number(0)}, {}, called("take_part"));
  const Traced seen = trace.call("where", {takes_part, grouped, number(-1e30)}, {}, called("seen"));
  return shaped(seen, "joined", {tokens, options.experts});
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
  const Traced chosen = shaped(sum, "joined", whole);
  return shared ? add(called("with_shared"))(chosen, (*shared)(x)) : chosen;
}

}  // namespace shardwright
