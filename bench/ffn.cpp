// Training steps of the FFN 784-512-256-128-64-10 with momentum: against PyTorch on one core, and how two ranks
// scale against two runs that have nothing to do with each other.

#include <fmt/format.h>

#include "bench/harness/measure.h"
#include "bench/harness/ranks.h"
#include "bench/harness/training.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

constexpr double rate = 0.01, momentum = 0.9;
constexpr std::int64_t classes = 10;

Graph train_step(std::int64_t batch) {
  Model model = build_model(fmt::format("ffn:batch={}", batch));
  add_train_step(model.graph, model.loss, {"momentum", {{"rate", rate}, {"momentum", momentum}}});
  return std::move(model.graph);
}

Program program_for(std::int64_t batch, int devices) {
  const Graph graph = train_step(batch);
  const Parallel parallel = devices > 1 ? Parallel::data_parallel : Parallel::stand_alone;
  return compile(graph, make_plan(graph, {.devices = devices, .parallel = parallel}));
}

/// All on the calling thread.
Session session_alone(std::int64_t batch) {
  return Session(program_for(batch, 1), std::move(thread_communicators(1).front()), {.seed = 1});
}

void against_pytorch(const Table& table, const BenchOptions& options, std::int64_t batch, double target) {
  const int core = pin();
  Session session = session_alone(batch);
  const std::vector<Batch> batches = random_batches(session.program().graph, classes, 1);
  const int steps = options.is_smoke ? 2 : batch < 256 ? 50 : 8;
  const auto c = against_peer(session, batches,
                              {.script = "ffn.py",
                               .words = {fmt::to_string(core), "momentum", fmt::to_string(rate)},
                               .steps = steps,
                               .rounds = options.rounds(15)});
  if (!c)
    return table.row({fmt::to_string(batch), time_text(Steps(session, batches).run(steps).seconds),
                      "not installed", "-", "-", "-"});
  table.row({fmt::to_string(batch), time_text(c->time.ours.median), time_text(c->time.theirs.median),
             ratio_text(c->time.ratio), ratio_text(c->cpu_ratio), fmt::format("<= {}", target)});
}

// ---- two ranks ----

const Table scaling({"ranks", "runtime", "alone, at the same time", "data parallel", "efficiency        ",
                     "target"});

/// Each rank trains alone, then all together, in turns of two steps; a turn ends when all have ended.
void weak_scaling(const TeamRank& team, const BenchOptions& options) {
  const std::int64_t batch = options.is_smoke ? 8 : 1024;
  const auto meet = team.communicator();
  Session alone = session_alone(batch);
  Session together(program_for(batch * team.size, team.size), team.communicator(), {.seed = 1});
  const std::vector<Batch> own = random_batches(alone.program().graph, classes, 1),
                           whole = random_batches(together.program().graph, classes, 1);
  Steps steps_alone(alone, own), steps_together(together, whole);
  const auto round = [&](Steps& s) {
    meet->barrier();
    return seconds_per_call(1,
                            [&] {
                              for (int i = 0; i < 2; ++i) s.loss();
                              meet->barrier();
                            }) /
           2;
  };
  const Comparison c = interleaved(
      options.rounds(41), [&] { return round(steps_alone); }, [&] { return round(steps_together); });
  if (team.rank == 0)
    scaling.row({fmt::to_string(team.size), team.runtime, time_text(c.ours.median),
                 time_text(c.theirs.median), ratio_text(c.ratio), ">= 0.95"});
}

void bench(const BenchOptions& options) {
  const auto work = [&](const TeamRank& team) { weak_scaling(team, options); };
  if (is_rank_of_mpi()) return run_rank(64, work);
  const Table table({"batch", "ours   ", "PyTorch", "ours / PyTorch  ", "of CPU time     ", "target"});
  table.begin("A training step of the FFN on one core, and PyTorch's");
  against_pytorch(table, options, 32, 0.5);
  against_pytorch(table, options, options.is_smoke ? 64 : 1024, 0.9);
  scaling.begin("Weak scaling of the FFN, batch 1024 on each rank, a core each: a step");
  run_threads(2, 64, work);
  run_mpi(2, options);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
