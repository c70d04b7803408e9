#include "shardwright/frontend/measured_step.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/table.h"
#include "shardwright/layout/collective.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/simulate/step_parts.h"

namespace shardwright {
namespace {

/// Another plan may have them, where ours has none.
constexpr std::array<StepKind, 6> collectives{StepKind::all_reduce,     StepKind::all_gather,
                                              StepKind::reduce_scatter, StepKind::all_to_all,
                                              StepKind::permute,        StepKind::exchange};
/// Of hand-written figures, what rounding adds up to.
constexpr double rounding = 1e-3;
constexpr std::string_view rest_name = "not in the table";

/// Throws: Error that calls it `what`.
double seconds_of(std::string_view text, const std::string& what) {
  const std::optional<double> seconds = to_quantity(text, "s");
  if (!seconds || !std::isfinite(*seconds))
    throw error("{}: '{}' is no time; say seconds, as 1.25 or 350ms", what, text);
  if (*seconds < 0) throw error("{}: {} is below 0", what, text);
  return *seconds;
}

std::vector<MeasuredTerm> parse_rows(std::string_view text, const std::string& where) {
  std::vector<MeasuredTerm> out;
  int number = 0;
  for (const std::string_view line : split(text, '\n')) {
    ++number;
    const std::string_view row = trim(line);
    if (row.empty() || row.front() == '#') continue;
    const std::string place = fmt::format("{}, line {}", where, number);
    const std::size_t comma = line.find(',');
    if (comma == line.npos || line.find(',', comma + 1) != line.npos)
      throw error("{}: should be a term and its seconds with a comma between, as communication,1.1", place);
    const std::string_view term = trim(line.substr(0, comma)), value = trim(line.substr(comma + 1));
    if (out.empty() && term == "term" && value == "seconds") continue;
    if (term.empty()) throw error("{}: the term is missing", place);
    out.push_back({std::string(term), seconds_of(value, fmt::format("{}: {}", place, term))});
  }
  return out;
}

std::vector<MeasuredTerm> parse_object(std::string_view text, const std::string& where) {
  Json document;
  try {
    document = parse_json(text);
  } catch (const Error& e) {
    throw with_context(e, where);
  }
  std::vector<MeasuredTerm> out;
  for (const auto& [term, value] : document.items()) {
    const std::string what = fmt::format("{}: {}", where, term);
    const std::string said = value.is_string() ? value.get<std::string>() : value.dump();
    out.push_back({term, seconds_of(said, what)});
  }
  return out;
}

class Beside {
 public:
  Beside(const std::vector<MeasuredTerm>& measured, const std::string& where) : where_(where) {
    for (const MeasuredTerm& m : measured) {
      const std::string name = m.name == "optimizer" ? "update" : m.name;
      const bool is_new = std::ranges::find(left_, name, &MeasuredTerm::name) == left_.end();
      if (!is_new) throw error("{}: {} is said twice", where, m.name);
      left_.push_back({name, m.seconds});
    }
  }

  MeasuredStep run(const Estimate& planned, const StepComparison& by_operators) {
    out_.step.predicted_seconds = planned.step_seconds();
    take_step();
    const StepParts parts = parts_of(planned);
    for (const auto& [name, part] : step_parts) take(out_.parts, std::string(name), parts.*part);
    take_details({"compute"}, {by_operators.update});
    take_details({"compute", "recompute"}, by_operators.operators);
    take_details({"communication"}, of_all_kinds(by_operators.collectives));
    if (!left_.empty()) refuse(left_.front().name, by_operators);
    add_rest();
    return std::move(out_);
  }

 private:
  std::optional<double> taken(const std::string& name) {
    const auto it = std::ranges::find(left_, name, &MeasuredTerm::name);
    if (it == left_.end()) return std::nullopt;
    const double seconds = it->seconds;
    left_.erase(it);
    return seconds;
  }

