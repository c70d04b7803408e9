// Mixtures of experts: each row goes through those networks that ids name, and their results are added, weighed.
//
//   experts        y[t.., n] = sum over c of w[t.., c] down[e]^T h(e, x[t..]) with e = ids[t.., c],
//                  h(e, x)   = a(gate[e]^T x) (up[e]^T x), or a(up[e]^T x) without a gate
//   expert_ids     ids[t.., c], of which each expert keeps the first `most` in the order of rows; below 0: the others
//
// Experts stand side by side: up, gate [e, k, f], down [e, f, n]; a is the activation. An id below 0 is none. Only what was chosen is
// computed, of however many rows: nothing is dropped and nothing filled up. Rows, experts, inner features f and choices may
// be split: a rank computes the ids in its own range of experts, and what the others have of a row is added.
//
// The weight stands in front of the second product, where it is one with h. The gradient computes g and u again, of which
// therefore nothing is kept (expert_products.h):
//
//   d = dy down^T;  dw = d . h;  du = w d a(g);  dg = w d u a'(g);  dx = dg gate^T + du up^T

#include <vector>

#include "shardwright/base/text.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/expert_products.h"

namespace shardwright::ops {
namespace {

// ---- types and rules ----

/// Behind what is in front of them: x, ids, w, up, down, and gate, where there is one.
bool is_gated(const Call& call, std::size_t x) {
  const std::size_t count = call.operands.size();
  if (count != x + 5 && count != x + 6) throw error("has {} operands but takes {}, and a gate", count, x + 5);
  return count == x + 6;
}

std::string experts_rule(const Call& call) {
  return fmt::format("... k^, ... c+, ... c+, e+ k^ f+, e+ f+ n{} -> ... n",
                     is_gated(call, 0) ? ", e+ k^ f+" : "");
}

std::string gradient_rule(const Call& call) {
  const bool has_gate = is_gated(call, 1);
  return fmt::format("... n, ... k^, ... c, ... c, e k^ f, e f n{0} -> ... k^, ... c, e k^ f, e f n{0}",
                     has_gate ? ", e k^ f" : "");
}

void check_experts(const Call& call, std::size_t first) {
  const bool has_gate = is_gated(call, first);
  expert::activation_of(call.attributes);
  const auto type = [&](std::size_t i) -> const Type& { return call.operands[first + i]; };
  check_floating(type(0).dtype);
  check_integer(type(1).dtype);
  for (std::size_t i = 2; i < (has_gate ? 6U : 5U); ++i) check_same_dtype(call, first, first + i);
  const Shape &x = type(0).shape, &ids = type(1).shape, &up = type(3).shape, &down = type(4).shape;
  if (x.empty() || ids.size() != x.size() || !std::equal(x.begin(), x.end() - 1, ids.begin()))
    throw error("x is {} and the ids {}; they should be equal but for their last dims", to_text(type(0)),
                to_text(type(1)));
  if (type(2).shape != ids)
    throw error("the weights are {} but the ids {}; there is one for each", to_text(type(2)),
                to_text(type(1)));
  if (up.size() != 3 || up[1] != x.back())
    throw error("up is {} but should be [experts, {}, inner]", to_text(type(3)), x.back());
  if (down.size() != 3 || down[0] != up[0] || down[1] != up[2])
    throw error("down is {} but should be [{}, {}, features]", to_text(type(4)), up[0], up[2]);
  if (has_gate && type(5).shape != up)
    throw error("gate is {} but should be as up, {}", to_text(type(5)), to_text(type(3)));
}

std::vector<Type> infer_experts(const Call& call) {
  check_experts(call, 0);
  Shape shape = call.operands[0].shape;
  shape.back() = call.operands[4].shape.back();
  return {{call.operands[0].dtype, std::move(shape)}};
}

std::vector<Type> infer_gradient(const Call& call) {
  check_experts(call, 1);
  Shape of_dy = call.operands[1].shape;
  of_dy.back() = call.operands[5].shape.back();
  const Type dy{call.operands[1].dtype, of_dy};
  if (call.operands[0] != dy)
    throw error("dy is {} but should be {}", to_text(call.operands[0]), to_text(dy));
  std::vector<Type> out{call.operands[1], call.operands[3], call.operands[4], call.operands[5]};
  if (call.operands.size() == 7) out.push_back(call.operands[6]);
  return out;
}

/// Of each choice `with_k` products with a weight of k by f for each that there is, and `with_n` with one of f by n.
double flops(const Rule& rule, std::size_t gated_operands, double with_k, double with_n) {
  double rows = 1;
  for (const LoopDim& l : rule.loops)
    if (l.name != "e" && l.name != "k" && l.name != "n") rows *= static_cast<double>(l.size);
  const auto size = [&](const char* name) {
    return static_cast<double>(rule.loops[static_cast<std::size_t>(rule.loop(name))].size);
  };
  const double weights = rule.operands.size() == gated_operands ? 2 : 1;
  return 2 * rows * (weights * with_k * size("k") + with_n * size("n"));
}

// ---- kernels ----

/// The elements of operand or result `i`; none where there are fewer.
template <class T>
T* data_of(std::span<const TensorView> of, std::size_t i) {
  return i < of.size() ? of[i].as<std::remove_const_t<T>>().data() : nullptr;
}

void experts_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    expert::Forward<T> forward(call);
    forward.routed.sort(call, 1);
    const auto from = [&](std::size_t i) { return data_of<const T>(call.operands, i); };
    const typename expert::Forward<T>::Data data{from(0), from(2), from(3), from(4), from(5)};
    vectorized([&forward, data] { forward.run(data); });
  });
}

