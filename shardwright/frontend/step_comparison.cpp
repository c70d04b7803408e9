#include "shardwright/frontend/step_comparison.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>

#include "shardwright/base/text.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/report.h"
#include "shardwright/plan/decided.h"

namespace shardwright {
namespace {

std::string more_seconds(double seconds) {
  return seconds_text(std::abs(seconds)) + (seconds < 0 ? " less" : " more");
}

template <class Number, class Text>
std::string with_sign(Number n, Text text) {
  if (n == 0) return "0";
  return (n < 0 ? "-" : "+") + text(std::abs(n));
}

/// Below it a part of a step is rounding.
bool counts(double seconds, double step) { return std::abs(seconds) > 1e-9 * step; }

}  // namespace

std::string comparison_table(const Estimate& a, const std::string& name_a, const Estimate& b,
                             const std::string& name_b) {
  const StepDifference more = difference(a, b);
  const StepParts of_a = parts_of(a), of_b = parts_of(b);
  const double longest = std::max(a.step_seconds(), b.step_seconds());
  Rows rows{{"", name_a, name_b, "difference"}};
  const auto add_seconds = [&](std::string_view what, double x, double y, double d) {
    rows.push_back({std::string(what), seconds_text(x), seconds_text(y),
                    with_sign(counts(d, longest) ? d : 0.0, seconds_text)});
  };
  for (const auto& [name, part] : step_parts)
    if (counts(of_a.*part, longest) || counts(of_b.*part, longest))
      add_seconds(name, of_a.*part, of_b.*part, more.seconds.*part);
  add_seconds("step", a.step_seconds(), b.step_seconds(), more.step_seconds);
  const auto add_bytes = [&](std::string what, std::int64_t x, std::int64_t y) {
    if (x != 0 || y != 0)
      rows.push_back({std::move(what), bytes_text(x), bytes_text(y), with_sign(y - x, bytes_text)});
  };
  for (std::size_t k = 0; k < memory_kinds; ++k)
    add_bytes(words_of(static_cast<MemoryKind>(k)), a.memory.bytes[k], b.memory.bytes[k]);
  add_bytes("memory of a device", a.arena_bytes, b.arena_bytes);
  return aligned(rows, {.begin = 1, .end = 4});
}

std::string more_text(const Estimate& a, const Estimate& b) {
  const StepDifference more = difference(a, b);
  std::string out = "as long";
  if (counts(more.step_seconds, a.step_seconds())) {
    std::vector<std::pair<double, std::string_view>> parts;  // the largest first
    for (const auto& [name, part] : step_parts)
      if (std::abs(more.seconds.*part) > 0.01 * std::abs(more.step_seconds))
        parts.emplace_back(more.seconds.*part, name);
    std::ranges::stable_sort(parts, std::ranges::greater(), [](const auto& p) { return std::abs(p.first); });
    std::vector<std::string> texts;
    for (const auto& [seconds, name] : parts)
      texts.push_back(fmt::format("{} {}", name, more_seconds(seconds)));
    out = fmt::format("{} ({}): {}", more_seconds(more.step_seconds),
                      percent_text(std::abs(more.step_seconds), a.step_seconds()), join(texts, ", "));
  }
  if (more.arena_bytes == 0) return out + "; with as much memory";
  return out + fmt::format("; with {} {} memory", bytes_text(std::abs(more.arena_bytes)),
                           more.arena_bytes < 0 ? "less" : "more");
}

namespace {

/// What constraints ask of operators over degrees of which there turned out to be one.
std::string idle_text(const Constraints& asked, const Degrees& found) {
  for (const auto& [name, split] : asked.operators)
    for (const auto& [loop, degrees] : split)
      for (const std::string& degree : degrees)
        if (found.said(degree) == 1) return fmt::format("; {} is 1 there, so that {} is whole", degree, name);
  return "";
}

}  // namespace

std::string why_text(const Constraints& asked, const WhyNot& answer, const Plan& plan,
                     const std::string& limit) {
  const auto words = [](const Plan& p) { return to_text(decided_by(p, 0)); };
  if (answer.status == WhyNotStatus::chosen)
    return fmt::format(
        "the plan has it: {}{}{}", words(plan),
        answer.is_split_otherwise ? "; but its operators are split one by one, not as degrees say" : "",
        answer.planned.fits() ? "" : "; " + misfit_text(answer.planned, limit));
  if (!answer.found) return answer.violation;
  const Plan& found = answer.found->plan;
  const Evaluation& e = answer.found->evaluation;
  // Stages by name are no search's.
  const bool is_timeout = found.status == name_of(SearchStatus::timeout);
  const std::string what = fmt::format("the {}plan with it{}, {},", asked.stages.empty() ? "best " : "",
                                       is_timeout ? " so far" : "", words(found));
  if (answer.status == WhyNotStatus::infeasible)
    return misfit_text(e, limit, what) + (answer.planned.fits()
                                              ? ""
                                              : fmt::format("; nor does the plan itself fit, which takes {}",
                                                            bytes_text(answer.planned.estimate.arena_bytes)));
  const bool is_faster = e.estimate.step_seconds() < answer.planned.estimate.step_seconds();
  return fmt::format("{} takes {}{}{}", what, more_text(answer.planned.estimate, e.estimate),
                     idle_text(asked, decided_by(found, 0).degrees),
                     !answer.planned.fits() ? "; the plan itself does not fit"
                     : is_faster            ? "; it is faster than the plan"
                                            : "");
}

std::string values_table(const std::string& word, const std::vector<OtherValue>& values) {
  Rows rows{{"  " + word, "step", "compute", "communication", "bubble", "recompute", "memory", "as"}};
  const auto add = [&](const std::string& value, const Evaluation& e, const std::string& as) {
    const StepParts parts = parts_of(e.estimate);
    std::vector<std::string>& row = rows.emplace_back(1, value);
    for (double seconds :
         {e.estimate.step_seconds(), parts.compute, parts.communication, parts.bubble, parts.recompute})
      row.push_back(seconds_text(seconds));
    row.push_back(bytes_text(e.estimate.arena_bytes));
    row.push_back((e.fits() ? "" : fmt::format("does not fit, {} too much: ", bytes_text(e.excess_bytes()))) +
                  as);
  };
  const bool has_value = values.front().answer.status == WhyNotStatus::chosen;  // which comes first
  add("* " + (has_value ? values.front().value : "?"), values.front().answer.planned, "the plan");
  for (const OtherValue& v : std::span(values).subspan(has_value ? 1 : 0))
    if (v.answer.found)
      add("  " + v.value, v.answer.found->evaluation, to_text(decided_by(v.answer.found->plan, 0)));
    else
      rows.push_back({"  " + v.value, "-", "-", "-", "-", "-", "-", v.answer.violation});
  return aligned(rows, {.begin = 1, .end = 7});
}

}  // namespace shardwright
