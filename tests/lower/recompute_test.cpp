// What recompute makes of a graph: which values are dropped, where copies stand, what is kept and in which layout, and
// what a program then keeps in memory. That training is the same is shown by end_to_end/recompute_test.cpp.

#include "shardwright/lower/recompute.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/explain/explain.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/graph/verify.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/complete.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"
#include "tests/support/transformer.h"
#include "tests/support/walk.h"

namespace shardwright {
namespace {

const char* const llama = "llama:layers=8,hidden=32,heads=4,ffn=48,vocab=32,seq=16,batch=4";

struct Training {
  Graph graph;
  Plan plan;
};

Training planned(const std::string& name, const std::string& recompute, PlanRequest request = {}) {
  Model model = build_model(name);
  add_train_step(model.graph, model.loss, {});
  request.model = name;
  request.search = "recursive";
  if (request.devices == 1) request.parallel = Parallel::stand_alone;
  request.constraints =
      merged(request.constraints, constraints_of({.recompute = parse_recompute(recompute)}));
  Plan plan = make_plan(model.graph, request);
  return {std::move(model.graph), std::move(plan)};
}

Graph recomputed(PlannedGraph stage, const Cluster& cluster) {
  const PlannedGraph planned = completed(std::move(stage), cluster);
  Redistributor redistributor(planned.graph.meshes.front(), {.even_only = true});
  return with_recompute(planned.graph, regions_of(planned.graph, planned.recompute, planned.has_layers),
                        redistributor);
}

Graph recomputed(const Training& p) { return recomputed(apply(p.plan, p.graph).stages[0], p.plan.cluster); }

std::vector<RecomputeRegion> regions_in(const Graph& network, const Recompute& recompute) {
  return regions_of(network, recompute, has_layers(network));
}

std::vector<std::string> copies_in(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (node.is_recomputed) out.push_back(graph.name_of(node.forward));
  return out;
}

bool has_copy(const Graph& graph, const std::string& name) {
  const auto all = copies_in(graph);
  return std::find(all.begin(), all.end(), name) != all.end();
}

Estimate estimated(const Training& p) { return estimate(compile(p.graph, p.plan), p.plan.cluster); }

TEST(Recompute, nothing_asked_changes_nothing) {
  const Training p = planned("ffn", "none");
  EXPECT_EQ(recomputed(p).nodes.size(), p.graph.nodes.size());
}

TEST(Recompute, copies_keep_operator_attributes_and_strategy_and_stand_in_the_backward) {
  const Graph graph = recomputed(planned(llama, "full", {.devices = 2, .parallel = Parallel::data_parallel}));
  verify(graph);
  int copies = 0;
  for (const Node& node : graph.nodes) {
    if (!node.is_recomputed) continue;
    ++copies;
    const Node& forward = graph.node(node.forward);
    EXPECT_EQ(node.op, forward.op);
    EXPECT_EQ(node.attributes, forward.attributes);
    EXPECT_EQ(node.strategy, forward.strategy);
    EXPECT_EQ(node.phase, Phase::backward);
    EXPECT_EQ(forward.phase, Phase::forward);
  }
  EXPECT_GT(copies, 8 * 10);
}

TEST(Recompute, each_copy_is_needed_by_what_stands_behind_it) {
  const Graph graph = recomputed(planned(llama, "full"));
  const auto users = users_of(graph);
  for (NodeId id : graph.node_ids()) {
    if (!graph.node(id).is_recomputed) continue;
    bool is_read = false;
    for (ValueId v : graph.node(id).results)
      is_read = is_read || !users[static_cast<std::size_t>(v.index)].empty();
    EXPECT_TRUE(is_read) << graph.name_of(id);
  }
}

/// A layer is computed again behind the backward of the layer above it, so only one is in memory.
TEST(Recompute, regions_are_recomputed_one_after_the_other) {
  const Graph graph = recomputed(planned(llama, "full"));
  std::string last;
  std::vector<std::string> order;
  for (const std::string& name : copies_in(graph)) {
    const std::string layer = name.substr(0, name.find('.', 7));
    if (!layer.starts_with("layers.")) continue;
    if (layer != last) order.push_back(layer);
    last = layer;
  }
  std::vector<std::string> want;
  for (int l = 8; l-- > 0;) want.push_back(fmt::format("layers.{}", l));
  EXPECT_EQ(order, want);
}

/// However few of the network's layers a stage has.
TEST(Recompute, stages_compute_again_what_the_network_does) {
  const auto copies_of = [](int stages) {
    PlanRequest request{.devices = stages, .is_set = true};
    request.constraints.degrees.set("pp", stages);
    const Training p = planned(llama, "full", std::move(request));
    std::vector<std::string> out;
    for (PlannedGraph& stage : apply(p.plan, p.graph).stages)
      for (std::string& name : copies_in(recomputed(std::move(stage), p.plan.cluster)))
        out.push_back(std::move(name));
    std::ranges::sort(out);
    return out;
  };
  const std::vector<std::string> want = copies_of(1);
  EXPECT_GT(want.size(), 8U * 10);
  EXPECT_EQ(copies_of(2), want);
  EXPECT_EQ(copies_of(8), want);
}

TEST(Recompute, results_that_others_read_are_kept) {
  const Graph graph = recomputed(planned(llama, "layers.2"));
  EXPECT_TRUE(has_copy(graph, "layers.2.norm1"));
  EXPECT_TRUE(has_copy(graph, "layers.2.add1"));
  EXPECT_FALSE(has_copy(graph, "layers.2.add2"));  // layers.3 reads it
  for (const std::string& name : copies_in(graph)) EXPECT_EQ(name.find("layers.3."), name.npos) << name;
}

TEST(Recompute, what_is_said_not_to_be_recomputed_is_kept) {
  Training p = planned(llama, "full");
  p.plan.settings.recompute =
      with_modules(p.plan.settings.recompute, {{.module = "layers.1", .nodes = {}, .is_on = false},
                                               {.module = "layers.*.norm2", .nodes = {}, .is_on = false}});
  const Graph graph = recomputed(p);
  EXPECT_TRUE(has_copy(graph, "layers.0.norm1"));
  EXPECT_FALSE(has_copy(graph, "layers.0.norm2"));
  for (const std::string& name : copies_in(graph)) EXPECT_EQ(name.find("layers.1."), name.npos) << name;
}

TEST(Recompute, a_network_without_repeated_modules_is_cut_into_even_parts) {
  const Model model = build_model("ffn:widths=8-8-8-8-8-8-8-8-8-4");
  const auto regions = regions_in(model.graph, parse_recompute("full"));
  ASSERT_EQ(regions.size(), 3U);  // of nine layers
  EXPECT_EQ(regions[1].name, "part 2 of 3");
  EXPECT_EQ(model.graph.name_of(regions[1].nodes.front()), "dense4.matmul");
  EXPECT_EQ(model.graph.name_of(regions[2].nodes.back()), "dense9.matmul");
}

TEST(Recompute, names_and_patterns_make_regions) {
  const Model model = build_model(llama);
  const auto names = [&](const std::string& text) {
    std::vector<std::string> out;
    for (const RecomputeRegion& r : regions_in(model.graph, parse_recompute(text))) out.push_back(r.name);
    return out;
  };
  using Names = std::vector<std::string>;
  EXPECT_EQ(names("layers.3"), Names{"layers.3"});
  EXPECT_EQ(names("layers").size(), 8U);
  EXPECT_EQ(names("layers").front(), "layers.0");
  EXPECT_EQ(names("layers.*.ffn").back(), "layers.7.ffn");
  EXPECT_EQ(names("layers.1,norm"), (Names{"layers.1", "norm"}));
  EXPECT_EQ(names("full").size(), 8U);
  EXPECT_EQ(names("selected").size(), 9U);  // and the rest
}

/// Norms, activations and their products stream memory; products and what the residual stream holds are kept.
TEST(Recompute, numbers_of_a_pattern_may_be_a_range) {
  const Graph graph = build_model(llama).graph;
  const auto names = [&](const char* text) {
    std::vector<std::string> out;
    for (const RecomputeRegion& r : regions_in(graph, parse_recompute(text))) out.push_back(r.name);
    return out;
  };
  EXPECT_EQ(names("layers.2-4"), (std::vector<std::string>{"layers.2", "layers.3", "layers.4"}));
  EXPECT_EQ(names("layers.6-99"), (std::vector<std::string>{"layers.6", "layers.7"}));
  EXPECT_EQ(names("layers.0-1.ffn"), (std::vector<std::string>{"layers.0.ffn", "layers.1.ffn"}));
  EXPECT_THROW(check(parse_recompute("layers.8-9"), graph), Error);
  EXPECT_THROW(check(parse_recompute("layers.4-2"), graph), Error);
}

/// The named ones whole, and of all others what is selected.
TEST(Recompute, modules_may_stand_beside_a_mode) {
  const Graph graph = build_model(llama).graph;
  const Recompute both = parse_recompute("selected+layers.0-2");
  EXPECT_EQ(both.mode, RecomputeMode::selected);
  for (const RecomputeRegion& r : regions_in(graph, both))
    EXPECT_EQ(r.is_selective, r.name != "layers.0" && r.name != "layers.1" && r.name != "layers.2") << r.name;
  EXPECT_THROW(parse_recompute("selected+"), Error);
  EXPECT_THROW(parse_recompute("selected+full"), Error);
  EXPECT_THROW(parse_recompute("full+layers.0"), Error);
  EXPECT_THROW(parse_recompute("none+layers.0"), Error);
  EXPECT_THROW(parse_recompute("selected+layers.0:shard_kept=true"), Error);
}

TEST(Recompute, what_makes_up_repeated_modules_is_said_by_their_names) {
  const Graph graph = build_model(llama).graph;
  std::vector<RecomputedModule> modules;
  for (const RecomputeRegion& r : regions_in(graph, parse_recompute("layers.1-3,layers.5,layers.6.ffn"))) {
    RecomputedModule& m = modules.emplace_back(RecomputedModule{.module = "some", .nodes = {}});
    for (NodeId id : r.nodes) m.nodes.push_back(graph.name_of(id));
  }
  const auto named = by_name(modules, graph);
  ASSERT_EQ(named.size(), 3u);
  EXPECT_EQ(named[0].module, "layers.1-3");
  EXPECT_EQ(named[1].module, "layers.5");
  EXPECT_EQ(named[2].module, "some");  // a part of a layer
  EXPECT_TRUE(named[0].nodes.empty() && named[1].nodes.empty() && !named[2].nodes.empty());
}

TEST(Recompute, selected_repeats_what_is_cheap) {
  const Graph graph = recomputed(planned(llama, "selected"));
  for (const char* name : {"layers.0.norm1", "layers.3.norm2", "layers.7.ffn.swiglu", "norm"})
    EXPECT_TRUE(has_copy(graph, name)) << name;
  for (const std::string& name : copies_in(graph)) {
    EXPECT_EQ(name.find("matmul"), name.npos) << name;
    EXPECT_EQ(name.find("attend"), name.npos) << name;
    EXPECT_EQ(name.find("add"), name.npos) << name;
    EXPECT_EQ(name.find("cross_entropy"), name.npos) << name;
  }
}

/// A pass over an activation to drop a statistic of a few numbers is not cheap.
TEST(Recompute, selected_leaves_statistics) {
  const Graph graph = recomputed(planned("resnet18:width=16,image=128,batch=4", "selected"));
  EXPECT_TRUE(has_copy(graph, "layer1.0.bn1.norm"));
  for (const Node& node : graph.nodes) EXPECT_FALSE(node.is_recomputed && node.op->name == "batch_moments");
}

TEST(Recompute, running_statistics_are_updated_once) {
  const Training p = planned("resnet18:width=16,image=32,batch=4", "full");
  const Graph graph = recomputed(p);
  EXPECT_TRUE(has_copy(graph, "layer1.0.bn1.norm"));
  EXPECT_EQ(graph.updates.size(), p.graph.updates.size());
  for (const Node& node : graph.nodes) EXPECT_FALSE(node.is_recomputed && node.op->name == "running_moments");
}

/// Of eight layers the inputs are kept, and what one of them makes lies in memory at a time.
TEST(Recompute, full_keeps_little_more_than_the_layers_inputs) {
  const Estimate none = estimated(planned(llama, "none")), full = estimated(planned(llama, "full"));
  const std::int64_t input = 4 * 16 * 32 * 4;  // bytes of a layer's input
  const std::int64_t of_layers = full.memory.of(MemoryKind::activations);
  EXPECT_GE(of_layers, 8 * input);
  EXPECT_LE(of_layers, 11 * input);  // embedding, the last norm and the loss beside them
  const std::int64_t a_layer = (none.memory.of(MemoryKind::activations) - of_layers) / 8;
  EXPECT_LE(full.arena_bytes, none.arena_bytes - 6 * a_layer);
}

TEST(Recompute, selected_lies_between_none_and_full) {
  const auto bytes = [](const char* what) { return estimated(planned(llama, what)).arena_bytes; };
  EXPECT_LT(bytes("selected"), bytes("none"));
  EXPECT_LT(bytes("full"), bytes("selected"));
}

TEST(Recompute, work_done_again_takes_time_but_is_no_useful_work) {
  const Estimate none = estimated(planned(llama, "none")), full = estimated(planned(llama, "full"));
  EXPECT_EQ(full.peak_seconds, none.peak_seconds);
  EXPECT_GT(full.compute_seconds, 1.15 * none.compute_seconds);
  EXPECT_NEAR(full.recompute_seconds, full.compute_seconds - none.compute_seconds,
              0.05 * none.compute_seconds);
  EXPECT_LT(full.mfu(), none.mfu());
  EXPECT_EQ(none.recompute_seconds, 0);
}

/// An operator's share has what is done again of it, and nothing that is not kept.
TEST(Recompute, shares_of_operators_count_it) {
  const auto share = [](const char* recompute, const std::string& name) {
    const Training p = planned(llama, recompute);
    const std::vector<OperatorShare> shares =
        Explainer(apply(p.plan, p.graph).stages[0], p.plan).shares(estimated(p).operators[0]);
    for (std::size_t i = 0; i < shares.size(); ++i)
      if (p.plan.stages[0].operators[i].name == name) return shares[i].cost;
    throw error("there is no {}", name);
  };
  const OperatorCost none = share("none", "layers.3.ffn.gate.matmul"),
                     full = share("full", "layers.3.ffn.gate.matmul");
  EXPECT_GT(none.kept_bytes, 0);
  EXPECT_EQ(full.kept_bytes, 0);
  EXPECT_GT(full.compute_seconds, 1.2 * none.compute_seconds);
  EXPECT_EQ(share("full", "layers.3.add2").compute_seconds, share("none", "layers.3.add2").compute_seconds);
}

TEST(Recompute, shares_of_operators_count_it_in_a_stage_of_one_layer) {
  PlanRequest request{.devices = 8, .is_set = true};
  request.constraints.degrees.set("pp", 8);
  const Training p = planned(llama, "full", std::move(request));
  const StageSeconds seconds = estimate(compile_pipeline(p.graph, p.plan), p.plan.cluster).operators[3];
  int products = 0;
  for (const OperatorShare& share : Explainer(apply(p.plan, p.graph).stages[3], p.plan, 3).shares(seconds)) {
    if (share.cost.compute_seconds > 0) ++products;
    EXPECT_EQ(share.cost.kept_bytes, 0) << products;
  }
  EXPECT_GT(products, 8);
}

/// However the graph has changed on the way to a program.
TEST(Recompute, shares_of_operators_add_up) {
  for (const char* recompute :
       {"none", "selected", "full", "full:shard_kept=true", "full:communication=false"}) {
    const Training p = planned(llama, recompute);
    const Estimate e = estimated(p);
    double told = e.operators[0].others.all();
    for (const OperatorShare& share :
         Explainer(apply(p.plan, p.graph).stages[0], p.plan).shares(e.operators[0]))
      told += share.cost.seconds();
    const double seconds = e.compute_seconds + e.exposed_communication_seconds;
    EXPECT_NEAR(told, seconds, 1e-9 * seconds) << recompute;
    EXPECT_LT(e.operators[0].others.all(), 0.01 * seconds) << recompute;
  }
}

// ---- communication ----

/// Two layers over four devices of tp, with sequence parallelism or without.
Graph transformer(bool is_sequence_parallel, const testing::TransformerSizes& sizes = {}) {
  testing::Transformer t = testing::make_transformer(
      sizes, {.mesh = {{{"tp", 4}}}, .dp = {}, .tp = {0}, .is_sequence_parallel = is_sequence_parallel});
  add_train_step(t.graph, t.loss, {});
  return std::move(t.graph);
}

std::map<std::string, int> collectives(const Program& program, Phase phase) {
  std::map<std::string, int> out;
  for (const Node& node : program.graph.nodes)
    if (node.op->step && !is_local(*node.op->step) && node.phase == phase)
      ++out[std::string(name_of(*node.op->step))];
  return out;
}

Program lowered(const Graph& graph, RecomputeOptions options, bool is_on = true) {
  PlannedGraph planned{.graph = graph, .update_layouts = {}};
  if (is_on) planned.recompute = {.mode = RecomputeMode::full, .options = options};
  planned.has_layers = has_layers(graph);
  return compile(planned);
}

TEST(Recompute, communication_is_repeated_or_kept) {
  for (bool is_sequence_parallel : {false, true}) {
    SCOPED_TRACE(is_sequence_parallel);
    const Graph graph = transformer(is_sequence_parallel);
    const Program none = lowered(graph, {}, false), again = lowered(graph, {}),
                  kept = lowered(graph, {.communication = false});
    for (const Program* p : {&none, &again, &kept}) EXPECT_EQ(testing::Walk(*p).run(), "");
    const auto count = [](const Program& p) {
      int n = 0;
      for (const auto& [kind, times] : collectives(p, Phase::backward)) n += times;
      return n;
    };
    EXPECT_EQ(count(kept), count(none));
    EXPECT_GT(count(again), count(none));
    EXPECT_EQ(collectives(again, Phase::forward), collectives(none, Phase::forward));
    EXPECT_EQ(collectives(kept, Phase::forward), collectives(none, Phase::forward));
  }
}

/// Also what is so large that the backward gathers it again without recompute.
TEST(Recompute, kept_communication_is_not_repeated_however_large_it_is) {
  const Graph graph = transformer(true, {.sequence = 64, .hidden = 128});
  const auto gathers = [&](RecomputeOptions options, bool is_on) {
    const Program p = lowered(graph, options, is_on);
    EXPECT_EQ(testing::Walk(p).run(), "");
    return collectives(p, Phase::backward)["all_gather"];
  };
  const int small = collectives(lowered(transformer(true), {}, false), Phase::backward)["all_gather"];
  EXPECT_GT(gathers({}, false), small);
  EXPECT_EQ(gathers({.communication = false}, true), small);
}

/// What the forward keeps for the backward, of the bytes of one device.
std::int64_t kept_bytes(const Program& p) {
  const auto users = users_of(p.graph);
  std::int64_t bytes = 0;
  for (NodeId id : p.graph.node_ids()) {
    const Node& node = p.graph.node(id);
    if (node.phase != Phase::forward || (node.op->kind != OpKind::compute && node.op->kind != OpKind::step))
      continue;
    for (ValueId v : node.results)
      for (NodeId user : users[static_cast<std::size_t>(v.index)])
        if (p.graph.node(user).phase == Phase::backward) {
          bytes += p.graph.value(v).type.bytes();
          break;
        }
  }
  return bytes;
}

TEST(Recompute, kept_values_can_be_sharded) {
  const Graph graph = transformer(false);
  const Program whole = lowered(graph, {}), sharded = lowered(graph, {.shard_kept = true});
  EXPECT_EQ(testing::Walk(sharded).run(), "");
  EXPECT_LT(kept_bytes(sharded), kept_bytes(whole));
  EXPECT_GT(collectives(sharded, Phase::backward)["all_gather"],
            collectives(whole, Phase::backward)["all_gather"]);
}

TEST(Recompute, gathered_values_are_not_kept_where_communication_is_repeated) {
  const Graph graph = transformer(true);
  EXPECT_LT(kept_bytes(lowered(graph, {})), kept_bytes(lowered(graph, {.communication = false})));
  EXPECT_LT(kept_bytes(lowered(graph, {.communication = false})), kept_bytes(lowered(graph, {}, false)));
}

}  // namespace
}  // namespace shardwright