void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    expert::Backward<T> backward(call);
    backward.routed.sort(call, 2);
    const auto from = [&](std::size_t i) { return data_of<const T>(call.operands, i); };
    const auto to = [&](std::size_t i) { return data_of<T>(call.results, i); };
    const typename expert::Backward<T>::Data data{from(0), from(1), from(3),        from(4),
                                                  from(5), from(6), {to(2), to(4)}, to(3)};
    vectorized([&backward, data] { backward.run(data); });
  });
}

std::vector<ValueId> experts_gradient(Gradient& g) {
  std::vector<ValueId> operands{g.dy()};
  for (std::size_t i = 0; i < g.operand_count(); ++i) operands.push_back(g.in(i));
  std::vector<ValueId> found = g.call_all("experts_grad", std::move(operands), g.attributes());
  found.insert(found.begin() + 1, ValueId());  // of ids
  return found;
}

// ---- at most so many rows an expert ----

std::vector<Type> infer_ids(const Call& call) {
  check_count(call, 1);
  check_integer(call.operands[0].dtype);
  for (const char* name : {"experts", "most"})
    if (const std::int64_t n = call.attributes.integer(name, 0); n < 1)
      throw error("{} is {} but must be at least 1; write for example ({}=8)", name, n, name);
  constexpr std::int64_t most_experts = 1 << 20;
  if (call.attributes.integer("experts", 0) > most_experts)
    throw error("experts is {} but can be {} at most", call.attributes.integer("experts", 0), most_experts);
  return {call.operands[0]};
}

template <class I>
void cap(const KernelCall& call) {
  const std::int64_t experts = call.attributes.integer("experts", 0);
  auto* const left = reinterpret_cast<std::int64_t*>(call.workspace);  // that each may still take
  std::fill_n(left, experts, call.attributes.integer("most", 0));
  const auto from = call.operands[0].as<I>();
  const auto to = call.results[0].as<I>();
  for (std::size_t i = 0; i < from.size(); ++i) {
    const std::int64_t e = from[i];
    if (e >= experts)
      throw error("the index{} is {} but there are {} experts: 0 to {}, or below 0 for none",
                  place_of(call, 0, static_cast<std::int64_t>(i)), e, experts, experts - 1);
    to[i] = e >= 0 && left[e]-- > 0 ? from[i] : I(-1);
  }
}

void ids_kernel(const KernelCall& call) {
  if (call.operands[0].dtype == DType::i32)
    cap<std::int32_t>(call);
  else
    cap<std::int64_t>(call);
}

