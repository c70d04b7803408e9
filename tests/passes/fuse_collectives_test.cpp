// Which collectives run as one, in which order, and that nothing else changes.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/frontend/model.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/compile.h"
#include "shardwright/passes/parameter_steps.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "shardwright/verify/verify.h"
#include "tests/support/walk.h"

namespace shardwright {
namespace {

std::string fused(std::string_view text, std::string_view fusion = "auto",
                  const std::map<std::string, int>& numbers = {}) {
  Program p{.graph = parse_program_graph(text)};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  const CommFusion how = with_parameters(parse_comm_fusion(fusion), p.graph, numbers);
  p = fuse_collectives(std::move(p), {redistributor, {}, how});
  verify(p.graph);
  return to_text(p.graph);
}

TEST(FuseCollectives, gathers_together_what_is_ready_together) {
  // %a is gathered with %b, in front of what reads it first; %c is not there yet, %d is large.
  const std::string text = R"(mesh [dp=2]
%a = param f32[2, 4] as [4, 4] [dp, -]
%b = param f32[4] as [8] [dp]
%d = param f32[100000] as [200000] [dp]
%1 = all_gather %a dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%y = exp %1 {} : f32[4, 4] as [4, 4] [-, -]
%2 = all_gather %b dim 0 over dp : f32[8] as [8] [-]
%4 = all_gather %d dim 0 over dp : f32[200000] as [200000] [-]
%c = exp %b {i0: dp} : f32[4] as [8] [dp]
%3 = all_gather %c dim 0 over dp : f32[8] as [8] [-]
%z = add %2, %3 {} : f32[8] as [8] [-]
output %y
output %z
output %4
)";
  EXPECT_EQ(fused(text), R"(mesh [dp=2]
%d = param f32[100000] as [200000] [dp]
%a = param f32[2, 4] as [4, 4] [dp, -]
%b = param f32[4] as [8] [dp]
%1 = all_gather %a dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
+ %2 = all_gather %b dim 0 over dp : f32[8] as [8] [-]
%y = exp %1 {} : f32[4, 4] as [4, 4] [-, -]
%4 = all_gather %d dim 0 over dp : f32[200000] as [200000] [-]
%c = exp %b {i0: dp} : f32[4] as [8] [dp]
%3 = all_gather %c dim 0 over dp : f32[8] as [8] [-]
%z = add %2, %3 {} : f32[8] as [8] [-]
output %y
output %z
output %4
)");
  EXPECT_EQ(fused(text, "none"), text);
  // By size the large one joins: 800,064 bytes.
  EXPECT_NE(fused(text, "size:1").find("+ %4 = all_gather %d"), std::string::npos);
}

TEST(FuseCollectives, keeps_phases_axes_and_chains_of_gathers_apart) {
  const std::string text = R"(mesh [dp=2, tp=2]
%a = param f32[2, 4] as [4, 4] [dp, -]
%b = param f32[2, 4] as [4, 4] [tp, -]
%c = param f32[1, 4] as [4, 4] [dp.tp, -]
%1 = all_gather %a dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%2 = all_gather %b dim 0 over tp : f32[4, 4] as [4, 4] [-, -]
%y = add %1, %2 {} : f32[4, 4] as [4, 4] [-, -]
backward:
%3 = all_gather %c dim 0 over tp : f32[2, 4] as [4, 4] [dp, -]
%4 = all_gather %3 dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%z = add %4, %y {} : f32[4, 4] as [4, 4] [-, -]
output %z
)";
  EXPECT_EQ(fused(text), text);
  EXPECT_EQ(fused(text, "size:1"), text);
}

