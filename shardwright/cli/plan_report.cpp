#include "shardwright/cli/plan_report.h"

#include <algorithm>
#include <array>
#include <optional>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/standard_output.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/bound_json.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/plan_document.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/report.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

/// In a micro-batch, on each of dp, the largest share; 0 where the plan is no such grid.
std::int64_t samples_of_replica(const Arguments& arguments, const Plan& plan, std::int64_t samples) {
  const Pipelining& p = plan.settings.pipelining;
  if (plan.parallel == name_of(Parallel::data_parallel))
    return samples / p.batch_parts() / (plan.devices() / p.stages);
  const std::string set = arguments.has("--set") ? arguments.flags.at("--set") : plan.structure;
  if (set.empty()) return plan.devices() == 1 ? samples / p.batch_parts() : 0;
  const int replicas = parse_set({"--set", set}).said.degrees.of("dp");
  return (samples / p.batch_parts() + replicas - 1) / replicas;
}

/// What was asked, and what of it nobody said. A micro-batch is of so many samples on each of dp, where the plan has a dp.
Json request_json(const Arguments& arguments, const Model& model, const Plan& plan, const BatchSize& batch) {
  const auto known = [](std::int64_t n) { return n > 0 ? Json(n) : Json(nullptr); };
  const Assumed assumed = assumed_in(arguments, model);
  const auto cap = memory_cap_of(arguments);
  Json out{{"global_batch", known(batch.samples)},
           {"micro_batch", known(samples_of_replica(arguments, plan, batch.samples))},
           {"sequence", batch.unit == "tokens" ? known(batch.count / batch.samples) : Json(nullptr)},
           {"precision", to_text(plan.origin.precision)},
           {"optimizer", plan.origin.optimizer.name},
           {"memory_cap", cap ? cap->bytes : usable_bytes(plan.cluster)},
           {"memory_margin", cap ? 0 : plan.cluster.margin()},
           {"framework", plan.settings.framework},
           {"assumed", Json::array()}};
  for (const auto& [name, is_assumed] : {std::pair("global_batch", assumed.batch),
                                         {"precision", assumed.precision},
                                         {"optimizer", assumed.optimizer},
                                         {"memory_cap", !cap}})
    if (is_assumed) out["assumed"].push_back(name);
  return out;
}

void add_remedies(Json& document, const Remedies& remedies) {
  Json& found = document["remedies"] = Json::array();
  for (const Remedy& r : remedies.found)
    found.push_back(
        {{"change", r.change}, {"step_seconds", r.step_seconds}, {"memory_bytes", r.memory_bytes}});
  if (!remedies.unasked.empty()) document["remedies_unasked"] = remedies.unasked;
}

}  // namespace

std::string unasked_text(const Arguments& arguments, const Remedies& remedies) {
  const std::string flags = join(remedies.unasked, ", ");
  if (!arguments.has("--search-time"))
    return fmt::format("not looked at in {:g} s, which --search-time makes more: {}",
                       most_seconds_of_remedies, flags);
  return fmt::format("not looked at, as --search-time {} was over: {}", arguments.text("--search-time"),
                     flags);
}

namespace {

/// Of what does not fit, after the line that says so.
std::string remedies_text(const Arguments& arguments, const Remedies& remedies) {
  std::string out;
  for (const Remedy& r : remedies.found) out += fmt::format("remedy: {}\n", text_of(r));
  if (!remedies.unasked.empty()) out += fmt::format("remedy: {}\n", unasked_text(arguments, remedies));
  return out.empty() ? "remedy: none was found\n" : out;
}

std::string command_line(const std::vector<std::string>& words) {
  std::string out = "shardwright";
  for (const std::string& word : words) out += " " + shell_quoted(word);
  return out;
}

/// The command without what fixes its plan and what shows or saves it. Empty where files say what is planned.
std::string search_call_of(const Arguments& arguments) {
  if (arguments.has("--config") || arguments.has("--plan") || is_given_plan(arguments)) return "";
  constexpr std::array left_out{
      "--set",        "--fix",           "--parallel",      "--stages",    "--micro-batches",
      "--accumulate", "--schedule",      "--auto-pipeline", "--recompute", "--html",
      "-o",           "--save-strategy", "--json",          "--wide",      "--optimizer-parallel"};
  std::vector<std::string> words;
  for (std::size_t i = 0; i < arguments.words.size(); ++i) {
    const std::string& word = arguments.words[i];
    const std::string name = word.substr(0, word.find('='));
    if (std::ranges::find(left_out, name) == left_out.end())
      words.push_back(word);
    else if (name == word && name != "--json" && name != "--wide")
      ++i;  // its value
  }
  return command_line(words);
}

}  // namespace

Flag html_flag() { return {"--html", "FILE", "write a page that shows it", ""}; }

void require_page_writable(const Arguments& arguments) {
  if (const std::string page = Arguments(arguments).text("--html"); !page.empty()) require_writable(page);
}

void write_page(const Arguments& arguments, const std::string& path, PageContent content) {
  content.call = command_line(arguments.words);
  content.search_call = search_call_of(arguments);
  content.version = "shardwright " SHARDWRIGHT_VERSION;
  const std::string saved = Arguments(arguments).text("-o");
  content.plan_path = !saved.empty()             ? saved
                      : arguments.has("--plan")  ? Arguments(arguments).text("--plan")
                      : is_given_plan(arguments) ? arguments.positionals[0]
                                                 : "";
  write_file(path, plan_page(content));
}

