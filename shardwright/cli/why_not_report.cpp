#include "shardwright/cli/why_not_report.h"

#include <optional>
#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/difference_json.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/frontend/plan_diff.h"
#include "shardwright/frontend/step_comparison.h"

namespace shardwright {
namespace {

/// What --why-not asks for instead, and whoever may say how much memory there is and how long it may take.
WhyNotOptions options_of(const Arguments& arguments, const PlannedModel& made) {
  WhyNotOptions out{.samples = batch_of(made.model).value_or(0),
                    .keeps_micro_batches = made.model.has_uneven_loss || made.model.own,
                    .formats = device_of(arguments).formats};
  if (const auto cap = memory_cap_of(arguments)) out.memory_cap = cap->bytes;
  if (arguments.has("--search-time")) {
    PlanRequest request;
    setting_of("--search-time")->parse(request, arguments.given("--search-time"));
    out.most_seconds = request.options.most_seconds;
  }
  out.deadline = deadline_of(arguments, out.most_seconds);
  return out;
}

/// What allows no more memory.
std::string limit_of(const Arguments& arguments, const Plan& plan) {
  const auto cap = memory_cap_of(arguments);
  return cap ? fmt::format("{} {} allows", cap->flag, arguments.text(cap->flag))
             : fmt::format("a device of {} has", plan.cluster.name);
}

Json answer_json(const Constraints& asked, const WhyNot& answer, const std::string& why) {
  const Estimate& planned = answer.planned.estimate;
  const bool is_chosen = answer.status == WhyNotStatus::chosen;
  std::optional<Estimate> instead;
  if (is_chosen || answer.found) instead = is_chosen ? planned : answer.found->evaluation.estimate;
  Json out{{"asked", to_text(asked)}, {"status", name_of(answer.status)}};
  out["step_seconds"] = instead ? Json(instead->step_seconds()) : Json(nullptr);
  add_difference(out, instead ? std::optional(difference(planned, *instead)) : std::nullopt);
  out["why"] = why;
  return out;
}

std::string answer_text(const Constraints& asked, const WhyNot& answer, const Plan& plan,
                        const std::string& why) {
  constexpr std::size_t most_rows = 16;
  std::string out = fmt::format("{}: {}: {}\n", to_text(asked), name_of(answer.status), why);
  if (!answer.found) return out;
  const std::string there = "the plan", instead = "with it";
  out += to_text(differences(plan, answer.found->plan), there, instead, most_rows);
  return out + comparison_table(answer.planned.estimate, there, answer.found->evaluation.estimate, instead);
}

}  // namespace

std::vector<Flag> why_not_flags() {
  std::vector<Flag> out{{"--why-not", "CONSTRAINTS",
                         "how much more the best plan with these takes, such as tp=8,pp=4 or NAME={n: tp}",
                         ""}};
  for (const char* name : {"--memory-cap", "--device-memory", "--search-time"}) {
    const SettingRow& row = *setting_of(name);
    out.push_back({row.flag, row.value, row.doc, row.alias});
  }
  return out;
}

void report_why_not(const Arguments& arguments, const PlannedModel& made, Terminal& terminal) {
  const std::string& path = arguments.positionals[0];
  const Constraints asked = parse_constraints(arguments.given("--why-not"));
  const std::string limit = limit_of(arguments, made.plan);
  const WhyNotOptions options = options_of(arguments, made);
  const bool is_json = arguments.is_on("--json");
  WhyNot answer;
  try {
    answer = why_not(asked, made.plan, step_of(made.plan.model, made.plan.origin, true), options);
  } catch (const Error& e) {
    throw with_context(e, fmt::format("--why-not of {}, a plan of {}", path, made.plan.model));
  }
  if (answer.status == WhyNotStatus::chosen || !asked.stages.empty())
    arguments.idle("--search-time", "nothing is searched");
  arguments.check_heeded(terminal.err);
  const std::string why = why_text(asked, answer, made.plan, limit);
  terminal.out << (is_json ? answer_json(asked, answer, why).dump() + "\n"
                           : answer_text(asked, answer, made.plan, why));
}

void report_word(const Arguments& arguments, const std::string& word, const PlannedModel& made,
                 Terminal& terminal) {
  const WhyNotOptions options = options_of(arguments, made);
  const std::string limit = limit_of(arguments, made.plan);
  const bool is_json = arguments.is_on("--json");
  arguments.check_heeded(terminal.err);
  const OtherValues values =
      other_values(word, made.plan, step_of(made.plan.model, made.plan.origin, true), options);
  if (!is_json) {
    terminal.out << values_table(word, values.told);
    if (!values.unasked.empty())
      terminal.out << fmt::format("not looked at, as --search-time {} was over: {}\n",
                                  arguments.text("--search-time"), join(values.unasked, ", "));
    return;
  }
  Json out{{"word", word}, {"candidates", Json::array()}};
  for (const OtherValue& v : values.told) {
    Json candidate{{"value", v.value}};
    candidate.update(answer_json(v.asked, v.answer, why_text(v.asked, v.answer, made.plan, limit)));
    out["candidates"].push_back(std::move(candidate));
  }
  if (!values.unasked.empty()) out["unasked"] = values.unasked;
  terminal.out << out.dump() << "\n";
}

}  // namespace shardwright
