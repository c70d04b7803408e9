// A training step with a table of a hundred thousand to ten million rows, of which a batch reads a few thousand: updated by rows it
// costs what the batch costs. Beside it the same step with the whole table updated, which weight decay asks for (sgd and adagrad) or the
// optimizer (adam, beside lazy_adam).

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "bench/harness/ranks.h"
#include "bench/harness/training.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

constexpr double rate = 0.01, decay = 1e-4;

Session session_of(std::int64_t rows, OptimizerChoice optimizer) {
  Model model =
      build_model(fmt::format("dlrm:tables=1,rows={},hot=4,width=16,batch=1024,bottom=16,top=16", rows));
  add_train_step(model.graph, model.loss, optimizer);
  const Plan plan = make_plan(model.graph, {.devices = 1, .parallel = Parallel::stand_alone});
  return Session(compile(model.graph, plan), std::move(thread_communicators(1).front()), {.seed = 1});
}

struct Measured {
  double seconds = 0;
  std::int64_t bytes = 0;
};

Measured measured(std::int64_t rows, const OptimizerChoice& optimizer, int steps) {
  Session session = session_of(rows, optimizer);
  const std::vector<Batch> batches = random_batches(session.program().graph, rows, 1);
  return {Steps(session, batches).run(steps).seconds, session.statistics().arena_bytes};
}

struct Pair {
  OptimizerChoice by_rows, whole;
};

std::string megabytes(std::int64_t bytes) { return fmt::format("{} MB", bytes / 1000000); }

void bench(const BenchOptions& options) {
  pin();
  const std::vector<std::int64_t> sizes = options.is_smoke
                                              ? std::vector<std::int64_t>{100, 1000}
                                              : std::vector<std::int64_t>{100000, 1000000, 10000000};
  const std::vector<Pair> pairs{
      {{"sgd", {{"rate", rate}}}, {"sgd", {{"rate", rate}, {"weight_decay", decay}}}},
      {{"adagrad", {{"rate", rate}}}, {"adagrad", {{"rate", rate}, {"weight_decay", decay}}}},
      {{"lazy_adam", {{"rate", rate}}}, {"adam", {{"rate", rate}}}}};
  const Table table({"optimizer", "rows    ", "by rows", "of its memory", "whole table", "of its memory"});
  table.begin("A training step that looks up 4,096 rows of 16 numbers, by one thread");
  for (const Pair& pair : pairs)
    for (const std::int64_t rows : sizes) {
      const Measured by_rows = measured(rows, pair.by_rows, options.is_smoke ? 2 : 30);
      const Measured whole = measured(rows, pair.whole, options.is_smoke ? 2 : 5);
      table.row({pair.by_rows.name, fmt::to_string(rows), time_text(by_rows.seconds),
                 megabytes(by_rows.bytes), time_text(whole.seconds), megabytes(whole.bytes)});
    }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
