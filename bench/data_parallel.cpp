// Data parallel on two ranks, weak scaling: a step of each rank alone at the same time, of processes and of threads
// together, and of PyTorch's DistributedDataParallel, all in turns in one run. Only the loss is handed out.

#include <fmt/format.h>

#include <barrier>
#include <filesystem>
#include <optional>
#include <thread>

#include "bench/harness/ranks.h"
#include "bench/harness/training.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

constexpr int ranks = 2;

struct Case {
  std::string name, model;  // `BATCH` stands for the batch
  std::string script, optimizer, rate;
  std::int64_t batch = 1;  // of a rank
  std::int64_t classes = 10;
  int steps = 1, rounds = 5;          // of a turn; turns
  std::optional<double> time_target;  // ours over DDP's
  std::optional<double> efficiency_target;
  bool has_equal_losses = true;  // else norms see the batches of both ranks here, and of one there
};

std::vector<Case> cases(const BenchOptions& options) {
  const std::string decoder = "llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=256,batch=";
  if (options.is_smoke)
    return {{"ffn", "ffn:batch=", "ffn", "momentum", "0.01", 8, 10, 1, 2, {}, {}},
            {"decoder",
             "llama:layers=1,hidden=64,heads=1,ffn=64,vocab=32,seq=8,batch=",
             "decoder",
             "adamw",
             "3e-4",
             2,
             32,
             1,
             2,
             {},
             {}}};
  return {{"ffn", "ffn:batch=", "ffn", "momentum", "0.01", 1024, 10, 8, 21, 0.85, 0.9},
          {"decoder", decoder, "decoder", "adamw", "3e-4", 4, 8192, 1, 15, 0.85, 0.95},
          {"resnet50 64x64",
           "resnet50:image=64,classes=1000,batch=",
           "resnet50",
           "momentum",
           "0.01",
           8,
           1000,
           2,
           11,
           0.7,
           {},
           false},
          {"resnet50 224x224",
           "resnet50:image=224,classes=1000,batch=",
           "resnet50",
           "momentum",
           "0.01",
           8,
           1000,
           1,
           11,
           {},
           0.95,
           false}};
}

Graph train_step(const Case& c, std::int64_t batch) {
  Model model = build_model(c.model + std::to_string(batch));
  add_train_step(model.graph, model.loss, optimizer_of_peers(c.optimizer, std::stod(c.rate)));
  model.graph.outputs.resize(1);
  return std::move(model.graph);
}

Program program_for(const Case& c, int devices) {
  const Graph graph = train_step(c, c.batch * devices);
  const Parallel parallel = devices > 1 ? Parallel::data_parallel : Parallel::stand_alone;
  return compile(graph, make_plan(graph, {.devices = devices, .parallel = parallel}),
                 {.formats = cpu_formats});
}

/// Ranks that are threads of this process and wait for turns.
class ThreadTeam {
 public:
  ThreadTeam(const Case& c, const std::vector<Batch>& batches) {
    auto communicators = thread_communicators(ranks);
    for (int r = 0; r < ranks; ++r)
      threads_.emplace_back(
          [this, &c, &batches, r,
           own = std::move(communicators[static_cast<std::size_t>(r)])](const std::stop_token& stop) mutable {
            pin(r);
            Session session(program_for(c, ranks), std::move(own), {.seed = 1});
            Steps steps(session, batches);
            for (meet_.arrive_and_wait(); !stop.stop_requested(); meet_.arrive_and_wait()) {
              for (int i = 0; i < count_; ++i) steps.loss();
              meet_.arrive_and_wait();
            }
          });
  }
  ~ThreadTeam() {
    for (std::jthread& t : threads_) t.request_stop();
    meet_.arrive_and_wait();
  }

  double seconds(int steps) {
    count_ = steps;
    const double start = seconds_now();
    meet_.arrive_and_wait();
    meet_.arrive_and_wait();
    return (seconds_now() - start) / steps;
  }

 private:
  std::barrier<> meet_{ranks + 1};
  int count_ = 0;
  std::vector<std::jthread> threads_;
};

