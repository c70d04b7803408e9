#include "shardwright/search/planning/search_for.h"

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/text.h"
#include "shardwright/search/planning/settings.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

std::string usual_value(const SettingRow& row) {
  if (row.flag == "--mem-coeff" || row.flag == "--approximation") return "0.1";
  if (row.flag == "--slice-size") return "16";
  if (row.flag == "--costs") return "seconds";
  if (row.flag == "--search-order") return "topology";
  if (row.flag == "--fix") return "pp=1";
  return row.flag == "--fold-layers" ? "1" : "0";
}

PlanRequest request() { return {.model = "test", .devices = 4}; }

/// Also a setting that is said to be as it is anyway.
TEST(SearchFor, what_auto_has_no_use_for_is_a_search_that_has) {
  EXPECT_EQ(search_for(request()).search->name, "auto");
  for (const SettingRow& row : all_settings()) {
    if (!row.search) continue;
    PlanRequest asked = request();
    row.parse(asked, {row.flag, usual_value(row)});
    const SearchChoice choice = search_for(asked);
    EXPECT_TRUE(heeds(*choice.search, *row.search)) << row.flag;
    const bool is_of_auto = heeds(find_search("auto"), *row.search);
    const bool is_of_recursive = heeds(find_search("recursive"), *row.search);
    EXPECT_EQ(choice.search->name, is_of_auto        ? "auto"
                                   : is_of_recursive ? "recursive"
                                                     : "dynamic")
        << row.flag;
    EXPECT_EQ(choice.why, is_of_auto ? "" : "search auto has no use for " + row.flag);
    asked.search = "propagation";
    EXPECT_EQ(search_for(asked).search->name, "propagation");
  }
}

/// In C++ nobody says anything but values.
TEST(SearchFor, is_chosen_by_unusual_options_too) {
  for (const SearchOptions& options : std::vector<SearchOptions>{{.costs = Costs::symbolic},
                                                                 {.order = SearchOrder::weight},
                                                                 {.mem_coeff = 1},
                                                                 {.fold_layers = false},
                                                                 {.is_described = true},
                                                                 {.fully_use_devices = true},
                                                                 {.elementwise_follow = true}}) {
    PlanRequest asked = request();
    asked.options = options;
    EXPECT_EQ(search_for(asked).search->name, "recursive");
    EXPECT_FALSE(chooses_structure(asked));
  }
  for (const SearchOptions& options : std::vector<SearchOptions>{
           {.approximates = true}, {.approximation = 0.5}, {.aligns_slices = true}, {.slice_size = 8}}) {
    PlanRequest asked = request();
    asked.options = options;
    EXPECT_EQ(search_for(asked).search->name, "dynamic");
  }
  PlanRequest asked = request();
  asked.options = {.memory_cap = 1000, .writes_log = true};
  EXPECT_EQ(search_for(asked).search->name, "auto");
}

TEST(SearchFor, operators_that_are_fixed_one_by_one_are_for_recursive) {
  for (const char* said : {R"({"matmul1": {"in": [[1, 1], [1, 4]]}})", R"({"dataset": "data_parallel"})",
                           R"({"matmul1": {"stage": 0}})"}) {
    PlanRequest asked = request();
    asked.constraints = parse_annotations(said, "test");
    EXPECT_EQ(search_for(asked).search->name, "recursive") << said;
    EXPECT_FALSE(search_for(asked).why.empty()) << said;
  }
  PlanRequest asked = request();
  asked.constraints = parse_annotations(R"({"matmul1": {"recompute": true}})", "test");
  EXPECT_EQ(search_for(asked).search->name, "auto");
  asked.devices = 1;
  EXPECT_EQ(search_for(asked).search->name, "recursive");
}

TEST(SearchFor, keeps_auto_where_no_search_takes_all) {
  PlanRequest asked = request();
  for (const char* flag : {"--mem-coeff", "--fix"})
    setting_of(flag)->parse(asked, {flag, usual_value(*setting_of(flag))});
  EXPECT_EQ(search_for(asked).search->name, "auto");
  EXPECT_FALSE(instead_of_auto(asked));
}

TEST(SearchFor, what_settings_say_of_the_structure_is_fixed) {
  PlanRequest asked = request();
  EXPECT_EQ(fixed_by(asked), Constraints{});
  asked.constraints = constraints_of({.optimizer_parallel = {.level = 2},
                                      .recompute = {.mode = RecomputeMode::full},
                                      .pipelining = {Schedule::gpipe(), 2, 8}});
  const Constraints fixed = fixed_by(asked);
  EXPECT_EQ(to_text(fixed), "pp=2,micro_batches=8,zero=2,recompute=full,schedule=gpipe");
  asked.auto_pipeline = true;
  EXPECT_FALSE(fixed_by(asked).degrees.said("pp"));
  asked = request();
  asked.auto_pipeline = false;
  EXPECT_EQ(fixed_by(asked).degrees.said("pp"), 1);
}

