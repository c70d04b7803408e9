#include "shardwright/frontend/emit.h"

#include <algorithm>
#include <array>
#include <filesystem>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/jax.h"
#include "shardwright/exchange/jax_constraints.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/exchange/shardy.h"
#include "shardwright/exchange/torch.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/verify/verify.h"

namespace shardwright {
namespace {

std::string by_torchrun(int ranks) { return fmt::format("torchrun --nproc_per_node {}", ranks); }
std::string by_python(int) { return "python3"; }
std::string by_nobody(int) { return {}; }

std::map<std::string, std::string> shardy_file(const Pipeline& pipeline, const EmittedPlan& plan) {
  return {{"", shardy_text(pipeline, fmt::format("{}: {}", plan.model, plan.summary))}};
}

struct Writer {
  std::string_view name;
  std::map<std::string, std::string> (*write)(const Pipeline&, const EmittedPlan&);
  std::string (*command)(int ranks);
};
const std::array writers{Writer{"torch", torch_package, by_torchrun}, Writer{"jax", jax_package, by_python},
                         Writer{"jax:constraints", jax_constraints_package, by_python},
                         Writer{"shardy", shardy_file, by_nobody}};

std::string summary_of(const Pipeline& pipeline) {
  std::string out =
      fmt::format("{} rank{}, mesh of a stage: {}", pipeline.rank_count(),
                  pipeline.rank_count() == 1 ? "" : "s", to_text(pipeline.stage(0).graph.meshes[0]));
  if (pipeline.stage_count() > 1)
    out += fmt::format("; {} stages, {}", pipeline.stage_count(), name_of(pipeline.pipelining.schedule));
  if (pipeline.micro_batches() > 1) out += fmt::format("; {} micro-batches", pipeline.micro_batches());
  return out + ".";
}

Json type_json(const Type& type) { return {{"dtype", short_dtype(type.dtype)}, {"shape", type.shape}}; }

}  // namespace

std::vector<std::string> emit_engines() {
  std::vector<std::string> out;
  for (const Writer& engine : writers) out.emplace_back(engine.name);
  return out;
}

void Emitted::save(const std::string& path) const {
  if (files.size() == 1 && files.begin()->first.empty()) return write_file(path, files.begin()->second);
  std::error_code failed;
  std::filesystem::create_directories(path, failed);
  if (failed) throw io_error("{}: cannot be made: {}", path, failed.message());
  for (const auto& [name, text] : files) write_file(path + "/" + name, text);
}

Emitted emit(const Pipeline& pipeline, std::string_view engine, const EmitOptions& options) {
  const auto* const found = std::ranges::find(writers, engine, &Writer::name);
  if (found == writers.end()) throw error("--to {}: there are {}", engine, join(emit_engines(), ", "));
  return {.files = found->write(pipeline, {.model = options.model,
                                           .summary = summary_of(pipeline),
                                           .data = options.data,
                                           .cluster = options.cluster}),
          .command = found->command(pipeline.rank_count())};
}

Emitted emit(const Graph& graph, const Plan& plan, std::string_view engine, const EmitOptions& options) {
  const Pipeline pipeline = compile_pipeline(graph, plan);
  prove(pipeline);
  EmitOptions own = options;
  if (!own.cluster) own.cluster = plan.cluster;
  return emit(pipeline, engine, own);
}

namespace {

Json synthetic_json(const Model& model, int micro_batches) {
  const std::optional<SyntheticTask> task = synthetic_task(model, micro_batches, 0);
  if (!task) return {};
  Json out{
      {"inputs", Json::object()}, {"label", task->label},         {"label_type", type_json(task->label_type)},
      {"classes", task->classes}, {"vocabulary", Json::object()}, {"label_is_share", task->label_is_share}};
  for (const auto& [name, type] : task->inputs) out["inputs"][name] = type_json(type);
  for (const auto& [name, below] : task->vocabulary) out["vocabulary"][name] = below;
  return out;
}

}  // namespace

void save_own_weights(const Model& model, const std::string& path) {
  std::vector<NamedType> types;
  for (const auto& [name, value] : model.initial)
    types.push_back({name, model.graph.value(model.graph.find(name)).type});
  order_in_file(types);
  NewFile file(path);
  file.write(safetensors_head(path, types));
  for (const NamedType& t : types) file.write(convert(model.initial.at(t.name)(), t.type.dtype).bytes());
  file.keep();
}

std::string data_json(const Model& model, int micro_batches) {
  Json out{{"synthetic", synthetic_json(model, micro_batches)},
           {"names", Json::object()},
           {"label_weights", model.label_weights},
           {"brings_weights", !model.initial.empty()}};
  for (const auto& [input, called] : model.data_names)
    out["names"][input] = {{"name", called.name}, {"is_of_next", called.is_of_next}};
  return out.dump();
}

}  // namespace shardwright
