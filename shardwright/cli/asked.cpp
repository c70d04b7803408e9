#include "shardwright/cli/asked.h"

#include <algorithm>
#include <chrono>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/runtime/rate_schedule.h"
#include "shardwright/search/planning/search_for.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

/// A saved plan has decided it, so it is not asked for beside one.
bool is_decided(const SettingRow& row) {
  return row.part == SettingPart::order || row.part == SettingPart::split || row.part == SettingPart::step ||
         row.part == SettingPart::search;
}

/// As is_decided, and a graph that has mesh lines says it, too.
bool is_splitting(const SettingRow& row) { return is_decided(row) && row.part != SettingPart::step; }

std::vector<std::string> flags_that(bool (*is_one)(const SettingRow&)) {
  std::vector<std::string> out;
  for (const SettingRow& row : all_settings())
    if (is_one(row)) out.push_back(row.flag);
  return out;
}

/// Where no flag says it.
void set_mode(const Arguments& arguments, PlanRequest& request) {
  if (arguments.has("--parallel")) return;
  // A search of whole plans has micro-batches and recompute to choose on one device, too.
  const bool is_whole = arguments.has("--search") && find_search(arguments.text("--search")).plan;
  request.parallel = request.devices == 1 && !is_whole ? Parallel::stand_alone : Parallel::auto_parallel;
}

/// Throws: Error if a schedule is asked for where there is one stage.
void check_schedule(const Arguments& arguments, const PlanRequest& request) {
  const bool is_asked = arguments.has("--schedule") && !arguments.of_config.contains("--schedule");
  if (request.constraints.schedule && !request.constraints.schedule->rows.empty())
    return;  // it says how many
  const bool is_open = chooses_structure(request);
  if (is_asked && (is_open ? fixed_by(request).degrees.said("pp") : stage_count(request.constraints)) == 1)
    throw error("--schedule is the order of micro-batches in several stages; add --stages N");
}

/// A flag of searches that would do nothing is the user's mistake. On one device there is nothing to search anyway.
void check_searches(const Arguments& arguments, const std::string& flag, Setting setting,
                    const PlanRequest& request) {
  if (request.parallel == Parallel::stand_alone) return;
  if (request.is_set) throw error("{} is a setting of searches, but --set leaves nothing to search", flag);
  if (request.parallel != Parallel::auto_parallel)
    throw error("{} is a setting of searches, but {} does not search", flag, name_of(request.parallel));
  const Searcher& asked = *search_for(request).search;
  if (heeds(asked, setting)) return;
  std::vector<std::string> others;
  for (const Searcher& search : all_search())
    if (heeds(search, setting)) others.push_back(search.name);
  if (others.empty()) throw error("{} is no setting of search {}", flag, asked.name);
  const std::string named =
      arguments.of_config.contains("--search") ? ", which " + arguments.called("--search") + " names" : "";
  throw error("{} has an effect only in search {}, not in {}{}; leave it out", flag, join(others, ", "),
              asked.name, named);
}

/// What help calls the flags of a part.
std::string title_of(SettingPart part) {
  switch (part) {
    case SettingPart::machine:
    case SettingPart::memory: return "The machine";
    case SettingPart::order:
    case SettingPart::split: return "How it is split";
    case SettingPart::step: return "How a step runs";
    case SettingPart::search: return "How it is searched for";
    case SettingPart::network: return "The network";
    case SettingPart::update: return "The optimizer";
  }
  return "";
}

/// Of those that a plan is written for packages for PyTorch and our own files alone have parts that are not equal.
bool has_equal_parts(const Arguments& arguments) {
  const std::string to = arguments.has("--to") ? arguments.text("--to") : "";
  return !to.empty() && to != "torch" && to != "yaml";
}

}  // namespace

std::vector<Flag> setting_flags() {
  std::vector<Flag> out;
  for (const SettingRow& row : all_settings())
    out.push_back({row.flag, row.value, row.doc, row.alias, title_of(row.part)});
  return out;
}

const Plan& saved_plan(const Arguments& arguments) {
  if (!arguments.plan)
    arguments.plan = std::make_shared<const Plan>(known_plan(arguments.flags.at("--plan")));
  return *arguments.plan;
}

