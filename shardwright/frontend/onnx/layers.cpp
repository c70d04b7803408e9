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

/// The running statistics as ONNX says them: the variance of the batch is that of its elements.
void give_statistics(OnnxNode& n, double momentum, ValueId old_mean, ValueId old_variance) {
  const std::size_t rank = n.shape(0).size();
  List dims{0};
  for (std::size_t d = 2; d < rank; ++d) dims.push_back(static_cast<std::int64_t>(d));
  const ValueId x = cast_to(n.builder(), n.in(0), n.kept_precision());
  const ValueId mean = n.call("reduce_mean", {x}, {{"dims", dims}});
  const ValueId off = n.call("sub", {x, per_channel(n, mean, rank)});
  const ValueId variance = n.call("reduce_mean", {n.call("square", {off})}, {{"dims", dims}});
  const auto moved = [&](ValueId old, ValueId now) {
    return n.call("add", {n.call("scale", {old}, {{"factor", momentum}}),
                          n.call("scale", {now}, {{"factor", 1 - momentum}})});
  };
  n.give(moved(old_mean, mean));
  n.give(moved(old_variance, variance));
  if (n.output_count() > 3) {
    n.give(mean);
    n.give(variance);
  }
}

/// In training the node has the outputs of training (up to operator set 13), says so, or is asked to.
void batch_normalization(OnnxNode& n) {
  const double epsilon = n.number("epsilon", 1e-5), momentum = n.number("momentum", 0.9);
  const bool says_training = n.integer("training_mode", 0) != 0;
  const bool trains = n.trains(n.opset() >= 14 ? says_training : n.output_count() > 1);
  if (n.shape(0).size() < 2) throw error("of {} needs at least 2 dims", to_text(n.shape(0)));
  for (std::size_t i = 1; i < 5; ++i)
    if (n.shape(i) != Shape{n.shape(0)[1]})
      throw error("input {} is {} but x has {} channels", i, to_text(n.shape(i)), n.shape(0)[1]);
  if (!trains) {
    n.tell_inactive();
    return n.give(normalized(n, epsilon));
  }
  const ValueId gamma = n.in(1), beta = n.in(2);
  const ValueId mean = n.state(3, StateUse::moved), variance = n.state(4, StateUse::moved);
  n.give(batch_norm(n.builder(), n.in(0),
                    {.gamma = gamma,
                     .beta = beta,
                     .mean = mean,
                     .variance = variance,
                     .epsilon = epsilon,
                     .momentum = 1 - momentum},
                    n.name()));
  if (n.gives(1) || n.gives(2) || n.gives(3) || n.gives(4)) give_statistics(n, momentum, mean, variance);
}

/// Input `i`, stretched to `shape`; `otherwise` everywhere if it is left out.
ValueId stretched_input(OnnxNode& n, std::size_t i, const Shape& shape, double otherwise) {
  if (!n.has(i)) {
    const std::string dtype(name_of(n.type(1).dtype));
    return n.call("fill", {}, {{"shape", shape}, {"value", otherwise}, {"dtype", dtype}});
  }
  if (n.shape(i) == shape) return n.in(i);
  if (broadcast_shape(n.shape(i), shape) != shape)
    throw error("input {} is {} but should stretch to {}", i, to_text(n.shape(i)), to_text(shape));
  return n.call("broadcast", {n.in(i)}, {{"shape", shape}});
}

/// What a norm over the dims from `first` on has taken away and divided by: mean and 1 / deviation.
void give_moments(OnnxNode& n, std::int64_t first, double epsilon) {
  List dims;
  for (std::int64_t d = first; d < std::ssize(n.shape(0)); ++d) dims.push_back(d);
  const auto mean_of = [&](ValueId v) {
    return n.call("reduce_mean", {v}, {{"dims", dims}, {"keep", true}});
  };
  const ValueId mean = mean_of(n.in(0));
  n.give(mean);
  const ValueId variance = mean_of(n.call("square", {n.call("sub", {n.in(0), mean})}));
  n.give(n.call("rsqrt", {n.call("shift", {variance}, {{"value", epsilon}})}));
}

void layer_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  const auto first = n.dim(n.integer("axis", -1), x.size());
  const double epsilon = n.number("epsilon", 1e-5);
  n.integer("stash_type", 1);  // statistics are of the precision or better
  const Shape last(x.begin() + first, x.end());
  const ValueId gamma = stretched_input(n, 1, last, 1), beta = stretched_input(n, 2, last, 0);
  n.give(n.main("layer_norm", {n.in(0), gamma, beta}, {{"epsilon", epsilon}}));
  if (n.gives(1) || n.gives(2)) give_moments(n, first, epsilon);
}

// ---- dropout ----

/// Up to operator set 11 a dropout that was exported is one of training. The mask is what is left of ones.
void dropout(OnnxNode& n) {
  const double attribute_rate = n.number("ratio", 0.5);
  const std::int64_t seed = n.integer("seed", 0);
  const double rate = n.has(1) ? n.number_of(1) : attribute_rate;
  const bool trains = rate != 0 && n.trains(n.opset() < 12 || (n.has(2) && n.number_of(2) != 0));
  const auto left_of = [&](ValueId v) {
    return n.main("dropout", {v, step_count(n.builder())},
                  {{"name", n.name()}, {"rate", rate}, {"seed", seed}});
  };
  if (!trains && rate != 0) n.tell_inactive();
  n.give(!trains ? n.in(0) : left_of(n.in(0)));
  if (!n.gives(1)) return;
  const ValueId ones = n.call(
      "fill", {}, {{"shape", n.shape(0)}, {"value", 1.0}, {"dtype", std::string(name_of(n.type(0).dtype))}});
  const ValueId left = trains ? left_of(ones) : ones;
  n.give(n.call("cast", {left}, {{"to", std::string("bool")}}));
}

}  // namespace

std::vector<Conversion> layers() {
  return {
      {"BatchNormalization", batch_normalization, false}, {"Dropout", dropout},      {"Gemm", gemm, false},
      {"LayerNormalization", layer_normalization, false}, {"MatMul", matmul, false},
  };
}

}  // namespace shardwright::onnx_operators
