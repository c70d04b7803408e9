// Recommenders against PyTorch's f64 with sparse gradients of tables (tests/reference/make_recommenders.py): on one device, and with
// tables cut by rows, by columns, into whole tables, by the batch, over micro-batches and stages.
// SHARDWRIGHT_FULL=1 runs ten random plans for each number of devices instead of one.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iostream>

#include "shardwright/graph/node_kinds.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::difference;
using testing::TrainingRun;

struct Recommender {
  std::string name, network;
  OptimizerChoice optimizer;

  TrainingRun run() const {
    return {network == "dlrm"
                ? "dlrm:batch=8,dense=3,tables=4,rows=12,hot=3,width=4,bottom=6,top=8"
                : "wide_deep:batch=8,dense=3,tables=4,rows=12,hot=3,width=4,deep=8,pooling=mean",
            network + "_" + optimizer.name, optimizer, DType::f64};
  }
};
void PrintTo(const Recommender& r, std::ostream* out) { *out << r.name; }

class Recommenders : public ::testing::TestWithParam<Recommender> {
 protected:
  TrainingRun run() const { return GetParam().run(); }
  static void expect_reference(const std::optional<testing::Outcome>& have, const TrainingRun& run) {
    testing::expect_losses_of_reference(*have, run, 1e-12);
    const SafetensorsFile file = SafetensorsFile::open(testing::path_of_reference(run.file));
    for (const std::string& name : file.names())
      if (name.starts_with("final.")) {
        EXPECT_LE(difference(have->weights.at(name.substr(6)), to_doubles(file.read(name))), 1e-11) << name;
      }
  }
};

TEST_P(Recommenders, tables_are_updated_by_rows) {
  const Graph graph = testing::train_model(run()).graph;
  const auto tables = std::ranges::count_if(graph.nodes, updates_rows);
  EXPECT_EQ(tables, GetParam().network == "dlrm" ? 1 : 2);
  for (const Value& v : graph.values)  // their gradients are nowhere as large as they are
    if (graph.node(v.producer).phase == Phase::backward) {
      EXPECT_NE(v.type.shape, (Shape{4, 12, 4})) << v.name;
    }
}

TEST_P(Recommenders, losses_and_weights_of_pytorch) { expect_reference(testing::run_alone(run()), run()); }

TEST_P(Recommenders, in_every_split) {
  for (const char* split : {"4,1,1", "1,4,1", "1,1,4", "2,2,1", "1,2,2", "2,1,2"})
    for (const char* batch : {"1,SPLIT,1", "2,SPLIT,1"}) {
      std::string ids = batch;
      ids.replace(ids.find("SPLIT"), 5, std::string(1, split[0]));
      const std::string json = fmt::format(R"({{"tables": {{"in": [[{}],[{}]]}}}})", split, ids);
      SCOPED_TRACE(json);
      expect_reference(
          testing::run_planned(run(), {.devices = 8, .constraints = parse_annotations(json, "annotations")}),
          run());
    }
}

TEST_P(Recommenders, data_parallel_at_every_level_and_auto) {
  for (int level : {0, 1, 2, 3}) {
    SCOPED_TRACE(level);
    expect_reference(
        testing::run_planned(run(), {.devices = 4,
                                     .parallel = Parallel::data_parallel,
                                     .constraints = constraints_of({.optimizer_parallel = {level, 0}})}),
        run());
  }
  for (int devices : {2, 4, 8}) {
    SCOPED_TRACE(devices);
    expect_reference(testing::run_planned(run(), {.devices = devices, .parallel = Parallel::auto_parallel}),
                     run());
  }
}

TEST_P(Recommenders, random_plans) {
  const int plans = testing::is_full() ? 10 : 1;
  for (int devices : {2, 4, 8})
    for (int seed = 0; seed < plans; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      expect_reference(testing::run_random(run(), devices, static_cast<std::uint64_t>(seed)), run());
    }
}

/// Rows of all micro-batches wait for the update; a row that several have is updated once.
TEST_P(Recommenders, micro_batches_and_stages) {
  for (int devices : {1, 2, 4})
    for (int micro_batches : {2, 4}) {
      SCOPED_TRACE(fmt::format("{} devices, {} micro-batches", devices, micro_batches));
      expect_reference(testing::run_random_pipeline(run(), devices, micro_batches, 3), run());
    }
}

const std::vector<Recommender> cases = [] {
  std::vector<Recommender> out;
  for (const char* network : {"dlrm", "wide_deep"})
    for (const auto& [optimizer, rate] : {std::pair{"sgd", 0.5}, {"adagrad", 0.1}, {"lazy_adam", 0.02}})
      out.push_back({fmt::format("{}_{}", network, optimizer), network, {optimizer, {{"rate", rate}}}});
  return out;
}();

INSTANTIATE_TEST_SUITE_P(EndToEnd, Recommenders, ::testing::ValuesIn(cases),
                         [](const auto& test) { return test.param.name; });

// The same gradients in the whole: what clips them sees the same norm, and so does a loss scale.
TEST(RowsOfTables, are_clipped_as_whole_gradients_are) {
  TrainingRun rows = cases[0].run();
  rows.optimizer.clip_norm = 0.1;
  TrainingRun whole = rows;
  whole.optimizer.attributes.set("weight_decay", 1e-300);  // which moves every row
  const Graph graph = testing::train_model(whole).graph;
  ASSERT_EQ(std::ranges::count_if(graph.nodes, updates_rows), 0);
  testing::expect_same(testing::run_alone(rows), testing::run_alone(whole),
                       {.losses = 1e-13, .weights = 1e-13});
  testing::expect_same(testing::run_planned(rows, {.devices = 4, .parallel = Parallel::data_parallel}),
                       testing::run_alone(whole), {.losses = 1e-12, .weights = 1e-12});
}

}  // namespace
}  // namespace shardwright