PlanRequest asked_of(const Arguments& given) {
  const Arguments arguments = given;  // reading this copy heeds nothing
  const bool is_planned = arguments.has("--plan");
  PlanRequest out = is_planned ? request_of(saved_plan(given)) : PlanRequest{};
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  // Of another MODEL than the plan's, the batch is part of what the fingerprint compares.
  if (is_planned && !out.model.empty() && out.model != spec) out.origin.global_batch.reset();
  SaidSettings settings;
  if (!is_planned && arguments.has("--annotate")) {
    out.constraints = load_annotations(arguments.text("--annotate"));
    settings.add("--annotate " + arguments.text("--annotate"), out.constraints);
  }
  if (!is_planned && arguments.has("--strategy")) add_strategies(given, out);
  bool is_ordered = is_planned;
  for (const SettingRow& row : all_settings()) {
    if (row.part > SettingPart::order && !std::exchange(is_ordered, true)) {
      out.origin = usual_origin(spec, out.cluster);
      set_mode(arguments, out);
      check_stages(out.constraints, settings_of(out).pipelining);
    }
    if (!arguments.has(row.flag) || (is_planned && (is_decided(row) || row.part == SettingPart::machine)))
      continue;
    // Files carry settings along for whichever plan will be made; those of searches may say by which.
    const bool says_which = row.search && out.search.empty() && chooses_structure(out);
    if (is_ordered && !says_which && arguments.of_config.contains(row.flag) && !idle_reason(row, out).empty())
      continue;
    settings.parse(out, row, arguments.given(row.flag));
  }
  if (!is_planned) check_schedule(arguments, out);
  out.has_equal_parts = has_equal_parts(arguments);
  out.options.deadline = deadline_of(given, out.options.most_seconds);
  return out;
}

Deadline deadline_of(const Arguments& arguments, std::optional<double> most_seconds) {
  if (!most_seconds) return Deadline(std::nullopt, arguments.progress);
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - arguments.begin;
  return Deadline(*most_seconds - gone.count(), arguments.progress);
}

void heed(const Arguments& arguments, std::initializer_list<SettingPart> parts) {
  for (const SettingRow& row : all_settings())
    if (std::find(parts.begin(), parts.end(), row.part) != parts.end()) arguments.heed(row.flag);
}

void tell_idle(const Arguments& arguments, const PlanRequest& request) {
  for (const SettingRow& row : all_settings()) {
    if (!arguments.has(row.flag)) continue;
    if (row.search && !arguments.of_config.contains(row.flag))
      check_searches(arguments, row.flag, *row.search, request);
    if (const std::string why = idle_reason(row, request); !why.empty()) arguments.idle(row.flag, why);
  }
}

std::vector<std::string> decided_flags() { return flags_that(is_decided); }
std::vector<std::string> splitting_flags() { return flags_that(is_splitting); }

namespace {

/// Throws: Error if a flag that was given makes `asked` another than `decided`. `whose` precedes the decided value:
/// `the plan p.json is for`.
void check_agrees(const Arguments& arguments, const Origin& asked, const Origin& decided,
                  const std::string& whose) {
  for (const SettingRow& row : all_settings()) {
    if (row.part < SettingPart::network || !arguments.has(row.flag)) continue;
    const std::string other = row.print({.origin = decided});
    if (row.print({.origin = asked}) == other) continue;
    throw error("{} {} but {} {}", arguments.called(row.flag), arguments.text(row.flag), whose,
                !other.empty()         ? other
                : row.flag == "--loss" ? "a loss of its own"
                                       : "none");
  }
}

/// `decided`, with what it leaves to the model filled in where a flag says it: a flag may repeat that, too.
Origin with_own(const Arguments& arguments, const Plan& plan, Origin decided, const Origin& asked) {
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  if (plan.model != spec)  // the fingerprint says whether it fits
    decided.global_batch = asked.global_batch;
  else if (arguments.has("--global-batch") && !decided.global_batch)
    decided.global_batch = batch_of(build_model(spec, model_options(decided)));
  if (!arguments.has("--loss") || !decided.loss.empty() || spec == "-") return decided;
  Origin with_loss = decided;
  with_loss.loss = asked.loss;
  if (fingerprint_of(build_model(spec, model_options(with_loss)).graph) ==
      fingerprint_of(build_model(spec, model_options(decided)).graph))
    decided.loss = asked.loss;
  return decided;
}

}  // namespace

