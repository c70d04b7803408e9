// ONNX operators of single elements, operands broadcast as in numpy.

#include <algorithm>
#include <cmath>
#include <limits>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/tensors.h"
#include "shardwright/ops/calls.h"

namespace shardwright::onnx_operators {
namespace {

/// The same operator under our name.
struct Renamed {
  std::string_view onnx;
  std::string_view ours;
};
constexpr Renamed renamed[] = {
    {"Abs", "abs"},
    {"Add", "add"},
    {"And", "logical_and"},
    {"Ceil", "ceil"},
    {"Cos", "cos"},
    {"Equal", "equal"},
    {"Erf", "erf"},
    {"Exp", "exp"},
    {"Floor", "floor"},
    {"Greater", "greater"},
    {"GreaterOrEqual", "greater_equal"},
    {"HardSwish", "hard_swish"},
    {"Less", "less"},
    {"LessOrEqual", "less_equal"},
    {"Log", "log"},
    {"Mul", "mul"},
    {"Neg", "neg"},
    {"Not", "logical_not"},
    {"Or", "logical_or"},
    {"PRelu", "prelu"},
    {"Reciprocal", "reciprocal"},
    {"Relu", "relu"},
    {"Round", "round"},
    {"Sigmoid", "sigmoid"},
    {"Sign", "sign"},
    {"Sin", "sin"},
    {"Softplus", "softplus"},
    {"Sqrt", "sqrt"},
    {"Sub", "sub"},
    {"Tanh", "tanh"},
    {"Where", "where"},
};

/// All inputs in the graph; floating ones, where one is a loss in f32 and others are short, in f32.
std::vector<ValueId> operands_of(OnnxNode& n) {
  std::vector<ValueId> out;
  bool is_full = false;
  for (std::size_t i = 0; i < n.input_count(); ++i) {
    out.push_back(n.in(i));
    is_full = is_full || n.type_of(out.back()).dtype == DType::f32;
  }
  for (ValueId& v : out)
    if (n.is_mixed() && is_full && is_floating(n.type_of(v).dtype)) v = cast_to(n.builder(), v, DType::f32);
  return out;
}

void rename(OnnxNode& n) {
  const auto it = std::ranges::find(renamed, n.op(), &Renamed::onnx);
  n.give(n.main(it->ours, operands_of(n)));
}

/// The number that operand `i` is everywhere, if it is known and the other operand has the result's type.
std::optional<double> number_beside(const OnnxNode& n, std::size_t i) {
  const Type& other = n.type(1 - i);
  if (n.input_count() != 2 || !is_floating(other.dtype) || n.is_known(1 - i)) return std::nullopt;
  if (n.shape(i).size() > other.shape.size()) return std::nullopt;
  return n.known_number(i);
}

void add(OnnxNode& n) {
  for (std::size_t i : {1, 0})
    if (const auto number = number_beside(n, i))
      return n.give(n.main("shift", {n.in(1 - i)}, {{"value", *number}}));
  rename(n);
}

void subtract(OnnxNode& n) {
  if (const auto number = number_beside(n, 1))
    return n.give(n.main("shift", {n.in(0)}, {{"value", -*number}}));
  rename(n);
}

void multiply(OnnxNode& n) {
  for (std::size_t i : {1, 0})
    if (const auto number = number_beside(n, i))
      return n.give(n.main("scale", {n.in(1 - i)}, {{"factor", *number}}));
  rename(n);
}

void identity(OnnxNode& n) { n.give_input(0); }

ValueId cast(OnnxNode& n, ValueId x, DType to) {
  if (n.type_of(x).dtype == to) return x;
  return n.call("cast", {x}, {{"to", std::string(name_of(to))}});
}

/// All floating types are the model's precision. What is said of the shortest ones means nothing to others.
void convert_type(OnnxNode& n) {
  const DType to = dtype_of_onnx(static_cast<std::int32_t>(n.integer("to", 0)));
  n.integer("saturate", 1);
  n.text("round_mode", "up");
  n.give(cast(n, n.in(0), is_floating(to) ? n.precision() : to));
}

void convert_as(OnnxNode& n) {
  n.integer("saturate", 1);
  n.text("round_mode", "up");
  const DType to = is_floating(n.type(1).dtype) ? n.precision() : n.type(1).dtype;
  if (n.is_known(0)) return n.give(convert(*n.constant(0), to));  // of the other the type is all that counts
  n.give(cast(n, n.in(0), to));
}

// ---- integers, for which some of our operators are not ----

bool is_integer(const OnnxNode& n) { return !is_floating(n.type(0).dtype); }

ValueId negated(OnnxNode& n, ValueId x) {
  return n.call("sub", {n.constant(Tensor({n.type_of(x).dtype, {}})), x});
}

void negate(OnnxNode& n) { is_integer(n) ? n.give(negated(n, n.in(0))) : rename(n); }

void absolute(OnnxNode& n) {
  is_integer(n) ? n.give(n.main("maximum", {n.in(0), negated(n, n.in(0))})) : rename(n);
}

void rectify(OnnxNode& n) {
  if (!is_integer(n)) return rename(n);
  n.give(n.main("maximum", {n.in(0), n.constant(Tensor({n.type(0).dtype, {}}))}));
}

void sign(OnnxNode& n) {
  if (!is_integer(n)) return rename(n);
  const DType dtype = n.type(0).dtype;
  n.give(cast(n, n.main("sign", {cast(n, n.in(0), DType::f64)}), dtype));
}

// ---- bools ----

ValueId differ(OnnxNode& n, ValueId a, ValueId b) {
  const ValueId both = n.call("logical_and", {a, b});
  return n.call("logical_and", {n.call("logical_or", {a, b}), n.call("logical_not", {both})});
}

void exclusive_or(OnnxNode& n) { n.give(differ(n, n.in(0), n.in(1))); }

void equal(OnnxNode& n) {
  if (n.type(0).dtype != DType::boolean) return rename(n);
  n.give(n.call("logical_not", {differ(n, n.in(0), n.in(1))}));
}

// ---- division ----

/// a / b of integers, by way of f64, as which numbers of shapes are exact.
ValueId quotient(OnnxNode& n) {
  return n.call("div", {cast(n, n.in(0), DType::f64), cast(n, n.in(1), DType::f64)});
}

void divide(OnnxNode& n) {
  const DType dtype = n.type(0).dtype;
  if (const auto number = number_beside(n, 1); number && *number != 0)
    return n.give(n.main("scale", {n.in(0)}, {{"factor", 1 / *number}}));
  if (is_floating(dtype)) return n.give(n.main("div", {n.in(0), n.in(1)}));
  n.give(cast(n, quotient(n), dtype));  // towards 0
}

/// a - b q, where q is a / b, towards 0 with fmod=1, else the integer below: the sign is that of a, or that of b.
void modulo(OnnxNode& n) {
  const DType dtype = n.type(0).dtype;
  const bool is_towards_zero = n.integer("fmod", 0) != 0;
  const ValueId q = is_floating(dtype) ? n.call("div", {n.in(0), n.in(1)}) : quotient(n);
  const auto below = [&](ValueId x) { return n.call("floor", {x}); };
  const ValueId whole =
      is_towards_zero ? n.call("mul", {n.call("sign", {q}), below(n.call("abs", {q}))}) : below(q);
  n.give(n.main("sub", {n.in(0), n.call("mul", {cast(n, whole, dtype), n.in(1)})}));
}

// ---- logarithms ----

/// The node that makes `v`, if it is a call of `op`.
const Node* call_of(OnnxNode& n, ValueId v, std::string_view op) {
  const Graph& graph = n.builder().graph();
  const Node& node = graph.node(graph.value(v).producer);
  return node.op->name == op ? &node : nullptr;
}

/// Of a sigmoid s(x), and of 1 - s(x) = s(-x), which cross entropies of two classes are exported with, the logarithm
/// is -log(1 + e^-x), and of the other -log(1 + e^x): no x makes these infinite.
void logarithm(OnnxNode& n) {
  const ValueId x = n.in(0);
  if (const Node* sigmoid = call_of(n, x, "sigmoid"))
    return n.give(n.main("neg", {n.call("softplus", {n.call("neg", {sigmoid->operands[0]})})}));
  const Node* difference = call_of(n, x, "sub");
  const Node* one = difference ? call_of(n, difference->operands[0], "fill") : nullptr;
  const Node* sigmoid = one ? call_of(n, difference->operands[1], "sigmoid") : nullptr;
  if (!sigmoid || one->attributes.number("value", 0) != 1) return rename(n);
  const ValueId y = n.main("neg", {n.call("softplus", {sigmoid->operands[0]})});
  if (n.type_of(y) != n.type_of(x)) return rename(n);  // the 1 is of a larger shape
  n.give(y);
}

// ---- powers ----

/// An exponent without dims is no weight: trained, it would leave the integers, and a negative number's power is NaN
/// then. Those of [1] may be (generalized mean pooling learns one). Integers are computed as f64, in which those of
/// shapes are exact.
void power(OnnxNode& n) {
  const DType dtype = n.type(0).dtype;
  if (!is_floating(dtype))
    return n.give(
        cast(n, n.main("pow", {cast(n, n.in(0), DType::f64), cast(n, n.in(1), DType::f64)}), dtype));
  auto exponent = n.written_number(1);
  if (!exponent) exponent = n.known_number(1);
  if (exponent && n.shape(1).size() > n.shape(0).size()) exponent.reset();
  if (exponent && *exponent == 2) return n.give(n.main("square", {n.in(0)}));
  if (exponent) return n.give(n.main("power", {n.in(0)}, {{"exponent", *exponent}}));
  n.give(n.main("pow", {n.in(0), cast(n, n.in(1), dtype)}));
}

// ---- several operands ----

/// op(op(a, b), c) and so on.
ValueId chain(OnnxNode& n, std::string_view op) {
  ValueId y = n.in(0);
  for (std::size_t i = 1; i < n.input_count(); ++i)
    y = i + 1 == n.input_count() ? n.main(op, {y, n.in(i)}) : n.call(op, {y, n.in(i)});
  return y;
}

void largest(OnnxNode& n) { n.give(chain(n, "maximum")); }
void smallest(OnnxNode& n) { n.give(chain(n, "minimum")); }
void sum(OnnxNode& n) { n.give(chain(n, "add")); }
void mean(OnnxNode& n) {
  const double count = static_cast<double>(n.input_count());
  n.give(n.call("scale", {chain(n, "add")}, {{"factor", 1 / count}}));
}

// ---- activations ----

/// By limits that are computed, or of integers.
void clip_between(OnnxNode& n) {
  ValueId x = n.in(0);
  if (n.has(1)) x = n.call("maximum", {x, n.in(1)});
  if (n.has(2)) x = n.call("minimum", {x, n.in(2)});
  n.give(x);
}

/// Of what begins at 0, the derivative at 0 is relu's: ReLU6 is exported so.
void clip(OnnxNode& n) {
  double min = n.number("min", -std::numeric_limits<double>::infinity());
  double max = n.number("max", std::numeric_limits<double>::infinity());
  const auto is_open = [&](std::size_t i) { return n.has(i) && !n.is_number(i); };
  if (is_integer(n) || is_open(1) || is_open(2)) return clip_between(n);
  if (n.has(1)) min = n.number_of(1);
  if (n.has(2)) max = n.number_of(2);
  min = std::min(min, max);  // as numpy: of limits that cross, max holds
  Attributes limits;
  const bool is_relu = min == 0 && max > 0;
  if (std::isfinite(min) && !is_relu) limits.set("min", min);
  if (std::isfinite(max)) limits.set("max", max);
  const ValueId x = is_relu ? n.call("relu", {n.in(0)}) : n.in(0);
  n.give(limits.empty() ? x : n.main("clip", {x}, std::move(limits)));
}

void leaky_relu(OnnxNode& n) {
  n.give(n.main("leaky_relu", {n.in(0)}, {{"slope", n.number("alpha", 0.01)}}));
}
void elu(OnnxNode& n) { n.give(n.main("elu", {n.in(0)}, {{"alpha", n.number("alpha", 1)}})); }
void hard_sigmoid(OnnxNode& n) {
  n.give(n.main("hard_sigmoid", {n.in(0)},
                {{"slope", n.number("alpha", 0.2)}, {"shift", n.number("beta", 0.5)}}));
}

}  // namespace

std::vector<Conversion> elementwise() {
  std::vector<Conversion> all{{"Abs", absolute},
                              {"Add", add},
                              {"Cast", convert_type},
                              {"CastLike", convert_as},
                              {"Clip", clip},
                              {"Div", divide},
                              {"Elu", elu},
                              {"Equal", equal},
                              {"HardSigmoid", hard_sigmoid},
                              {"Identity", identity},
                              {"LeakyRelu", leaky_relu},
                              {"Log", logarithm},
                              {"Max", largest},
                              {"Mean", mean},
                              {"Min", smallest},
                              {"Mod", modulo},
                              {"Mul", multiply},
                              {"Neg", negate},
                              {"Pow", power},
                              {"Relu", rectify},
                              {"Sign", sign},
                              {"Sub", subtract},
                              {"Sum", sum},
                              {"Xor", exclusive_or}};
  const std::size_t own = all.size();
  for (const Renamed& r : renamed)
    if (std::find_if(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(own), [&](const Conversion& c) {
          return c.op == r.onnx;
        }) == all.begin() + static_cast<std::ptrdiff_t>(own))
      all.push_back({r.onnx, rename});
  return all;
}

}  // namespace shardwright::onnx_operators
