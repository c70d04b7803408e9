#include "shardwright/cli/device_counts.h"

#include <algorithm>
#include <ostream>

#include "shardwright/base/duration.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/frontend/report.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/search/planning/device_counts.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {
namespace {

Objective objective_of(const Arguments& arguments) {
  if (!arguments.has("--objective")) return Objective::time;
  return static_cast<Objective>(arguments.given("--objective").word(objective_names));
}

/// `8,16,32`, ascending. Throws: Error on what is no number of devices, and on what is said twice.
std::vector<int> counts_said(const Given& given) {
  std::vector<int> out;
  for (const std::string_view word : split(given.text, ',')) {
    const auto n = to_integer(trim(word));
    if (!n || *n < 1 || *n > most_devices)
      throw given.wrong(
          fmt::format("'{}' should be a number of devices from 1 to {}, as in 8,16,32", word, most_devices));
    out.push_back(static_cast<int>(*n));
  }
  std::ranges::sort(out);
  if (const auto twice = std::ranges::adjacent_find(out); twice != out.end())
    throw given.wrong(fmt::format("{} is there twice", *twice));
  return out;
}

std::optional<double> target_of(const Arguments& arguments) {
  if (!arguments.has("--target-step")) return std::nullopt;
  return seconds_of(arguments.given("--target-step"));
}

/// Throws: Error on what goes with one number of devices only. `flag` says that there are several.
void check_counts(const Arguments& arguments, const std::string& flag) {
  if (arguments.has("--plan"))
    throw error("{} and --plan {} exclude each other: a plan is for its own devices", flag,
                arguments.text("--plan"));
  if (arguments.has("--set"))
    throw error("{} and --set exclude each other: --set says how many devices; --fix fixes less", flag);
  if (flag == "--over") {
    for (const char* file : {"-o", "--html", "--save-strategy"})
      if (arguments.has(file))
        throw error(
            "{}: --over makes a plan for each number of devices; --objective price or devices chooses one",
            file);
    if (arguments.has("--target-step"))
      throw error(
          "--target-step {}: --over looks for the fastest plans; --objective price or devices has targets",
          arguments.text("--target-step"));
  }
}

/// The cluster of the request, which --over may leave open.
void complete_machine(Arguments& arguments, int most) {
  if (!arguments.has("--cluster") && !arguments.has("--devices"))
    arguments.flags["--devices"] = fmt::format("{}", most);
  if (!arguments.has("--cluster")) return;
  std::string& name = arguments.flags.at("--cluster");
  if (is_kind_of_machine(name)) name += fmt::format(":{}", most);
}

CountedSearch counted_search(const Arguments& arguments, const SearchAsked& asked) {
  CountedSearch out{asked.step, asked.request, {}};
  if (!out.request.cluster) out.request.cluster = host_cluster(out.request.devices);
  const CompileOptions options = compile_options_of(arguments);
  out.evaluate = [&arguments, options](const Graph& graph, const Plan& plan) {
    try {
      return evaluation_of(arguments, compile_pipeline(graph, plan, options), plan.cluster,
                           plan.settings.framework);
    } catch (const Refusal& refusal) {  // by --memory-cap
      return refusal.evaluation;
    }
  };
  return out;
}

/// Throws: Error if the cluster has fewer.
std::vector<int> counts_of(const Arguments& arguments, const CountedSearch& search) {
  if (!arguments.has("--over")) return usual_counts(*search.request.cluster);
  std::vector<int> out = counts_said(arguments.given("--over"));
  const Cluster& cluster = *search.request.cluster;
  if (out.back() > cluster.devices())
    throw error("--over {}: cluster {} has {} devices", out.back(), cluster.name, cluster.devices());
  return out;
}

// ---- one of them ----

/// Why it is not what is wanted.
std::string miss_text(const CountedPlan& c, const CountWanted& wanted) {
  if (!c.evaluation) return c.why;
  if (!c.fits()) return fmt::format("{} too much", bytes_text(c.evaluation->excess_bytes()));
  return wanted.is_met_by(c) ? "" : seconds_text(*c.seconds());
}

/// What was looked at, each with why it is not meant.
std::string looked_at_text(const CountChoice& choice, const CountWanted& wanted) {
  std::vector<std::string> out;
  for (const CountedPlan& c : choice.looked_at) {
    std::string why = miss_text(c, wanted);
    if (why.empty() && wanted.objective == Objective::price) why = fmt::format("{:.4g} a step", *c.price());
    out.push_back(fmt::format("{}{}", c.devices, why.empty() ? "" : fmt::format(" ({})", why)));
  }
  return "looked at " + join(out, ", ");
}

std::string wanted_text(const CountWanted& wanted) {
  return wanted.target_seconds
             ? fmt::format("fit and take at most {} a step", seconds_text(*wanted.target_seconds))
             : "fit";
}

std::string text_of(const CountChoice& choice, const CountWanted& wanted) {
  const int devices = choice.looked_at[*choice.best].devices;
  return fmt::format("objective {}: {} device{}, the {} that {}; {}",
                     objective_names[static_cast<std::size_t>(wanted.objective)], devices,
                     devices == 1 ? "" : "s",
                     wanted.objective == Objective::price ? "cheapest of those" : "fewest",
                     wanted_text(wanted), looked_at_text(choice, wanted));
}

// ---- the curve ----

/// Of a step on all numbers of devices: the same.
BatchSize batch_of_step(const SearchAsked& asked) {
  Plan as_made;  // by as many micro-batches as the network is of
  if (!chooses_structure(asked.request)) as_made.settings = settings_of(asked.request);
  return batch_size_of(asked.network.graph, as_made, asked.network.tokens);
}

/// What others are as good as: the first that fits, or else has a plan.
const CountedPlan* reference_of(const std::vector<CountedPlan>& curve) {
  const auto fits = std::ranges::find_if(curve, &CountedPlan::fits);
  if (fits != curve.end()) return &*fits;
  const auto is_there =
      std::ranges::find_if(curve, [](const CountedPlan& c) { return c.evaluation.has_value(); });
  return is_there == curve.end() ? nullptr : &*is_there;
}

/// What a device does of what each of the reference's does.
double efficiency(const CountedPlan& c, const CountedPlan& reference) {
  return *reference.seconds() * reference.devices / (*c.seconds() * c.devices);
}

Json json_of(const CountedPlan& c, const CountedPlan& reference, const BatchSize& batch) {
  Json out{{"devices", c.devices},
           {"step_seconds", nullptr},
           {"price", nullptr},
           {"fits", c.fits()},
           {"plan", nullptr},
           {"memory_bytes", nullptr},
           {"tokens_per_second", nullptr},
           {"efficiency", nullptr}};
  if (!c.evaluation) {
    out["why"] = c.why;
    return out;
  }
  out["step_seconds"] = *c.seconds();
  if (c.price()) out["price"] = *c.price();
  out["plan"] = structure_text(*c.plan);
  out["memory_bytes"] = c.evaluation->estimate.arena_bytes;
  if (batch.count > 0) out["tokens_per_second"] = static_cast<double>(batch.count) / *c.seconds();
  out["efficiency"] = efficiency(c, reference);
  return out;
}

std::vector<std::string> row_of(const CountedPlan& c, const CountedPlan& reference, const BatchSize& batch) {
  if (!c.evaluation) return {fmt::format("{}", c.devices), "-", "-", "-", "-", "-", "no", c.why};
  const double rate = static_cast<double>(batch.count) / *c.seconds();
  return {fmt::format("{}", c.devices),
          seconds_text(*c.seconds()),
          batch.count > 0 ? fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0) : "-",
          percent_text(efficiency(c, reference), 1),
          c.price() ? fmt::format("{:.4g}", *c.price()) : "-",
          bytes_text(c.evaluation->estimate.arena_bytes),
          c.fits() ? "yes" : "no",
          structure_text(*c.plan)};
}

