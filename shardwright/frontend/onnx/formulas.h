// Formulas of calls: `exp(x) * 2 - 1` adds the calls that compute it, before or behind the node's main one.
#pragma once

#include <string_view>

#include "shardwright/frontend/onnx/node.h"

namespace shardwright::onnx_operators {

/// A value of the graph in a formula.
struct Term {
  OnnxNode* node;
  ValueId id;
};

inline Term apply(std::string_view op, Term x, Attributes attributes = {}) {
  return {x.node, x.node->call(op, {x.id}, std::move(attributes))};
}
inline Term apply(std::string_view op, Term a, Term b) { return {a.node, a.node->call(op, {a.id, b.id})}; }

inline Term operator+(Term a, Term b) { return apply("add", a, b); }
inline Term operator-(Term a, Term b) { return apply("sub", a, b); }
inline Term operator*(Term a, Term b) { return apply("mul", a, b); }
inline Term operator/(Term a, Term b) { return apply("div", a, b); }
inline Term operator+(Term x, double by) { return apply("shift", x, {{"value", by}}); }
inline Term operator-(Term x, double by) { return x + -by; }
inline Term operator*(Term x, double by) { return apply("scale", x, {{"factor", by}}); }
inline Term operator-(Term x) { return apply("neg", x); }

/// Where `condition` is so `a`, else `b`.
inline Term either(Term condition, Term a, Term b) {
  return {a.node, a.node->call("where", {condition.id, a.id, b.id})};
}
/// One number of the type of `like`.
inline Term number(double value, Term like) {
  const DType dtype = like.node->type_of(like.id).dtype;
  return {like.node,
          like.node->call("fill", {},
                          {{"shape", Shape{}}, {"value", value}, {"dtype", std::string(name_of(dtype))}})};
}

}  // namespace shardwright::onnx_operators
