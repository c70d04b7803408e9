// Rotary position embedding: each pair of elements of a row turns by an angle that grows with its position.
//
//   (a, b) -> (a cos t - b sin t, a sin t + b cos t),  t = s base^(-2 i / d)
//
// x is [..., s, d]. Pair i is (x[i], x[i + d/2]), as LLaMA's weights have it, or with `interleaved` (x[2i], x[2i+1]).
// With `rates` pair i turns by rates[i] a position instead: frequencies that were scaled for longer sequences.
// s is the position in the whole sequence, whatever part of it this rank holds; or, of x [b, h, s, d], what a second operand
// says, i32[b, s]. With `order` the sequence stands in so many blocks (sequence_order.h). The gradient turns back.

#include <array>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/sequence_order.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

constexpr std::int64_t most_pairs = 1024;

/// What each pair turns by a position; no memory is asked for, since kernels read it in every step.
struct Rates {
  std::array<double, most_pairs> by_pair;

  /// Throws: Error if `rates` does not say so many.
  Rates(const Attributes& attributes, std::int64_t pairs) {
    const Attribute* const said = attributes.find("rates");
    if (said && !std::holds_alternative<std::string>(*said)) attributes.text("rates", "");  // which says so
    if (said && !std::get<std::string>(*said).empty()) {
      read(std::get<std::string>(*said), pairs);
      return;
    }
    const double base = attributes.number("base", 10000);
    for (std::int64_t i = 0; i < pairs; ++i)
      (*this)[i] = std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs));
  }
  double& operator[](std::int64_t pair) { return by_pair[static_cast<std::size_t>(pair)]; }

 private:
  void read(std::string_view said, std::int64_t pairs) {
    std::int64_t count = 0;
    std::string_view left = said;
    if (!left.starts_with("by_")) throw bad(said);
    for (std::size_t at = 2; at != left.npos; ++count) {
      left.remove_prefix(at + 1);
      at = left.find('_');
      const auto rate = to_number(left.substr(0, at));
      if (!rate) throw bad(said);
      if (count < pairs) (*this)[count] = *rate;
    }
    if (count != pairs) throw error("has {} rates but its rows have {} pairs", count, pairs);
  }
  static Error bad(std::string_view said) {
    return error("rates={}: should be such as by_1.0_0.125, a number a pair", said);
  }
};

std::vector<Type> infer(const Call& call) {
  if (call.operands.size() != 2) check_count(call, 1);
  const Type type = common_type({call.operands.first(1), {}, call.attributes}, 1);
  if (call.operands.size() == 2) {
    if (type.shape.size() != 4)
      throw error("x is {} but with positions it should be [batch, heads, sequence, features]",
                  to_text(type));
    if (const Type want{DType::i32, {type.shape[0], type.shape[2]}}; call.operands[1] != want)
      throw error("operand 1 is {} but must be the position of each element, {}", to_text(call.operands[1]),
                  to_text(want));
  }
  if (type.shape.size() < 2) throw error("x is {} but needs a sequence and a feature dim", to_text(type));
  const std::int64_t features = type.shape.back();
  if (features % 2 != 0 || features > 2 * most_pairs)
    throw error("x is {} but its last dim should be even and at most {}", to_text(type), 2 * most_pairs);
  for (const char* flag : {"interleaved", "inverse"}) call.attributes.flag(flag);  // each of its kind
  if (const double base = call.attributes.number("base", 10000); !(base > 0))
    throw error("base is {} but must be positive; write for example (base=10000)", base);
  Rates(call.attributes, features / 2);
  check_order(call.attributes.integer("order", 0), type.shape[type.shape.size() - 2]);
  return {type};
}

void kernel(const KernelCall& call) {
  const std::int64_t features = call.loop("d").extent, pairs = features / 2;
  const LoopBox::Part& sequence = call.loop("s");
  const bool is_interleaved = call.attributes.flag("interleaved");
  const Rates rates(call.attributes, pairs);
  const double sign = call.attributes.flag("inverse") ? -1 : 1;
  const std::int64_t order = call.attributes.integer("order", 0);
  const std::int32_t* const positions =
      call.operands.size() > 1 ? call.operands[1].as<std::int32_t>().data() : nullptr;
  const std::int64_t plane = sequence.extent * features, all = call.operands[0].size();
  // Those that turn alike: of one sequence, where each has positions of its own.
  const std::int64_t sequences = positions ? call.loop("b").extent : 1;
  const std::int64_t planes = plane * sequences == 0 ? 0 : all / plane / sequences;
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    std::array<C, most_pairs> cosines, sines;
    for (std::int64_t n = 0; n < sequences * sequence.extent; ++n) {
      const std::int64_t number = n / sequence.extent, s = n % sequence.extent;
      const std::int64_t position =
          positions ? positions[n] : place_in_sequence(sequence.offset + s, sequence.size, order);
      for (std::size_t i = 0; i < static_cast<std::size_t>(pairs); ++i) {
        const double angle = static_cast<double>(position) * rates.by_pair[i];
        cosines[i] = static_cast<C>(std::cos(angle));
        sines[i] = static_cast<C>(sign * std::sin(angle));
      }
      vectorized([=, step = is_interleaved ? std::int64_t{2} : std::int64_t{1},
                  apart = is_interleaved ? std::int64_t{1} : pairs, cosine = cosines.data(),
                  sine = sines.data(),
                  from = call.operands[0].as<T>().data() + number * planes * plane + s * features,
                  to = call.results[0].as<T>().data() + number * planes * plane + s * features] {
        for (std::int64_t p = 0; p < planes; ++p) {
          const T* const x = from + p * plane;
          T* const y = to + p * plane;
#pragma GCC ivdep
          for (std::int64_t i = 0; i < pairs; ++i) {
            const C a = static_cast<C>(x[i * step]), b = static_cast<C>(x[i * step + apart]);
            y[i * step] = static_cast<T>(a * cosine[i] - b * sine[i]);
            y[i * step + apart] = static_cast<T>(a * sine[i] + b * cosine[i]);
          }
        }
      });
    }
  });
}

