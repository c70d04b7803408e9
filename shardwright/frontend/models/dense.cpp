// Dense networks of the seeds: the FFN of seed 000, its three-layer network (seed 001 trains the same without
// bias), and chains of products without activation.

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/modules/losses.h"

namespace shardwright::models {
namespace {

struct DenseStack {
  std::string widths;
  std::string loss;
  bool bias = true;
};

/// Dense layers with relu between; labels are classes for cross entropy, else numbers of the last shape.
Model build_stack(const ModelArguments& arguments, const DenseStack& stack) {
  const std::vector<std::int64_t> widths = arguments.widths(stack.widths);
  const std::int64_t batch = arguments.integer("batch", 32);
  const std::string loss = arguments.loss.empty() ? stack.loss : arguments.loss;
  Trace trace(arguments.precision);
  Traced x = trace.input("input", {trace.precision(), {batch, widths.front()}});
  const Labels labels = labels_of(loss, {trace.kept_precision(), {batch, widths.back()}});
  const Traced label = trace.input("label", labels.type);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    x = Dense(fmt::format("dense{}", i), widths[i - 1], widths[i], {.bias = stack.bias})(x);
    if (i + 1 < widths.size()) x = relu(fmt::format("relu{}", i))(x);
  }
  Model model = finish_model(trace, loss_called(loss, x, label), x);
  model.labels = labels;
  model.wants_mnist = widths.front() == 784 && (widths.back() == 10 || widths.back() == 1);
  return model;
}

Model build_chain(const ModelArguments& arguments) {
  const std::vector<std::int64_t> widths = arguments.widths("24-32-40");
  const std::int64_t batch = arguments.integer("batch", 16);
  const std::string loss = arguments.loss.empty() ? "mean_squared_error" : arguments.loss;
  Trace trace(arguments.precision);
  Traced x = trace.input("input", {trace.precision(), {batch, widths.front()}});
  const Labels labels = labels_of(loss, {trace.kept_precision(), {batch, widths.back()}});
  const Traced label = trace.input("label", labels.type);
  for (std::size_t i = 1; i < widths.size(); ++i) {
    const Parameter weight{fmt::format("w{}", i), {widths[i - 1], widths[i]}, normal(0.1)};
    x = matmul(fmt::format("matmul{}", i))(x, weight);
  }
  Model model = finish_model(trace, loss_called(loss, x, label), x);
  model.labels = labels;
  return model;
}

ModelDef stack(std::string name, std::string doc, const DenseStack& s) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .keys = {{"batch", "32"}, {"widths", s.widths}},
          .build = [s](const ModelArguments& a) { return build_stack(a, s); }};
}

}  // namespace

std::vector<ModelDef> dense() {
  return {stack("ffn", "a feed-forward network: dense layers with bias, relu between, cross entropy",
                {.widths = "784-512-256-128-64-10", .loss = "cross_entropy"}),
          stack("three_layer", "three dense layers without bias, cross entropy",
                {.widths = "784-512-512-10", .loss = "cross_entropy", .bias = false}),
          stack("three_layer_mae", "three dense layers, mean absolute error",
                {.widths = "784-512-512-1", .loss = "mean_absolute_error"}),
          {.name = "matmul_chain",
           .doc = "matrix products in a row without activation, mean squared error",
           .keys = {{"batch", "16"}, {"widths", "24-32-40"}},
           .build = build_chain}};
}

}  // namespace shardwright::models