Origin origin_of(const Arguments& given) {
  const Arguments arguments = given;  // reading this copy heeds nothing
  Origin asked = asked_of(arguments).origin;
  // Of a schedule the step only knows that its rate comes from outside.
  asked.optimizer.has_set_rate =
      !is_constant_rate(arguments.text("--lr-schedule", "constant"), arguments.text("--warmup"));
  asked.optimizer.keeps_norm = arguments.has("--tensorboard");
  if (!arguments.has("--plan")) return asked;
  const Plan& plan = saved_plan(arguments);
  if (plan.model.empty()) return asked;  // by hand, for whatever network it fits
  check_agrees(arguments, asked, with_own(arguments, plan, plan.origin, asked),
               fmt::format("the plan {} is for", arguments.text("--plan")));
  return asked;
}

Origin origin_of(const Arguments& given, const Model& model) {
  Origin out = origin_of(given);
  if (!model.own) return out;
  const Arguments arguments = given;
  Origin own = out;
  own.global_batch = model.own->global_batch;
  set_precision(own, model.own->precision);
  if (arguments.has("--loss-scale")) own.optimizer.loss_scale = out.optimizer.loss_scale;
  own.loss = "";
  check_agrees(arguments, out, own, fmt::format("{}, a graph as text, has", model.name));
  own.global_batch.reset();  // as it was asked for
  return own;
}

OptimizerChoice optimizer_of(const Arguments& arguments, const Model& model) {
  heed(arguments, {SettingPart::update});
  return origin_of(arguments, model).optimizer;
}

std::optional<MemoryCap> memory_cap_of(const Arguments& arguments) {
  std::optional<MemoryCap> least;
  for (const SettingRow& row : all_settings()) {
    if (row.part != SettingPart::memory || !arguments.has(row.flag)) continue;
    PlanRequest request;
    row.parse(request, arguments.given(row.flag));
    const auto bytes = request.options.memory_cap;
    if (bytes && (!least || *bytes < least->bytes)) least = {row.flag, *bytes};
  }
  return least;
}

void set_what_is_known(const Arguments& arguments, Cluster& cluster) {
  for (const char* flag : {"--memory-margin", "--routing-imbalance"}) {
    const SettingRow& row = *setting_of(flag);
    if (!arguments.has(row.flag)) continue;
    PlanRequest request{.cluster = cluster};
    row.parse(request, arguments.given(row.flag));
    cluster = *request.cluster;
    if (const auto cap = memory_cap_of(arguments)) request.options.memory_cap = cap->bytes;
    if (const std::string why = idle_reason(row, request); !why.empty()) arguments.idle(row.flag, why);
  }
}

bool is_given_plan(const Arguments& arguments) {
  return arguments.has("--plan") ||
         (!arguments.positionals.empty() && arguments.positionals[0].ends_with(".json"));
}

Assumed assumed_in(const Arguments& arguments, const Model& model) {
  if (is_given_plan(arguments)) return {};
  return {.batch = !arguments.has("--global-batch") && !model.own && !says_batch(model.name),
          .precision = !arguments.has("--precision") && !model.own,
          .optimizer = !arguments.has("--optimizer")};
}

void tell_assumed(const Arguments& arguments, const Assumed& assumed, const Origin& origin) {
  const std::string line = assumed_text(assumed, origin, asked_of(arguments).cluster);
  if (!line.empty()) arguments.notices.push_back(line);
}

void tell_assumed(const Arguments& arguments, const Model& model, bool is_trained) {
  Assumed assumed = assumed_in(arguments, model);
  if (!is_trained) assumed.optimizer = false;
  tell_assumed(arguments, assumed, origin_of(arguments, model));
}

}  // namespace shardwright
