// ONNX operators that networks are made of: products, convolutions, pooling, norms, dropout.

#include <algorithm>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/ops/calls.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

ValueId reshaped(OnnxNode& n, ValueId x, const Shape& shape) {
  return n.type_of(x).shape == shape ? x : n.call("reshape", {x}, {{"shape", shape}});
}

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

// ---- windows ----

/// The geometry of a node whose kernel slides over all dims behind the channels: one or two, and one is made two.
struct Window {
  List kernel, strides, dilations, pads;  // pads: all before, then all after

  Window(const OnnxNode& n, const Shape& x, List of_kernel) : kernel(std::move(of_kernel)) {
    const std::size_t dims = x.size() < 2 ? 0 : x.size() - 2;
    if (dims != 1 && dims != 2)
      throw error("of {} is not supported; it has one or two dims behind the channels", to_text(x));
    strides = n.integers("strides", List(dims, 1));
    dilations = n.integers("dilations", List(dims, 1));
    pads = n.integers("pads", List(2 * dims, 0));
    if (kernel.size() != dims || strides.size() != dims || dilations.size() != dims ||
        pads.size() != 2 * dims)
      throw error("kernel, strides, dilations and pads should be of {} dims", dims);
    for (const List* list : {&kernel, &strides, &dilations, &pads})
      for (std::int64_t v : *list)
        if (v < (list == &pads ? 0 : 1) || v > limits::attribute)
          throw error("a kernel size, stride, dilation or pad of {} is not supported", v);
    place(n.text("auto_pad", "NOTSET"), x);
    check_whole(n.integer("ceil_mode", 0) != 0, x);
  }

  void make_two() {
    if (kernel.size() == 2) return;
    for (List* list : {&kernel, &strides, &dilations}) list->push_back(1);
    pads = {pads[0], 0, pads[1], 0};
  }

  Attributes attributes(bool has_kernel) const {
    Attributes out;
    if (has_kernel) out.set("kernel", kernel);
    const auto set_unless = [&](std::int64_t usual, const char* name, const List& list) {
      if (std::ranges::count(list, usual) != std::ssize(list)) out.set(name, list);
    };
    set_unless(1, "strides", strides);
    set_unless(1, "dilations", dilations);
    set_unless(0, "pads", pads);
    return out;
  }

 private:
  std::int64_t reach(std::size_t d) const { return (kernel[d] - 1) * dilations[d] + 1; }

  void place(const std::string& auto_pad, const Shape& x) {
    if (auto_pad == "NOTSET") return;
    if (auto_pad != "VALID" && auto_pad != "SAME_UPPER" && auto_pad != "SAME_LOWER")
      throw error("attribute 'auto_pad={}' is not supported", printable(auto_pad));
    std::ranges::fill(pads, 0);
    if (auto_pad == "VALID") return;
    for (std::size_t d = 0; d < kernel.size(); ++d) {
      const std::int64_t out = (x[2 + d] + strides[d] - 1) / strides[d];
      const std::int64_t all = std::max<std::int64_t>((out - 1) * strides[d] + reach(d) - x[2 + d], 0);
      pads[d] = auto_pad == "SAME_UPPER" ? all / 2 : all - all / 2;
      pads[kernel.size() + d] = all - pads[d];
    }
  }

  /// With ceil_mode a window may begin where there is not all of it left.
  void check_whole(bool rounds_up, const Shape& x) const {
    for (std::size_t d = 0; rounds_up && d < kernel.size(); ++d)
      if ((x[2 + d] + pads[d] + pads[kernel.size() + d] - reach(d)) % strides[d] != 0)
        throw error("attribute 'ceil_mode=1' is not supported where windows do not fit {}", to_text(x));
  }
};

/// [b, c, l] as [b, c, l, 1], and back.
ValueId with_two(OnnxNode& n, ValueId x) {
  Shape shape = n.type_of(x).shape;
  if (shape.size() == 3) shape.push_back(1);
  return reshaped(n, x, shape);
}
ValueId with_dims(OnnxNode& n, ValueId y, std::size_t rank) {
  Shape shape = n.type_of(y).shape;
  shape.resize(rank);
  return reshaped(n, y, shape);
}

/// A value per channel, beside x of `rank` dims.
ValueId per_channel(OnnxNode& n, ValueId v, std::size_t rank) {
  Shape shape(rank - 1, 1);
  shape[0] = element_count(n.type_of(v).shape);
  return reshaped(n, v, shape);
}

void conv(OnnxNode& n) {
  const Shape &x = n.shape(0), &w = n.shape(1);
  if (w.size() != x.size()) throw error("of {} by a weight of {} does not exist", to_text(x), to_text(w));
  const List kernel(w.begin() + std::min<std::ptrdiff_t>(2, static_cast<std::ptrdiff_t>(w.size())), w.end());
  if (n.integers("kernel_shape", kernel) != kernel)
    throw error("kernel_shape {} is not that of the weight {}", to_text(n.integers("kernel_shape")),
                to_text(w));
  Window window(n, x, kernel);
  window.make_two();
  Attributes attributes = window.attributes(false);
  if (const std::int64_t groups = n.integer("group", 1); groups != 1) attributes.set("groups", groups);
  ValueId y = n.main("conv2d", {with_two(n, n.in(0)), with_two(n, n.in(1))}, std::move(attributes));
  y = with_dims(n, y, x.size());
  n.give(n.has(2) ? n.call("add", {y, per_channel(n, n.in(2), x.size())}) : y);
}

