// Attention with its masks and caches. Where the scores are asked for or bent (softcap), it is products and a soft-max;
// else one operator.
//
//   q [b, heads, s, d], k [b, kv heads, t, d], v [b, kv heads, t, e]; or [b, s, heads d] and so on, with attributes
//
// Query i stands at place i + p among the keys, p being the length of the past, or of the keys that are no padding less s
// (`nonpad_kv_seqlen`), else 0. Causal, window and padding say which keys a query sees. One that sees none gets 0.

#include <cmath>
#include <limits>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

struct AttentionIn {
  enum : std::size_t { query, key, value, mask, past_key, past_value, unpadded };
};
struct AttentionOut {
  enum : std::size_t { result, present_key, present_value, scores };
};

struct Heads {
  ValueId q, k, v;
  std::int64_t batch, count, shared, queries, keys, past;  // shared: heads of k and v
};

/// [b, s, heads d] as [b, heads, s, d].
ValueId with_heads(OnnxNode& n, ValueId x, std::int64_t heads) {
  const Shape shape = n.type_of(x).shape;
  if (shape.size() == 4) return x;
  if (heads < 1 || shape[2] % heads != 0)
    throw error("{} is not of {} heads, as q_num_heads and kv_num_heads say", to_text(shape), heads);
  return transposed(n, reshaped(n, x, {shape[0], shape[1], heads, shape[2] / heads}), {0, 2, 1, 3});
}

/// And back.
ValueId without_heads(OnnxNode& n, ValueId y) {
  const Shape shape = n.type_of(y).shape;
  return reshaped(n, transposed(n, y, {0, 2, 1, 3}), {shape[0], shape[2], shape[1] * shape[3]});
}

Heads heads_of(OnnxNode& n) {
  const std::size_t rank = n.shape(AttentionIn::query).size();
  for (std::size_t i : {AttentionIn::query, AttentionIn::key, AttentionIn::value})
    if (n.shape(i).size() != rank || (rank != 3 && rank != 4))
      throw error("inputs 0 to 2 should all be of 3 or of 4 dims, but one is {}", to_text(n.shape(i)));
  const std::int64_t count = n.integer("q_num_heads", 0), shared = n.integer("kv_num_heads", 0);
  Heads h{};
  h.q = with_heads(n, n.in(AttentionIn::query), count);
  h.k = with_heads(n, n.in(AttentionIn::key), shared);
  h.v = with_heads(n, n.in(AttentionIn::value), shared);
  if (n.has(AttentionIn::past_key) != n.has(AttentionIn::past_value))
    throw error("has one of past_key and past_value but not the other");
  if (n.has(AttentionIn::past_key)) {
    h.past = n.shape(AttentionIn::past_key).at(2);
    h.k = joined(n, {n.in(AttentionIn::past_key), h.k}, 2);
    h.v = joined(n, {n.in(AttentionIn::past_value), h.v}, 2);
  }
  const Shape &q = n.type_of(h.q).shape, &k = n.type_of(h.k).shape;
  h.batch = q[0];
  h.count = q[1];
  h.shared = k[1];
  h.queries = q[2];
  h.keys = k[2];
  if (h.shared < 1 || h.count % h.shared != 0)
    throw error("{} heads of queries are no multiple of {} heads of keys", h.count, h.shared);
  if (h.queries * h.keys > limits::constant_elements)
    throw error("of {} queries and {} keys has more than {} scores a head", h.queries, h.keys,
                limits::constant_elements);
  return h;
}

// ---- which keys are seen ----

struct Seen {
  bool is_causal;
  std::int64_t left, right;  // how far, or -1 if it does not matter
  bool is_all() const { return !is_causal && left < 0 && right < 0; }
};