/// Those that take longer than fewer devices, which fit: `slower with more devices: 16 than 8`; empty if there are none.
std::string slower_text(const std::vector<CountedPlan>& curve) {
  constexpr double noticeably = 1.001;
  std::vector<std::string> out;
  const CountedPlan* best = nullptr;
  for (const CountedPlan& c : curve) {
    if (!c.fits()) continue;
    if (best && *c.seconds() > noticeably * *best->seconds())
      out.push_back(fmt::format("{} than {}", c.devices, best->devices));
    else if (!best || *c.seconds() < *best->seconds())
      best = &c;
  }
  return out.empty() ? "" : "slower with more devices: " + join(out, ", ") + "\n";
}

/// What the search has to tell, as it does of one number.
void tell_search(const CountedPlan& c, Terminal& terminal) {
  if (!c.plan) return;
  std::vector<std::string> lines = c.plan->log;
  if (!c.plan->suggestion.empty()) lines.push_back("suggestion: " + c.plan->suggestion);
  if (c.plan->status == name_of(SearchStatus::timeout)) lines.push_back(c.plan->compared);
  for (const std::string& line : lines)
    terminal.err << fmt::format("on {} device{}: {}\n", c.devices, c.devices == 1 ? "" : "s", line);
}

std::string curve_text(const SearchAsked& asked, const std::vector<CountedPlan>& curve,
                       const CountedPlan& reference) {
  const BatchSize batch = batch_of_step(asked);
  Rows rows{{"devices", "step", batch.unit.empty() ? "rate" : batch.unit + "/s", "efficiency", "price",
             "memory", "fits", "plan"}};
  for (const CountedPlan& c : curve) rows.push_back(row_of(c, reference, batch));
  const auto samples = batch_of(asked.network);
  return fmt::format("steps of {}{} on each number of devices; efficiency against {}\n{}{}",
                     asked.request.model, samples ? fmt::format(", {} samples", *samples) : "",
                     reference.devices, aligned(rows, {.begin = 0, .end = 6}), slower_text(curve));
}

}  // namespace

