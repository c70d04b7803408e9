// Dims turned about: what is pushed out behind their end comes in before their start.
//
//   y[.., i, ..] = x[.., (i - shifts[j]) mod n, ..] along dim dims[j]
//
// Dims that are turned stay whole, the others are free.

#include <array>
#include <cstring>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/listed_dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// From 0 up to, not including, the dim's size.
std::int64_t turned_by(std::int64_t shift, std::int64_t size) {
  return size == 0 ? 0 : (shift % size + size) % size;
}

/// Per dim.
List shifts_of(const Call& call) {
  check_count(call, 1);
  const Shape& shape = call.operands[0].shape;
  if (shape.empty()) throw error("operand 0 is {}, which has no dims to turn", to_text(call.operands[0]));
  List out(shape.size(), 0);
  const List dims = listed_dims(call.attributes, shape);
  const List shifts = list_per_dim(call.attributes, "shifts", dims.size(), 0);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    const auto d = static_cast<std::size_t>(dims[i]);
    out[d] = turned_by(shifts[i], shape[d]);
  }
  return out;
}

std::vector<Type> infer(const Call& call) {
  shifts_of(call);
  return {call.operands[0]};
}

std::string rule(const Call& call) {
  const List shifts = shifts_of(call);
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < shifts.size(); ++d) dims.push_back(loop_name(d, shifts[d] == 0 ? "" : "^"));
  return fmt::format("{0} -> {0}", tensor_text(dims));
}

std::vector<ValueId> gradient(Gradient& g) {
  const std::array<Type, 1> x{g.type(g.in(0))};
  const List shifts = shifts_of({x, {}, g.attributes()});
  List dims, back;
  for (std::size_t d = 0; d < shifts.size(); ++d) {
    if (shifts[d] == 0) continue;
    dims.push_back(static_cast<std::int64_t>(d));
    back.push_back(x[0].shape[d] - shifts[d]);
  }
  if (dims.empty()) return {g.dy()};
  return {g.call("roll", {g.dy()}, {{"dims", dims}, {"shifts", back}})};
}

/// By how much this call turns dim `d`, which may be a part of the whole one only where it is not turned.
std::int64_t shift_of(const KernelCall& call, std::size_t d) {
  const auto loop = static_cast<std::size_t>(call.rule.operands[0].dims[d][0]);
  const Shape& part = call.operands[0].shape;
  return turned_by(turned_by(entry(call.attributes, "shifts", d, part.size(), 0), call.box.loops[loop].size),
                   part[d]);
}

/// Fills the `bytes` bytes that lie below one place of the dims before `d`; dims behind `last` are not turned.
void fill(const KernelCall& call, std::byte* to, const std::byte* from, std::size_t d, std::size_t last,
          std::int64_t bytes) {
  if (bytes == 0) return;
  const std::int64_t below = bytes / call.operands[0].shape[d], behind = shift_of(call, d) * below;
  if (d == last) {
    std::memcpy(to + behind, from, static_cast<std::size_t>(bytes - behind));
    std::memcpy(to, from + bytes - behind, static_cast<std::size_t>(behind));
    return;
  }
  for (std::int64_t at = 0; at < bytes; at += below)
    fill(call, to + (at + behind) % bytes, from + at, d + 1, last, below);
}

void kernel(const KernelCall& call) {
  const TensorView &x = call.operands[0], &y = call.results[0];
  std::size_t last = 0;
  for (std::size_t d = 0; d < x.shape.size(); ++d)
    if (shift_of(call, d) != 0) last = d;
  fill(call, y.data, x.data, 0, last, x.size() * static_cast<std::int64_t>(size_of(x.dtype)));
}

/// In Python: of each dim.
Attributes turns(const KernelCall& call) {
  List by, dims;
  for (std::size_t d = 0; d < call.operands[0].shape.size(); ++d) {
    by.push_back(shift_of(call, d));
    dims.push_back(static_cast<std::int64_t>(d));
  }
  return {{"by", by}, {"all", dims}};
}

}  // namespace

std::vector<OpDef> roll() {
  return {
      {.name = "roll",
       .doc = "y[.., i, ..] = x[.., (i - shifts[j]) mod n, ..] along dim dims[j] of size n; no dims are all",
       .attributes = {"dims", "shifts"},
       .rule_for = rule,
       .linear = "{0}",
       .infer = infer,
       .gradient = gradient,
       .kernel = kernel,
       .samples = {"f32[6,4] (dims=[0], shifts=[2])", "f32[2,12,6,4] (dims=[-2,1], shifts=[-1,5])",
                   "i32[6,4] (dims=[1], shifts=[4])", "f32[4,6] (shifts=[1,-8])"},
       .torch = {.line = "torch.roll({0}, {by}, {all})", .numbers = turns},
       .jax = {.line = "jnp.roll({0}, {by}, {all})"}}};
}

}  // namespace shardwright::ops
