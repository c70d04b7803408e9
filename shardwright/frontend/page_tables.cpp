// The tables of a plan's page, which read without its script, too.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
namespace {

HtmlCell seconds_cell(const Json& document, const std::string& pointer) {
  const double seconds = document.at(Json::json_pointer(pointer)).get<double>();
  return number_cell(figure(document, pointer, seconds_text(seconds)), seconds);
}
HtmlCell bytes_cell(const Json& document, const std::string& pointer) {
  const auto bytes = document.at(Json::json_pointer(pointer)).get<std::int64_t>();
  return number_cell(figure(document, pointer, bytes_text(bytes)), static_cast<double>(bytes));
}
HtmlCell share_cell(double part, double whole) { return number_cell(percent_text(part, whole), part); }

std::vector<HtmlCell> heads(const std::vector<std::string_view>& names, std::size_t first_number,
                            std::size_t end_number) {
  std::vector<HtmlCell> out;
  for (std::size_t i = 0; i < names.size(); ++i)
    out.push_back({.html = std::string(names[i]), .is_number = i >= first_number && i < end_number});
  return out;
}

}  // namespace

std::string stage_name(const Pipeline& pipeline, std::size_t group) {
  std::string out;
  for (int s = static_cast<int>(group); s < pipeline.stage_count(); s += pipeline.group_count())
    out += fmt::format("{}{}", out.empty() ? "" : ", ", s);
  return (pipeline.group_count() == pipeline.stage_count() ? "stage " : "stages ") + out;
}

std::string range_text(int first, int count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}–{}", first, first + count - 1);
}

std::string hosts_text(const Cluster& cluster, int first, int count) {
  const int each = std::max(1, cluster.devices_per_node);
  const int host = first / each, last = (first + count - 1) / each;
  return range_text(host, last - host + 1);
}

std::string stages_table(const PageContent& content, const Json& document) {
  const Estimate& e = content.evaluation.estimate;
  const auto stages = stages_of(e);
  HtmlTable table{.caption = "What each stage does in a step, and what it holds",
                  .head = heads({"stage", "devices", "hosts", "compute", "waits for communication",
                                 "waits for stages", "memory", "of what it may use", "largest at its peak"},
                                3, 8)};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int first = content.pipeline.first_rank(static_cast<int>(s));
    const int count = content.pipeline.stage(static_cast<int>(s)).rank_count();
    const std::string by_stage = fmt::format("/by_stage/{}", s);
    std::string largest;
    for (std::size_t i = 0; i < std::min<std::size_t>(2, stages[s].memory.largest.size()); ++i) {
      const MemoryConsumer& c = stages[s].memory.largest[i];
      largest += fmt::format("{}{} {}", i == 0 ? "" : ", ", c.name, bytes_text(c.bytes));
    }
    table.rows.push_back(
        {HtmlCell{.html = stage_name(content.pipeline, s), .value = fmt::format("{}", s)},
         HtmlCell{.html = range_text(first, count), .value = fmt::format("{}", first)},
         text_cell(hosts_text(content.plan.cluster, first, count)),
         seconds_cell(document, by_stage + "/compute_seconds"),
         seconds_cell(document, by_stage + "/exposed_communication_seconds"),
         seconds_cell(document, by_stage + "/bubble_seconds"),
         bytes_cell(document, e.stages.empty() ? "/memory_bytes/arena"
                                               : fmt::format("/memory_bytes/stages/{}/arena", s)),
         share_cell(static_cast<double>(stages[s].arena_bytes),
                    static_cast<double>(content.evaluation.cap_bytes)),
         text_cell(largest)});
  }
  return to_html(table);
}

// ---- what lost ----

namespace {

/// Why it is not the plan.
std::string fate_text(const Tried& t, const Evaluation& evaluation) {
  if (t.fate != Fate::misfit) return std::string(name_of(t.fate));
  const std::int64_t excess = std::llround(t.bytes) - evaluation.cap_bytes;
  return excess > 0 ? fmt::format("{} more than there is", bytes_text(excess)) : "does not fit";
}

/// `12 bound above the best, 3 impossible`: how many needed no price, by reason; empty if none.
std::string unpriced_text(const std::vector<Tried>& tried) {
  std::map<Fate, int> counts;
  for (const Tried& t : tried)
    if (t.fate != Fate::taken && !is_priced(t)) ++counts[t.fate];
  std::vector<std::string> out;
  for (const auto& [fate, count] : counts) out.push_back(fmt::format("{} {}", count, name_of(fate)));
  return join(out, ", ");
}

}  // namespace

std::string alternatives_part(const PageContent& content, const Json& document) {
  if (!content.bound) return "";
  constexpr std::size_t most_rows = 60;
  const Evaluation& evaluation = content.evaluation;
  const double step = evaluation.estimate.step_seconds();
  std::string out = fmt::format("<p>Binding: {}</p>\n", breakable(binding_text(*content.bound, evaluation)));
  const std::vector<Tried> lost = that_lost(content.bound->tried);
  HtmlTable table{
      .caption = "Alternatives that lost, the best first",
      .head = heads({"asked for by", "step", "against the plan", "memory", "known by", "why not"}, 1, 4)};
  for (std::size_t i = 0; i < std::min(lost.size(), most_rows); ++i) {
    const Tried& t = lost[i];
    const std::string pointer = fmt::format("/alternatives/{}", i);
    table.rows.push_back({HtmlCell{.html = code_html(asked_text(t))},
                          seconds_cell(document, pointer + "/step_seconds"),
                          number_cell(fmt::format("{:+.1f}%", 100 * (t.seconds / step - 1)), t.seconds),
                          bytes_cell(document, pointer + "/memory_bytes"), text_cell(name_of(t.by)),
                          text_cell(fate_text(t, evaluation))});
  }
  if (!table.rows.empty()) out += to_html(table);
  if (lost.size() > most_rows) out += fmt::format("<p>and {} more</p>\n", lost.size() - most_rows);
  const std::string unpriced = unpriced_text(content.bound->tried);
  return unpriced.empty() ? out : out + fmt::format("<p>Not priced: {}.</p>\n", unpriced);
}