std::vector<ValueId> gradient(Gradient& g) {
  Attributes attributes = g.attributes();
  attributes.set("inverse", !attributes.flag("inverse"));
  if (g.operand_count() == 1) return {g.call("rotary", {g.dy()}, std::move(attributes))};
  return {g.call("rotary", {g.dy(), g.in(1)}, std::move(attributes)), ValueId{}};
}

}  // namespace

std::vector<OpDef> rotary() {
  return {
      {.name = "rotary",
       .doc = "pairs of elements of x[..., s, d] turned by s base^(-2 i / d), or s rates[i]; `inverse` turns "
              "back",
       .attributes = {"base", "interleaved", "inverse", "order", "rates"},
       .defaults = {{"base", 10000.0},
                    {"interleaved", false},
                    {"inverse", false},
                    {"order", std::int64_t{0}},
                    {"rates", std::string()}},
       .rule_for =
           [](const Call& call) {
             return call.operands.size() > 1 ? "b h s d^, b s -> b h s d^" : "... s d^ -> ... s d^";
           },
       .linear = "{0}",
       .infer = infer,
       .flops =
           [](const Rule& rule) {
             double n = 3;
             for (const LoopDim& l : rule.loops) n *= static_cast<double>(l.size);
             return n;
           },
       .gradient = gradient,
       .kernel = kernel,
       .samples = {"f32[6,4]", "f32[2,3,6,4] (base=100, interleaved=true)", "f32[2,6,4] (inverse=true)",
                   "f32[2,3,6,4], i32[2,6]<9", "f32[2,6,4] (rates=by_0.5_0.015625)", "f32[2,12,4] (order=4)"},
       .reads_places = true,
       .overwrites = {0},
       .torch = {.line_for =
                     [](const Call& c) {
                       return fmt::format(
                           "rotary({{0}}, {}, {{base}}, {{interleaved}}, {{inverse}}, {{rates}}{})",
                           c.operands.size() > 1 ? "{1}" : "{s.offset}",
                           c.attributes.integer("order", 0) ? ", {order}, {s.size}" : "");
                     },
                 .functions = std::string(places_in_python) + R"(
def rotary(x, positions, base, interleaved, inverse, said="", order=0, size=0):
    """Positions of each element [batch, sequence], or that of the first."""
    d, v = x.shape[-1], wide(x)
    if not torch.is_tensor(positions):
        positions = places_in_sequence(torch, positions, x.shape[-2], size, order).to(x.device)
    else:
        positions = positions.unsqueeze(1)
    rates = base ** (torch.arange(0, d, 2, device=x.device, dtype=torch.float64) / -d)
    if said:
        rates = torch.tensor([float(rate) for rate in said.split("_")[1:]], device=x.device, dtype=torch.float64)
    angles = positions.double().unsqueeze(-1) * rates
    cosine, sine = angles.cos().to(v.dtype), angles.sin().to(v.dtype)
    if inverse:
        sine = -sine
    a, b = (v[..., 0::2], v[..., 1::2]) if interleaved else (v[..., : d // 2], v[..., d // 2 :])
    turned = [a * cosine - b * sine, a * sine + b * cosine]
    return (torch.stack(turned, -1).flatten(-2) if interleaved else torch.cat(turned, -1)).to(x.dtype)
)"},
       .jax = {.functions = std::string(places_in_python) + R"(
def rotary(x, positions, base, interleaved, inverse, said="", order=0, size=0):
    """Positions of each element [batch, sequence], or that of the first."""
    d, v = x.shape[-1], wide(x)
    positions = positions[:, None] if jnp.ndim(positions) else places_in_sequence(jnp, positions, x.shape[-2], size, order)
    rates = base ** (jnp.arange(0, d, 2, dtype=jnp.float64) / -d)
    if said:
        rates = jnp.array([float(rate) for rate in said.split("_")[1:]], jnp.float64)
    angles = positions.astype(jnp.float64)[..., None] * rates
    cosine, sine = jnp.cos(angles).astype(v.dtype), jnp.sin(angles).astype(v.dtype)
    if inverse:
        sine = -sine
    a, b = (v[..., 0::2], v[..., 1::2]) if interleaved else (v[..., : d // 2], v[..., d // 2 :])
    turned = [a * cosine - b * sine, a * sine + b * cosine]
    return (jnp.stack(turned, -1).reshape(x.shape) if interleaved else jnp.concatenate(turned, -1)).astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