// Gradients behind accumulators: %dw1 is added up last, so it ends the bucket, though its update stood first; what
// the second bucket waits for is not in the way of the first.
TEST(FuseCollectives, reduces_accumulated_gradients_in_the_order_in_which_they_come) {
  const std::string text = R"(mesh [dp=2]
%x = input f32[2, 4] as [4, 4] [dp, -]
%w1 = param f32[4, 4] as [4, 4] [-, -]
%w2 = param f32[4, 4] as [4, 4] [-, -]
%w3 = param f32[4, 4] as [4, 4] [-, -]
backward:
%g3 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%g2 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%g1 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
update:
%a1 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s1 = add %a1, %g1 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r1 = all_reduce.sum %s1 over dp : f32[4, 4] as [4, 4] [-, -]
%n1 = sgd %w1, %r1 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
%a2 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s2 = add %a2, %g2 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r2 = all_reduce.sum %s2 over dp : f32[4, 4] as [4, 4] [-, -]
%n2 = sgd %w2, %r2 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
%a3 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s3 = add %a3, %g3 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r3 = all_reduce.sum %s3 over dp : f32[4, 4] as [4, 4] [-, -]
%n3 = sgd %w3, %r3 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
update %w1 <- %n1
update %w2 <- %n2
update %w3 <- %n3
)";
  const std::string got = fused(text, "index:1");
  const std::string want = R"(update:
%a3 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s3 = add %a3, %g3 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%a2 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s2 = add %a2, %g2 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r3 = all_reduce.sum %s3 over dp : f32[4, 4] as [4, 4] [-, -]
+ %r2 = all_reduce.sum %s2 over dp : f32[4, 4] as [4, 4] [-, -]
%n2 = sgd %w2, %r2 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
%n3 = sgd %w3, %r3 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
%a1 = accumulator f32[4, 4] as [4, 4] [-, -] sum(dp)
%s1 = add %a1, %g1 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r1 = all_reduce.sum %s1 over dp : f32[4, 4] as [4, 4] [-, -]
%n1 = sgd %w1, %r1 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
update %w1)";
  EXPECT_NE(got.find(want), std::string::npos) << got;
}

// A gradient of two axes is reduced in two steps, and the norm by which all are scaled waits for all: nothing may wait
// for itself.
TEST(FuseCollectives, fuses_no_sum_with_one_that_waits_for_it) {
  const std::string text = R"(mesh [dp=2, tp=2]
%x = input f32[2, 4] as [4, 4] [dp, -]
%w1 = param f32[4, 4] as [4, 4] [-, -]
%w2 = param f32[2, 4] as [4, 4] [tp, -]
backward:
%g1 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%g2 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
update:
%r1 = all_reduce.sum %g1 over dp : f32[4, 4] as [4, 4] [-, -]
%h2 = mul %g2, %r1 {+0: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%r2 = all_reduce.sum %h2 over dp : f32[4, 4] as [4, 4] [-, -]
%n1 = sgd %w1, %r2 (rate=0.1) {} : f32[4, 4] as [4, 4] [-, -]
update %w1 <- %n1
)";
  for (const char* fusion : {"auto", "size:64", "index:7"})
    EXPECT_EQ(fused(text, fusion).find("+ "), std::string::npos) << fused(text, fusion);
}

TEST(FuseCollectives, gathers_new_weights_together_and_reduces_their_gradients_so) {
  const std::string text = R"(mesh [dp=2]
%x = input f32[2, 4] as [4, 4] [dp, -]
%v1 = param f32[4, 4] as [4, 4] [-, -]
%v2 = param f32[4, 4] as [4, 4] [-, -]
backward:
%g2 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
%g1 = matmul %x, %x (transpose_a=true) {k: dp} : f32[4, 4] as [4, 4] [-, -] sum(dp)
update:
%w1 = slice %v1 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%r1 = reduce_scatter %g1 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%n1 = sgd %w1, %r1 (rate=0.1) {i0: dp} : f32[2, 4] as [4, 4] [dp, -]
%w2 = slice %v2 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%r2 = reduce_scatter %g2 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%n2 = sgd %w2, %r2 (rate=0.1) {i0: dp} : f32[2, 4] as [4, 4] [dp, -]
%new1 = all_gather %n1 dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
%new2 = all_gather %n2 dim 0 over dp : f32[4, 4] as [4, 4] [-, -]
update %v1 <- %new1
update %v2 <- %new2
)";
  const std::string sums =
                        "%r2 = reduce_scatter %g2 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]\n"
                        "+ %r1 = reduce_scatter %g1 dim 0 over dp",
                    gathers =
                        "%new2 = all_gather %n2 dim 0 over dp : f32[4, 4] as [4, 4] [-, -]\n"
                        "+ %new1 = all_gather %n1 dim 0 over dp";
  for (const char* fusion : {"auto", "size:1", "reduce_scatter=size:1;all_gather=none"}) {
    const std::string got = fused(text, fusion);
    EXPECT_NE(got.find(sums), std::string::npos) << got;
    EXPECT_EQ(got.find(gathers) != std::string::npos,
              std::string_view(fusion).find("none") == std::string::npos)
        << got;
  }
  EXPECT_EQ(fused(text, "none").find("+ "), std::string::npos);
}