// ---- operators ----

namespace {

HtmlTable operators_table(const std::string& caption, const std::vector<ReportRow>& rows,
                          const std::string& beside) {
  HtmlTable out{
      .caption = caption,
      .head =
          heads({"operator", "strategy", "parts of inputs", "time", "memory", "collectives", "why"}, 3, 5)};
  for (const ReportRow& r : rows)
    out.rows.push_back({text_cell(r.name), text_cell(r.strategy), text_cell(r.parts),
                        number_cell(r.time, r.seconds), number_cell(r.memory, static_cast<double>(r.bytes)),
                        text_cell(r.collectives), text_cell(r.reason)});
  if (!beside.empty() && !rows.empty())
    out.rows.push_back({text_cell(beside_operators), {}, {}, number_cell(beside, 0), {}, {}, {}});
  return out;
}

}  // namespace

/// Of later stages what no earlier one has, as in the report's text.
std::string operators_part(const PageContent& content) {
  std::string out;
  std::set<std::string> told;
  std::vector<std::string> meshes;
  const std::vector<StageReport>& stages = content.report.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageReport& stage = stages[s];
    std::string part;
    if (stage.meshes != meshes)
      for (const std::string& mesh : stage.meshes)
        part += fmt::format("<p><code>{}</code></p>\n", escaped(mesh));
    std::vector<ReportRow> rows;
    for (const ReportRow& r : stage.rows)
      if (told.insert(key_of(r)).second) rows.push_back(r);
    if (!rows.empty())
      part += to_html(operators_table(stage.heading.empty() ? "How operators are split" : stage.heading, rows,
                                      stage.beside));
    if (stage.splits_nothing) part += "<p>Nothing is split: every device does the whole work.</p>\n";
    if (s > 0 && !stage.rows.empty()) part += "<p>All else is as above.</p>\n";
    if (part.empty()) part = "<p>One device does all of it.</p>\n";
    if (stages.size() > 1)
      part = fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", s == 0 ? " open" : "",
                         escaped(stage.heading), part);
    meshes = stage.meshes;
    out += part;
  }
  return out;
}

std::string collectives_part(const Json& document) {
  HtmlTable table{.caption = "Collectives of a step, on the device with most",
                  .head = heads({"kind", "count"}, 1, 2)};
  for (const auto& [kind, count] : document.at("collectives_per_step").items())
    table.rows.push_back(
        {text_cell(kind),
         number_cell(figure(document, "/collectives_per_step/" + kind, count.dump()), count.get<double>())});
  if (table.rows.empty()) return "<p>None: devices do not communicate.</p>\n";
  return to_html(table) +
         fmt::format("<p>{} are received by the device that receives most.</p>\n",
                     figure(document, "/bytes_communicated_per_step",
                            bytes_text(document.at("bytes_communicated_per_step").get<std::int64_t>())));
}

// ---- a training ----

std::string run_part(const PageContent& content, const Json& document) {
  const TrainedRun& run = *content.run;
  const double predicted = content.evaluation.estimate.step_seconds();
  const auto most = [](const std::vector<std::int64_t>& of) {
    return of.empty() ? std::int64_t{0} : *std::ranges::max_element(of);
  };
  HtmlTable table{.caption = "The run beside the plan", .head = heads({"what", "planned", "measured"}, 1, 3)};
  table.rows.push_back(
      {text_cell("a step (median)"), seconds_cell(document, "/step_seconds"),
       number_cell(figure(document, "/run/median_step_seconds", seconds_text(run.median_step_seconds)),
                   run.median_step_seconds)});
  if (!run.planned_bytes.empty())
    table.rows.push_back(
        {text_cell("memory of the fullest device"),
         number_cell(bytes_text(most(run.planned_bytes)), static_cast<double>(most(run.planned_bytes))),
         number_cell(bytes_text(most(run.measured_bytes)), static_cast<double>(most(run.measured_bytes)))});
  std::string out;
  if (run.is_interrupted)
    out += fmt::format("<p>The run was interrupted behind {} steps.</p>\n", run.losses.size());
  if (!run.losses.empty())
    out += fmt::format("<p>The loss went from {:.5g} to {:.5g} in {} steps.</p>\n", run.losses.front(),
                       run.losses.back(), run.losses.size());
  out += "<div id=\"losses\" class=\"chart\"></div>\n" + to_html(table);
  const double ratio = run.median_step_seconds / predicted;
  return out + fmt::format("<p>Measured steps take {:.3g} times what is simulated for {}.</p>\n", ratio,
                           escaped(content.plan.cluster.name));
}

}  // namespace shardwright