  void take_step() {
    const auto seconds = taken("step");
    if (!seconds) throw error("{}: it has no row step, what a step takes in all", where_);
    if (*seconds == 0) throw error("{}: step: a step takes longer than 0", where_);
    out_.step.measured_seconds = *seconds;
  }

  /// Returns what was measured, if it was.
  double take(std::vector<ComparedPart>& to, const std::string& name, double planned) {
    const auto seconds = taken(name);
    if (!seconds) return 0;
    to.push_back({.name = name, .measured_seconds = *seconds, .predicted_seconds = planned});
    return *seconds;
  }

  /// What lies within `wholes`, or where one of them is not measured within the step.
  void take_details(const std::vector<std::string>& wholes, const std::vector<ComparedPart>& parts) {
    double sum = 0, most = 0;
    for (const ComparedPart& part : parts) sum += take(out_.details, part.name, part.predicted_seconds);
    std::string within = join(wholes, " and ");
    for (const std::string& whole : wholes) {
      const auto known = std::ranges::find(out_.parts, whole, &ComparedPart::name);
      if (known == out_.parts.end()) {
        most = out_.step.measured_seconds;
        within = "the step";
        break;
      }
      most += known->measured_seconds;
    }
    if (sum > most * (1 + rounding))
      throw error("{}: what lies within {} takes {}, more than its {}", where_, within, seconds_text(sum),
                  seconds_text(most));
  }

  static std::vector<ComparedPart> of_all_kinds(std::vector<ComparedPart> parts) {
    for (const StepKind kind : collectives)
      if (std::ranges::find(parts, name_of(kind), &ComparedPart::name) == parts.end())
        parts.push_back({.name = std::string(name_of(kind))});
    return parts;
  }

  [[noreturn]] void refuse(const std::string& name, const StepComparison& by_operators) const {
    std::vector<std::string> known{"step"};
    for (const auto& [part, member] : step_parts) known.emplace_back(part);
    known.emplace_back("update");
    for (const auto* parts : {&by_operators.operators, &by_operators.collectives})
      for (const ComparedPart& part : *parts) known.push_back(part.name);
    const std::string near = near_names(name, known);
    throw error("{}: no step has a term '{}'{}; there are {}", where_, name, near, join(known, ", "));
  }

  void add_rest() {
    ComparedPart rest{.name = std::string(rest_name),
                      .measured_seconds = out_.step.measured_seconds,
                      .predicted_seconds = out_.step.predicted_seconds};
    for (const ComparedPart& part : out_.parts) {
      rest.measured_seconds -= part.measured_seconds;
      rest.predicted_seconds -= part.predicted_seconds;
    }
    const double step = out_.step.measured_seconds;
    if (std::abs(rest.predicted_seconds) < 1e-9 * out_.step.predicted_seconds) rest.predicted_seconds = 0;
    if (rest.measured_seconds < -rounding * step)
      throw error(
          "{}: its parts take {} but the step {}; of communication only what compute waits for counts",
          where_, seconds_text(step - rest.measured_seconds), seconds_text(step));
    if (std::abs(rest.measured_seconds) > rounding * step ||
        std::abs(rest.predicted_seconds) > rounding * step)
      out_.parts.push_back(std::move(rest));
  }

