// ONNX operators that networks are made of: products, convolutions, pooling, norms, dropout.

#include <algorithm>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

// ---- products ----

/// alpha A B + beta C, of matrices; C broadcasts.
void gemm(OnnxNode& n) {
  Attributes attributes;
  if (n.integer("transA", 0) != 0) attributes.set("transpose_a", true);
  if (n.integer("transB", 0) != 0) attributes.set("transpose_b", true);
  const double alpha = n.number("alpha", 1), beta = n.number("beta", 1);
  ValueId y = n.main("matmul", {n.in(0), n.in(1)}, std::move(attributes));
  if (alpha != 1) y = n.call("scale", {y}, {{"factor", alpha}});
  if (n.has(2)) {
    const ValueId c = beta == 1 ? n.in(2) : n.call("scale", {n.in(2)}, {{"factor", beta}});
    y = n.call("add", {y, c});
  }
  n.give(y);
}

/// As numpy's: a vector is a matrix of one row or column, and dims before the last two broadcast.
void matmul(OnnxNode& n) {
  Shape a = n.shape(0), b = n.shape(1);
  if (a.empty() || b.empty()) throw error("of a scalar does not exist");
  const bool a_is_vector = a.size() == 1, b_is_vector = b.size() == 1;
  if (a_is_vector) a.insert(a.begin(), 1);
  if (b_is_vector) b.push_back(1);
  const ValueId y = n.main("matmul", {reshaped(n, n.in(0), a), reshaped(n, n.in(1), b)});
  Shape shape = n.type_of(y).shape;
  if (b_is_vector) shape.pop_back();
  if (a_is_vector) shape.erase(shape.end() - (b_is_vector ? 1 : 2));
  n.give(reshaped(n, y, shape));
}

// ---- norms ----

/// By the running statistics, as outside of training, in their type: x may be close to a large mean.
ValueId normalized(OnnxNode& n, double epsilon) {
  const Type x = n.type(0);
  const std::size_t rank = x.shape.size();
  const auto kept = [&](ValueId v) { return cast_to(n.builder(), v, n.kept_precision()); };
  const ValueId gamma = kept(n.in(1)), beta = kept(n.in(2));  // first: they keep their names
  const ValueId spread = n.call("shift", {kept(n.state(4))}, {{"value", epsilon}});
  const ValueId scale = n.call("mul", {gamma, n.call("rsqrt", {spread})});
  const ValueId shift = n.call("sub", {beta, n.call("mul", {kept(n.state(3)), scale})});
  const ValueId y = n.main(
      "add", {n.call("mul", {kept(n.in(0)), per_channel(n, scale, rank)}), per_channel(n, shift, rank)});
  return cast_to(n.builder(), y, x.dtype);
}

/// In training the node has the outputs of training (up to operator set 13) or says so.
void batch_normalization(OnnxNode& n) {
  const double epsilon = n.number("epsilon", 1e-5), momentum = n.number("momentum", 0.9);
  const bool says_training = n.integer("training_mode", 0) != 0;
  const bool trains = n.opset() >= 14 ? says_training : n.output_count() > 1;
  if (n.shape(0).size() < 2) throw error("of {} needs at least 2 dims", to_text(n.shape(0)));
  for (std::size_t i = 1; i < 5; ++i)
    if (n.shape(i) != Shape{n.shape(0)[1]})
      throw error("input {} is {} but x has {} channels", i, to_text(n.shape(i)), n.shape(0)[1]);
  if (!trains) {
    n.tell_inactive();
    return n.give(normalized(n, epsilon));
  }
  n.give(batch_norm(n.builder(), n.in(0),
                    {.gamma = n.in(1),
                     .beta = n.in(2),
                     .mean = n.state(3, StateUse::moved),
                     .variance = n.state(4, StateUse::moved),
                     .epsilon = epsilon,
                     .momentum = 1 - momentum},
                    n.name()));
}

void layer_normalization(OnnxNode& n) {
  const Shape& x = n.shape(0);
  const auto first = n.dim(n.integer("axis", -1), x.size());
  if (!n.has(2)) throw error("without a bias is not supported");
  n.integer("stash_type", 1);  // statistics are of the precision or better
  if (n.shape(1) != Shape(x.begin() + first, x.end()))
    throw error("the scale is {} but should be the last dims of {}", to_text(n.shape(1)), to_text(x));
  n.give(n.main("layer_norm", {n.in(0), n.in(1), n.in(2)}, {{"epsilon", n.number("epsilon", 1e-5)}}));
}

// ---- dropout ----

/// Up to operator set 11 a dropout that was exported is one of training.
void dropout(OnnxNode& n) {
  const double attribute_rate = n.number("ratio", 0.5);
  const std::int64_t seed = n.integer("seed", 0);
  const double rate = n.has(1) ? n.number_of(1) : attribute_rate;
  const bool trains = n.opset() < 12 || (n.has(2) && n.number_of(2) != 0);
  if (!trains && rate != 0) n.tell_inactive();
  if (!trains || rate == 0) return n.give(n.in(0));
  n.give(n.main("dropout", {n.in(0), step_count(n.builder())},
                {{"name", n.name()}, {"rate", rate}, {"seed", seed}}));
}

}  // namespace

std::vector<Conversion> layers() {
  return {
      {"BatchNormalization", batch_normalization, false}, {"Dropout", dropout},      {"Gemm", gemm, false},
      {"LayerNormalization", layer_normalization, false}, {"MatMul", matmul, false},
  };
}

}  // namespace shardwright::onnx_operators
