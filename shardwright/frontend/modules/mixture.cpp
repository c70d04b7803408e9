#include "shardwright/frontend/modules/mixture.h"

#include <algorithm>
#include <cmath>
#include <numeric>

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
  if (o.shared > 0 && !o.is_gated)
    throw error("{}: shared experts are gated networks, with activation=swiglu; say shared=0", name);
  if (o.chosen < 1 || o.chosen > o.experts)
    throw error("{}: {} experts of {} cannot be chosen", name, o.chosen, o.experts);
  if (o.capacity != 0 && o.capacity * static_cast<double>(o.chosen) < 1e-6)
    throw error("{}: capacity={} leaves nothing to the experts; 1 is their even share", name, o.capacity);
}

namespace {

using Dims = std::vector<std::int64_t>;

/// All dims of x but the last.
Dims leading_dims(Traced x) {
  Dims out(x.type().shape.size() - 1);
  std::iota(out.begin(), out.end(), std::int64_t{0});
  return out;
}

std::int64_t last_dim(Traced x) { return std::ssize(x.type().shape) - 1; }

}  // namespace

MixtureOfExperts::Choice MixtureOfExperts::choice_of(Traced scores) const {
  Trace& trace = *scores.trace;
  const auto called = [&](const char* what) { return name + "." + what; };
  const Traced p = options.by_sigmoid ? sigmoid(called("shares"))(scores) : softmax(called("shares"))(scores);
  const Traced by = options.by_sigmoid ? in_chosen_groups(add(called("corrected"))(p, correction)) : p;
  const Traced ids = trace.call_all("top_k", {by}, {{"k", options.chosen}}, called("chosen"))[1];
  Traced w = trace.call("take_along_dim", {p, ids}, {{"dim", last_dim(p)}}, called("own"));
  if (options.scaled) {
    const Traced total =
        trace.call("reduce_sum", {w}, {{"dims", Dims{last_dim(w)}}, {"keep", true}}, called("total"));
    w = trace.call("div", {w, total}, {}, called("scaled"));
  }
  if (options.factor != 1) w = Operator("scale", called("by_factor")).with("factor", options.factor)(w);
  if (options.balance_loss > 0) add_balance_loss(p, ids);
  return {kept_ids(ids), w};
}

Traced MixtureOfExperts::kept_ids(Traced ids) const {
  if (options.capacity == 0) return ids;
  const double even =
      static_cast<double>(element_count(ids.type().shape)) / static_cast<double>(options.experts);
  const auto most = static_cast<std::int64_t>(std::ceil(options.capacity * even));
  return ids.trace->call("expert_ids", {ids}, {{"experts", options.experts}, {"most", most}}, name + ".kept");
}

void MixtureOfExperts::add_balance_loss(Traced p, Traced ids) const {
  Trace& trace = *p.trace;
  const auto called = [&](const char* what) { return name + ".balance." + what; };
  const Dims leading = leading_dims(p);
  Dims of_choices = leading;
  of_choices.push_back(std::ssize(leading));
  const std::string dtype(name_of(p.type().dtype));
  const Traced places =
      trace.call("one_hot", {ids}, {{"depth", options.experts}, {"dtype", dtype}}, called("places"));
  const Traced got = trace.call("reduce_mean", {places}, {{"dims", of_choices}}, called("got"));
  const Traced mean = trace.call("reduce_mean", {p}, {{"dims", leading}}, called("mean"));
  const Traced both = trace.call("reduce_sum", {multiply(called("both"))(got, mean)}, {}, called("sum"));
  const double factor = options.balance_loss * static_cast<double>(options.experts);
  trace.add_loss(Operator("scale", called("loss")).with("factor", factor)(both), called("added"));
}

void MixtureOfExperts::add_z_loss(Traced scores) const {
  Trace& trace = *scores.trace;
  const auto called = [&](const char* what) { return name + ".z." + what; };
  const Attributes kept{{"dims", Dims{last_dim(scores)}}, {"keep", true}};
  const Traced largest = trace.call("reduce_max", {scores}, kept, called("largest"));
  const Traced powers =
      Operator("exp", called("powers"))(trace.call("sub", {scores, largest}, {}, called("below")));
  const Traced sum = Operator("log", called("log"))(trace.call("reduce_sum", {powers}, kept, called("sum")));
  const Traced squares = Operator("square", called("squares"))(add(called("all"))(sum, largest));
  const Traced mean = trace.call("reduce_mean", {squares}, {}, called("mean"));
  trace.add_loss(Operator("scale", called("loss")).with("factor", options.z_loss)(mean), called("added"));
}

Traced MixtureOfExperts::in_chosen_groups(Traced p) const {
  if (options.groups == 1) return p;
  Trace& trace = *p.trace;
  const auto called = [&](const char* what) { return name + ".groups." + what; };
  const std::int64_t each = options.experts / options.groups, last = last_dim(p);
  const auto shaped = [&](Traced t, const char* what, Dims behind) {
    Shape shape = p.type().shape;
    shape.pop_back();
    shape.insert(shape.end(), behind.begin(), behind.end());
    return Operator("reshape", called(what)).with("shape", std::move(shape))(t);
  };
  const Traced grouped = shaped(p, "split", {options.groups, each});
  const Traced largest =
      trace.call_all("top_k", {grouped}, {{"k", std::min<std::int64_t>(2, each)}}, called("best"))[0];
  const Traced sums = trace.call("reduce_sum", {largest}, {{"dims", Dims{last + 1}}}, called("sums"));
  const Traced chosen = trace.call_all("top_k", {sums}, {{"k", options.chosen_groups}}, called("chosen"))[1];
  const Traced places = trace.call(
      "one_hot", {chosen}, {{"depth", options.groups}, {"dtype", std::string(name_of(p.type().dtype))}},
      called("places"));
  const Traced count = shaped(trace.call("reduce_sum", {places}, {{"dims", Dims{last}}}, called("count")),
                              "rows", {options.groups, 1});
  const auto number = [&](double n) { return Traced{&trace, constant(trace.builder(), p.type().dtype, n)}; };
  const Traced takes_part = trace.call("greater", {count, number(0)}, {}, called("take_part"));
  const Traced seen = trace.call("where", {takes_part, grouped, number(-1e30)}, {}, called("seen"));
  return shaped(seen, "joined", {options.experts});
}

Traced MixtureOfExperts::operator()(Traced x) const {
  Trace& trace = *x.trace;
  // As deep as it is kept: which experts are chosen should not hang on short roundings.
  const Traced scores{&trace, cast_to(trace.builder(), router(x).id, trace.kept_precision())};
  const Choice choice = choice_of(scores);
  if (options.z_loss > 0) add_z_loss(scores);
  const Traced own{&trace, cast_to(trace.builder(), choice.weights.id, x.type().dtype)};
  const Operator experts = Operator("experts", name + ".experts").with("activation", options.activation);
  const Traced chosen =
      options.is_gated ? experts(x, choice.ids, own, up, down, gate) : experts(x, choice.ids, own, up, down);
  return shared ? add(name + ".with_shared")(chosen, (*shared)(x)) : chosen;
}

}  // namespace shardwright
