// A token of a decoder on one core, with the keys and values of those before kept, against PyTorch with a cache.

#include <fmt/format.h>

#include <filesystem>
#include <numeric>

#include "bench/harness/measure.h"
#include "bench/harness/peer.h"
#include "shardwright/frontend/generate.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

/// The initial weights of a decoder, all of them.
std::map<std::string, Tensor> weights_of(const std::string& model) {
  const Graph graph = build_model(model).graph;
  const Session session(compile_pipeline(graph, make_plan(graph, {.parallel = Parallel::stand_alone})));
  std::map<std::string, Tensor> out;
  for (const Kept& value : session.kept().all()) out[value.name] = session.get(value.name);
  return out;
}

void against_pytorch(const Table& table, const std::string& model, std::int64_t tokens,
                     const BenchOptions& options) {
  const int core = pin();
  const std::string path =
      (std::filesystem::temp_directory_path() / fmt::format("bench_generate.{}.safetensors", ::getpid()))
          .string();
  write_safetensors(path, weights_of(model));
  Generator generator(model, 1, tokens + 1);
  generator.load(path);
  const auto ours = [&] {
    const Generated out = generator({{1}}, tokens);
    return out.seconds / static_cast<double>(out.steps);
  };
  auto peer = Peer::start(
      {"/usr/bin/python3", "bench/peers/generating.py", path, fmt::to_string(core), fmt::to_string(tokens)});
  std::filesystem::remove(path);
  if (!peer) return table.row({model, fmt::to_string(tokens), time_text(ours()), "not installed", "-"});
  const auto theirs = [&] {
    double seconds = 0;
    for (const Peer::Step& step : peer->run(static_cast<int>(tokens))) seconds += step.seconds;
    return seconds / static_cast<double>(tokens);
  };
  const Comparison c = interleaved(options.rounds(9), ours, theirs);
  table.row({model, fmt::to_string(tokens), time_text(c.ours.median), time_text(c.theirs.median),
             ratio_text(c.ratio)});
}

/// The first token behind a prompt that is fed in one pass, beside as many tokens one by one.
void first_token(const Table& table, const std::string& model, std::int64_t prompt,
                 const BenchOptions& options) {
  pin();
  Generator generator(model, 1, prompt + 1, {.prompt = prompt});
  const std::vector<Generator::Tokens> prompts{Generator::Tokens(static_cast<std::size_t>(prompt), 1)};
  const auto in_one_pass = [&] { return generator(prompts, 1).first_seconds; };
  const auto by_token = [&] { return generator({{1}}, prompt).seconds; };
  const Comparison c = interleaved(options.rounds(5), in_one_pass, by_token);
  table.row({model, fmt::to_string(prompt), time_text(c.ours.median), time_text(c.theirs.median),
             ratio_text(c.ratio)});
}

void bench(const BenchOptions& options) {
  const Table firsts({"model                                                    ", "prompt", "one pass",
                      "by token", "one pass / by token"});
  firsts.begin("The first token behind a prompt on one core");
  if (options.is_smoke)
    first_token(firsts, "llama:layers=1,hidden=64,heads=1,ffn=64,vocab=64,seq=32,batch=1", 20, options);
  else
    first_token(firsts, "llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=1024,batch=1", 1000,
                options);

  const Table table({"model                                                    ", "tokens", "ours   ",
                     "PyTorch", "ours / PyTorch  "});
  table.begin("A token of one sequence on one core, from a cache, mean over all places");
  if (options.is_smoke)
    return against_pytorch(table, "llama:layers=1,hidden=64,heads=1,ffn=64,vocab=64,seq=16,batch=1", 4,
                           options);
  against_pytorch(table, "llama:layers=4,hidden=256,heads=4,ffn=688,vocab=4096,seq=256,batch=1", 64, options);
  against_pytorch(table, "llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=512,batch=1", 64,
                  options);
  against_pytorch(table, "llama:layers=4,hidden=512,heads=8,ffn=1376,vocab=8192,seq=512,batch=1", 400,
                  options);
  against_pytorch(table,
                  "llama:layers=8,hidden=1024,heads=16,kv_heads=4,ffn=2752,vocab=16000,seq=256,batch=1", 64,
                  options);
}

}  // namespace
}  // namespace shardwright

int main(int argc, char** argv) { return shardwright::run_bench(argc, argv, shardwright::bench); }
