// ONNX operators that divide by a norm: of the last dims, of groups of channels, of neighbouring channels, of a dim.

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/moves.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

void instance_normalization(OnnxNode& n) {
  if (n.shape(0).size() < 3) throw error("of {} needs at least 3 dims", to_text(n.shape(0)));
  n.give(n.main("group_norm", {n.in(0), n.in(1), n.in(2)},
                {{"epsilon", n.number("epsilon", 1e-5)}, {"groups", n.shape(0)[1]}}));
}

/// Up to operator set 20 scale and bias are of a group, and so each of its channels has them.
void group_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t groups = n.integer("num_groups", 0);
  n.integer("stash_type", 1);  // statistics are of the precision or better
  if (x.size() < 3 || groups < 1 || x[1] % groups != 0)
    throw error("attribute 'num_groups={}' does not divide the channels of {}", groups, to_text(x));
  const auto of_channels = [&](std::size_t i) {
    if (n.opset() >= 21 || groups == x[1]) return n.in(i);
    if (n.shape(i) != Shape{groups})
      throw error("input {} is {} but there are {} groups", i, to_text(n.shape(i)), groups);
    return reshaped(n, stretched(n, reshaped(n, n.in(i), {groups, 1}), {groups, x[1] / groups}), {x[1]});
  };
  n.give(n.main("group_norm", {n.in(0), of_channels(1), of_channels(2)},
                {{"epsilon", n.number("epsilon", 1e-5)}, {"groups", groups}}));
}

/// A scale of other dims than those that are normalised comes behind.
void rms_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t first = n.dim(n.integer("axis", -1), x.size());
  n.integer("stash_type", 1);
  const Attributes epsilon{{"epsilon", n.number("epsilon", 1e-5)}};
  const Shape last(x.begin() + first, x.end());
  if (n.shape(1) == last) return n.give(n.main("rms_norm", {n.in(0), n.in(1)}, epsilon));
  const ValueId ones =
      n.call("fill", {}, {{"shape", last}, {"value", 1.0}, {"dtype", std::string(name_of(n.type(0).dtype))}});
  const ValueId y = n.call("mul", {n.main("rms_norm", {n.in(0), ones}, epsilon), n.in(1)});
  if (n.type_of(y).shape != x)
    throw error("a scale of {} does not broadcast to {}", to_text(n.shape(1)), to_text(x));
  n.give(y);
}

/// What is all 0 stays so.
void lp_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t p = n.integer("p", 2), dim = n.dim(n.integer("axis", -1), x.size());
  if (p != 1 && p != 2) throw error("attribute 'p={}' is not supported; it should be 1 or 2", p);
  const ValueId sum = n.call("reduce_sum", {n.call(p == 1 ? "abs" : "square", {n.in(0)})},
                             {{"dims", List{dim}}, {"keep", true}});
  const DType dtype = n.type(0).dtype;
  const ValueId is_zero = n.call("equal", {sum, constant(n.builder(), dtype, 0)});
  const ValueId safe = n.call("where", {is_zero, constant(n.builder(), dtype, 1), sum});
  n.give(n.main("div", {n.in(0), p == 1 ? safe : n.call("sqrt", {safe})}));
}

/// By the mean square of `size` neighbouring channels; those that are not there are 0.
void response_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  const std::int64_t size = n.integer("size", 0);
  if (x.size() < 3 || size < 1 || size > limits::attribute)
    throw error("of size={} and {} does not exist", size, to_text(x));
  const double alpha = n.number("alpha", 1e-4), beta = n.number("beta", 0.75), bias = n.number("bias", 1);
  const std::int64_t rest = element_count(x) / (x[0] * x[1]);
  const ValueId squares = reshaped(n, n.call("square", {n.in(0)}), {x[0], 1, x[1], rest});
  const ValueId mean = n.call(
      "avg_pool2d", {squares},
      {{"count_pads", true}, {"kernel", List{size, 1}}, {"pads", List{(size - 1) / 2, 0, size / 2, 0}}});
  const ValueId base = n.call("shift", {times(n, reshaped(n, mean, x), alpha)}, {{"value", bias}});
  n.give(n.main("mul", {n.in(0), n.call("power", {base}, {{"exponent", -beta}})}));
}

/// Less the mean of `axes`, by their deviation.
void mean_variance_normalization(OnnxNode& n) {
  List dims = n.integers("axes", {0, 2, 3});
  for (std::int64_t& d : dims) d = n.dim(d, n.shape(0).size());
  const Attributes over{{"dims", dims}, {"keep", true}};
  const ValueId centred = n.call("sub", {n.in(0), n.call("reduce_mean", {n.in(0)}, over)});
  const ValueId variance = n.call("reduce_mean", {n.call("square", {centred})}, over);
  const ValueId deviation = n.call("shift", {n.call("sqrt", {variance})}, {{"value", 1e-9}});
  n.give(n.main("div", {centred, deviation}));
}

}  // namespace

std::vector<Conversion> normalizations() {
  return {{"GroupNormalization", group_normalization, false},
          {"InstanceNormalization", instance_normalization, false},
          {"LRN", response_normalization, false},
          {"LpNormalization", lp_normalization},
          {"MeanVarianceNormalization", mean_variance_normalization},
          {"RMSNormalization", rms_normalization, false}};
}

}  // namespace shardwright::onnx_operators
