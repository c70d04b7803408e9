// Training steps in mixed precision, bf16 and fp16, against our own in f32 and PyTorch's bf16 autocast on one core: CPU
// time, which is all the time of a single thread that nobody disturbs, and the most memory resident.

#include <fmt/format.h>

#include <cmath>
#include <fstream>
#include <memory>
#include <sstream>

#include "bench/harness/training.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/backend/cpu/instructions.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

struct Case {
  std::string name, model, script, optimizer;
  double rate = 0.01;
  std::int64_t classes = 10;
  int steps = 1, warming = 1, rounds = 7;  // of a turn; turns
  double tolerance = 1e-2;                 // of first losses
};

std::vector<Case> cases(const BenchOptions& options) {
  if (options.is_smoke)
    return {{"ffn 8", "ffn:batch=8", "ffn.py", "momentum"},
            {.name = "decoder",
             .model = "llama:layers=1,hidden=64,heads=1,ffn=64,vocab=32,seq=8,batch=2",
             .script = "decoder.py",
             .optimizer = "adamw",
             .rate = 3e-4,
             .classes = 32}};
  const auto resnet = [](int image) {
    return Case{.name = fmt::format("resnet50 {}", image),
                .model = fmt::format("resnet50:image={},classes=1000,batch=8", image),
                .script = "resnet50.py",
                .optimizer = "momentum",
                .classes = 1000,
                .tolerance = 5e-2};  // 53 norms, the last of them over 32 pixels of 64x64
  };
  return {{"ffn 32", "ffn:batch=32", "ffn.py", "momentum", 0.01, 10, 50, 3, 15},
          {"ffn 1024", "ffn:batch=1024", "ffn.py", "momentum", 0.01, 10, 8, 3, 15},
          {.name = "decoder",
           .model = "llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=256,batch=4",
           .script = "decoder.py",
           .optimizer = "adamw",
           .rate = 3e-4,
           .classes = 8192},
          resnet(64),
          resnet(224)};
}

/// All on the calling thread.
Session session_of(const Case& c, const Precision& precision) {
  Model model = build_model(c.model, {.precision = precision});
  add_train_step(model.graph, model.loss, optimizer_of_peers(c.optimizer, c.rate));
  model.graph.outputs.resize(1);
  Program program =
      compile(model.graph, make_plan(model.graph, {.devices = 1, .parallel = Parallel::stand_alone}),
              {.formats = cpu_formats});
  return Session(std::move(program), std::move(thread_communicators(1).front()), {.seed = 1});
}

std::vector<Batch> batches_of(const Case& c) {
  return random_batches(build_model(c.model).graph, c.classes, 1);
}

/// The batches with inputs of the types that the program wants.
std::vector<Batch> batches_for(const Session& session, std::vector<Batch> batches) {
  for (const Node& node : session.program().graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const Value& value = session.program().graph.value(node.results.front());
    for (Batch& b : batches) b.at(value.name) = convert(b.at(value.name), value.type.dtype);
  }
  return batches;
}

/// A session in one precision and its batches.
struct Side {
  Session session;
  std::vector<Batch> batches;
  Steps steps;

  Side(const Case& c, const Precision& precision, const std::vector<Batch>& all)
      : session(session_of(c, precision)), batches(batches_for(session, all)), steps(session, batches) {}
};

const std::vector<Precision>& precisions() {
  static const std::vector<Precision> all{DType::f32, Precision::mixed(DType::bf16),
                                          Precision::mixed(DType::f16)};
  return all;
}

std::int64_t peak_of(const Case& c, const Precision& precision) {
  return peak_bytes_of([&] {
    Session session = session_of(c, precision);
    const std::vector<Batch> batches = batches_for(session, batches_of(c));
    Steps(session, batches).run(1, 1);
  });
}

const Table& table() {
  static const Table all({"network     ", "f32    ", "bf16   ", "fp16   ", "PyTorch", "bf16 / PyTorch  ",
                          "target", "bf16 / f32      ", "fp16 / f32      ", "target", "f32   ", "bf16  ",
                          "fp16  ", "PyTorch's", "bf16's ratio"});
  return all;
}

std::string megabytes(std::int64_t bytes) { return fmt::format("{} MB", bytes / 1000000); }