// ---- of whole networks ----

Program program_of(const std::string& model, const std::string& fusion, const PlanRequest& more = {},
                   const OptimizerChoice& optimizer = {"sgd", {{"rate", 0.01}}}) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, optimizer);
  PlanRequest request = more;
  request.parallel = Parallel::data_parallel;
  request.devices = std::max(2, request.devices);
  request.constraints.comm_fusion = parse_comm_fusion(fusion);
  return compile(m.graph, make_plan(m.graph, request));
}

/// The parameters of each bucket of collectives of `kind` in the update, in their order.
std::string buckets(const Program& p, StepKind kind) {
  const std::vector<ValueId> parameters = parameter_steps(p.graph);
  std::string out;
  for (NodeId id : p.graph.node_ids()) {
    const Node& node = p.graph.node(id);
    if (node.op->step != kind || node.phase != Phase::update) continue;
    if (!out.empty()) out += node.is_fused ? " " : " | ";
    const ValueId parameter = parameters[static_cast<std::size_t>(id.index)];
    out += parameter.is_valid() ? p.graph.value(parameter).name : "?";
  }
  return out;
}

struct BucketCase {
  std::string name, fusion, want;
  std::string annotations = "{}";
};
void PrintTo(const BucketCase& c, std::ostream* out) { *out << c.name; }

class Buckets : public ::testing::TestWithParam<BucketCase> {};

// Bytes: dense1 1,605,632 + 2,048, dense2 524,288 + 1,024, dense3 131,072 + 512, dense4 32,768 + 256, dense5 2,600.
TEST_P(Buckets, of_the_ffn) {
  const Program p =
      program_of("ffn", GetParam().fusion, {.constraints = parse_annotations(GetParam().annotations, "")});
  EXPECT_EQ(buckets(p, StepKind::all_reduce), GetParam().want);
  EXPECT_EQ(testing::Walk(p).run(), "");
}

const std::string each =
    "dense5.bias | dense5.weight | dense4.bias | dense4.weight | dense3.bias | dense3.weight | dense2.bias | "
    "dense2.weight | dense1.bias | dense1.weight";
const std::string but_the_last =
    "dense5.bias dense5.weight dense4.bias dense4.weight dense3.bias dense3.weight dense2.bias dense2.weight "
    "dense1.bias";

INSTANTIATE_TEST_SUITE_P(
    FuseCollectives, Buckets,
    ::testing::Values(
        BucketCase{"none", "none", each}, BucketCase{"size_0", "size:0", each},
        BucketCase{"size_1", "size:1", but_the_last + " | dense1.weight"},
        BucketCase{"size_2", "size:2", but_the_last + " | dense1.weight"},
        BucketCase{"size_3", "size:3", but_the_last + " dense1.weight"},
        BucketCase{"index", "index:1,3",
                   "dense5.bias dense5.weight | dense4.bias dense4.weight | dense3.bias dense3.weight "
                   "dense2.bias dense2.weight dense1.bias dense1.weight"},
        BucketCase{"index_of_the_first", "index:0",
                   "dense5.bias | " + but_the_last.substr(12) + " dense1.weight"},
        BucketCase{"index_beyond", "index:9,12", but_the_last + " dense1.weight"},
        BucketCase{"index_of_none", "index:12", but_the_last + " dense1.weight"},
        // From the end: dense1.weight takes more than half as long as starting it, dense2.weight more than twice.
        BucketCase{
            "auto", "auto",
            "dense5.bias dense5.weight dense4.bias dense4.weight dense3.bias dense3.weight dense2.bias | "
            "dense2.weight dense1.bias | dense1.weight"},
        BucketCase{"other_kinds", "all_gather=size:9;reduce_scatter=size:9;all_reduce=none", each},
        BucketCase{"numbers", "none",
                   "dense5.bias dense5.weight | dense4.bias | dense4.weight | dense3.weight | dense3.bias "
                   "dense2.bias dense2.weight | dense1.bias | dense1.weight",
                   R"({"dense5": {"comm_fusion": 3}, "dense3.bias": {"comm_fusion": 2},
                       "dense2": {"comm_fusion": 2}})"},
        BucketCase{
            "numbers_beside_size", "size:64",
            "dense5.weight dense2.weight | dense5.bias dense4.bias dense4.weight dense3.bias dense3.weight "
            "dense2.bias dense1.bias dense1.weight",
            R"({"dense5.weight": {"comm_fusion": 7}, "dense2.weight": {"comm_fusion": 7}})"}),
    [](const auto& c) { return c.param.name; });

