// What the cost model says of training steps, beside what they take on this machine: known networks and three drawn from
// a seed, on one and two devices, with a cluster that `calibrate` has measured before. It has seen none of them.

#include <fmt/format.h>
#include <sys/resource.h>

#include <unistd.h>

#include <atomic>
#include <cmath>
#include <deque>
#include <filesystem>
#include <iostream>
#include <set>

#include "bench/harness/drawn_network.h"
#include "bench/harness/measure.h"
#include "bench/harness/training.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/cli/verb.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {
namespace {

struct Case {
  std::string name;
  std::string model;  // empty: drawn from the seed
  std::uint64_t seed = 0;
  std::int64_t batch = 16;  // of a drawn one
  std::string optimizer = "momentum";
  std::int64_t classes = 10;
  int steps = 20;
};

std::vector<Case> cases(const BenchOptions& options) {
  if (options.is_smoke)
    return {{.name = "ffn", .model = "ffn:batch=8", .steps = 4},
            {.name = "seed 1", .seed = 1, .batch = 2, .steps = 4}};
  return {{.name = "ffn", .model = "ffn:batch=128", .steps = 200},
          {.name = "resnet18", .model = "resnet18:image=64,batch=16"},
          {.name = "resnet50", .model = "resnet50:image=64,batch=8"},
          {.name = "decoder",
           .model = "llama:layers=4,hidden=256,heads=4,ffn=688,vocab=2048,seq=128,batch=4",
           .optimizer = "adamw",
           .classes = 2048},
          {.name = "seed 1", .seed = 1},
          {.name = "seed 2", .seed = 2},
          {.name = "seed 3", .seed = 3, .batch = 8}};
}

Pipeline compiled(const Case& c, int devices, const Cluster& cluster) {
  Model model = c.model.empty() ? drawn_network(c.seed, c.batch) : build_model(c.model);
  add_train_step(model.graph, model.loss, optimizer_of_peers(c.optimizer, 1e-3));
  model.graph.outputs.resize(1);
  const FormatsOf formats = default_devices().formats;
  PlanRequest request;  // member by member: GCC 12 warns wrongly of what a list leaves out
  request.devices = devices;
  request.cluster = cluster;
  request.parallel = devices > 1 ? Parallel::data_parallel : Parallel::stand_alone;
  request.formats = formats;
  return compile_pipeline(model.graph, make_plan(model.graph, request), {.formats = formats});
}

/// How often another process has taken the core of the calling thread.
long losses_of_core() {
  rusage usage{};
  getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_nivcsw;
}

struct Measured {
  double seconds = 0;         // median of the steps that count
  std::size_t steps = 0;      // so many
  bool is_disturbed = false;  // there were too few in which nobody else had the cores, so all count
  std::int64_t bytes = 0;     // of the arena that is in memory
  StepTrace trace;            // of the steps that count
};

/// A step of the first rank, and how often any rank has lost its core in it.
struct OneStep {
  double seconds = 0;
  std::atomic<int> losses{0};
};

/// Without the events of steps that do not count.
StepTrace part_of(const StepTrace& trace, const std::set<int>& steps) {
  StepTrace out;
  for (const auto& events : trace.ranks) {
    std::vector<TraceEvent>& to = out.ranks.emplace_back();
    auto begin = events.begin();
    for (auto e = events.begin(); e != events.end(); ++e) {
      if (e->activity != Activity::step) continue;
      if (steps.contains(e->instruction.what)) to.insert(to.end(), begin, e + 1);
      begin = e + 1;
    }
  }
  return out;
}

/// One device: seconds that its thread has had a core. Several: seconds of the clock, of steps in which no rank has lost
/// its core; more steps than `c.steps` until there are enough of them, or it takes too long.
Measured measured(const Pipeline& pipeline, const Case& c, const BenchOptions& options) {
  constexpr int warming = 3;
  constexpr std::size_t enough = 7;
  const double most_seconds = options.is_smoke ? 1 : 15;
  const int devices = pipeline.rank_count();
  const std::vector<Batch> batches = random_batches(pipeline.stage(0).graph, c.classes, 1);
  auto communicators = thread_communicators(devices);
  std::deque<OneStep> steps;
  bool is_over = false;  // changed by the first rank while the others wait
  Measured out;
  const auto quiet = [&] {
    std::set<int> numbers;
    for (std::size_t s = 0; s < steps.size(); ++s)
      if (devices == 1 || steps[s].losses == 0) numbers.insert(static_cast<int>(s) + warming);
    return numbers;
  };
  on_threads(devices, [&](Communicator& meeting) {
    const int r = meeting.rank();
    pin(r);
    Session session(pipeline, std::move(communicators[static_cast<std::size_t>(r)]),
                    {.seed = 1, .clock = devices == 1 ? TraceClock::thread : TraceClock::machine});
    const auto now = [&] { return devices == 1 ? cpu_seconds_now() : seconds_now(); };
    const double begin = seconds_now();
    for (int s = -warming; !is_over; ++s) {
      session.record(s >= 0);
      if (r == 0 && s >= 0) steps.emplace_back();
      meeting.barrier();
      const long before = losses_of_core();
      const double start = now();
      session.step(batches[static_cast<std::size_t>(s + warming) % batches.size()]);
      const double seconds = now() - start;
      if (s >= 0) steps[static_cast<std::size_t>(s)].losses += static_cast<int>(losses_of_core() - before);
      meeting.barrier();
      if (r == 0 && s >= 0) {
        steps[static_cast<std::size_t>(s)].seconds = seconds;
        is_over = s + 1 >= c.steps && (quiet().size() >= enough || seconds_now() - begin > most_seconds);
      }
      meeting.barrier();
    }
    StepTrace trace = session.trace();
    const MemoryMarks memory = session.memory_marks();
    if (r > 0) return;
    out.trace = std::move(trace);
    out.bytes = *std::ranges::max_element(memory.measured);
  });
  std::set<int> numbers = quiet();
  out.is_disturbed = numbers.size() < 3;
  if (out.is_disturbed)
    for (std::size_t s = 0; s < steps.size(); ++s) numbers.insert(static_cast<int>(s) + warming);
  std::vector<double> seconds;
  for (int n : numbers) seconds.push_back(steps[static_cast<std::size_t>(n - warming)].seconds);
  out.steps = seconds.size();
  out.seconds = spread_of(seconds).median;
  out.trace = part_of(out.trace, numbers);
  return out;
}

/// What differs most, as shares of the measured step: `chain +3 %, reduce_sum -2 %`.
std::string differences(const StepComparison& c) {
  std::vector<std::pair<double, std::string>> all;
  const auto add = [&](const ComparedPart& p) {
    all.emplace_back((p.predicted_seconds - p.measured_seconds) / c.step.measured_seconds, p.name);
  };
  for (const auto* parts : {&c.operators, &c.collectives})
    for (const ComparedPart& p : *parts) add(p);
  add(c.others);
  std::ranges::sort(all, std::ranges::greater(), [](const auto& p) { return std::abs(p.first); });
  std::string out;
  for (std::size_t i = 0; i < std::min<std::size_t>(4, all.size()); ++i)
    out += fmt::format("{}{} {:+.0f} %", i > 0 ? ", " : "", all[i].second, 100 * all[i].first);
  return out;
}

/// That of a file `host.yaml` here, or measured now.
Cluster host(const BenchOptions& options) {
  if (std::filesystem::exists("host.yaml")) return cluster_called("host.yaml");
  const std::string path = std::filesystem::temp_directory_path() / fmt::format("truth-{}.yaml", getpid());
  std::vector<std::string> words{"calibrate", "--out", path};
  if (options.is_smoke) words.emplace_back("--quick");
  Terminal terminal{std::cin, std::cerr, std::cerr};
  if (const int status = run_command(words, terminal); status != 0)
    throw error("calibrate ends with {}", status);
  const Cluster out = cluster_called(path);
  std::filesystem::remove(path);
  return out;
}

void bench(const BenchOptions& options) {
  const Cluster cluster = host(options);
  const Table table({"network ", "devices", "measured", "predicted", "ratio", "target   ", "steps",
                     "in memory", "arena    ", "ratio", "target   ", "predicted less measured, of the step"});
  table.begin("A training step, measured and predicted; * disturbed by other processes");
  for (const int devices : {1, 2})
    for (const Case& c : cases(options)) {
      if (devices > cluster.devices()) continue;
      const Cluster own = cluster.part(0, devices);
      const Pipeline pipeline = compiled(c, devices, own);
      const Measured m = measured(pipeline, c, options);
      const Estimate e = estimate(pipeline, own);
      table.row({c.name, fmt::to_string(devices), time_text(m.seconds), time_text(e.step_seconds()),
                 fmt::format("{:.2f}", e.step_seconds() / m.seconds), "0.85-1.15",
                 fmt::format("{}{}", m.steps, m.is_disturbed ? "*" : ""),
                 fmt::format("{:.1f} MB", static_cast<double>(m.bytes) * 1e-6),
                 fmt::format("{:.1f} MB", static_cast<double>(e.arena_bytes) * 1e-6),
                 fmt::format("{:.3f}", static_cast<double>(e.arena_bytes) / static_cast<double>(m.bytes)),
                 "0.97-1.03", differences(compared(pipeline, own, m.trace))});
    }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