/// bool[s, t]: whether `f(j - i)` holds for key j and query i.
template <class F>
ValueId by_distance(OnnxNode& n, const Heads& h, F f) {
  Tensor t({DType::boolean, {h.queries, h.keys}});
  const auto all = t.as<bool>();
  for (std::int64_t i = 0; i < h.queries; ++i)
    for (std::int64_t j = 0; j < h.keys; ++j) all[static_cast<std::size_t>(i * h.keys + j)] = f(j - i);
  return n.constant(std::move(t));
}

/// Both, where both are there.
ValueId both(OnnxNode& n, ValueId a, ValueId b) {
  return !a.is_valid() ? b : !b.is_valid() ? a : n.call("logical_and", {a, b});
}

/// Invalid if each query sees all keys.
ValueId seen_of_past(OnnxNode& n, const Heads& h, const Seen& seen) {
  if (seen.is_all()) return {};
  return by_distance(n, h, [&](std::int64_t ahead) {
    ahead -= h.past;
    return (!seen.is_causal || ahead <= 0) && (seen.left < 0 || -ahead <= seen.left) &&
           (seen.right < 0 || ahead <= seen.right);
  });
}

/// As many keys as are no padding are told by data, a number for each of the batch.
ValueId seen_of_unpadded(OnnxNode& n, const Heads& h, const Seen& seen) {
  const ValueId count =
      reshaped(n, cast_called(n, n.in(AttentionIn::unpadded), DType::i64), {h.batch, 1, 1, 1});
  const List each = counted(h.keys);
  ValueId all = n.call("less", {integers(n, {h.keys}, each), count});
  // j - i + s - count, which is how far ahead of the query the key is, against a bound
  const auto compared = [&](std::string_view op, std::int64_t bound) {
    List ahead;
    for (std::int64_t i = 0; i < h.queries; ++i)
      for (std::int64_t j = 0; j < h.keys; ++j) ahead.push_back(j - i + h.queries - bound);
    return n.call(op, {integers(n, {h.queries, h.keys}, ahead), count});
  };
  if (seen.is_causal) all = both(n, all, compared("less_equal", 0));
  if (seen.right >= 0) all = both(n, all, compared("less_equal", seen.right));
  if (seen.left >= 0) all = both(n, all, compared("greater_equal", -seen.left));
  return all;
}

ValueId unseen(OnnxNode& n, DType dtype) {
  return numbers(n, {dtype, {}}, std::vector{-std::numeric_limits<double>::infinity()});
}

/// Numbers to add to scores, [1 or b, 1 or heads, s, t]; invalid if there are none.
ValueId bias_of(OnnxNode& n, const Heads& h, const Seen& seen) {
  const DType dtype = n.type_of(h.q).dtype;
  ValueId bias, sees = n.has(AttentionIn::unpadded) ? seen_of_unpadded(n, h, seen) : seen_of_past(n, h, seen);
  if (n.has(AttentionIn::mask)) {
    ValueId given = n.untrained(AttentionIn::mask);
    const std::size_t last = n.type_of(given).shape.size() - 1;
    if (n.type_of(given).shape.empty() || last > 3)
      throw error("a mask of {} does not exist", to_text(n.type(AttentionIn::mask)));
    const bool is_choice = n.type_of(given).dtype == DType::boolean;
    const std::int64_t lacks = h.keys - n.type_of(given).shape[last];
    if (lacks > 0 && n.type_of(given).shape[last] != 1) {  // keys behind those of the mask are not seen
      Type type{is_choice ? DType::boolean : dtype, n.type_of(given).shape};
      type.shape[last] = lacks;
      check_listed(element_count(type.shape));
      const std::vector<double> none(static_cast<std::size_t>(element_count(type.shape)),
                                     is_choice ? 0 : -std::numeric_limits<double>::infinity());
      given = joined(n, {is_choice ? given : cast_called(n, given, dtype), numbers(n, type, none)}, last);
    }
    if (is_choice)
      sees = both(n, sees, given);
    else
      bias = cast_called(n, given, dtype);
  }
  if (sees.is_valid())
    bias =
        n.call("where", {sees, bias.is_valid() ? bias : constant(n.builder(), dtype, 0), unseen(n, dtype)});
  if (!bias.is_valid()) return {};
  Shape shape = n.type_of(bias).shape;
  while (shape.size() < 4) shape.insert(shape.begin(), 1);
  Shape full{shape[0], shape[1], h.queries, h.keys};
  return stretched(n, reshaped(n, bias, shape), full);
}