// In every mode the transfers of all buckets but the last start within the backward.
TEST(FuseCollectives, starts_a_bucket_when_its_last_gradient_is_ready) {
  const Program p = program_of("ffn", "index:1,3");
  std::vector<std::string> starts;
  for (NodeId id : p.graph.node_ids()) {
    const Node& node = p.graph.node(id);
    if (node.op->step != StepKind::all_reduce || node.phase != Phase::update || node.is_fused) continue;
    const NodeId start = p.starts[static_cast<std::size_t>(id.index)];
    // The node above it makes the last gradient of the bucket.
    NodeId last = id;
    while (p.graph.node({last.index + 1}).is_fused) ++last.index;
    NodeId made = p.graph.value(p.graph.node(last).operands.front()).producer;
    EXPECT_EQ(start.index, made.index + 1) << p.graph.name_of(id);
    starts.push_back(std::string(name_of(p.graph.node(start).phase)));
  }
  EXPECT_EQ(starts, (std::vector<std::string>{"backward", "backward", "update"}));
}

// Each is waited for where the one after the next is ready, with what adds it up behind it; the last at the end. %n is
// read by the backward, so it stands where it stood.
TEST(FuseCollectives, reduces_shares_of_gradients_while_the_backward_goes_on) {
  const std::string gradient =
      R"(%g{0} = matmul %x, %x (transpose_a=true) {{k: dp}} : f32[4, 4] as [4, 4] [-, -] sum(dp)
)";
  const std::string sum = R"(%r{0} = reduce_scatter %g{0} dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%s{0} = add %a{0}, %r{0} {{i0: dp}} : f32[2, 4] as [4, 4] [dp, -]
)";
  const std::string read = R"(%n = reduce_scatter %g0 dim 0 over dp : f32[2, 4] as [4, 4] [dp, -]
%x2 = exp %n {i0: dp} : f32[2, 4] as [4, 4] [dp, -]
)";
  std::string head = "mesh [dp=2]\n%x = input f32[2, 4] as [4, 4] [dp, -]\n", updates, tail;
  const auto of = [](const std::string& text, int n) { return fmt::format(fmt::runtime(text), n); };
  for (int n = 0; n < 5; ++n) head += of("%w{0} = param f32[2, 4] as [4, 4] [dp, -]\n", n);
  head += "backward:\n";
  for (int n = 1; n < 5; ++n) head += of("%a{0} = accumulator f32[2, 4] as [4, 4] [dp, -]\n", n);
  for (int n = 1; n < 5; ++n) {
    updates += of("%n{0} = sgd %w{0}, %s{0} (rate=0.1) {{i0: dp}} : f32[2, 4] as [4, 4] [dp, -]\n", n);
    tail += of("update %w{0} <- %n{0}\nupdate %a{0} <- %s{0}\n", n);
  }
  tail = "update:\n%n0 = sgd %w0, %n (rate=0.1) {i0: dp} : f32[2, 4] as [4, 4] [dp, -]\n" + updates +
         "output %x2\nupdate %w0 <- %n0\n" + tail;
  Program p{.graph = parse_program_graph(head + of(gradient, 0) + read + of(gradient, 4) + of(sum, 4) +
                                         of(gradient, 3) + of(sum, 3) + of(gradient, 2) + of(sum, 2) +
                                         of(gradient, 1) + of(sum, 1) + tail),
            .micro_batches = 2};
  Redistributor redistributor(p.graph.meshes[0], {.even_only = true});
  p = fuse_collectives(std::move(p), {redistributor, {}, parse_comm_fusion("none")});
  std::string order;
  for (const Node& node : p.graph.nodes)
    if (node.phase == Phase::backward && node.op->kind != OpKind::accumulator)
      order += " " + p.graph.value(node.results.front()).name;
  EXPECT_EQ(order, " g0 n x2 g4 g3 g2 r4 s4 g1 r3 s3 r2 r1 s2 s1");
}