/// Medians of one side's turns, and of their ratios to another's.
Spread ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] / b[i]);
  return spread_of(out);
}
std::string median_text(const std::vector<double>& seconds) { return time_text(spread_of(seconds).median); }

struct Times {
  std::vector<double> alone, mpi, threads, ddp;
};

void print(const Case& c, const Times& t) {
  static const Table table({"network         ", "batch", "alone, both", "mpi    ", "threads", "DDP    ",
                            "threads / DDP   ", "target ", "efficiency      ", "target ", "mpi / threads   ",
                            "target "});
  static const bool has_begun = (table.begin("Data parallel on 2 ranks, a core each; batch of a rank"), true);
  require(has_begun, "no table");
  const auto target = [](const char* sign, const std::optional<double>& x) {
    return x ? fmt::format("{} {}", sign, *x) : std::string("-");
  };
  table.row({c.name, std::to_string(c.batch), median_text(t.alone), median_text(t.mpi),
             median_text(t.threads), t.ddp.empty() ? "not installed" : median_text(t.ddp),
             t.ddp.empty() ? "-" : ratio_text(ratios(t.threads, t.ddp)), target("<=", c.time_target),
             ratio_text(ratios(t.alone, t.threads)), target(">=", c.efficiency_target),
             ratio_text(ratios(t.mpi, t.threads)), "<= 1.05"});
}

std::optional<Peer> start_ddp(const Case& c, const Session& initial, const std::vector<Batch>& batches) {
  const std::string file = file_for_peer(initial, batches);
  auto out = Peer::start(
      {"/usr/bin/python3", "bench/peers/ddp.py", file, c.script, std::to_string(ranks), c.optimizer, c.rate});
  std::filesystem::remove(file);
  return out;
}

/// What rank 0 has beside its own part.
struct Others {
  Others(const Case& c, const Session& initial, const std::vector<Batch>& batches)
      : threads(c, batches), ddp(start_ddp(c, initial, batches)) {}
  ThreadTeam threads;
  std::optional<Peer> ddp;
};

double seconds_of(Peer& ddp, int steps) {
  std::vector<double> seconds;
  for (const Peer::Step& s : ddp.run(steps)) seconds.push_back(s.seconds);
  return spread_of(seconds).median;
}

void measure(const TeamRank& team, const Case& c, const BenchOptions& options) {
  const auto meet = team.communicator();
  Session alone(program_for(c, 1), std::move(thread_communicators(1).front()), {.seed = 1});
  Session together(program_for(c, ranks), team.communicator(), {.seed = 1});
  const std::vector<Batch> own = random_batches(alone.program().graph, c.classes, 1),
                           whole = random_batches(together.program().graph, c.classes, 1);
  std::optional<Others> others;
  if (team.rank == 0) others.emplace(c, alone, whole);
  Steps steps_alone(alone, own), steps_together(together, whole);
  // Both see the same batches from the same weights on.
  const double loss = steps_together.loss();
  if (others && others->ddp && c.has_equal_losses) check_losses({loss}, *others->ddp);

  const auto turn = [&](const std::function<void()>& work) {
    meet->barrier();
    const double start = seconds_now();
    work();
    meet->barrier();
    return (seconds_now() - start) / c.steps;
  };
  const auto steps_of = [&](Steps& s) {
    return [&] {
      for (int i = 0; i < c.steps; ++i) s.loss();
    };
  };
  Times times;
  for (int round = 0; round <= options.rounds(c.rounds); ++round) {
    const double a = turn(steps_of(steps_alone)), m = turn(steps_of(steps_together));
    double t = 0, d = 0;
    turn([&] {
      if (!others) return;
      t = others->threads.seconds(c.steps);
      if (others->ddp) d = seconds_of(*others->ddp, c.steps);
    });
    if (round == 0) continue;
    times.alone.push_back(a);
    times.mpi.push_back(m);
    times.threads.push_back(t);
    if (d > 0) times.ddp.push_back(d);
  }
  if (team.rank == 0) print(c, times);
}

void bench(const BenchOptions& options) {
  if (!is_rank_of_mpi()) return run_mpi(ranks, options);
  run_rank(64, [&](const TeamRank& team) {
    for (const Case& c : cases(options)) measure(team, c, options);
  });
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