Graph step_of(const std::string& model) {
  Model m = build_model(model);
  add_train_step(m.graph, m.loss, {"sgd", {{"rate", 0.1}}});
  return m.graph;
}

/// What ran before must still run.
TEST(MakePlan, plans_by_recursive_where_auto_finds_nothing_and_tells_it) {
  Graph batchless = parse_graph("%w = param f32[8]\n%s = square %w\n%l = reduce_sum %s\noutput %l\n");
  add_train_step(batchless, batchless.outputs.front(), {"sgd", {{"rate", 0.1}}});
  const Plan plan = make_plan(batchless, request());
  EXPECT_EQ(plan.search, "recursive");
  ASSERT_FALSE(plan.log.empty());
  EXPECT_EQ(plan.log.front(),
            "search auto: no input of the network has a batch to cut into micro-batches; search recursive "
            "plans instead");
  PlanRequest named = request();
  named.search = "auto";
  EXPECT_THROW(make_plan(batchless, named), Error);
  PlanRequest odd = request();  // of 12 samples there are no 5 parts
  odd.devices = 5;
  odd.constraints.degrees.set("pp", 1);
  const Plan split = make_plan(step_of("ffn:batch=12,widths=10-10-10"), odd);
  EXPECT_EQ(split.devices(), 5);
}

TEST(MakePlan, tells_which_setting_has_chosen_the_search) {
  PlanRequest asked = request();
  asked.options.mem_coeff = 1;
  const Plan plan = make_plan(step_of("ffn:batch=8,widths=16-16-16"), asked);
  EXPECT_EQ(plan.search, "recursive");
  ASSERT_FALSE(plan.log.empty());
  EXPECT_EQ(plan.log.front(), "search auto has no use for --mem-coeff; search recursive plans instead");
}

/// A network that is there for one number of micro-batches keeps it.
TEST(MakePlan, of_a_graph_alone_keeps_its_micro_batches_and_chooses_the_rest) {
  const Graph graph = step_of("llama:layers=4,hidden=64,heads=4,ffn=128,vocab=256,seq=32,batch=16");
  PlanRequest asked{.devices = 4, .cluster = cluster_called("a100-80g:4")};
  const Plan plan = make_plan(graph, asked);
  EXPECT_EQ(plan.search, "auto");
  EXPECT_EQ(plan.settings.pipelining.micro_batches, 1);
  asked.constraints.recompute = RecomputeMode::full;
  EXPECT_EQ(make_plan(graph, asked).settings.recompute.mode, RecomputeMode::full);
}

/// Of nodes of one device each, to which stages send less than replicas.
Graph heavy_step(int micro_batches) {
  Model m = build_model("gpt:layers=8,hidden=1024,heads=8,vocab=512,seq=64,batch=32",
                        {.micro_batches = micro_batches});
  add_train_step(m.graph, m.loss, {"adamw", {{"rate", 0.1}}});
  return m.graph;
}

/// Stages as asked, and what others would take.
TEST(MakePlan, suggests_stages_where_they_are_not_to_be_chosen) {
  PlanRequest asked{.devices = 4, .cluster = cluster_called("v100-32g:4x1")};
  const int best = make_plan(heavy_step, asked).settings.pipelining.stages;
  ASSERT_GT(best, 1);
  asked.auto_pipeline = false;
  const Plan kept = make_plan(heavy_step, asked);
  EXPECT_EQ(kept.settings.pipelining.stages, 1);
  EXPECT_TRUE(kept.suggestion.starts_with(fmt::format("pp={},", best))) << kept.suggestion;
  asked.constraints.degrees.set("pp", best);
  const Plan agreed = make_plan(heavy_step, asked);
  EXPECT_EQ(agreed.settings.pipelining.stages, best);
  EXPECT_EQ(agreed.suggestion, "");
  asked.auto_pipeline = true;  // as many at most
  asked.constraints.degrees.set("pp", 2);
  const Plan chosen = make_plan(heavy_step, asked);
  EXPECT_LE(chosen.settings.pipelining.stages, 2);
  EXPECT_EQ(chosen.suggestion, "");
}

/// Where it is said how many micro-batches there are.
TEST(MakePlan, chooses_no_more_stages_than_micro_batches) {
  PlanRequest asked{.devices = 4, .cluster = cluster_called("v100-32g:4x1")};
  asked.constraints.micro_batches = 2;
  EXPECT_LE(make_plan(heavy_step, asked).settings.pipelining.stages, 2);
}

}  // namespace
}  // namespace shardwright
