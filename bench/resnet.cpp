// Training steps of ResNet-50 with momentum against PyTorch on one core: time, and the most memory resident.

#include <fmt/format.h>

#include "bench/harness/training.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

constexpr double rate = 0.01, momentum = 0.9;
constexpr std::int64_t classes = 1000;

struct Case {
  std::int64_t batch, image;
  double time_target, memory_target;
  std::string model() const {
    return fmt::format("resnet50:batch={},image={},classes={}", batch, image, classes);
  }
};

/// All on the calling thread.
Session session_of(const Case& c) {
  Model model = build_model(c.model());
  add_train_step(model.graph, model.loss, {"momentum", {{"rate", rate}, {"momentum", momentum}}});
  Program program =
      compile(model.graph, make_plan(model.graph, {.devices = 1, .parallel = Parallel::stand_alone}),
              {.formats = cpu_formats});
  return Session(std::move(program), std::move(thread_communicators(1).front()), {.seed = 1});
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{} MB", bytes / 1000000); }

void bench(const BenchOptions& options) {
  const std::vector<Case> cases = options.is_smoke
                                      ? std::vector<Case>{{4, 64, 1, 1}}
                                      : std::vector<Case>{{16, 64, 0.65, 0.8}, {8, 224, 0.8, 0.8}};
  const int core = pin();
  std::vector<std::int64_t> peaks;  // before this process has anything resident that children would count
  for (const Case& c : cases)
    peaks.push_back(peak_bytes_of([&] {
      Session session = session_of(c);
      const std::vector<Batch> batches = random_batches(session.program().graph, classes, 1);
      Steps(session, batches).run(1, 1);
    }));
  const Table table({"batch", "image", "ours   ", "PyTorch", "ours / PyTorch  ", "of CPU time     ",
                     "target ", "resident", "PyTorch's", "ratio", "target "});
  table.begin("A training step of ResNet-50 on one core, and PyTorch's");
  for (std::size_t i = 0; i < cases.size(); ++i) {
    const Case& c = cases[i];
    Session session = session_of(c);
    const std::vector<Batch> batches = random_batches(session.program().graph, classes, 1);
    const auto found = against_peer(session, batches,
                                    {.script = "resnet50.py",
                                     .words = {fmt::to_string(core), "momentum", fmt::to_string(rate)},
                                     .steps = 1,
                                     .warming = 1,
                                     .rounds = options.rounds(7),
                                     .compared = 1});  // norms over few pixels let later ones diverge
    const std::vector<std::string> name{fmt::to_string(c.batch), fmt::to_string(c.image)};
    if (!found) {
      table.row({name[0], name[1], time_text(Steps(session, batches).run(1, 1).seconds), "not installed", "-",
                 "-", "-", megabytes(peaks[i]), "-", "-", "-"});
      continue;
    }
    table.row({name[0], name[1], time_text(found->time.ours.median), time_text(found->time.theirs.median),
               ratio_text(found->time.ratio), ratio_text(found->cpu_ratio),
               fmt::format("<= {}", c.time_target), megabytes(peaks[i]), megabytes(found->peak_bytes),
               fmt::format("{:.2f}", static_cast<double>(peaks[i]) / static_cast<double>(found->peak_bytes)),
               fmt::format("<= {}", c.memory_target)});
  }
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
