// What every search must keep to, whichever it is.

#include <gtest/gtest.h>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/model.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

Graph chain() {
  Model m = build_model("matmul_chain:batch=16,widths=16-32-16");
  add_train_step(m.graph, m.loss, {});
  return m.graph;
}

/// Those that plan one network as it is; a search of whole plans makes parts of its batch (automatic_test.cpp).
std::vector<Searcher> searches() {
  std::vector<Searcher> out;
  for (const Searcher& search : all_search())
    if (search.run) out.push_back(search);
  return out;
}

/// Settings that `search` heeds, one after the other.
std::vector<SearchOptions> settings_of(const Searcher& search) {
  std::vector<SearchOptions> out{{}};
  if (heeds(search, Setting::costs)) out.push_back({.costs = Costs::symbolic});
  if (heeds(search, Setting::order)) out.push_back({.order = SearchOrder::weight});
  if (heeds(search, Setting::mem_coeff)) out.push_back({.mem_coeff = 100});
  if (heeds(search, Setting::fold_layers)) out.push_back({.fold_layers = false});
  if (heeds(search, Setting::fully_use_devices)) out.push_back({.fully_use_devices = true});
  if (heeds(search, Setting::elementwise_follow)) out.push_back({.elementwise_follow = true});
  if (heeds(search, Setting::approximate)) out.push_back({.approximates = true, .approximation = 0.5});
  if (heeds(search, Setting::align_slices)) out.push_back({.aligns_slices = true, .slice_size = 4});
  return out;
}

struct Kept {
  std::string name;
  std::string annotations;
  std::string operator_name;  // empty: none is fixed
  std::vector<std::vector<std::int64_t>> in;
  std::string value;  // whose layout is fixed, or empty
  std::string layout;
};
void PrintTo(const Kept& c, std::ostream* out) { *out << c.name; }

const std::vector<Kept> cases = {
    {"operator_split_over_its_sum",
     R"({"matmul1": {"in": [[1, 4], [4, 1]]}})",
     "matmul1",
     {{1, 4}, {4, 1}},
     "",
     ""},
    {"operator_left_whole", R"({"matmul2": {"in": [[1, 1], [1, 1]]}})", "matmul2", {{1, 1}, {1, 1}}, "", ""},
    {"operator_and_its_result",
     R"({"matmul2": {"in": [[1, 4], [4, 1]], "out": [[4, 1]]}})",
     "matmul2",
     {{1, 4}, {4, 1}},
     "matmul2",
     "[x0, -]"},
    {"two_operators_that_differ",
     R"({"matmul1": {"in": [[4, 1], [1, 1]]}, "matmul2": {"in": [[1, 1], [1, 4]]}})",
     "matmul2",
     {{1, 1}, {1, 4}},
     "",
     ""},
    {"operator_by_axes",
     R"({"matmul1": {"device_matrix": [2, 2], "names": ["dp", "mp"], "in": [["mp", "dp"], ["dp", "None"]]}})",
     "matmul1",
     {{2, 2}, {2, 1}},
     "",
     ""},
    {"parameter", R"({"w2": {"out": [[1, 4]]}})", "", {}, "w2", "[-, x0]"},
    {"data_by_splits", R"({"dataset": [[1, 4], [4, 1]]})", "", {}, "input", "[-, x0]"},
    {"data_whole", R"({"dataset": "full_batch"})", "", {}, "input", "[-, -]"},
    {"data_by_batch", R"({"dataset": "data_parallel"})", "", {}, "label", "[dp, -]"},
};

class Fixed : public testing::TestWithParam<Kept> {};

TEST_P(Fixed, is_kept_by_every_search_under_every_setting) {
  const Kept& want = GetParam();
  const Graph graph = chain();
  for (const Searcher& search : searches())
    for (const SearchOptions& options : settings_of(search)) {
      const Plan plan = make_plan(graph, {.devices = 4,
                                          .search = search.name,
                                          .options = options,
                                          .constraints = parse_annotations(want.annotations, "test")});
      int seen = 0;
      for (const PlannedOperator& op : plan.stages[0].operators) {
        if (op.name == want.operator_name) {
          EXPECT_EQ(op.in, want.in) << search.name;
          EXPECT_EQ(op.reason, "annotated") << search.name;
          ++seen;
        }
        if (op.name == want.value) {
          EXPECT_EQ(op.out, want.layout) << search.name;
          ++seen;
        }
      }
      if (plan.stages[0].layouts.contains(want.value)) {
        EXPECT_EQ(plan.stages[0].layouts.at(want.value), want.layout) << search.name;
        ++seen;
      }
      EXPECT_EQ(seen, !want.operator_name.empty() + !want.value.empty());
      EXPECT_NO_THROW(compile(graph, plan)) << search.name;
    }
}

