#include "shardwright/frontend/mixed_precision.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>

#include "shardwright/cost/compute.h"
#include "shardwright/frontend/train_step.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/ops/calls.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

const char* const decoder = "llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=32,vocab=16,seq=8,batch=4";

const std::vector<std::string>& networks() {
  static const std::vector<std::string> names{
      "ffn:batch=8,widths=8-6-4", decoder, "gpt:layers=1,hidden=8,heads=2,vocab=8,seq=4,batch=2",
      "resnet18:image=32,batch=2,classes=4", "matmul_chain:widths=4-4-4,batch=4"};
  return names;
}

Graph step_of(const std::string& model, const Precision& precision) {
  Model m = build_model(model, {.global_batch = {}, .precision = precision, .loss = "", .micro_batches = 1});
  add_train_step(m.graph, m.loss, {});
  return std::move(m.graph);
}

TEST(ShortProducts, all_products_are_short_and_nothing_else_is) {
  for (const std::string& model : networks()) {
    const Graph graph = step_of(model, Precision::products_in(DType::bf16));
    EXPECT_NO_THROW(verify(graph)) << model;
    int products = 0;
    for (NodeId id : graph.node_ids()) {
      const Node& node = graph.node(id);
      if (node.op->kind != OpKind::compute || node.op == &cast_op() || node.op->optimizer) continue;
      // What only moves elements between a product and a cast may be short.
      const bool is_product = work_kind(rule_of(graph, node)) != WorkKind::streaming;
      products += is_product;
      if (!is_product && (node.op->is_alias || node.phase != Phase::forward)) continue;
      for (ValueId v : node.operands)
        if (is_floating(graph.value(v).type.dtype)) {
          EXPECT_EQ(graph.value(v).type.dtype == DType::bf16, is_product)
              << model << ": " << graph.name_of(id) << " reads " << graph.value(v).name;
        }
    }
    EXPECT_GE(products, 5) << model;
  }
}

TEST(ShortProducts, parameters_that_other_operators_read_are_whole) {
  const Graph graph = step_of("ffn:batch=8,widths=8-6-4", Precision::products_in(DType::f16));
  EXPECT_EQ(to_text(graph.value(graph.find("dense1.weight")).type), "f16[8, 6]");
  EXPECT_EQ(to_text(graph.value(graph.find("dense1.weight.master")).type), "f32[8, 6]");
  EXPECT_EQ(to_text(graph.value(graph.find("dense1.bias")).type), "f32[6]");
}

/// One weight, read by a product and by a sum: it stays whole, and the product reads a cast of it, which is made once.
TEST(ShortProducts, a_parameter_of_both_is_cast) {
  const Graph before = parse_graph(R"(
%x = input f32[4, 4]
%w = param f32[4, 4]
%y = matmul %x, %w
%z = matmul %y, %w
%s = add %z, %w
%loss = reduce_mean %s
output %loss
)");
  EXPECT_EQ(to_text(with_short_products(before, DType::f32, DType::bf16)), R"(%x = input f32[4, 4]
%w = param f32[4, 4]
%x.bf16 = cast %x (to=bf16) : bf16[4, 4]
%w.bf16 = cast %w (to=bf16) : bf16[4, 4]
%y = matmul %x.bf16, %w.bf16 : bf16[4, 4]
%z = matmul %y, %w.bf16 : bf16[4, 4]
%z.f32 = cast %z (to=f32) : f32[4, 4]
%s = add %z.f32, %w : f32[4, 4]
%loss = reduce_mean %s : f32[]
output %loss
)");
}

