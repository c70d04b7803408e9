#include "shardwright/frontend/import_plan.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "shardwright/annotations/patterns.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/file.h"
#include "shardwright/base/progress.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/assumed.h"
#include "shardwright/frontend/fitting_strategies.h"
#include "shardwright/frontend/model_sizes.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/search/planning/settings.h"
#include "shardwright/search/planning/stages_of_plan.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {

ReadRecipe read_recipe(const std::string& path, const ImportOptions& options) {
  if (options.cluster.empty()) throw error("--cluster C says for which machine");
  ReadRecipe out{.path = path, .cluster = cluster_called(options.cluster)};
  const RecipeFile file{path, read_text(path), out.cluster.devices()};
  const PlanFormat& format = options.from.empty() ? format_of(file) : read_format(options.from);
  out.format = format.name;
  out.recipe = read_recipe(format, file);
  if (out.recipe.plan) {
    out.recipe.plan->cluster = out.cluster;  // it has as many devices
    if (!options.model.empty() && options.model != out.recipe.plan->model)
      throw error("--model {} but {} is a plan of {}", options.model, path, out.recipe.plan->model);
    return out;
  }
  try {
    out.model = model_of_recipe(out.recipe, options.model);
  } catch (const Error& e) {
    throw with_context(e, path);
  }
  if (out.model.empty()) throw error("{}: does not say which network it is for; --model MODEL does", path);
  return out;
}

namespace {

/// What a recipe says as settings, one after the other as their table has them.
class Asking {
 public:
  Asking(const ReadRecipe& recipe, RecipePart part) : recipe_(recipe), part_(part) {
    for (const Recipe::Said& said : recipe.recipe.said)
      if (part == RecipePart::all || is_open(said.flag)) add(said.flag, said.text, said.key);
  }

  RecipeRequest run() {
    for (const Recipe::Said& said : recipe_.recipe.said)
      if (said.flag == "--set") add_of_set(parse_set({said.flag, said.text}).said, said.key);
    PlanRequest& r = out_.request;
    r = {.model = recipe_.model,
         .devices = recipe_.cluster.devices(),
         .cluster = recipe_.cluster,
         .search = part_ == RecipePart::open ? "auto" : "",
         .verifies = false};
    if (const auto it = said_.find("--strategy"); it != said_.end()) add_file(it->second);
    bool is_ordered = false;
    for (const SettingRow& row : all_settings()) {
      if (row.part > SettingPart::order && !std::exchange(is_ordered, true)) order();
      const auto said = said_.find(row.flag);
      if (said == said_.end()) continue;
      if (const std::string why = is_ordered ? idle_reason(row, r) : ""; why.empty())
        settings_.parse(r, row, said->second);
      else
        tell_idle(said->second, why);
    }
    tell_unknown();
    return std::move(out_);
  }

 private:
  static bool is_open(const std::string& flag) {
    constexpr std::array kept{"--precision",    "--reduce-precision", "--optimizer",  "--lr",
                              "--weight-decay", "--momentum",         "--beta1",      "--beta2",
                              "--epsilon",      "--clip-norm",        "--loss-scale", "--global-batch",
                              "--framework",    "--attention",        "--loss"};
    return std::ranges::find(kept, flag) != kept.end();
  }

  void add(const std::string& flag, const std::string& text, const std::string& key) {
    const Given given{fmt::format("{}: {}", recipe_.path, key), text};
    const auto [it, is_new] = said_.emplace(flag, given);
    if (!is_new && it->second.text != text)
      throw error("{}: {} and {} contradict each other: {} is {} and {}", recipe_.path, it->second.called,
                  key, flag, it->second.text, text);
  }

  /// What of --set other settings say, too.
  void add_of_set(const Constraints& said, const std::string& key) {
    if (said.global_batch) add("--global-batch", std::to_string(*said.global_batch), key);
    if (said.framework) add("--framework", *said.framework, key);
    if (part_ == RecipePart::open) return;
    const int stages = said.degrees.of("pp");
    if (said.degrees.devices() > 1) add("--parallel", "semi_auto_parallel", key);
    add("--stages", std::to_string(stages), key);
    if (said.micro_batches) add("--micro-batches", std::to_string(*said.micro_batches), key);
    if (said.schedule && stages == 1 && said.schedule->chunks > 1)
      throw error("schedule {}: is for several stages, but there is one", name_of(*said.schedule));
    if (said.zero.value_or(0) == 0)
      for (const char* word : {"zero_threshold", "zero_group"})
        if (constraint_word(word).is_said(said))
          out_.notices.push_back(fmt::format("{}: {} has no effect: there is no zero", recipe_.path, word));
  }

  void add_file(const Given& file) {
    BesideStrategies beside{.search = out_.request.search, .search_called = "--search"};
    if (const auto set = said_.find("--set"); set != said_.end()) beside.whole.push_back(set->second);
    check_takes_strategies(file.called, beside);
    add_strategies(load_strategies(file.text), file.text, file.called, std::nullopt, out_.request);
  }

  /// What is usual where nobody says otherwise, once it is known how many devices and stages there are.
  void order() {
    PlanRequest& r = out_.request;
    r.origin = usual_origin(r.model, r.cluster);
    if (!said_.contains("--parallel"))
      r.parallel =
          r.devices == 1 && part_ == RecipePart::all ? Parallel::stand_alone : Parallel::auto_parallel;
    check_stages(r.constraints, settings_of(r).pipelining);
  }

  void tell_idle(const Given& given, std::string_view why) {
    out_.notices.push_back(fmt::format("{} has no effect: {}", given.called, why));
  }