INSTANTIATE_TEST_SUITE_P(Plan, Fixed, testing::ValuesIn(cases), [](const auto& c) { return c.param.name; });

/// The network with its plan, for `annotations`.
PlannedGraph planned(const Graph& graph, const Searcher& search, const SearchOptions& options,
                     const char* annotations) {
  const Plan plan = make_plan(graph, {.devices = 4,
                                      .search = search.name,
                                      .options = options,
                                      .constraints = parse_annotations(annotations, "test")});
  return apply(plan, graph).stages[0];
}

/// How many forward operators use some devices of their mesh.
int using_some(const Graph& graph) {
  int count = 0;
  for (const Node& node : graph.nodes)
    count += node.strategy &&
             !is_all_or_nothing(*node.strategy, graph.meshes[static_cast<std::size_t>(node.strategy->mesh)]);
  return count;
}

TEST(Searches, that_heed_fully_use_devices_leave_none_out) {
  const Graph graph = chain();
  const char* const annotations = R"({"matmul1": {"in": [[1, 2], [2, 2]]}})";
  int some = 0;
  for (const Searcher& search : searches()) {
    if (!heeds(search, Setting::fully_use_devices)) continue;
    EXPECT_EQ(using_some(planned(graph, search, {.fully_use_devices = true}, annotations).graph), 0)
        << search.name;
    some += using_some(planned(graph, search, {}, annotations).graph);
  }
  EXPECT_GT(some, 0);  // else the setting would have nothing to do here
}

/// How many results of point-wise operators are redistributed for a forward reader.
int redistributed(const Graph& graph) {
  std::vector<MeshCost> costs;
  for (const Mesh& m : graph.meshes) costs.push_back(uniform_cost(m));
  Redistributor redistributor(graph.meshes, costs, {.even_only = true});
  const auto layouts = [&](NodeId id) {
    return layouts_of(rule_of(graph, graph.node(id)), *graph.node(id).strategy);
  };
  int count = 0;
  for (NodeId id : graph.node_ids()) {
    const Node& node = graph.node(id);
    if (!node.strategy || node.phase != Phase::forward) continue;
    for (std::size_t i = 0; i < node.operands.size(); ++i) {
      const Value& v = graph.value(node.operands[i]);
      if (!graph.node(v.producer).op->block) continue;
      const Layout has = layouts(v.producer).results[static_cast<std::size_t>(v.result)];
      count += !redistributor.find(has, layouts(id).operands[i], v.type).steps.empty();
    }
  }
  return count;
}

TEST(Searches, that_heed_elementwise_follow_read_point_wise_results_as_they_lie) {
  Graph graph = parse_graph(R"(
%x = input f32[16, 16]
%w = param f32[16, 16]
%u = param f32[16, 16]
%a = matmul %x, %w
%b = relu %a
%c = matmul %b, %u
%loss = reduce_mean %c
output %loss
)");
  add_train_step(graph, graph.outputs.front(), {});
  const char* const annotations = R"({"a": {"in": [[4, 1], [1, 1]]}, "c": {"in": [[1, 4], [4, 1]]}})";
  int some = 0;
  for (const Searcher& search : searches()) {
    if (!heeds(search, Setting::elementwise_follow)) continue;
    EXPECT_EQ(redistributed(planned(graph, search, {.elementwise_follow = true}, annotations).graph), 0)
        << search.name;
    some += redistributed(planned(graph, search, {}, annotations).graph);
  }
  EXPECT_GT(some, 0);
}

TEST(Searches, plan_for_devices_that_divide_nothing) {
  for (const Searcher& search : searches())
    for (const SearchOptions& options : settings_of(search)) {
      const Plan plan = make_plan(chain(), {.devices = 7, .search = search.name, .options = options});
      for (const PlannedOperator& op : plan.stages[0].operators)
        EXPECT_TRUE(op.strategy.empty()) << search.name;
    }
}

}  // namespace
}  // namespace shardwright