Spread ratios(const std::vector<double>& a, const std::vector<double>& b) {
  std::vector<double> out;
  for (std::size_t i = 0; i < a.size(); ++i) out.push_back(a[i] / b[i]);
  return spread_of(out);
}

/// Short types train the same network: their first losses are those of f32, which the peer begins with, too.
void check(const Case& c, const std::vector<std::unique_ptr<Side>>& sides, std::optional<Peer>& peer) {
  const double loss = sides[0]->steps.loss();
  for (std::size_t s = 1; s < sides.size(); ++s)
    if (const double own = sides[s]->steps.loss(); !(std::abs(own - loss) <= c.tolerance * loss))
      throw error("the loss is {} in {} but {} in f32", own, to_text(precisions()[s]), loss);
  if (peer) check_losses({loss}, *peer, c.tolerance);
}

void measure(const Case& c, const std::vector<std::int64_t>& peaks, int core, const BenchOptions& options) {
  const std::vector<Batch> batches = random_batches(session_of(c, DType::f32).program().graph, c.classes, 1);
  std::vector<std::unique_ptr<Side>> sides;
  for (const Precision& p : precisions()) sides.push_back(std::make_unique<Side>(c, p, batches));
  auto peer = start_peer(sides[0]->session, batches, c.script,
                         {fmt::to_string(core), c.optimizer, fmt::to_string(c.rate), "bfloat16"});
  check(c, sides, peer);
  std::vector<std::vector<double>> ours(sides.size());
  std::vector<double> theirs;
  const int steps = options.is_smoke ? 1 : c.steps;
  for (int round = -1; round < options.rounds(c.rounds); ++round) {
    std::vector<double> now;
    for (const auto& s : sides) now.push_back(s->steps.run(steps, c.warming).cpu_seconds);
    const double other = peer ? run(*peer, steps, c.warming).cpu_seconds : 0;
    if (round < 0) continue;  // caches and clocks are warming up
    for (std::size_t s = 0; s < sides.size(); ++s) ours[s].push_back(now[s]);
    theirs.push_back(other);
  }
  std::vector<std::string> cells{c.name};
  for (const auto& seconds : ours) cells.push_back(time_text(spread_of(seconds).median));
  cells.push_back(peer ? time_text(spread_of(theirs).median) : "not installed");
  cells.push_back(peer ? ratio_text(ratios(ours[1], theirs)) : "-");
  cells.insert(cells.end(),
               {"<= 1", ratio_text(ratios(ours[1], ours[0])), ratio_text(ratios(ours[2], ours[0])), "<= 3"});
  for (const std::int64_t p : peaks) cells.push_back(megabytes(p));
  const std::int64_t peers = peer ? peer->peak_bytes() : 0;
  cells.push_back(peer ? megabytes(peers) : "-");
  cells.push_back(peer ? fmt::format("{:.2f}", static_cast<double>(peaks[1]) / static_cast<double>(peers))
                       : "-");
  table().row(cells);
}

/// Those of the CPU's instruction sets that short types are about.
std::string instructions() {
  std::ifstream info("/proc/cpuinfo");
  std::string flags;
  while (std::getline(info, flags) && !flags.starts_with("flags")) continue;
  std::istringstream words(flags);
  std::string out;
  for (std::string word; words >> word;)
    for (const char* wanted :
         {"avx2", "f16c", "avx512f", "avx512_bf16", "avx512_fp16", "amx_bf16", "amx_fp16"})
      if (word == wanted) out += word + " ";
  return out;
}

void bench(const BenchOptions& options) {
  const int core = pin();
  std::vector<std::vector<std::int64_t>> peaks;  // before anything is resident that children would count
  for (const Case& c : cases(options)) {
    peaks.emplace_back();
    for (const Precision& p : precisions()) peaks.back().push_back(peak_of(c, p));
  }
  table().begin(fmt::format(
      "CPU time of a training step in mixed precision, PyTorch's bf16 autocast, and the most "
      "memory resident\nThe CPU has {}; oneDNN uses {}; bf16 is multiplied {}",
      instructions(), cpu::instructions_of_onednn(), cpu::multiplies_bf16() ? "as such" : "in f32"));
  std::size_t i = 0;
  for (const Case& c : cases(options)) measure(c, peaks[i++], core, options);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