// Only what is behind the last product is the loss's: %r is also in front of one. Labels and parameters of the loss are
// whole; %top is none of its nodes.
TEST(FullLoss, is_what_lies_behind_the_last_products) {
  const Graph before = parse_graph(R"(
%x = input bf16[4, 4]
%label = input bf16[4, 4]
%w = param bf16[4, 4] (master=f32)
%b = param bf16[4] (master=f32)
%r = relu %x
%y = matmul %r, %w
%z = add %y, %b
%s = add %z, %r
%half = fill (dtype=bf16, shape=[], value=0.1)
%t = mul %s, %half
%d = sub %t, %label
%loss = reduce_mean %d
%top = argmax %z (dim=1)
output %loss
output %s
output %top
)");
  EXPECT_EQ(to_text(with_full_loss(before, DType::bf16, DType::f32)), R"(%x = input bf16[4, 4]
%label = input f32[4, 4]
%w = param bf16[4, 4] (master=f32)
%b = param f32[4]
%r = relu %x : bf16[4, 4]
%y = matmul %r, %w : bf16[4, 4]
%y.f32 = cast %y (to=f32) : f32[4, 4]
%z = add %y.f32, %b : f32[4, 4]
%r.f32 = cast %r (to=f32) : f32[4, 4]
%s = add %z, %r.f32 : f32[4, 4]
%half = fill (dtype=f32, shape=[], value=0.1) : f32[]
%t = mul %s, %half : f32[4, 4]
%d = sub %t, %label : f32[4, 4]
%loss = reduce_mean %d : f32[]
%z.bf16 = cast %z (to=bf16) : bf16[4, 4]
%top = argmax %z.bf16 (dim=1) : i64[4]
output %loss
output %s
output %top
)");
}

// Casts that a loss has itself are its beginning; what they make is there without them.
TEST(FullLoss, goes_through_casts_of_its_own) {
  const Graph before = parse_graph(R"(
%x = input bf16[4, 4]
%w = param bf16[4, 4] (master=f32)
%y = matmul %x, %w
%z = relu %y
%1 = cast %z (to=f32)
%2 = cast %1 (to=bf16)
%s = add %2, %z
%loss = reduce_mean %s
output %loss
)");
  EXPECT_EQ(to_text(with_full_loss(before, DType::bf16, DType::f32)), R"(%x = input bf16[4, 4]
%w = param bf16[4, 4] (master=f32)
%y = matmul %x, %w : bf16[4, 4]
%y.f32 = cast %y (to=f32) : f32[4, 4]
%z = relu %y.f32 : f32[4, 4]
%s = add %z, %z : f32[4, 4]
%loss = reduce_mean %s : f32[]
output %loss
)");
}

// A cross entropy reads short logits and gives whole terms: no long copy of the logits is made.
TEST(FullLoss, leaves_logits_short_where_the_loss_takes_them_so) {
  Model m = build_model(
      decoder,
      {.global_batch = {}, .precision = Precision::mixed(DType::bf16), .loss = "", .micro_batches = 1});
  const Value& terms = m.graph.value(m.graph.find("cross_entropy"));
  EXPECT_EQ(terms.type.dtype, DType::f32);
  EXPECT_EQ(m.graph.value(m.graph.node(terms.producer).operands[0]).type.dtype, DType::bf16);
}

/// A loss that a user writes: 8,192 squares of 9 are more than f16 can hold.
TEST(FullLoss, of_a_function_is_whole) {
  const Operator product = matmul("product");
  const Parameter weight{"weight", {4, 64}, ones()};
  const auto forward = [&](Traced x, Traced label) {
    Trace& trace = *x.trace;
    const Traced squares = trace.call("square", {trace.call("sub", {product(x, weight), label})});
    const Traced sum = trace.call("reduce_sum", {squares});
    return LossAndAux{trace.call("scale", {sum}, {{"factor", 0x1p-13}})};
  };
  const auto loss_in = [&](const Precision& precision) {
    const Type of_x{precision.compute, {128, 4}}, of_label{precision.compute, {128, 64}};
    TrainStep step(forward, {{"x", of_x}, {"label", of_label}}, sgd(0),
                   {.devices = 2, .precision = precision});
    return step(make_tensor(of_x, std::vector<double>(128 * 4, 0.7509765625)),  // 769 / 1024
                make_tensor({precision.kept(), of_label.shape}, std::vector<double>(128 * 64, 0.0)));
  };
  const double whole = loss_in(DType::f32);
  EXPECT_NEAR(loss_in(Precision::mixed(DType::f16)), whole, 2e-3 * whole);
  EXPECT_NEAR(loss_in(Precision::mixed(DType::bf16)), whole, 1e-2 * whole);
  EXPECT_FALSE(std::isfinite(loss_in(DType::f16)));
}