  const std::string& where_;
  std::vector<MeasuredTerm> left_;
  MeasuredStep out_;
};

Json json_of(const ComparedPart& part) {
  Json out{{"name", part.name}};
  if (part.count > 0) out["count"] = part.count;
  out["measured_seconds"] = part.measured_seconds;
  out["predicted_seconds"] = part.predicted_seconds;
  return out;
}

Json json_of(const std::vector<ComparedPart>& parts) {
  Json out = Json::array();
  for (const ComparedPart& part : parts) out.push_back(json_of(part));
  return out;
}

double more_of(const ComparedPart& part) { return part.measured_seconds - part.predicted_seconds; }

std::string signed_text(double seconds, double step) {
  if (std::abs(seconds) < 1e-9 * step) return "0";
  return (seconds < 0 ? "-" : "+") + seconds_text(std::abs(seconds));
}

/// `1.07`: predicted over measured.
std::string ratio_text(const ComparedPart& part) {
  return part.measured_seconds > 0 ? fmt::format("{:.2f}", part.predicted_seconds / part.measured_seconds)
                                   : "-";
}

}  // namespace

std::string table_of(const StepComparison& c) {
  Rows rows{{"a step, by device", "count", "measured", "predicted", "predicted / measured"}};
  const auto add = [&](const std::vector<ComparedPart>& parts) {
    for (const ComparedPart& p : parts)
      if (p.measured_seconds > 0 || p.predicted_seconds > 0)
        rows.push_back({p.name, p.count > 0 ? fmt::format("{:g}", p.count) : "",
                        seconds_text(p.measured_seconds), seconds_text(p.predicted_seconds), ratio_text(p)});
  };
  ComparedPart update = c.update;
  update.name = "of compute update";
  add(c.terms);
  add({update, c.step});
  add(c.operators);
  add(c.collectives);
  if (c.stages.size() > 1) add(c.stages);
  return aligned(rows, {1, 5}) + most_text(c.step, most_of(c.step, c.terms)) + "\n";
}

Json json_of(const StepComparison& c) {
  return {{"step", json_of(c.step)},
          {"terms", json_of(c.terms)},
          {"update", json_of(c.update)},
          {"operators", json_of(c.operators)},
          {"collectives", json_of(c.collectives)},
          {"bubble", json_of(c.bubble)},
          {"others", json_of(c.others)},
          {"stages", json_of(c.stages)}};
}

std::vector<MeasuredTerm> parse_measured(std::string_view text, const std::string& where) {
  const std::string_view all = trim(text);
  return !all.empty() && all.front() == '{' ? parse_object(text, where) : parse_rows(text, where);
}

MeasuredStep beside_plan(const std::vector<MeasuredTerm>& measured, const Estimate& planned,
                         const StepComparison& by_operators, const std::string& where) {
  return Beside(measured, where).run(planned, by_operators);
}

const ComparedPart& most_of(const ComparedPart& step, const std::vector<ComparedPart>& parts) {
  const double sign = more_of(step) < 0 ? -1 : 1;
  return *std::ranges::max_element(parts, {}, [&](const ComparedPart& p) { return sign * more_of(p); });
}

const ComparedPart& MeasuredStep::most() const {
  const bool says_parts = !parts.empty() && parts.front().name != rest_name;
  return says_parts ? most_of(step, parts) : step;
}

std::string most_text(const ComparedPart& step, const ComparedPart& most) {
  const auto more_text = [](double seconds) {
    return fmt::format("{} {}", seconds_text(std::abs(seconds)), seconds < 0 ? "less" : "more");
  };
  const double more = more_of(step);
  return fmt::format(
      "the measured step takes {} than planned ({}){}", more_text(more),
      percent_text(std::abs(more), step.predicted_seconds),
      &most == &step ? "" : fmt::format(": most of it {}, {}", most.name, more_text(more_of(most))));
}

std::string to_text(const MeasuredStep& s) {
  Rows rows{{"a step", "planned", "measured", "difference"}};
  const auto add = [&](const ComparedPart& p, std::string_view before) {
    rows.push_back({fmt::format("{}{}", before, p.name), seconds_text(p.predicted_seconds),
                    seconds_text(p.measured_seconds), signed_text(more_of(p), s.step.measured_seconds)});
  };
  for (const ComparedPart& p : s.parts) add(p, "");
  add(s.step, "");
  for (const ComparedPart& p : s.details) add(p, "  of it ");
  return aligned(rows, {.begin = 1, .end = 4}) + most_text(s.step, s.most()) + "\n";
}

}  // namespace shardwright