std::int64_t ids_workspace(const KernelCall& call) {
  return call.attributes.integer("experts", 0) * static_cast<std::int64_t>(sizeof(std::int64_t));
}

// ---- in PyTorch and JAX ----

constexpr const char* experts_in_torch = R"(
def expert_activation(name):
    return {"silu": F.silu, "gelu": lambda x: F.gelu(x, approximate="tanh"), "relu": F.relu,
            "squared_relu": lambda x: F.relu(x).square()}[name]


def experts(x, ids, w, up, down, gate, activation, first):
    """Rows by those of the experts that are this rank's, of which `first` is the first."""
    act, kept = expert_activation(activation), (lambda t: t) if x.is_cuda else wide  # where short products are fast
    rows, at = kept(x.reshape(-1, x.shape[-1])), ids.reshape(-1, ids.shape[-1]).long() - first
    y, weights = wide(rows.new_zeros(rows.shape[0], down.shape[-1])), kept(w.reshape(-1, w.shape[-1]))
    for e in range(up.shape[0]):
        row, choice = (at == e).nonzero(as_tuple=True)
        of, u = rows[row], kept(up[e])
        h = act(of @ u) if gate is None else act(of @ kept(gate[e])) * (of @ u)
        y = y.index_add(0, row, wide((h * weights[row, choice].unsqueeze(1)) @ kept(down[e])))
    return y.to(x.dtype).reshape(x.shape[:-1] + (-1,))


def experts_grad(dy, x, ids, w, up, down, gate, activation, first):
    with torch.enable_grad():
        of = [t.detach().requires_grad_() for t in (x, w, up, down, gate) if t is not None]
        again = experts(of[0], ids, *of[1:4], of[4] if gate is not None else None, activation, first)
    return torch.autograd.grad(again, of, dy)
)";

constexpr const char* experts_in_jax = R"(
def expert_activation(name):
    return {"silu": jax.nn.silu, "gelu": lambda x: jax.nn.gelu(x, approximate=True), "relu": jax.nn.relu,
            "squared_relu": lambda x: jnp.square(jax.nn.relu(x))}[name]


def experts(x, ids, w, up, down, gate, activation, first):
    """By those of the experts that are this rank's, of which `first` is the first: each computes all rows."""
    act = expert_activation(activation)

    def add(y, of):
        e, u, d, g = of
        h = act(x @ u) if g is None else act(x @ g) * (x @ u)
        weight = jnp.where(ids == e + first, w, 0).sum(-1, keepdims=True).astype(x.dtype)
        return y + wide((h * weight) @ d), None

    start = wide(jnp.zeros(x.shape[:-1] + (down.shape[-1],), x.dtype))
    return jax.lax.scan(add, start, (jnp.arange(up.shape[0]), up, down, gate))[0].astype(x.dtype)


def experts_grad(dy, x, ids, w, up, down, gate, activation, first):
    of = (x, w, up, down) + (() if gate is None else (gate,))
    again = lambda x, w, up, down, gate=None: experts(x, ids, w, up, down, gate, activation, first)
    return jax.vjp(again, *of)[1](dy)
)";

/// A call of `name`, whose gate is the operand `gate` or none.
std::string line_of(const Call& call, std::string_view name, std::size_t gate) {
  std::vector<std::string> operands;
  for (std::size_t i = 0; i < gate; ++i) operands.push_back(fmt::format("{{{}}}", i));
  operands.push_back(call.operands.size() > gate ? fmt::format("{{{}}}", gate) : "None");
  return fmt::format("{}({}, {{activation}}, {{e.offset}})", name, join(operands, ", "));
}

constexpr const char* expert_ids_in_torch = R"(
def expert_ids(ids, experts, most):
    flat = ids.reshape(-1)
    places = (flat.unsqueeze(1) == torch.arange(experts, device=ids.device)).long().cumsum(0)
    own = places.gather(1, flat.long().clamp(min=0).unsqueeze(1)).squeeze(1)
    return torch.where((flat >= 0) & (own <= most), flat, torch.full_like(flat, -1)).reshape(ids.shape)
)";

