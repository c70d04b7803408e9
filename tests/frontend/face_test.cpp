// Face recognition with its classes split over devices: the hits are counted right, and no device ever holds a row of
// logits whole.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/random.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/passes/compile.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

Program program_of(const std::string& name, const std::string& annotations, int devices) {
  Model model = build_model(name);
  add_train_step(model.graph, model.loss, {"sgd", {{"rate", 0.1}}});
  return compile(model.graph,
                 make_plan(model.graph, {.model = name,
                                         .devices = devices,
                                         .constraints = parse_annotations(annotations, "by classes")}));
}

TEST(Face, no_device_holds_a_row_of_logits) {
  constexpr std::int64_t classes = 1000000, devices = 8;
  const Program program =
      program_of("face:classes=1000000,features=1,batch=2,image=32,width=1,backbone=resnet18",
                 R"({"classes.matmul": {"in": [[1, 1], [1, 8]]}})", devices);
  int split = 0;
  for (const Value& v : program.graph.values) {
    const Shape whole = v.global_type().shape;
    for (std::size_t d = 0; d < whole.size(); ++d)
      if (whole[d] == classes) {
        EXPECT_EQ(v.type.shape[d], classes / devices) << v.name;
        ++split;
      }
    EXPECT_LE(element_count(v.type.shape), 2 * classes / devices) << v.name;
  }
  EXPECT_GE(split, 8);  // weights, normed, logits, and the gradients of all
  // All that a device holds during the step would not hold one row.
  EXPECT_LT(program.arena_bytes, classes * static_cast<std::int64_t>(sizeof(float)));
}

TEST(Face, losses_are_pytorchs_and_do_not_depend_on_the_plan) {
  const testing::TrainingRun run{
      .model = "face:classes=64,features=8,batch=8,image=32,width=4,scale=8,backbone=resnet18",
      .file = "face",
      .optimizer = {"momentum", {{"rate", 0.01}, {"momentum", 0.9}}},
      .precision = DType::f64};
  const Constraints by_classes = load_annotations("examples/annotations/face_classes.json");
  const auto alone = testing::run_alone(run);
  const testing::Tolerance tolerance{.losses = 1e-9, .weights = 1e-7};
  testing::expect_losses_of_reference(*alone, run, 1e-7);
  testing::expect_same(testing::run_planned(run, {.devices = 8, .constraints = by_classes}), alone,
                       tolerance);
  testing::expect_same(testing::run_random(run, 4, 1), alone, tolerance);
}

// Norms of 512 features, in f32 where the rest is short. Logits are 64 times a cosine, which changes no rounding.
TEST(Face, norms_are_whole_in_mixed_precision) {
  testing::TrainingRun run{.model = "face:classes=1000,batch=8,backbone=resnet18",
                           .file = "",
                           .optimizer = {"sgd", {{"rate", 0.01}}},
                           .precision = DType::f32,
                           .steps = 1};
  const auto whole = testing::run_alone(run);
  for (const DType brief : {DType::bf16, DType::f16}) {
    run.precision = Precision::mixed(brief);
    const Model model = testing::train_model(run);
    for (const char* name : {"embedding.normed.squares", "embedding.normed.sum", "embedding.normed",
                             "classes.weight", "classes.normed.sum", "classes.normed", "cross_entropy"})
      EXPECT_EQ(model.graph.value(model.graph.find(name)).type.dtype, DType::f32) << name;
    EXPECT_EQ(model.graph.value(model.graph.find("classes.matmul")).type.dtype, brief);
    testing::expect_same(testing::run_alone(run), whole, {.losses = 1e-2, .weights = 1});
  }
}

/// Logits are the product of the input with the unit matrix.
struct Classifier {
  Operator product = matmul("product");
  Parameter weight{"weight", {12, 12}, zeros()};
};

TEST(Face, top1_is_the_share_of_labels_with_the_largest_logit) {
  for (const int devices : {1, 4}) {
    Classifier net;
    if (devices > 1) net.product.shard({{1, 1}, {1, devices}});
    auto forward = [&](Traced x, Traced y) {
      const auto [loss, top1] = CrossEntropyAndTop1{}(net.product(x, net.weight), y);
      return LossAndAux{loss, {top1}};
    };
    const Type inputs{DType::f64, {8, 12}}, labels{DType::i32, {8}};
    TrainStep step(forward, {{"x", inputs}, {"y", labels}}, sgd(0),
                   {.devices = devices, .precision = DType::f64});
    std::vector<double> unit(12 * 12, 0);
    for (std::size_t i = 0; i < 12; ++i) unit[13 * i] = 1;
    step.set_parameter("weight", make_tensor({DType::f64, {12, 12}}, unit));
    std::vector<double> x(8 * 12), y(8);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = RandomStream(5, "x").normal(i);
    double hits = 0, loss = 0;
    for (std::size_t r = 0; r < 8; ++r) {
      const auto row = x.begin() + static_cast<std::ptrdiff_t>(12 * r);
      const auto largest = std::max_element(row, row + 12) - row;
      const auto label = r % 2 ? largest : static_cast<std::ptrdiff_t>(3 * r % 12);
      hits += label == largest;
      y[r] = static_cast<double>(label);
      double sum = 0;
      for (std::ptrdiff_t c = 0; c < 12; ++c) sum += std::exp(row[c]);
      loss += (std::log(sum) - row[label]) / 8;
    }
    ASSERT_LT(hits, 8);
    EXPECT_NEAR(step(make_tensor(inputs, x), make_tensor(labels, y)), loss, 1e-12);
    EXPECT_DOUBLE_EQ(to_doubles(step.aux()[0])[0], hits / 8);
  }
}

}  // namespace
}  // namespace shardwright
