// Loss scaling (Micikevicius et al. 2018): short gradients are made large, so that small ones do not vanish, and a step
// in which one overflows is not taken. Scalars, each the same on every rank.
//
//   is_finite         ok = 1 if x is a finite number, else 0
//   next_loss_scale   good' = ok ? good + 1 : 0;  scale' = ok ? scale : min(scale, max(scale / factor, least))
//                     and with good' = interval:  good' = 0, scale' = scale factor
//
// interval=0 keeps the scale as it is, and counts good steps.

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/ops/elementwise.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer_next(const Call& call) {
  const Type type = common_type(call, 3);
  if (!(call.attributes.number("factor", 2) > 1))
    throw error("factor is {} but should be above 1", call.attributes.number("factor", 2));
  if (call.attributes.integer("interval", 2000) < 0) throw error("interval is below 0");
  return {type, type};
}

BlockKernel next_block(const Call& call) {
  const double factor = call.attributes.number("factor", 2), least = call.attributes.number("least", 1);
  const auto interval = static_cast<double>(call.attributes.integer("interval", 2000));
  return floating_block(call, [=]<class C>(std::type_identity<C>, const ElementBlock& b) {
    for_each_element<C, 3, 2>(b, [=](C scale, C good, C ok) {
      const bool is_good = ok > 0, is_fixed = interval == 0;
      const C count = is_good ? good + 1 : C(0);
      const bool grows = !is_fixed && count >= static_cast<C>(interval);
      const C smaller = std::min(scale, std::max(scale / static_cast<C>(factor), static_cast<C>(least)));
      const C next = grows ? scale * static_cast<C>(factor) : is_good || is_fixed ? scale : smaller;
      // One that leaves its range would make every later step overflow.
      return std::array<C, 2>{next - next == 0 ? next : scale, grows ? C(0) : count};
    });
  });
}

}  // namespace

std::vector<OpDef> loss_scale() {
  return {elementwise(
              {.name = "is_finite",
               .doc = "y = 1 where x is a finite number, else 0",
               .block = [](const Call& c) { return map(c, [](auto x) { return decltype(x)(x - x == 0); }); },
               .samples = {"f32[4,6]", "f32[]"},
               .torch = {.line = "torch.isfinite({0}).to({dtype})"},
               .jax = {.line = "jnp.isfinite({0}).astype({dtype})"}},
              1),
          {.name = "next_loss_scale",
           .doc = "scale and count of good steps behind one that was good (ok is 1) or overflowed (0)",
           .attributes = {"factor", "interval", "least"},
           .defaults = {{"factor", 2.0}, {"interval", std::int64_t{2000}}, {"least", 1.0}},
           .rule = "..., ..., ... -> ..., ...",
           .infer = infer_next,
           .block = next_block,
           .samples = {"f32[]>0, f32[], f32[]", "f32[6]>0, f32[6], f32[6] (interval=2, factor=4, least=0.5)"},
           .overwrites = {0, 1},
           .torch = {.line = "next_loss_scale({0}, {1}, {2}, {factor}, {interval}, {least})", .functions = R"(
def next_loss_scale(scale, good, ok, factor, interval, least):
    is_good = ok > 0
    count = torch.where(is_good, good + 1, torch.zeros_like(good))
    if interval == 0:
        return scale.clone(), count
    smaller = torch.minimum(scale, torch.clamp(scale / factor, min=least))
    grows = count >= interval
    following = torch.where(grows, scale * factor, torch.where(is_good, scale, smaller))
    following = torch.where(torch.isfinite(following), following, scale)
    return following, torch.where(grows, torch.zeros_like(count), count)
)"},
           .jax = {.functions = R"(
def next_loss_scale(scale, good, ok, factor, interval, least):
    is_good = ok > 0
    count = jnp.where(is_good, good + 1, jnp.zeros_like(good))
    if interval == 0:
        return scale, count
    smaller = jnp.minimum(scale, jnp.maximum(scale / factor, least))
    grows = count >= interval
    following = jnp.where(grows, scale * factor, jnp.where(is_good, scale, smaller))
    following = jnp.where(jnp.isfinite(following), following, scale)
    return following, jnp.where(grows, jnp.zeros_like(count), count)
)"}}};
}

}  // namespace shardwright::ops