bool chooses_devices(const Arguments& arguments) { return objective_of(arguments) != Objective::time; }
bool draws_curve(const Arguments& arguments) {
  return arguments.has("--over") && !chooses_devices(arguments);
}

bool is_kind_of_machine(std::string_view name) {
  return std::ranges::any_of(cluster_presets(),
                             [&](const ClusterPreset& p) { return p.cluster.name == name; });
}

Arguments with_counts(Arguments arguments) {
  const bool chooses = chooses_devices(arguments);
  if (arguments.has("--over") || chooses)
    check_counts(arguments, chooses ? "--objective" : "--over");
  else if (arguments.has("--target-step"))
    throw error("--target-step {}: is for --objective devices or price; else the fastest plan is looked for",
                arguments.text("--target-step"));
  if (arguments.has("--over")) complete_machine(arguments, counts_said(arguments.given("--over")).back());
  arguments.heed_none();  // here flags were only looked at
  return arguments;
}

Model model_on_best_count(const Arguments& arguments, Terminal& terminal, std::vector<Tried>& tried) {
  if (!arguments.has("--over") && !arguments.has("--cluster") && !arguments.has("--devices"))
    throw error("--objective {}: up to how many devices? Say --cluster, --devices or --over",
                arguments.text("--objective"));
  const CountWanted wanted{objective_of(arguments), target_of(arguments)};
  const SearchAsked asked = search_asked(arguments, terminal);
  const CountedSearch search = counted_search(arguments, asked);
  const std::vector<int> counts = counts_of(arguments, search);
  if (wanted.objective == Objective::price && !search.request.cluster->price_per_hour)
    throw error("--objective price: cluster {} has no price_per_hour; a cluster file may say it",
                search.request.cluster->name);
  CountChoice choice = best_count(search, counts, wanted);
  if (!choice.best)
    throw Infeasible(fmt::format("no number of devices has a plan that would {}; {}", wanted_text(wanted),
                                 looked_at_text(choice, wanted)));
  Plan plan = *std::move(choice.looked_at[*choice.best].plan);
  plan.objective = text_of(choice, wanted);
  tried = std::move(choice.looked_at[*choice.best].tried);
  return model_of(arguments, asked, std::move(plan));
}

int report_curve(const Arguments& arguments, Terminal& terminal) {
  arguments.heed("--objective");
  const bool is_json = arguments.is_on("--json");
  const SearchAsked asked = search_asked(arguments, terminal);
  const CountedSearch search = counted_search(arguments, asked);
  const std::vector<CountedPlan> curve = plans_over(search, counts_of(arguments, search));
  const CountedPlan* reference = reference_of(curve);
  if (!reference) throw Infeasible(fmt::format("--over {}: {}", arguments.text("--over"), curve.back().why));
  const Model model = model_of(arguments, asked, *reference->plan);
  optimizer_of(arguments, model);  // what has no effect on any of them
  tell_assumed(arguments, model);
  arguments.check_heeded(terminal.err);
  for (const CountedPlan& c : curve) tell_search(c, terminal);
  if (!is_json) {
    terminal.out << curve_text(asked, curve, *reference);
    return 0;
  }
  Json rows = Json::array();
  for (const CountedPlan& c : curve) rows.push_back(json_of(c, *reference, batch_of_step(asked)));
  terminal.out << Json{{"model", asked.request.model}, {"curve", std::move(rows)}}.dump() << "\n";
  return 0;
}

}  // namespace shardwright