TEST(ShortProducts, a_graph_tells_its_precision) {
  for (const char* name :
       {"f32", "f64", "bf16", "fp16", "products-bf16", "products-fp16", "pure-bf16", "pure-fp16"})
    for (const std::string& model : networks()) {
      const Precision precision = *precision_called(name);
      Model m =
          build_model(model, {.global_batch = {}, .precision = precision, .loss = "", .micro_batches = 1});
      EXPECT_EQ(to_text(precision_of(m.graph, m.loss)), name) << model;
    }
}

/// Plans are of one precision: those of another do not fit.
TEST(ShortProducts, fingerprints_tell_precisions_apart) {
  for (const std::string& model : networks()) {
    std::set<std::string> fingerprints;
    const std::vector<const char*> names{"f32",           "bf16",      "fp16",     "products-bf16",
                                         "products-fp16", "pure-bf16", "pure-fp16"};
    for (const char* name : names)
      fingerprints.insert(fingerprint_of(step_of(model, *precision_called(name))));
    EXPECT_EQ(fingerprints.size(), names.size()) << model;
  }
}

class TrainedShortProducts : public ::testing::TestWithParam<std::string> {};

TEST_P(TrainedShortProducts, follow_f32_and_no_plan_changes_that) {
  testing::TrainingRun run{.model = GetParam(),
                           .file = "",
                           .optimizer = {"momentum", {{"rate", 0.05}, {"momentum", 0.5}}},
                           .precision = {},
                           .steps = 10};
  const auto full = testing::run_alone(run);
  run.precision = Precision::products_in(DType::bf16);
  const auto alone = testing::run_alone(run);
  testing::expect_same(alone, full, {.losses = 1e-2, .weights = 5e-2});
  EXPECT_NE(alone->losses, full->losses);  // something is rounded
  for (int devices : {2, 4}) {
    testing::expect_same(testing::run_planned(run, {.devices = devices, .parallel = Parallel::data_parallel}),
                         alone, {.losses = 1e-3, .weights = 2e-2});
    testing::expect_same(testing::run_planned(run, {.devices = devices}), alone,
                         {.losses = 1e-3, .weights = 2e-2});
    testing::expect_same(
        testing::run_planned(
            run, {.devices = devices,
                  .parallel = Parallel::data_parallel,
                  .constraints = constraints_of({.optimizer_parallel = {.level = 3, .threshold = 0}})}),
        alone, {.losses = 1e-3, .weights = 2e-2});
  }
}

TEST_P(TrainedShortProducts, random_plans_and_reductions_in_the_short_type_stay_near_one_device) {
  testing::TrainingRun run{.model = GetParam(),
                           .file = "",
                           .optimizer = {"momentum", {{"rate", 0.05}, {"momentum", 0.5}}},
                           .precision = Precision::products_in(DType::bf16),
                           .steps = 10};
  const auto alone = testing::run_alone(run);
  const testing::Tolerance near{.losses = 1e-3, .weights = 2e-2};
  for (std::uint64_t seed : {1, 2, 3}) {
    testing::expect_same(testing::run_random(run, 4, seed), alone, near);
    testing::expect_same(testing::run_random_pipeline(run, 4, 2, seed), alone, near);
  }
  for (const Precision& precision : {run.precision, Precision::mixed(DType::bf16)}) {
    run.precision = precision;
    run.optimizer.reduces_short = false;
    const auto full = testing::run_alone(run);
    run.optimizer.reduces_short = true;
    testing::expect_same(testing::run_planned(run, {.devices = 4, .parallel = Parallel::data_parallel}), full,
                         near);
  }
}

INSTANTIATE_TEST_SUITE_P(EndToEnd, TrainedShortProducts,
                         ::testing::Values("ffn:batch=8,widths=8-6-4", decoder));

}  // namespace
}  // namespace shardwright