// What is exposed falls against one bucket at the end of the backward, and against all collectives one by one.
TEST(FuseCollectives, exposes_less_by_itself_than_one_bucket_or_none) {
  for (const char* cluster : {"a100-80g:8", "a100-80g:2x8"}) {
    const Cluster c = cluster_called(cluster);
    const auto exposed = [&](const std::string& fusion) {
      return estimate(program_of("ffn:batch=64", fusion, {.devices = c.devices(), .cluster = c}), c)
          .exposed_communication_seconds;
    };
    const double by_itself = exposed("auto");
    EXPECT_LT(by_itself, 0.8 * exposed("size:64")) << cluster;
    EXPECT_LT(by_itself, 0.8 * exposed("none")) << cluster;
  }
}

/// Of the bucket that takes most, of several collectives.
std::int64_t most_in_a_bucket(const Program& p) {
  std::int64_t out = 0;
  for (const Fusion& f : fusions_of(p.graph)) {
    std::int64_t bytes = 0;
    if (f.size() < 2 || !is_transfer(p.graph.node(f.begin))) continue;
    for (NodeId id = f.begin; id < f.end; ++id.index) {
      const Node& node = p.graph.node(id);
      bytes += std::max(p.graph.value(node.operands.front()).type.bytes(),
                        p.graph.value(node.results.front()).type.bytes());
    }
    out = std::max(out, bytes);
  }
  return out;
}

/// Of thousands of ranks starting takes as long as moving gigabytes.
TEST(FuseCollectives, keeps_buckets_small_beside_a_devices_memory) {
  for (const int zero : {1, 3}) {
    const auto most = [&](std::int64_t memory) {
      Cluster c = cluster_called("a100-80g:4096");
      c.memory_bytes = memory;
      return most_in_a_bucket(
          program_of("llama:layers=8,hidden=2048,heads=16,seq=128,batch=4096", "auto",
                     {.devices = c.devices(), .cluster = c, .constraints = {.zero = zero}}));
    };
    EXPECT_GT(most(std::int64_t{80} << 30), std::int64_t{256} << 20) << zero;
    EXPECT_LE(most(std::int64_t{8} << 30), std::int64_t{256} << 20) << zero;
    EXPECT_GT(most(std::int64_t{8} << 30), std::int64_t{64} << 20) << zero;
  }
}

/// An all_reduce over many ranks goes round them as a reduce_scatter and an all_gather do, and as these it is started once for all of
/// a bucket.
TEST(FuseCollectives, starts_sums_over_many_ranks_together) {
  const auto seconds = [](int zero) {
    const Cluster c = cluster_called("a100-80g:64");
    return estimate(program_of("llama:layers=16,hidden=1024,heads=16,seq=512,batch=256", "auto",
                               {.devices = c.devices(), .cluster = c, .constraints = {.zero = zero}},
                               {"adamw", {{"rate", 0.01}}}),
                    c)
        .communication_seconds;
  };
  EXPECT_LT(seconds(0), 1.5 * seconds(1));
}

/// What is sent for the norm of all stages' gradients is sent before the answer is waited for.
TEST(FuseCollectives, fuses_in_updates_that_wait_for_other_stages) {
  Model m = build_model("ffn:widths=64-64-64-64-10,batch=16");
  OptimizerChoice optimizer{"adam", {{"rate", 0.01}}};
  optimizer.clip_norm = 1.0;
  add_train_step(m.graph, m.loss, optimizer);
  const Pipeline pipeline = compile_pipeline(
      m.graph, make_plan(m.graph, {.model = "ffn",
                                   .devices = 4,
                                   .parallel = Parallel::data_parallel,
                                   .constraints = constraints_of({.pipelining = {.stages = 2}})}));
  for (const Program& p : pipeline.stages)
    EXPECT_TRUE(std::any_of(p.graph.nodes.begin(), p.graph.nodes.end(),
                            [](const Node& n) { return n.phase == Phase::update && n.is_fused; }));
  EXPECT_NO_THROW(prove(pipeline));
}

}  // namespace
}  // namespace shardwright