ReportStyle style_of(const Arguments& arguments, const Terminal& terminal) {
  const bool is_wide = arguments.is_on("--wide");
  return {.is_wide = is_wide, .columns = is_wide ? 0 : columns_of(terminal.out)};
}

Flag wide_flag() {
  return {"--wide", "",
          "a row for each operator, lines as long as they are (else rows of kinds, cut to the terminal)", ""};
}

namespace {

/// What is told of a plan, which is made when it is asked for the first time: not all ways to tell it need it.
class LazyReport {
 public:
  LazyReport(const Arguments& arguments, const Model& model, const Plan& plan)
      : arguments_(arguments), model_(model), plan_(plan) {}

  const StepReport& of(const Evaluation& e) {
    if (!made_)
      made_ = step_report(model_.graph, plan_, e, batch_size_of(model_.graph, plan_, model_.tokens),
                          device_of(arguments_).formats, assumed_in(arguments_, model_));
    return *made_;
  }

 private:
  const Arguments& arguments_;
  const Model& model_;
  const Plan& plan_;
  std::optional<StepReport> made_;
};

/// As `report` does; the page is made of `told`.
Evaluation report_of(const Arguments& arguments, const Model& model, const Plan& plan,
                     const Pipeline& pipeline, const TableOf& table, LazyReport& told, Terminal& terminal,
                     const BoundOf& bound_of, const std::function<void()>& save = {}) {
  RemediesOf remedies = [&](const Evaluation& e) { return remedies_of(arguments, model, plan, e); };
  if (is_given_plan(arguments)) remedies = {};
  const Evaluation evaluation = [&] {
    try {
      return evaluation_of(arguments, pipeline, plan.cluster, plan.settings.framework, remedies);
    } catch (Refusal& refusal) {
      if (bound_of) refusal.tried = bound_of(refusal.evaluation).tried;
      throw;
    }
  }();
  const std::string misfit = memory_notices(evaluation, plan);
  const bool is_json = arguments.is_on("--json");
  const std::string page = arguments.text("--html");
  arguments.check_heeded(terminal.err);
  const auto bound = bound_of ? std::optional(bound_of(evaluation)) : std::nullopt;
  const bool tells_bound = bound && (!bound->tried.empty() || bound->unfixed);
  const bool tells_remedies = remedies && !evaluation.fits();
  const Remedies would_fit = tells_remedies ? remedies(evaluation) : Remedies{};
  const BatchSize batch = batch_size_of(model.graph, plan, model.tokens);
  if (is_json) {
    Json out = plan_document(plan, evaluation, batch);
    out["request"] = request_json(arguments, model, plan, batch);
    if (!evaluation.fits()) out["excess_bytes"] = evaluation.excess_bytes();
    if (bound) add_bound(out, *bound, evaluation);
    if (tells_remedies) add_remedies(out, would_fit);
    terminal.out << out.dump() << "\n";
    terminal.err << misfit;
  } else {
    const std::string binds =
        tells_bound ? text_of(*bound, evaluation) + margin_text(*bound, evaluation, plan.cluster) : "";
    terminal.out << table(evaluation, binds) << misfit
                 << (tells_remedies ? remedies_text(arguments, would_fit) : "");
  }
  if (save) save();
  if (!page.empty())
    write_page(arguments, page,
               {.plan = plan,
                .pipeline = pipeline,
                .evaluation = evaluation,
                .report = told.of(evaluation),
                .batch = batch,
                .bound = bound,
                .remedies = would_fit});
  return evaluation;
}

}  // namespace

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  const TableOf& table, Terminal& terminal, const BoundOf& bound_of) {
  LazyReport told(arguments, model, plan);
  return report_of(arguments, model, plan, pipeline, table, told, terminal, bound_of);
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, const Pipeline& pipeline,
                  Terminal& terminal, const BoundOf& bound_of, const std::function<void()>& save) {
  const ReportStyle style = arguments.has("--json") ? ReportStyle{} : style_of(arguments, terminal);
  LazyReport told(arguments, model, plan);
  const TableOf table = [&](const Evaluation& e, const std::string& binds) {
    StepReport shown = told.of(e);
    for (std::string_view line : split(binds, '\n'))
      if (!line.empty()) shown.summary.push_back({std::string(line)});
    return to_text(shown, style);
  };
  return report_of(arguments, model, plan, pipeline, table, told, terminal, bound_of, save);
}

Evaluation report(const Arguments& arguments, const Model& model, const Plan& plan, Terminal& terminal) {
  return report(arguments, model, plan, compiled(arguments, model.graph, plan), terminal);
}

std::string nearest_text(const Infeasible& e) {
  const auto* refusal = dynamic_cast<const Refusal*>(&e);
  return refusal && refusal->tried ? nearest_text(*refusal->tried) : "";
}

std::string document(const Infeasible& e) {
  Json out{{"status", "infeasible"}, {"reason", e.what()}};
  if (const auto* refusal = dynamic_cast<const Refusal*>(&e)) {
    out["binding"] = name_of(Limit::memory);
    out["excess_bytes"] = refusal->evaluation.excess_bytes();
    out["memory_bytes"] = memory_json(refusal->evaluation.estimate);
    if (refusal->remedies) add_remedies(out, *refusal->remedies);
    if (refusal->tried) add_nearest(out, *refusal->tried);
  }
  return out.dump();
}

}  // namespace shardwright
