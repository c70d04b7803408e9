#include "shardwright/frontend/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <vector>

#include "shardwright/base/text.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/plan/plan_json.h"

namespace shardwright {
namespace {

constexpr std::string_view style = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 85em; padding: 0 1em }
table { border-collapse: collapse; margin: .8em 0 } th, td { padding: .2em .8em; text-align: left; vertical-align: top }
tr { border-bottom: 1px solid #ddd } td { font-family: monospace; white-space: nowrap }
td:nth-child(n+6) { white-space: normal } td.number { text-align: right }
td.share { background: linear-gradient(to right, #cfe2f6 var(--share), transparent var(--share)) }
.bar { display: flex; height: 1.4em; width: 40em; max-width: 100% } .bar i { min-width: 1px }
.key { display: inline-block; width: .8em; height: .8em; margin-right: .4em } pre { overflow: auto })";

/// Names come from users.
std::string escaped(std::string_view text) {
  std::string out;
  for (const char c : text) switch (c) {
      case '&': out += "&amp;"; break;
      case '<': out += "&lt;"; break;
      case '>': out += "&gt;"; break;
      case '"': out += "&quot;"; break;
      default: out += c;
    }
  return out;
}

std::string cell(std::string_view text) { return fmt::format("<td>{}</td>", escaped(text)); }

/// `12.3%`, over a bar of that length.
std::string share_cell(std::string_view percent) {
  if (!percent.ends_with('%')) return fmt::format("<td class='number'>{}</td>", percent);
  return fmt::format("<td class='number share' style='--share:{}'>{}</td>", percent, percent);
}

std::string html_table_of(const StageReport& stage) {
  std::string out =
      "<table><tr><th>operator<th>strategy<th>parts of inputs<th>time<th>memory<th>collectives<th>why</tr>\n";
  for (const ReportRow& r : stage.rows)
    out += fmt::format("<tr>{}{}{}{}{}{}{}</tr>\n", cell(r.name), cell(r.strategy), cell(r.parts),
                       share_cell(r.time), share_cell(r.memory), cell(r.collectives), cell(r.reason));
  if (!stage.beside.empty())
    out += fmt::format("<tr>{}<td><td>{}<td></tr>\n", cell(beside_operators), share_cell(stage.beside));
  return out + "</table>\n";
}

struct BarPart {
  std::string name;
  double size = 0;
  std::string text;  // with its unit
};

/// Parts of a whole side by side, and below what each is.
std::string bar_of(const std::vector<BarPart>& parts) {
  constexpr const char* colors[] = {"#4e79a7", "#f28e2b", "#59a14f", "#e15759",
                                    "#76b7b2", "#edc948", "#b07aa1"};
  std::string bar, key;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    if (parts[i].size <= 0) continue;
    const char* const color = colors[i % std::size(colors)];
    bar += fmt::format("<i style='flex:{:.6g};background:{}'></i>", parts[i].size, color);
    key += fmt::format(
        "<tr><td><span class='key' style='background:{}'></span>{}</td><td class='number'>{}</td></tr>",
        color, parts[i].name, parts[i].text);
  }
  return fmt::format("<div class='bar'>{}</div><table>{}</table>\n", bar, key);
}

std::string time_bar(const Estimate& e) {
  std::vector<BarPart> parts;
  const auto add = [&](const char* name, double seconds) {
    parts.push_back({name, seconds, seconds_text(seconds)});
  };
  add("compute", e.compute_seconds - e.recompute_seconds);
  add("recompute", e.recompute_seconds);
  add("communication that compute waits for", e.exposed_communication_seconds);
  add("bubble", e.bubble_seconds);
  return bar_of(parts);
}

std::string memory_bar(const Estimate& e) {
  std::vector<BarPart> parts;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    parts.push_back({words_of(static_cast<MemoryKind>(k)), static_cast<double>(e.memory.bytes[k]),
                     bytes_text(e.memory.bytes[k])});
  return bar_of(parts);
}

std::string number_cell(std::string_view text) { return fmt::format("<td class='number'>{}</td>", text); }

/// Why it is not the plan.
std::string fate_text(const Tried& t, const Evaluation& evaluation) {
  if (t.fate != Fate::misfit) return std::string(name_of(t.fate));
  const std::int64_t excess = std::llround(t.bytes) - evaluation.cap_bytes;
  return excess > 0 ? fmt::format("{} more than there is", bytes_text(excess)) : "does not fit";
}

/// `not priced: 12 beyond, 3 impossible`: how many needed no price, by reason; empty if none.
std::string unpriced_text(const std::vector<Tried>& tried) {
  std::map<Fate, int> counts;
  for (const Tried& t : tried)
    if (t.fate != Fate::taken && !is_priced(t)) ++counts[t.fate];
  std::vector<std::string> out;
  for (const auto& [fate, count] : counts) out.push_back(fmt::format("{} {}", count, name_of(fate)));
  return out.empty() ? "" : "<p>not priced: " + join(out, ", ") + "</p>\n";
}

std::string bound_section(const Bound& bound, const Evaluation& evaluation) {
  constexpr std::size_t most_rows = 30;
  std::string out = fmt::format("<h2>What binds</h2>\n<p>{}</p>\n", escaped(binding_text(bound, evaluation)));
  const std::vector<Tried> lost = that_lost(bound.tried);
  if (!lost.empty()) out += "<table><tr><th>what lost<th>step<th>memory<th>known by<th>why</tr>\n";
  for (std::size_t i = 0; i < std::min(lost.size(), most_rows); ++i) {
    const Tried& t = lost[i];
    out += fmt::format("<tr>{}{}{}{}{}</tr>\n", cell(asked_text(t)), number_cell(seconds_text(t.seconds)),
                       number_cell(bytes_text(std::llround(t.bytes))), cell(name_of(t.by)),
                       cell(fate_text(t, evaluation)));
  }
  if (!lost.empty()) out += "</table>\n";
  if (lost.size() > most_rows) out += fmt::format("<p>and {} more</p>\n", lost.size() - most_rows);
  return out + unpriced_text(bound.tried);
}

}  // namespace

std::string to_html(const StepReport& report) {
  std::string out = fmt::format("<p>{}</p>\n", escaped(report.heading));
  for (const std::string& line : report.summary) out += fmt::format("<p>{}</p>\n", escaped(line));
  for (const StageReport& stage : report.stages) {
    if (!stage.heading.empty()) out += fmt::format("<h3>{}</h3>\n", escaped(stage.heading));
    for (const std::string& mesh : stage.meshes) out += fmt::format("<p>{}</p>\n", escaped(mesh));
    if (!stage.rows.empty()) out += html_table_of(stage);
    if (stage.splits_nothing) out += "<p>nothing is split: every device does the whole work</p>\n";
  }
  return out;
}

std::string plan_page(const StepReport& report, const Plan& plan, const Evaluation& evaluation,
                      const std::optional<Bound>& bound) {
  const Estimate& e = evaluation.estimate;
  std::string collectives;
  for (const auto& [kind, count] : e.collectives)
    collectives += fmt::format("<tr>{}<td class='number'>{}</td></tr>", cell(kind), count);
  return fmt::format(
      "<!doctype html>\n<meta charset='utf-8'><title>{0}</title><style>{1}</style>\n<h1>{0}</h1>\n"
      "<h2>Where the {2} of a step go</h2>\n{3}<h2>Where the {4} of the fullest device go</h2>\n{5}"
      "<h2>Collectives of a step</h2>\n{6}{7}<h2>How it is split, and why</h2>\n{8}"
      "<details><summary>The plan as a file</summary><pre>{9}</pre></details>\n",
      escaped(plan.model), style, seconds_text(e.step_seconds()), time_bar(e), bytes_text(e.arena_bytes),
      memory_bar(e), collectives.empty() ? "<p>none</p>\n" : fmt::format("<table>{}</table>\n", collectives),
      bound ? bound_section(*bound, evaluation) : "", to_html(report), escaped(to_json(plan)));
}

}  // namespace shardwright