// ---- both ways ----

/// [b, kv heads, t, d] with each head as often as queries share it.
ValueId repeated(OnnxNode& n, ValueId x, const Heads& h) {
  if (h.shared == h.count) return x;
  const Shape shape = n.type_of(x).shape;
  const ValueId each = reshaped(n, x, {shape[0], h.shared, 1, shape[2], shape[3]});
  return reshaped(n, stretched(n, each, {shape[0], h.shared, h.count / h.shared, shape[2], shape[3]}),
                  {shape[0], h.count, shape[2], shape[3]});
}

/// softmax(x + bias); 0 for a query that sees no key.
ValueId shares(OnnxNode& n, ValueId x, ValueId bias) {
  const Attributes last{{"dim", std::int64_t{-1}}};
  if (!bias.is_valid()) return n.call("softmax", {x}, last);
  const DType dtype = n.type_of(x).dtype;
  const ValueId most =
      n.call("stop_gradient", {n.call("reduce_max", {bias}, {{"dims", List{-1}}, {"keep", true}})});
  const ValueId is_blind = n.call("less", {most, constant(n.builder(), dtype, lowest_of(dtype))});
  const ValueId zero = constant(n.builder(), dtype, 0);
  const ValueId shown = n.call("where", {is_blind, zero, n.call("add", {x, bias})});
  return n.call("where", {is_blind, zero, n.call("softmax", {shown}, last)});
}

/// Gives y and, at `mode`, the scores: as they are, bent, with the bias, or after the soft-max.
ValueId step_by_step(OnnxNode& n, const Heads& h, ValueId bias, double scale, double cap, std::int64_t mode,
                     ValueId& shown) {
  ValueId x = n.call("matmul", {times(n, h.q, scale), repeated(n, h.k, h)}, {{"transpose_b", true}});
  if (mode == 0) shown = x;
  if (cap > 0) x = times(n, n.call("tanh", {times(n, x, 1 / cap)}), cap);
  if (mode == 1) shown = x;
  if (mode == 2) shown = bias.is_valid() ? n.call("add", {x, bias}) : x;
  const ValueId p = shares(n, x, bias);
  if (mode == 3) shown = p;
  return n.main("matmul", {p, repeated(n, h.v, h)});
}

void attention(OnnxNode& n) {
  const Heads h = heads_of(n);
  n.integer("softmax_precision", 1);  // sums are of f32 at least
  const double scale = n.has_attribute("scale") ? n.number("scale", 1)
                                                : 1 / std::sqrt(static_cast<double>(n.type_of(h.q).shape[3]));
  const double cap = n.number("softcap", 0);
  const std::int64_t mode = n.integer("qk_matmul_output_mode", 0);
  const auto window = [&](const char* name) {
    return std::clamp<std::int64_t>(n.integer(name, -1), -1, limits::elements);
  };
  const Seen seen{n.integer("is_causal", 0) != 0, window("left_window_size"), window("right_window_size")};
  if (mode < 0 || mode > 3) throw error("attribute 'qk_matmul_output_mode={}' is not supported", mode);
  if (cap < 0) throw error("attribute 'softcap={}' is not supported", cap);
  const bool is_plain = cap == 0 && !n.gives(AttentionOut::scores);
  // The operator's last query sees all keys.
  const bool is_causal = is_plain && seen.is_causal && seen.left < 0 && seen.right < 0 &&
                         !n.has(AttentionIn::unpadded) && h.keys - h.queries == h.past;
  const ValueId bias = bias_of(n, h, is_causal ? Seen{false, -1, -1} : seen);
  ValueId y, shown;
  if (is_plain) {
    std::vector<ValueId> operands{h.q, h.k, h.v};
    if (bias.is_valid()) operands.push_back(bias);
    y = n.main("attention", std::move(operands), {{"causal", is_causal}, {"scale", scale}});
  } else {
    y = step_by_step(n, h, bias, scale, cap, n.gives(AttentionOut::scores) ? mode : -1, shown);
  }
  n.give(n.shape(AttentionIn::query).size() == 3 ? without_heads(n, y) : y);
  n.give(h.k);
  n.give(h.v);
  if (shown.is_valid()) n.give(shown);
}