void pool(OnnxNode& n, std::string_view op, Attributes more) {
  const std::size_t rank = n.shape(0).size();
  Window window(n, n.shape(0), n.integers("kernel_shape"));
  window.make_two();
  for (const auto& [name, value] : window.attributes(true)) more.set(name, value);
  n.give(with_dims(n, n.main(op, {with_two(n, n.in(0))}, std::move(more)), rank));
}

void max_pool(OnnxNode& n) {
  n.integer("storage_order", 0);  // of the indices, which are not given
  pool(n, "max_pool2d", {});
}

void average_pool(OnnxNode& n) {
  pool(n, "avg_pool2d", {{"count_pads", n.integer("count_include_pad", 0) != 0}});
}

void pool_all(OnnxNode& n, std::string_view op) {
  List dims;
  for (std::size_t d = 2; d < n.shape(0).size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  n.give(dims.empty() ? n.in(0) : n.main(op, {n.in(0)}, {{"dims", dims}, {"keep", true}}));
}

void global_average_pool(OnnxNode& n) { pool_all(n, "reduce_mean"); }
void global_max_pool(OnnxNode& n) { pool_all(n, "reduce_max"); }

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

void instance_normalization(OnnxNode& n) {
  if (n.shape(0).size() < 3) throw error("of {} needs at least 3 dims", to_text(n.shape(0)));
  n.give(n.main("group_norm", {n.in(0), n.in(1), n.in(2)},
                {{"epsilon", n.number("epsilon", 1e-5)}, {"groups", n.shape(0)[1]}}));
}

/// Input `i`, stretched to `shape`; `otherwise` everywhere if it is left out.
ValueId stretched(OnnxNode& n, std::size_t i, const Shape& shape, double otherwise) {
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
  const ValueId gamma = stretched(n, 1, last, 1), beta = stretched(n, 2, last, 0);
  n.give(n.main("layer_norm", {n.in(0), gamma, beta}, {{"epsilon", epsilon}}));
  if (n.gives(1) || n.gives(2)) give_moments(n, first, epsilon);
}

/// Up to operator set 20 scale and bias are those of groups, then of channels.
void group_normalization(OnnxNode& n) {
  const Shape x = n.shape(0);
  if (x.size() < 3) throw error("of {} needs at least 3 dims", to_text(x));
  const std::int64_t groups = n.integer("num_groups", 0), channels = x[1];
  if (groups < 1 || channels % groups != 0)
    throw error("num_groups={} does not divide {} channels", groups, channels);
  n.integer("stash_type", 1);
  const auto of_channels = [&](std::size_t i) {
    if (n.opset() >= 21 || groups == channels) return n.in(i);
    const ValueId one = n.call("reshape", {n.in(i)}, {{"shape", Shape{groups, 1}}});
    const ValueId all = n.call("broadcast", {one}, {{"shape", Shape{groups, channels / groups}}});
    return n.call("reshape", {all}, {{"shape", Shape{channels}}});
  };
  const ValueId gamma = of_channels(1), beta = of_channels(2);
  n.give(n.main("group_norm", {n.in(0), gamma, beta},
                {{"epsilon", n.number("epsilon", 1e-5)}, {"groups", groups}}));
}

/// (x - mean) / deviation, of which 1e-9 keeps it from 0.
void mean_variance_normalization(OnnxNode& n) {
  List dims = n.integers("axes", {0, 2, 3});
  for (std::int64_t& d : dims) d = n.dim(d, n.shape(0).size());
  const auto mean_of = [&](ValueId v) {
    return n.call("reduce_mean", {v}, {{"dims", dims}, {"keep", true}});
  };
  const ValueId off = n.call("sub", {n.in(0), mean_of(n.in(0))});
  const ValueId deviation = n.call("sqrt", {mean_of(n.call("square", {off}))});
  n.give(n.main("div", {off, n.call("shift", {deviation}, {{"value", 1e-9}})}));
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
  return {{"AveragePool", average_pool, false},
          {"BatchNormalization", batch_normalization, false},
          {"Conv", conv, false},
          {"Dropout", dropout},
          {"Gemm", gemm, false},
          {"GlobalAveragePool", global_average_pool, false},
          {"GlobalMaxPool", global_max_pool, false},
          {"GroupNormalization", group_normalization, false},
          {"InstanceNormalization", instance_normalization, false},
          {"LayerNormalization", layer_normalization, false},
          {"MatMul", matmul, false},
          {"MaxPool", max_pool, false},
          {"MeanVarianceNormalization", mean_variance_normalization, false}};
}

}  // namespace shardwright::onnx_operators
