// A planned program written down for engines that people train with, proven before it is written.
#include <algorithm>
#include <array>
#include <filesystem>
#include <map>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/exchange/jax.h"
#include "shardwright/exchange/jax_constraints.h"
#include "shardwright/exchange/torch.h"
#include "shardwright/exchange/torch_line.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::verbs {
namespace {

Json type_json(const Type& type) {
  constexpr std::string_view prefix = "torch.";
  return {{"dtype", torch_dtype(type.dtype).substr(prefix.size())}, {"shape", type.shape}};
}

/// What the package makes data from where it gets none.
std::string synthetic_json(const Model& model, int micro_batches) {
  const std::optional<SyntheticTask> task = synthetic_task(model, micro_batches, 0);
  if (!task) return {};
  Json out{
      {"inputs", Json::object()}, {"label", task->label},         {"label_type", type_json(task->label_type)},
      {"classes", task->classes}, {"vocabulary", Json::object()}, {"label_is_share", task->label_is_share}};
  for (const auto& [name, type] : task->inputs) out["inputs"][name] = type_json(type);
  for (const auto& [name, below] : task->vocabulary) out["vocabulary"][name] = below;
  return out.dump();
}

std::string summary_of(const Pipeline& pipeline) {
  std::string out =
      fmt::format("{} rank{}, mesh of a stage: {}", pipeline.rank_count(),
                  pipeline.rank_count() == 1 ? "" : "s", to_text(pipeline.stage(0).graph.meshes[0]));
  if (pipeline.stage_count() > 1)
    out += fmt::format("; {} stages, {}", pipeline.stage_count(), name_of(pipeline.pipelining.schedule));
  if (pipeline.micro_batches() > 1) out += fmt::format("; {} micro-batches", pipeline.micro_batches());
  return out + ".";
}

struct EmitEngine {
  std::string_view name;
  std::map<std::string, std::string> (*write)(const Pipeline&, const EmittedPlan&);
  std::string (*command)(int ranks);
};
const std::array engines{
    EmitEngine{"torch", torch_package,
               [](int ranks) { return fmt::format("torchrun --nproc_per_node {}", ranks); }},
    EmitEngine{"jax", jax_package, [](int) { return std::string("python3"); }},
    EmitEngine{"jax:constraints", jax_constraints_package, [](int) { return std::string("python3"); }}};

std::string engine_names() {
  std::vector<std::string> out;
  for (const EmitEngine& engine : engines) out.emplace_back(engine.name);
  return join(out, ", ");
}

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string to = arguments.text("--to"), folder = arguments.text("-o");
  if (to.empty()) throw error("--to says for whom the program is written: {}", engine_names());
  const auto engine = std::ranges::find(engines, to, &EmitEngine::name);
  if (engine == engines.end()) throw error("--to {}: there are {}", to, engine_names());
  if (folder.empty()) throw error("-o DIR says where the package goes");
  const PlannedModel made = planned_positional(arguments, {"--to", "-o", "--verify-passes"}, terminal);
  const Pipeline pipeline = compiled_for_others(arguments, made.model.graph, made.plan);
  const Evaluation evaluation = own_evaluation_of(arguments, pipeline, made.plan.cluster);
  arguments.tell_notices(terminal.err);
  proven(arguments, pipeline);
  const auto files =
      engine->write(pipeline, {.model = made.model.name,
                               .summary = summary_of(pipeline),
                               .synthetic = synthetic_json(made.model, pipeline.micro_batches())});
  std::error_code failed;
  std::filesystem::create_directories(folder, failed);
  if (failed) throw io_error("{}: cannot be made: {}", folder, failed.message());
  for (const auto& [name, text] : files) write_file(folder + "/" + name, text);
  terminal.out << fmt::format("{}: {} files; run {} {}/train.py\n", folder, files.size(),
                              engine->command(pipeline.rank_count()), folder);
  terminal.err << memory_notices(evaluation, made.plan);
  return 0;
}

}  // namespace

std::vector<Verb> emit() {
  return {{.name = "emit",
           .doc = "write the planned program as a package for another engine",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags(
               {{"--to", "ENGINE",
                 "torch: functions of a rank, run by torchrun; jax: of all, in jax.shard_map", ""},
                {"-o", "DIR", "folder of the package", ""}}),
           .example = "shardwright emit plan.json --to torch -o package",
           .run = run}};
}

}  // namespace shardwright::verbs
