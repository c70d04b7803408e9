// ONNX operators of one operand that are made of others, as the formulas say.

#include <cmath>

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/formulas.h"

namespace shardwright::onnx_operators {
namespace {

Term sqrt(Term x) { return apply("sqrt", x); }
Term square(Term x) { return apply("square", x); }
Term exp(Term x) { return apply("exp", x); }
Term log(Term x) { return apply("log", x); }
Term sigmoid(Term x) { return apply("sigmoid", x); }
Term elu(Term x, double alpha) { return apply("elu", x, {{"alpha", alpha}}); }
Term above(Term a, Term b) { return apply("greater", a, b); }
/// 1 / 2 log((1 + x) / (1 - x))
Term artanh(Term x) { return log((x + 1) / (-x + 1)) * 0.5; }

/// x - x is NaN where x is infinite or NaN.
Term is_nan(Term x) { return apply("not_equal", x, x); }
Term is_infinite(Term x) {
  const Term rest = x - x;
  return apply("logical_and", apply("equal", x, x), apply("not_equal", rest, rest));
}

Term infinite_of_signs(OnnxNode& n, Term x) {
  const bool positive = n.integer("detect_positive", 1) != 0, negative = n.integer("detect_negative", 1) != 0;
  const Term zero = number(0, x), all = is_infinite(x);
  if (positive && negative) return all;
  if (positive) return apply("logical_and", all, above(x, zero));
  if (negative) return apply("logical_and", all, above(zero, x));
  return apply("logical_and", all, apply("logical_not", all));
}

/// Towards 0 by `bias`, and 0 where |x| is at most `lambd`.
Term shrink(OnnxNode& n, Term x) {
  const double bias = n.number("bias", 0), limit = n.number("lambd", 0.5);
  const Term zero = number(0, x), inner = either(above(x, number(limit, x)), x - bias, zero);
  return either(above(number(-limit, x), x), x + bias, inner);
}

struct Formula {
  std::string_view onnx;
  Term (*of)(OnnxNode& n, Term x);
};

const Formula formulas[] = {
    {"Acos", [](OnnxNode&, Term x) { return apply("atan2", sqrt(-square(x) + 1), x); }},
    {"Acosh", [](OnnxNode&, Term x) { return log(x + sqrt(square(x) - 1)); }},
    {"Asin", [](OnnxNode&, Term x) { return apply("atan2", x, sqrt(-square(x) + 1)); }},
    {"Asinh", [](OnnxNode&, Term x) { return artanh(x / (sqrt(square(x) + 1) + 1)) * 2; }},
    {"Atan", [](OnnxNode&, Term x) { return apply("atan2", x, number(1, x)); }},
    {"Atanh", [](OnnxNode&, Term x) { return artanh(x); }},
    {"Celu",
     [](OnnxNode& n, Term x) {
       const double alpha = n.number("alpha", 1);
       return elu(x * (1 / alpha), 1) * alpha;
     }},
    {"Cosh", [](OnnxNode&, Term x) { return (exp(x) + exp(-x)) * 0.5; }},
    {"Gelu",
     [](OnnxNode& n, Term x) {
       return apply("gelu", x, {{"approximate", n.text("approximate", "none")}});
     }},
    {"IsInf", infinite_of_signs},
    {"IsNaN", [](OnnxNode&, Term x) { return is_nan(x); }},
    {"Mish", [](OnnxNode&, Term x) { return x * apply("tanh", apply("softplus", x)); }},
    {"Selu",
     [](OnnxNode& n, Term x) {
       const double alpha = n.number("alpha", 1.67326319217681884765625);
       return elu(x, alpha) * n.number("gamma", 1.05070102214813232421875);
     }},
    {"Shrink", shrink},
    {"Sinh", [](OnnxNode&, Term x) { return (exp(x) - exp(-x)) * 0.5; }},
    {"Softsign", [](OnnxNode&, Term x) { return x / (apply("abs", x) + 1); }},
    {"Swish",
     [](OnnxNode& n, Term x) {
       const double alpha = n.number("alpha", 1);
       return alpha == 1 ? apply("silu", x) : x * sigmoid(x * alpha);
     }},
    {"Tan", [](OnnxNode&, Term x) { return apply("sin", x) / apply("cos", x); }},
    {"ThresholdedRelu",
     [](OnnxNode& n, Term x) { return either(above(x, number(n.number("alpha", 1), x)), x, number(0, x)); }},
};

void compute(OnnxNode& n) {
  const auto it = std::ranges::find(formulas, n.op(), &Formula::onnx);
  n.give(it->of(n, {&n, n.in(0)}).id);
}

}  // namespace

std::vector<Conversion> functions() {
  std::vector<Conversion> all;
  for (const Formula& f : formulas) all.push_back({f.onnx, compute});
  return all;
}

}  // namespace shardwright::onnx_operators
