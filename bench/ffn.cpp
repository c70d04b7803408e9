// Training steps of the FFN 784-512-256-128-64-10 with momentum: against PyTorch on one core, and how two ranks
// scale against two runs that have nothing to do with each other.

#include <fmt/format.h>
#include <unistd.h>

#include <cmath>
#include <filesystem>

#include "bench/harness/measure.h"
#include "bench/harness/peer.h"
#include "bench/harness/ranks.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/session.h"

namespace shardwright {
namespace {

constexpr double rate = 0.01, momentum = 0.9;
constexpr std::int64_t width = 784, classes = 10;

using Batch = std::map<std::string, Tensor>;

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

Batch batch_of(std::int64_t size, std::uint64_t seed) {
  const RandomStream random(seed, "batch");
  Tensor x(Type{DType::f32, {size, width}}), y(Type{DType::i32, {size}});
  std::uint64_t next = 0;
  for (float& e : x.as<float>()) e = static_cast<float>(random.normal(next++));
  for (std::int32_t& e : y.as<std::int32_t>()) e = static_cast<std::int32_t>(random.below(next++, classes));
  return {{"input", std::move(x)}, {"label", std::move(y)}};
}

std::vector<Batch> batches_of(std::int64_t size, std::uint64_t seed) {
  std::vector<Batch> out;
  for (std::uint64_t i = 0; i < 8; ++i) out.push_back(batch_of(size, seed + i));
  return out;
}

/// The session's initial weights and the batches, for the peer.
std::string file_for_peer(const Session& session, const std::vector<Batch>& batches) {
  std::map<std::string, Tensor> tensors;
  for (const Node& node : session.program().graph.nodes)
    if (node.op->kind == OpKind::parameter) {
      const std::string& name = session.program().graph.value(node.results[0]).name;
      tensors["init." + name] = session.get(name);
    }
  for (const auto& [name, first] : batches.front()) {
    Type type = first.type();
    type.shape.insert(type.shape.begin(), static_cast<std::int64_t>(batches.size()));
    Tensor all(type);
    auto to = all.bytes().begin();
    for (const Batch& b : batches) to = std::copy(b.at(name).bytes().begin(), b.at(name).bytes().end(), to);
    tensors[name] = std::move(all);
  }
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("bench_ffn_{}", getpid());
  write_safetensors(path, tensors);
  return path;
}

struct StepTime {
  double seconds = 0;
  double cpu_seconds = 0;  // without those in which another process had the core
};

/// Medians; the first steps of a round fill the caches again and do not count.
constexpr int warming = 3;
StepTime median_of(const std::vector<StepTime>& steps) {
  std::vector<double> seconds, cpu;
  for (std::size_t i = warming; i < steps.size(); ++i) {
    seconds.push_back(steps[i].seconds);
    cpu.push_back(steps[i].cpu_seconds);
  }
  return {spread_of(seconds).median, spread_of(cpu).median};
}

/// Steps over the batches in turns.
class Steps {
 public:
  Steps(Session& session, const std::vector<Batch>& batches) : session_(session), batches_(batches) {}

  double loss() { return static_cast<double>(step().front().as<float>().front()); }
  StepTime run(int steps) {
    std::vector<StepTime> times;
    for (int i = 0; i < steps + warming; ++i) {
      const double cpu = cpu_seconds_now();
      const double seconds = seconds_per_call(1, [&] { step(); });
      times.push_back({seconds, cpu_seconds_now() - cpu});
    }
    return median_of(times);
  }

 private:
  std::vector<Tensor> step() { return session_.step(batches_[next_++ % batches_.size()]); }

  Session& session_;
  const std::vector<Batch>& batches_;
  std::size_t next_ = 0;
};

StepTime run(Peer& peer, int steps) {
  std::vector<StepTime> times;
  for (const Peer::Step& s : peer.run(steps + warming)) times.push_back({s.seconds, s.cpu_seconds});
  return median_of(times);
}

/// Both sides do the same work: the same weights and batches give the same losses.
void check_losses(Steps& ours, Peer& peer) {
  for (const Peer::Step& theirs : peer.run(3)) {
    const double loss = ours.loss();
    if (std::abs(loss - theirs.loss) > 1e-4 * theirs.loss)
      throw error("the loss is {} but the peer's is {}", loss, theirs.loss);
  }
}

void against_pytorch(const Table& table, const BenchOptions& options, std::int64_t batch, double target) {
  const int core = pin();
  Session session = session_alone(batch);
  const std::vector<Batch> batches = batches_of(batch, 1);
  Steps ours(session, batches);
  const int steps = options.is_smoke ? 2 : batch < 256 ? 50 : 8;
  const std::string file = file_for_peer(session, batches);
  auto peer = Peer::start({"/usr/bin/python3", "bench/peers/ffn.py", file, fmt::to_string(core),
                           fmt::to_string(rate), fmt::to_string(momentum)});
  std::filesystem::remove(file);
  if (!peer)
    return table.row(
        {fmt::to_string(batch), time_text(ours.run(steps).seconds), "not installed", "-", "-", "-"});
  check_losses(ours, *peer);
  std::vector<double> cpu_ratios;
  StepTime last;
  const Comparison c = interleaved(
      options.rounds(15),
      [&] {
        last = ours.run(steps);
        return last.seconds;
      },
      [&] {
        const StepTime theirs = run(*peer, steps);
        cpu_ratios.push_back(last.cpu_seconds / theirs.cpu_seconds);
        return theirs.seconds;
      });
  table.row({fmt::to_string(batch), time_text(c.ours.median), time_text(c.theirs.median), ratio_text(c.ratio),
             ratio_text(spread_of(cpu_ratios)), fmt::format("<= {}", target)});
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
  const std::vector<Batch> own = batches_of(batch, 1), whole = batches_of(batch * team.size, 1);
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
