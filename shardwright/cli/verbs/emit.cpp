// A planned program written down for engines that people train with, proven before it is written.
#include "shardwright/frontend/emit.h"

#include <algorithm>
#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/memory_limit.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string to = arguments.text("--to"), path = arguments.text("-o");
  const std::vector<std::string> engines = emit_engines();
  if (to.empty()) throw error("--to says for whom the program is written: {}", join(engines, ", "));
  if (std::ranges::find(engines, to) == engines.end())
    throw error("--to {}: there are {}", to, join(engines, ", "));
  if (path.empty()) throw error("-o DIR says where the package goes; of shardy -o FILE");
  const PlannedModel made = planned_positional(arguments, {"--to", "-o", "--verify-passes"}, terminal);
  const Pipeline pipeline = compiled_for_others(arguments, made.model.graph, made.plan);
  const Evaluation evaluation = own_evaluation_of(arguments, pipeline, made.plan.cluster);
  arguments.tell_notices(terminal.err);
  proven(arguments, pipeline);
  const Emitted emitted = emit(pipeline, to,
                               {.model = made.model.name,
                                .data = data_json(made.model, pipeline.micro_batches()),
                                .cluster = made.plan.cluster});
  emitted.save(path);
  if (!emitted.command.empty()) {
    const bool has_weights = !made.model.initial.empty();
    const std::string weights = path + "/weights.safetensors";
    if (has_weights) save_own_weights(made.model, weights);
    terminal.out << fmt::format("{}: {} files; run {} {}/train.py{}\n", path,
                                emitted.files.size() + has_weights, emitted.command, path,
                                has_weights ? " --init " + weights : "");
  }
  terminal.err << memory_notices(evaluation, made.plan);
  return 0;
}

}  // namespace

std::vector<Verb> emit() {
  return {{.name = "emit",
           .doc = "write the planned program as a package for another engine",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags({{"--to", "ENGINE",
                                     "torch: functions of a rank, run by torchrun; jax: of all, in one "
                                     "jax.shard_map; jax:constraints: "
                                     "whole tensors, which XLA splits; shardy: layouts as text",
                                     ""},
                                    {"-o", "DIR|FILE", "folder of the package", ""}}),
           .example = "shardwright emit plan.json --to torch -o package",
           .run = run}};
}

}  // namespace shardwright::verbs
