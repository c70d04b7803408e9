#include "shardwright/cli/prepare_training.h"

#include <cstdlib>
#include <filesystem>
#include <ostream>
#include <sstream>

#include "shardwright/base/file.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/frontend/bucketed_steps.h"
#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/frontend/table.h"
#include "shardwright/ops/row_updates.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/training/finite.h"

namespace shardwright {
namespace {

std::optional<std::uint64_t> seed_in(const Arguments& arguments) {
  if (!arguments.has("--seed")) return std::nullopt;
  return static_cast<std::uint64_t>(arguments.integer("--seed", 1, 0));
}

struct Initial {
  std::map<std::string, InitialValue> values;
  std::string infinite;  // which of --init holds infinity, and where
};

/// The model's own, or what the file of --init holds; a checkpoint is read by the ranks themselves.
Initial initial_of(const Arguments& arguments, Model& model, const CheckpointPlans& checkpoints) {
  Initial out{.values = std::move(model.initial)};
  if (!arguments.has("--init") || checkpoints.init) return out;
  const std::string path = arguments.text("--init");
  const bool is_peft = model.folder && model.folder->adapters && has_peft_names(path);
  auto parameters = is_peft ? initial_parameters(model.graph, path, read_adapters(*model.folder, path))
                            : initial_parameters(model.graph, path);
  if (const std::string infinity = infinity_in(parameters); !infinity.empty())
    out.infinite = fmt::format("{}: {}", arguments.text("--init"), infinity);
  for (auto& [name, value] : parameters) out.values[name] = [value = std::move(value)] { return value; };
  return out;
}

bool is_same_folder(const std::string& a, const std::string& b) {
  return std::filesystem::weakly_canonical(a) == std::filesystem::weakly_canonical(b);
}

/// The folder of `flag`, which is written in the end. Throws: Error if there is none for the model, or nothing can be written there.
std::string folder_of(const Arguments& arguments, const std::string& flag, const Model& model) {
  const std::string folder = arguments.text(flag);
  if (!arguments.has(flag)) return "";
  if (folder.empty()) throw error("{}: give a folder", flag);
  if (!model.folder)
    throw error("{} {}: {} comes from no folder with config.json, which says how tensors are called there",
                flag, folder, model.name);
  if (flag == "--save-merged" && !model.folder->adapters)
    throw error("{} {}: {} has no adapters to merge; --save-folder saves it", flag, folder, model.name);
  if (flag == "--save-merged" && !arguments.text("--save-folder").empty() &&
      is_same_folder(folder, arguments.text("--save-folder")))
    throw error("{} {}: is the folder of --save-folder, too; name another", flag, folder);
  if (is_first_rank()) check_saves(*model.folder, flag, folder);
  return folder;
}

/// What binds `plan`, asked when it has been trained. `arguments` outlive it.
BoundOf bound_later(const Arguments& arguments, const Model& model, const Plan& plan,
                    std::vector<Tried> tried) {
  if (is_given_plan(arguments)) return {};
  return [&arguments, model, plan, tried = std::move(tried)](const Evaluation& e) {
    return bound_of(arguments, model, plan, e, tried);
  };
}

/// Of --buckets. Throws: Error if it goes with none of the other flags.
std::vector<std::int64_t> lengths_of(const Arguments& arguments) {
  if (!arguments.has("--buckets")) return {};
  for (const char* flag : {"--trace", "--compare-plan", "--html", "--save-strategy"})
    if (arguments.has(flag))
      throw error("--buckets: {} is of one program; train with one length for it", flag);
  return bucket_lengths(arguments.text("--buckets"));
}

/// The program of the longest; the others go to `shorter`.
Prepared prepared_buckets(const std::vector<StepToPrepare>& steps, const PrepareOptions& options,
                          std::vector<Prepared>& shorter) {
  std::vector<Prepared> all = prepare_together(steps, options);
  shorter.assign(std::make_move_iterator(all.begin() + 1), std::make_move_iterator(all.end()));
  return std::move(all.front());
}

}  // namespace

PreparedTraining prepare_training(const Arguments& arguments, std::optional<FolderLock> lock,
                                  std::optional<Checkpoint> copies, Terminal& terminal) {
  std::ostringstream notices;  // told once nothing can be wrong any more
  CheckpointOptions asked_of_checkpoints = checkpoint_options(arguments);
  asked_of_checkpoints.copies = std::move(copies);
  CheckpointPlans checkpoints = checkpoint_plans(asked_of_checkpoints, std::move(lock), notices);
  const std::uint64_t seed = seed_of(seed_in(arguments), checkpoints);
  arguments.heed("--save-strategy");
  if (is_first_rank()) {  // before a long search
    require_strategies_writable(arguments);
    require_page_writable(arguments);
  }
  const bool has_page = !arguments.text("--html").empty();
  automatic::Stock stock;  // what the search looks at, for the page
  Model model = model_to_plan(arguments, true, terminal, has_page ? &stock : nullptr);
  const OptimizerChoice optimizer = optimizer_of(arguments, model);
  add_train_step(model.graph, model.loss, optimizer);
  const Plan plan = has_page && !arguments.has("--plan") ? planned_of(arguments, model, terminal, &stock).plan
                                                         : plan_of(arguments, model, model.graph, terminal);
  const char* data_path = std::getenv("DATA_PATH");
  tell_idle_samples(arguments, {"--data", "--eval"}, takes_places(model) || arguments.has("--buckets"));
  for (const std::string& notice : model.notices) notices << notice << "\n";
  const std::vector<std::int64_t> lengths = lengths_of(arguments);
  const int batch_parts = plan.settings.pipelining.batch_parts();
  const SampleSource source = source_of(arguments, "--data");
  for (const std::string& notice : tables_updated_whole(model.graph)) notices << notice << "\n";
  TrainingData data =
      lengths.empty() ? training_data(model, batch_parts, source, data_path ? data_path : "", seed, notices)
                      : bucketed_data(model, batch_parts, source, lengths, seed, notices);
  tell_unread_columns(model, source, SamplePart::train, notices);
  if (arguments.has("--eval"))
    tell_unread_columns(model, source_of(arguments, "--eval"), SamplePart::test, notices);
  const Length length = length_of(arguments, data);
  AskedTraining asked =
      training_options(arguments, model, length, optimizer.attributes.number("rate", 0), plan, checkpoints);
  const std::string save_folder = folder_of(arguments, "--save-folder", model),
                    save_merged = folder_of(arguments, "--save-merged", model);
  // What stands beside adapters no checkpoint has, and a file need not have it.
  const bool is_elsewhere = arguments.has("--init") || !checkpoints.resume.empty();
  const bool takes_weights =
      model.folder && model.folder->weights && (!is_elsewhere || model.folder->adapters);
  if (model.folder) model.initial.clear();  // ranks read their own parts
  auto [initial, infinite_parameter] = initial_of(arguments, model, checkpoints);

  const BatchSize batch = batch_size_of(model.graph, plan, model.tokens);
  check_batch(checkpoints, data.samples);
  check_lengths(checkpoints, data.lengths);
  tell_changes(checkpoints, model.name, plan.origin, asked.options.run.schedule, notices);

  const std::string trace_path = arguments.text("--trace");
  const bool compares = arguments.is_on("--compare-plan");
  Reporter reporter(arguments, length, batch, terminal);
  reporter.suspect(data.source, infinite_parameter);
  const ReportStyle style = arguments.has("--json") ? ReportStyle{} : style_of(arguments, terminal);
  std::optional<Evaluation> looked_at;
  PrepareOptions prepares = prepare_options_of(arguments);
  prepares.proves = is_first_rank();  // for all
  prepares.accept = [&](const Pipeline& pipeline) {
    if (looked_at) return;  // what is shorter takes no more
    looked_at = own_evaluation_of(arguments, pipeline, plan.cluster);
    notices << memory_notices(*looked_at, plan);  // now, and when it has run
    if (arguments.has("--json")) tell_assumed(arguments, model);
    arguments.check_heeded(terminal.err);
    tell_if_long(pipeline.rank_count(), "devices", "is a thread here", terminal);
    if (is_first_rank() && !trace_path.empty()) require_writable(trace_path);
  };
  std::vector<Prepared> shorter;
  Prepared program =
      lengths.size() < 2
          ? prepare(model.graph, plan, prepares)
          : prepared_buckets(bucketed_steps({model.graph, plan}, lengths, planning_request(arguments, model),
                                            is_given_plan(arguments), notices),
                             prepares, shorter);
  if (is_first_rank()) save_strategies(arguments, model.graph, plan, program.pipeline(), terminal);
  for (const std::string& notice : program.notices()) notices << notice << "\n";
  terminal.err << notices.str();
  const Evaluation& expected = *looked_at;
  std::optional<RunPage> page;
  if (!arguments.has("--json") || has_page) {
    StepReport told = step_report(model.graph, plan, expected, batch, prepares.device.formats,
                                  assumed_in(arguments, model));
    if (!arguments.has("--json")) terminal.out << to_text(told, style) << std::flush;
    if (has_page)
      page.emplace(arguments, plan, expected, std::move(told), batch,
                   bound_later(arguments, model, plan, std::move(stock.tried)));
  }
  TrainingOptions& options = asked.options;
  if (!lengths.empty()) options.tokens = 0;  // a step has as many as its sequences are long
  options.run.model = model.name;
  options.run.seed = seed;
  options.run.samples = data.samples;
  options.run.lengths = data.lengths;
  options.plan = to_json(plan);
  options.progress = arguments.progress;
  if (!trace_path.empty()) options.recording = Recording::two;
  if (compares || (has_page && trace_path.empty())) options.recording = Recording::eight;
  return {std::move(data),        std::move(initial), model.folder,
          takes_weights,          save_folder,        save_merged,
          std::move(program),     std::move(shorter), std::move(reporter),
          std::move(checkpoints), std::move(asked),   trace_path,
          plan.cluster,           compares,           memory_notices(expected, plan),
          std::move(page)};
}

}  // namespace shardwright