constexpr const char* expert_ids_in_jax = R"(
def expert_ids(ids, experts, most):
    flat = ids.reshape(-1)
    places = jnp.cumsum(flat[:, None] == jnp.arange(experts), 0)
    own = jnp.take_along_axis(places, jnp.maximum(flat, 0)[:, None], 1)[:, 0]
    return jnp.where((flat >= 0) & (own <= most), flat, -1).astype(ids.dtype).reshape(ids.shape)
)";

}  // namespace

std::vector<OpDef> experts() {
  const auto linear_in = [](std::size_t x, std::string plain, std::string gated) {
    return [=](const Call& call) { return is_gated(call, x) ? gated : plain; };
  };
  return {
      {.name = "experts",
       .doc = "y[t.., n] = sum over c of w[t.., c] down[e]^T (a(gate[e]^T x) (up[e]^T x)), e = ids[t.., c]",
       .attributes = {"activation"},
       .defaults = {{"activation", std::string("silu")}},
       .rule_for = experts_rule,
       .linear_for = linear_in(0, "{2} {4}", "{2} {3} {4}"),
       .infer = infer_experts,
       .flops = [](const Rule& rule) { return flops(rule, 6, 1, 1); },
       .gradient = experts_gradient,
       .kernel = experts_kernel,
       .workspace = expert::workspace_of<expert::Forward>,
       .samples = {"f32[4,6], i32[4,2]<6, f32[4,2], f32[6,6,4], f32[6,4,6], f32[6,6,4]",
                   "f32[2,6,4], i64[2,6,2]<4, f32[2,6,2], f32[4,4,6], f32[4,6,4] (activation=gelu)"},
       .routed = RoutedFacet{"e", "f", 0, 1, {0}, {0}},
       .torch = {.line_for = [](const Call& c) { return line_of(c, "experts", 5); },
                 .functions = experts_in_torch},
       .jax = {.functions = experts_in_jax}},
      {.name = "experts_grad",
       .doc = "gradients of experts for x, w, up, down and gate, from dy and its operands",
       .attributes = {"activation"},
       .defaults = {{"activation", std::string("silu")}},
       .rule_for = gradient_rule,
       .linear = "{0}",
       .infer = infer_gradient,
       .flops = [](const Rule& rule) { return flops(rule, 7, 3, 2); },
       .kernel = gradient_kernel,
       .workspace = expert::workspace_of<expert::Backward>,
       .samples = {"f32[4,6], f32[4,6], i32[4,2]<6, f32[4,2], f32[6,6,4], f32[6,4,6], f32[6,6,4]",
                   "f32[2,6,4], f32[2,6,4], i64[2,6,2]<4, f32[2,6,2], f32[4,4,6], f32[4,6,4] "
                   "(activation=gelu)",
                   "f32[2,6,4], f32[2,6,4], i64[2,6,2]<4, f32[2,6,2], f32[4,4,6], f32[4,6,4] "
                   "(activation=squared_relu)"},
       .routed = RoutedFacet{"e", "f", 1, 2, {0, 1}, {0}},
       .torch = {.line_for = [](const Call& c) { return line_of(c, "experts_grad", 6); },
                 .functions = experts_in_torch},
       .jax = {.functions = experts_in_jax}},
      {.name = "expert_ids",
       .doc =
           "ids, of which each of `experts` keeps the first `most` in the order of rows; the others are -1",
       .attributes = {"experts", "most"},
       .rule_for =
           [](const Call& call) {
             check_count(call, 1);
             std::vector<std::string> dims;
             for (std::size_t d = 0; d < call.operands[0].shape.size(); ++d)
               dims.push_back(loop_name(d, "^"));
             return fmt::format("{0} -> {0}", tensor_text(dims));
           },
       .infer = infer_ids,
       .kernel = ids_kernel,
       .workspace = ids_workspace,
       .samples = {"i32[6,2]<4 (experts=4, most=2)", "i64[2,6,2]<6 (experts=6, most=3)"},
       .torch = {.line = "expert_ids({0}, {experts}, {most})", .functions = expert_ids_in_torch},
       .jax = {.functions = expert_ids_in_jax}}};
}

}  // namespace shardwright::ops
