// LinearAttention: attention whose keys and values are summed up in a state, step by step; and the gate SwiGLU.
//
//   S = e^decay S + k v',  v' = v or beta (v - k^T S);  y = scale q^T S
//
// q, k [b, steps, heads d], v [b, steps, kv heads e], S [b, kv heads, d, e]; decay and beta by update_rule.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

struct LinearIn {
  enum : std::size_t { of_query, of_key, of_value, past_state, of_decay, of_beta };
};

struct Recurrence {
  std::int64_t batch, steps, heads, shared, d, e;
  double scale;
  bool decays, corrects;
};

Recurrence read_recurrence(OnnxNode& n) {
  Recurrence r{};
  const std::string rule = n.text("update_rule", "gated_delta");
  if (rule != "linear" && rule != "gated" && rule != "delta" && rule != "gated_delta")
    throw error("attribute 'update_rule={}' is not supported", printable(rule));
  n.integer("chunk_size", 0);  // how others compute it
  r.decays = rule.starts_with("gated");
  r.corrects = rule.ends_with("delta");
  if (r.decays != n.has(LinearIn::of_decay) || r.corrects != n.has(LinearIn::of_beta))
    throw error("update_rule={} takes {} decay and {} beta", rule, r.decays ? "a" : "no",
                r.corrects ? "a" : "no");
  const Shape &q = n.shape(LinearIn::of_query), &k = n.shape(LinearIn::of_key),
              &v = n.shape(LinearIn::of_value);
  r.heads = n.integer("q_num_heads", 0);
  r.shared = n.integer("kv_num_heads", 0);
  const auto is_of_steps = [&](std::size_t i) {
    return !n.has(i) || (n.shape(i).size() == 3 && n.shape(i)[0] == q[0] && n.shape(i)[1] == q[1]);
  };
  if (q.size() != 3) throw error("of {} does not exist; it has 3 dims", to_text(q));
  for (std::size_t i : {LinearIn::of_key, LinearIn::of_value, LinearIn::of_decay, LinearIn::of_beta})
    if (!is_of_steps(i)) throw error("input {} is {} but queries are {}", i, to_text(n.shape(i)), to_text(q));
  if (r.heads < 1 || r.shared < 1 || r.heads % r.shared != 0 || q[2] % r.heads != 0 || v[2] % r.shared != 0 ||
      k[2] != q[2] / r.heads * r.shared)
    throw error("{}, {} and {} are not of {} and {} heads", to_text(q), to_text(k), to_text(v), r.heads,
                r.shared);
  r.batch = q[0];
  r.steps = q[1];
  r.d = q[2] / r.heads;
  r.e = v[2] / r.shared;
  r.scale = n.number("scale", 0);
  if (r.scale == 0) r.scale = 1 / std::sqrt(static_cast<double>(r.d));
  return r;
}

/// Each step of input `i` as [b, heads, ...].
std::vector<ValueId> steps_of(OnnxNode& n, const Recurrence& r, std::size_t i, const Shape& behind) {
  std::vector<ValueId> out = single_parts(n, n.in(i), 1);
  Shape shape{r.batch};
  shape.insert(shape.end(), behind.begin(), behind.end());
  for (ValueId& v : out) v = reshaped(n, v, shape);
  return out;
}

void linear_attention(OnnxNode& n) {
  const Recurrence r = read_recurrence(n);
  const std::int64_t group = r.heads / r.shared;
  const auto q = steps_of(n, r, LinearIn::of_query, {r.shared, group, r.d}),
             k = steps_of(n, r, LinearIn::of_key, {r.shared, r.d, 1});
  const auto v = steps_of(n, r, LinearIn::of_value, {r.shared, 1, r.e});
  std::vector<ValueId> decay, beta;
  if (r.decays)
    decay = steps_of(n, r, LinearIn::of_decay, {r.shared, n.shape(LinearIn::of_decay)[2] / r.shared, 1});
  if (r.corrects) beta = steps_of(n, r, LinearIn::of_beta, {n.shape(LinearIn::of_beta)[2], 1, 1});
  ValueId state;
  if (n.has(LinearIn::past_state)) {
    state = n.in(LinearIn::past_state);
  } else {
    state = n.call("fill", {},
                   {{"shape", Shape{r.batch, r.shared, r.d, r.e}},
                    {"value", 0.0},
                    {"dtype", std::string(name_of(n.type(LinearIn::of_query).dtype))}});
  }
  std::vector<ValueId> out;
  for (std::size_t t = 0; t < q.size(); ++t) {
    if (r.decays) state = n.call("mul", {state, n.call("exp", {decay[t]})});
    ValueId fresh = v[t];
    if (r.corrects) {
      const ValueId found = n.call("matmul", {k[t], state}, {{"transpose_a", true}});
      fresh = n.call("mul", {beta[t], n.call("sub", {fresh, found})});
    }
    state = n.call("add", {state, n.call("mul", {k[t], fresh})});
    const ValueId y = times(n, n.call("matmul", {q[t], state}), r.scale);
    out.push_back(reshaped(n, y, {r.batch, 1, r.heads * r.e}));
  }
  n.give(joined(n, out, 1));
  n.give(state);
}

// ---- gates ----

/// gate sigmoid(alpha gate) up
void swiglu(OnnxNode& n) {
  const double alpha = n.number("alpha", 1);
  if (n.type(0) != n.type(1))
    throw error("inputs 0 and 1 are {} and {} but should be alike", to_text(n.type(0)), to_text(n.type(1)));
  if (alpha == 1) return n.give(n.main("swiglu", {n.in(0), n.in(1)}));
  const ValueId gate = n.call("mul", {n.in(0), n.call("sigmoid", {times(n, n.in(0), alpha)})});
  n.give(n.main("mul", {gate, n.in(1)}));
}

}  // namespace

std::vector<Conversion> gates() { return {{"LinearAttention", linear_attention, false}, {"SwiGLU", swiglu}}; }

}  // namespace shardwright::onnx_operators