  void tell_unknown() {
    for (const auto& [flag, given] : said_)
      if (flag != "--strategy" && !setting_of(flag)) tell_idle(given, "it changes nothing of a plan");
  }

  const ReadRecipe& recipe_;
  RecipePart part_;
  std::map<std::string, Given> said_;  // by flag
  SaidSettings settings_;
  RecipeRequest out_;
};

bool says(const ReadRecipe& recipe, const std::string& flag) {
  return std::ranges::find(recipe.recipe.said, flag, &Recipe::Said::flag) != recipe.recipe.said.end();
}

/// The network that is asked for, and of the request what depends on it.
class Planning {
 public:
  Planning(const ReadRecipe& recipe, RecipeRequest asked)
      : recipe_(recipe), request_(std::move(asked.request)), notices_(std::move(asked.notices)) {}

  PlannedModel run() {
    const Pipelining p = settings_of(request_).pipelining;
    if (chooses_structure(request_)) {
      complete(model_of({}), {});
      Plan plan = make_plan(step_of(recipe_.model, request_.origin, true, "", p.interleave), request_);
      Model model = model_of(plan.settings.pipelining);
      tell(model, plan.settings.pipelining.batch_parts());
      return trained(std::move(model), std::move(plan));
    }
    Model model = model_of(p);
    complete(model, p);
    tell(model, p.batch_parts());
    add_train_step(model.graph, model.loss, request_.origin.optimizer);
    Plan plan = make_plan(model.graph, request_);
    return told({std::move(model), std::move(plan)});
  }

  std::vector<std::string> take_notices() { return std::move(notices_); }

 private:
  Model model_of(const Pipelining& p) const {
    return build_model(recipe_.model, model_options(request_.origin, p.batch_parts(),
                                                    p.batch_parts() == 1 ? 1 : p.interleave));
  }

  void complete(const Model& model, const Pipelining& p) {
    if (model.own) set_precision(request_.origin, model.own->precision);
    if (model.has_uneven_loss || model.own) request_.kept_micro_batches = p.micro_batches;
    Constraints said = without_patterns(request_.constraints, model.graph);
    const auto file = std::ranges::find(recipe_.recipe.said, "--strategy", &Recipe::Said::flag);
    if (file != recipe_.recipe.said.end() && request_.search != "auto") {
      FittingStrategies fitting = fitting_strategies(load_strategies(file->text), file->text, model.graph,
                                                     request_, std::nullopt, std::move(said));
      said = std::move(fitting.said);
      for (const std::string& line : fitting.not_heeded)
        notices_.push_back(fmt::format("{}: {}", recipe_.path, line));
    }
    request_.constraints = merged(model.constraints, said);
  }

  void tell(const Model& model, int batch_parts) {
    if (const std::string uneven = uneven_notice(model, batch_parts); !uneven.empty())
      notices_.push_back(uneven);
    for (const auto& [flag, why] : idle_settings(model, request_.origin, batch_parts))
      if (says(recipe_, flag))
        notices_.push_back(fmt::format("{}: {} has no effect: {}", recipe_.path, flag, why));
  }

  PlannedModel trained(Model model, Plan plan) {
    add_train_step(model.graph, model.loss, request_.origin.optimizer);
    return told({std::move(model), std::move(plan)});
  }

  PlannedModel told(PlannedModel made) {
    const Pipelining& p = made.plan.settings.pipelining;
    const std::string mixing = mixing_notice(made.model.graph, p.micro_batches, p.interleave);
    if (!mixing.empty() && !made.model.has_uneven_loss) notices_.push_back(mixing);
    notices_.insert(notices_.end(), made.plan.log.begin(), made.plan.log.end());
    return made;
  }

  const ReadRecipe& recipe_;
  PlanRequest request_;
  std::vector<std::string> notices_;
};

}  // namespace

RecipeRequest request_of(const ReadRecipe& recipe, RecipePart part, const ImportOptions& options) try {
  RecipeRequest out = Asking(recipe, part).run();
  out.request.options.deadline = Deadline(std::nullopt, options.progress);
  out.request.formats = options.formats;
  return out;
} catch (const Error& e) {
  if (names_file(e, recipe.path)) throw;
  throw with_context(e, recipe.path);
}

ImportedPlan planned(const ReadRecipe& recipe, RecipeRequest asked, const ImportOptions& options) {
  ImportedPlan out{.format = recipe.format, .not_heeded = recipe.recipe.not_heeded};
  try {
    if (recipe.recipe.plan) {
      out.made = planned_model(*recipe.recipe.plan, recipe.path);
    } else {
      Planning planning(recipe, std::move(asked));
      out.made = planning.run();
      out.notices = planning.take_notices();
    }
  } catch (const Infeasible&) {
    throw;
  } catch (const Error& e) {
    if (names_file(e, recipe.path)) throw;
    throw with_context(e, recipe.path);
  }
  const Plan& plan = out.made.plan;
  const Doing doing(options.progress, "making the programs of the plan");
  out.evaluation =
      evaluate(compile_pipeline(out.made.model.graph, plan, {.formats = options.formats, .verifies = false}),
               plan.cluster, {.framework = plan.settings.framework});
  return out;
}

ImportedPlan import_plan(const std::string& path, const ImportOptions& options) {
  const ReadRecipe recipe = read_recipe(path, options);
  if (recipe.recipe.plan) return planned(recipe, {}, options);
  return planned(recipe, request_of(recipe, RecipePart::all, options), options);
}

std::string recipe_text(const Plan& plan) {
  const std::string all = structure_text(plan);
  return all.substr(0, all.find(';'));
}

}  // namespace shardwright
