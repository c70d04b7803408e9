// RNN, GRU and LSTM, as the graph of all their steps.
//
//   x [steps, batch, in], W [directions, gates h, in], R [directions, gates h, h], b [directions, 2 gates h]
//   RNN   h' = f(Wx + Rh + b)
//   GRU   z, r = f(Wx + Rh + b);  n = g(Wx + R(r h) + b), or g(Wx + r (Rh + b) + b);  h' = (1 - z) n + z h
//   LSTM  i, o, f = f(Wx + Rh + p c + b), o of the new c;  c' = f c + i g(Wx + Rh + b);  h' = o h(c')
//
// Products with x are one for all steps. A sequence that ends before the last step keeps its state from there on, and its
// outputs are 0; backwards it begins at its own end.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

struct CellIn {
  enum : std::size_t { sequence, weights, recurrence, biases, lengths, first_h, first_c, peepholes };
};

struct Cell {
  std::string kind;
  std::int64_t steps, batch, in, width, directions, gates;
  bool has_batch_first, is_linear_before_reset, has_coupled_gates;
  std::string direction;
  double clip;
  std::vector<std::string> functions;  // of each direction, one behind the other
};

// ---- reading ----

std::string_view function_called(const std::string& name) {
  constexpr std::pair<std::string_view, std::string_view> known[] = {
      {"relu", "relu"}, {"tanh", "tanh"},        {"sigmoid", "sigmoid"}, {"leakyrelu", "leaky_relu"},
      {"elu", "elu"},   {"softplus", "softplus"}};
  std::string lower = name;
  std::ranges::transform(lower, lower.begin(),
                         [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
  for (const auto& [onnx, ours] : known)
    if (lower == onnx) return ours;
  if (lower == "hardsigmoid") return "hard_sigmoid";
  throw error("attribute 'activations={}' is not supported", printable(name));
}

ValueId applied(OnnxNode& n, const std::string& function, ValueId x) {
  if (function == "hard_sigmoid") return n.call(function, {x}, {{"slope", 0.2}, {"shift", 0.5}});
  return n.call(function, {x});
}

void check_shape(const OnnxNode& n, std::size_t i, const Shape& wanted) {
  if (n.has(i) && n.shape(i) != wanted)
    throw error("input {} is {} but should be {}", i, to_text(n.shape(i)), to_text(wanted));
}

Cell read_cell(OnnxNode& n, std::int64_t gates) {
  Cell c{};
  c.kind = n.op();
  c.gates = gates;
  c.has_batch_first = n.integer("layout", 0) != 0;
  const Shape &x = n.shape(CellIn::sequence), &w = n.shape(CellIn::weights), &r = n.shape(CellIn::recurrence);
  if (x.size() != 3 || w.size() != 3 || r.size() != 3)
    throw error("inputs 0 to 2 are {}, {} and {} but should have 3 dims", to_text(x), to_text(w), to_text(r));
  c.steps = x[c.has_batch_first ? 1 : 0];
  c.batch = x[c.has_batch_first ? 0 : 1];
  c.in = x[2];
  c.directions = w[0];
  c.width = n.integer("hidden_size", r[2]);
  if (c.width != r[2]) throw error("hidden_size={} is not that of {}", c.width, to_text(r));
  if (c.steps > most_single_parts)
    throw error("{} steps are not supported; the graph holds them all, and at most {} are", c.steps,
                most_single_parts);
  c.direction = n.text("direction", "forward");
  const bool is_known =
      c.direction == "forward" || c.direction == "reverse" || c.direction == "bidirectional";
  if (!is_known) throw error("attribute 'direction={}' is not supported", printable(c.direction));
  const std::int64_t directions = c.direction == "bidirectional" ? 2 : 1, h = c.width;
  const Shape state = c.has_batch_first ? Shape{c.batch, directions, h} : Shape{directions, c.batch, h};
  check_shape(n, CellIn::weights, {directions, gates * h, c.in});
  check_shape(n, CellIn::recurrence, {directions, gates * h, h});
  check_shape(n, CellIn::biases, {directions, 2 * gates * h});
  check_shape(n, CellIn::lengths, {c.batch});
  check_shape(n, CellIn::first_h, state);
  c.clip = n.number("clip", 0);
  return c;
}

/// The functions that are named, or `usual`.
void read_functions(const OnnxNode& n, Cell& c, const std::vector<std::string>& usual) {
  std::vector<std::string> named = n.texts("activations");
  for (std::int64_t d = 0; named.empty() && d < c.directions; ++d)
    c.functions.insert(c.functions.end(), usual.begin(), usual.end());
  for (const std::string& name : named) c.functions.emplace_back(function_called(name));
  if (c.functions.size() != usual.size() * static_cast<std::size_t>(c.directions))
    throw error("has {} activations for {} directions", named.size(), c.directions);
}

// ---- one direction ----

/// What one direction reads.
struct Direction {
  ValueId x;             // [steps, batch, gates h]: Wx and the biases that go with it
  ValueId r, b;          // [gates h, h] and its biases [gates h], where they are not in x
  ValueId h, c, p;       // [batch, h], [batch, h], [3 h]
  const std::string* f;  // functions
};

struct Step {
  ValueId h, c;
};

/// Row `d` of a weight: without its first dim.
ValueId of_direction(OnnxNode& n, std::size_t i, std::int64_t d) {
  const Shape shape = n.shape(i);
  return reshaped(n, part(n, n.in(i), 0, d, d + 1), Shape(shape.begin() + 1, shape.end()));
}

ValueId first_state(OnnxNode& n, const Cell& c, std::size_t i, std::int64_t d) {
  if (!n.has(i))
    return n.call("fill", {},
                  {{"shape", Shape{c.batch, c.width}},
                   {"value", 0.0},
                   {"dtype", std::string(name_of(n.type(CellIn::sequence).dtype))}});
  return reshaped(n, part(n, n.in(i), c.has_batch_first ? 1 : 0, d, d + 1), {c.batch, c.width});
}

Direction direction_of(OnnxNode& n, const Cell& c, std::int64_t d) {
  Direction out{};
  const std::int64_t all = c.gates * c.width;
  ValueId x = n.in(CellIn::sequence);
  if (c.has_batch_first) x = transposed(n, x, {1, 0, 2});
  const ValueId flat = reshaped(n, x, {c.steps * c.batch, c.in});
  ValueId y = n.call("matmul", {flat, of_direction(n, CellIn::weights, d)}, {{"transpose_b", true}});
  if (n.has(CellIn::biases)) {
    const ValueId both = of_direction(n, CellIn::biases, d);
    const ValueId of_x = part(n, both, 0, 0, all), of_h = part(n, both, 0, all, 2 * all);
    y = n.call("add", {y, of_x});
    if (c.is_linear_before_reset)
      out.b = of_h;
    else
      y = n.call("add", {y, of_h});
  }
  out.x = reshaped(n, y, {c.steps, c.batch, all});
  out.r = of_direction(n, CellIn::recurrence, d);
  out.h = first_state(n, c, CellIn::first_h, d);
  if (c.kind == "LSTM") out.c = first_state(n, c, CellIn::first_c, d);
  if (c.kind == "LSTM" && n.has(CellIn::peepholes)) out.p = of_direction(n, CellIn::peepholes, d);
  out.f = &c.functions[static_cast<std::size_t>(d) *
                       (c.functions.size() / static_cast<std::size_t>(c.directions))];
  return out;
}

ValueId product(OnnxNode& n, ValueId h, ValueId r) {
  return n.call("matmul", {h, r}, {{"transpose_b", true}});
}

ValueId clipped(OnnxNode& n, const Cell& c, ValueId x) {
  return c.clip > 0 ? n.call("clip", {x}, {{"min", -c.clip}, {"max", c.clip}}) : x;
}

Step rnn_step(OnnxNode& n, const Cell& c, const Direction& d, ValueId x, Step s) {
  return {applied(n, d.f[0], clipped(n, c, n.call("add", {x, product(n, s.h, d.r)}))), {}};
}

Step gru_step(OnnxNode& n, const Cell& c, const Direction& d, ValueId x, Step s) {
  const std::int64_t w = c.width;
  ValueId zr = n.call("add", {part(n, x, 1, 0, 2 * w), product(n, s.h, part(n, d.r, 0, 0, 2 * w))});
  if (d.b.is_valid()) zr = n.call("add", {zr, part(n, d.b, 0, 0, 2 * w)});
  zr = applied(n, d.f[0], clipped(n, c, zr));
  const ValueId z = part(n, zr, 1, 0, w), r = part(n, zr, 1, w, 2 * w), of_x = part(n, x, 1, 2 * w, 3 * w);
  const ValueId rh = part(n, d.r, 0, 2 * w, 3 * w);
  ValueId before;
  if (c.is_linear_before_reset) {
    ValueId of_h = product(n, s.h, rh);
    if (d.b.is_valid()) of_h = n.call("add", {of_h, part(n, d.b, 0, 2 * w, 3 * w)});
    before = n.call("add", {of_x, n.call("mul", {r, of_h})});
  } else {
    before = n.call("add", {of_x, product(n, n.call("mul", {r, s.h}), rh)});
  }
  const ValueId fresh = applied(n, d.f[1], clipped(n, c, before));
  return {n.call("add", {fresh, n.call("mul", {z, n.call("sub", {s.h, fresh})})}), {}};
}

Step lstm_step(OnnxNode& n, const Cell& c, const Direction& d, ValueId x, Step s) {
  const std::int64_t w = c.width;
  const ValueId all = n.call("add", {x, product(n, s.h, d.r)});
  const auto gate = [&](std::int64_t i) { return part(n, all, 1, i * w, (i + 1) * w); };
  const auto with_peephole = [&](ValueId v, std::int64_t i, ValueId cell) {
    return d.p.is_valid() ? n.call("add", {v, n.call("mul", {part(n, d.p, 0, i * w, (i + 1) * w), cell})})
                          : v;
  };
  const auto opened = [&](ValueId v) { return applied(n, d.f[0], clipped(n, c, v)); };
  const ValueId in = opened(with_peephole(gate(0), 0, s.c));
  const ValueId fresh = applied(n, d.f[1], clipped(n, c, gate(3)));
  ValueId kept;
  if (c.has_coupled_gates)
    kept = n.call("shift", {n.call("neg", {in})}, {{"value", 1.0}});
  else
    kept = opened(with_peephole(gate(2), 2, s.c));
  const ValueId cell = n.call("add", {n.call("mul", {kept, s.c}), n.call("mul", {in, fresh})});
  const ValueId out = opened(with_peephole(gate(1), 1, cell));
  return {n.call("mul", {out, applied(n, d.f[2], cell)}), cell};
}

/// For each step whether it is in the sequence, bool[batch, 1]; nothing if all sequences have all steps.
std::vector<ValueId> steps_inside(OnnxNode& n, const Cell& c) {
  if (!n.has(CellIn::lengths)) return {};
  if (n.is_known(CellIn::lengths)) {
    const List known = n.integers_of(CellIn::lengths);
    if (std::ranges::count(known, c.steps) == std::ssize(known)) return {};
  }
  const ValueId length = reshaped(n, cast_called(n, n.in(CellIn::lengths), DType::i64), {c.batch, 1});
  std::vector<ValueId> out;
  for (std::int64_t t = 0; t < c.steps; ++t)
    out.push_back(n.call("less", {constant(n.builder(), DType::i64, static_cast<double>(t)), length}));
  return out;
}

struct Results {
  std::vector<ValueId> y;  // of each step, [batch, h]
  Step last;
};

using StepOf = Step (*)(OnnxNode&, const Cell&, const Direction&, ValueId, Step);

Results run(OnnxNode& n, const Cell& c, std::int64_t d, const std::vector<ValueId>& is_inside, StepOf step) {
  const Direction direction = direction_of(n, c, d);
  const bool is_reverse = c.direction == "reverse" || d == 1;
  const auto x = single_parts(n, direction.x, 0);
  Results out{.y = std::vector<ValueId>(x.size()), .last = {direction.h, direction.c}};
  const ValueId zero =
      is_inside.empty() ? ValueId{} : constant(n.builder(), n.type(CellIn::sequence).dtype, 0);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const std::size_t t = is_reverse ? x.size() - 1 - i : i;
    Step next = step(n, c, direction, reshaped(n, x[t], {c.batch, c.gates * c.width}), out.last);
    out.y[t] = next.h;
    if (!is_inside.empty()) {
      out.y[t] = n.call("where", {is_inside[t], next.h, zero});
      next.h = n.call("where", {is_inside[t], next.h, out.last.h});
      if (next.c.is_valid()) next.c = n.call("where", {is_inside[t], next.c, out.last.c});
    }
    out.last = next;
  }
  return out;
}

/// Gives y [steps, directions, batch, h] and the last states [directions, batch, h]; batch first: in the batch's order.
void give_results(OnnxNode& n, const Cell& c, const std::vector<Results>& all) {
  const Shape one{1, 1, c.batch, c.width}, state{1, c.batch, c.width};
  std::vector<ValueId> of_steps, of_direction, h, last_c;
  for (const Results& r : all) {
    of_steps.clear();
    for (ValueId y : r.y) of_steps.push_back(reshaped(n, y, one));
    of_direction.push_back(joined(n, of_steps, 0));
    h.push_back(reshaped(n, r.last.h, state));
    if (r.last.c.is_valid()) last_c.push_back(reshaped(n, r.last.c, state));
  }
  const auto ordered = [&](ValueId v, const List& dims) {
    return c.has_batch_first ? transposed(n, v, dims) : v;
  };
  n.give(ordered(joined(n, of_direction, 1), {2, 0, 1, 3}));
  n.give(ordered(joined(n, h, 0), {1, 0, 2}));
  if (!last_c.empty()) n.give(ordered(joined(n, last_c, 0), {1, 0, 2}));
}

void unrolled(OnnxNode& n, const Cell& c, StepOf step) {
  const std::vector<ValueId> is_inside = steps_inside(n, c);
  std::vector<Results> all;
  for (std::int64_t d = 0; d < c.directions; ++d) all.push_back(run(n, c, d, is_inside, step));
  give_results(n, c, all);
}

void rnn(OnnxNode& n) {
  Cell c = read_cell(n, 1);
  read_functions(n, c, {"tanh"});
  unrolled(n, c, rnn_step);
}

void gru(OnnxNode& n) {
  Cell c = read_cell(n, 3);
  c.is_linear_before_reset = n.integer("linear_before_reset", 0) != 0;
  read_functions(n, c, {"sigmoid", "tanh"});
  unrolled(n, c, gru_step);
}

void lstm(OnnxNode& n) {
  Cell c = read_cell(n, 4);
  c.has_coupled_gates = n.integer("input_forget", 0) != 0;
  check_shape(
      n, CellIn::first_c,
      c.has_batch_first ? Shape{c.batch, c.directions, c.width} : Shape{c.directions, c.batch, c.width});
  check_shape(n, CellIn::peepholes, {c.directions, 3 * c.width});
  read_functions(n, c, {"sigmoid", "tanh", "tanh"});
  unrolled(n, c, lstm_step);
}

}  // namespace

std::vector<Conversion> recurrent() {
  return {{"GRU", gru, false}, {"LSTM", lstm, false}, {"RNN", rnn, false}};
}

}  // namespace shardwright::onnx_operators