// ---- rotary embedding ----

/// Pairs of elements of each head turned by angles of each place, given as their cosines and sines.
void rotary_embedding(OnnxNode& n) {
  const Shape x = n.shape(0);
  if (x.size() != 3 && x.size() != 4) throw error("of {} does not exist; it has 3 or 4 dims", to_text(x));
  const bool is_flat = x.size() == 3, is_interleaved = n.integer("interleaved", 0) != 0;
  const std::int64_t heads = n.integer("num_heads", 0), said = n.integer("rotary_embedding_dim", 0);
  if (is_flat && (heads < 1 || x[2] % heads != 0))
    throw error("attribute 'num_heads={}' does not divide the {} of {}", heads, x[2], to_text(x));
  ValueId v = is_flat ? reshaped(n, n.in(0), {x[0], x[1], heads, x[2] / heads}) : n.in(0);
  const std::int64_t all = n.type_of(v).shape[3], turned = said == 0 ? all : said, half = turned / 2;
  if (turned < 2 || turned > all || turned % 2 != 0)
    throw error("attribute 'rotary_embedding_dim={}' is not supported for heads of {}", said, all);
  const std::int64_t batch = x[0], length = is_flat ? x[1] : x[2];
  const auto angles = [&](std::size_t i) {
    ValueId table = n.untrained(i);
    if (n.has(3)) table = n.call("gather", {table, n.in(3)}, {{"dim", std::int64_t{0}}});
    const Shape shape = n.type_of(table).shape;
    if (shape != Shape{batch, length, half})
      throw error("input {} gives {} but should give {}", i, to_text(shape),
                  to_text(Shape{batch, length, half}));
    return cast_called(
        n, reshaped(n, table, is_flat ? Shape{batch, length, 1, half} : Shape{batch, 1, length, half}),
        n.type_of(v).dtype);
  };
  const ValueId cosine = angles(1), sine = angles(2);
  const ValueId pairs = part(n, v, 3, 0, turned);
  const ValueId a = is_interleaved ? part(n, pairs, 3, 0, turned, 2) : part(n, pairs, 3, 0, half);
  const ValueId b = is_interleaved ? part(n, pairs, 3, 1, turned, 2) : part(n, pairs, 3, half, turned);
  ValueId real = n.call("sub", {n.call("mul", {a, cosine}), n.call("mul", {b, sine})});
  ValueId imaginary = n.call("add", {n.call("mul", {a, sine}), n.call("mul", {b, cosine})});
  Shape shape = n.type_of(real).shape;
  if (is_interleaved) {
    shape.push_back(1);
    real = reshaped(n, real, shape);
    imaginary = reshaped(n, imaginary, shape);
  }
  ValueId y = reshaped(n, joined(n, {real, imaginary}, shape.size() - 1), n.type_of(pairs).shape);
  if (turned < all) y = joined(n, {y, part(n, v, 3, turned, all)}, 3);
  n.give(reshaped(n, y, x));
}

}  // namespace

std::vector<Conversion> attentions() {
  return {{"Attention", attention, false}, {"RotaryEmbedding", rotary_embedding}};
}

}  // namespace shardwright::onnx_operators
