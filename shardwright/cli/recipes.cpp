#include "shardwright/cli/recipes.h"

#include <array>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/set_flags.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/model_sizes.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {

std::vector<Flag> recipe_flags(std::vector<Flag> more) {
  std::vector<Flag> out{
      {"--from", "NAME", join(read_formats(), ", ") + " (default: as the file looks)", ""},
      {"--model", "MODEL", "the network, where the file does not say it, or says its sizes only", ""},
      {"--cluster", "C", "the machine: PRESET:N, PRESET:NODESxPER_NODE or a YAML file", ""}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

AskedRecipe recipe_asked(const Arguments& arguments) {
  const std::string cluster = arguments.text("--cluster");
  if (cluster.empty()) throw error("--cluster C says for which machine");
  AskedRecipe out{.path = arguments.positionals[0], .format = {}, .recipe = {}, .model = {}};
  const RecipeFile file{out.path, read_text(out.path), cluster_called(cluster).devices()};
  const std::string from = arguments.text("--from");
  const PlanFormat& format = from.empty() ? format_of(file) : read_format(from);
  out.format = format.name;
  out.recipe = read_recipe(format, file);
  const std::string named = arguments.text("--model");
  if (out.recipe.plan) {
    out.recipe.plan->cluster = cluster_called(cluster);  // it has as many devices
    if (!named.empty() && named != out.recipe.plan->model)
      throw error("--model {} but {} is a plan of {}", named, out.path, out.recipe.plan->model);
    return out;
  }
  try {
    out.model = model_of_recipe(out.recipe, named);
  } catch (const Error& e) {
    throw with_context(e, out.path);
  }
  if (out.model.empty())
    throw error("{}: does not say which network it is for; --model MODEL does", out.path);
  return out;
}

namespace {

Arguments without_own_flags(const Arguments& arguments, const AskedRecipe& asked) {
  Arguments out;
  out.words = {"plan", asked.model};
  out.positionals = {asked.model};
  out.flags["--cluster"] = arguments.text("--cluster");
  out.begin = arguments.begin;
  out.progress = arguments.progress;
  return out;
}

void add(Arguments& to, const AskedRecipe& asked, const std::string& flag, const std::string& text,
         const std::string& key) {
  const auto [it, is_new] = to.flags.emplace(flag, text);
  if (!is_new && it->second != text)
    throw error("{}: {} and {} contradict each other: {} is {} and {}", asked.path, to.called(flag), key,
                flag, it->second, text);
  to.names[flag] = fmt::format("{}: {}", asked.path, key);
  if (flag != "--set") to.of_config.insert(flag);  // what has no effect is told, and no mistake
}

}  // namespace

Arguments as_flags(const Arguments& arguments, const AskedRecipe& asked) try {
  Arguments out = without_own_flags(arguments, asked);
  for (const Recipe::Said& said : asked.recipe.said) add(out, asked, said.flag, said.text, said.key);
  if (out.has("--set")) out = with_set(std::move(out));
  read_strategies(out);
  out.heed_none();
  return out;
} catch (const Error& e) {
  if (names_file(e, asked.path)) throw;
  throw with_context(e, asked.path);
}

Arguments as_open_flags(const Arguments& arguments, const AskedRecipe& asked) {
  Arguments out = without_own_flags(arguments, asked);
  constexpr std::array kept{"--precision",    "--reduce-precision", "--optimizer",  "--lr",
                            "--weight-decay", "--momentum",         "--beta1",      "--beta2",
                            "--epsilon",      "--clip-norm",        "--loss-scale", "--global-batch",
                            "--framework",    "--attention",        "--loss"};
  for (const Recipe::Said& said : asked.recipe.said) {
    if (std::ranges::find(kept, said.flag) != kept.end()) add(out, asked, said.flag, said.text, said.key);
    if (said.flag != "--set") continue;
    const Constraints c = parse_constraints({said.flag, said.text});
    if (c.global_batch) add(out, asked, "--global-batch", std::to_string(*c.global_batch), said.key);
    if (c.framework) add(out, asked, "--framework", *c.framework, said.key);
  }
  out.flags["--search"] = "auto";
  return out;
}

PlannedModel planned_recipe(const Arguments& by, const AskedRecipe& asked, Terminal& terminal) try {
  if (asked.recipe.plan) return planned_model(*asked.recipe.plan, asked.path);
  PlannedModel out = planned_positional(by, {}, terminal);
  by.check_heeded(terminal.err);
  return out;
} catch (const Error& e) {
  if (dynamic_cast<const Infeasible*>(&e)) throw;
  if (names_file(e, asked.path)) throw;
  throw with_context(e, asked.path);
}

std::string recipe_text(const Plan& plan) {
  const std::string all = structure_text(plan);
  return all.substr(0, all.find(';'));
}

std::string not_heeded_text(const AskedRecipe& asked) {
  std::string out;
  for (const std::string& line : asked.recipe.not_heeded) out += fmt::format("{}: {}\n", asked.path, line);
  return out;
}

}  // namespace shardwright
