// The tables of a plan's page, which read without its script, too.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <set>
#include <span>
#include <tuple>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
namespace {

HtmlCell share_cell(std::int64_t bytes, std::int64_t of) {
  return number_cell(share_text(bytes, of), static_cast<double>(bytes));
}

}  // namespace

std::string range_text(int first, int count) {
  return count == 1 ? fmt::format("{}", first) : fmt::format("{}–{}", first, first + count - 1);
}

std::string hosts_text(const Cluster& cluster, int first, int count) {
  const int each = std::max(1, cluster.devices_per_node);
  const int host = first / each, last = (first + count - 1) / each;
  return range_text(host, last - host + 1);
}

std::string stages_table(const PageContent& content, const Json& document, const Json& pictures) {
  const Estimate& e = content.evaluation.estimate;
  const auto stages = stages_of(e);
  HtmlTable table{
      .caption = content.run ? "What each stage does in a step, by forecast, and what it holds"
                             : "What each stage does in a step, and what it holds",
      .head = heads({"stage", "devices", "hosts", "compute", "waits for communication", "waits for stages",
                     "reserves", "of what it may use", "in use at most", "largest buffers"},
                    3, 9)};
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const int first = content.pipeline.first_rank(static_cast<int>(s));
    const int count = content.pipeline.stage(static_cast<int>(s)).rank_count();
    const std::string by_stage = fmt::format("/by_stage/{}", s);
    std::string largest;
    for (const MemoryConsumer& c :
         std::span(stages[s].memory.largest).first(std::min<std::size_t>(2, stages[s].memory.largest.size())))
      largest += (largest.empty() ? "" : "; ") + consumer_html(c);
    const auto peak = peak_of(pictures, s);
    table.rows.push_back(
        {HtmlCell{.html = stage_name(s) + chunks_text(content.pipeline, s), .value = fmt::format("{}", s)},
         HtmlCell{.html = range_text(first, count), .value = fmt::format("{}", first)},
         text_cell(hosts_text(content.plan.cluster, first, count)),
         seconds_cell(document, by_stage + "/compute_seconds"),
         seconds_cell(document, by_stage + "/exposed_communication_seconds"),
         seconds_cell(document, by_stage + "/bubble_seconds"),
         bytes_cell(document, e.stages.empty() ? "/memory_bytes/arena"
                                               : fmt::format("/memory_bytes/stages/{}/arena", s)),
         share_cell(stages[s].arena_bytes, content.evaluation.cap_bytes),
         peak ? number_cell(bytes_text(*peak), static_cast<double>(*peak)) : HtmlCell{},
         {.html = largest}});
  }
  return to_html(table);
}

// ---- what lost ----

namespace {

std::string known_text(KnownBy by) { return by == KnownBy::program ? "simulated" : std::string(name_of(by)); }

/// Why it is not the plan.
std::string fate_text(const Tried& t, const Evaluation& evaluation) {
  const std::int64_t excess = std::llround(t.bytes) - evaluation.cap_bytes;
  if (t.fate != Fate::misfit && excess > 0)
    return fmt::format("hardly fits: by forecast it needs {} more than there is", bytes_text(excess));
  switch (t.fate) {
    case Fate::misfit:
      return excess > 0 ? fmt::format("needs {} more than there is", bytes_text(excess)) : "does not fit";
    case Fate::open: return "the search ended before it was simulated";
    default: break;
  }
  const double step = evaluation.estimate.step_seconds();
  if (t.by != KnownBy::program && t.seconds < step) return "as long by forecast: it was not simulated";
  return t.seconds > step * (2 - as_long) ? "slower" : "no faster";
}

/// What became of those without a price, in a sentence's words.
std::string unpriced_words(Fate fate) {
  switch (fate) {
    case Fate::open: return "were not reached before the search ended";
    case Fate::misfit: return "need more memory than there is, by figures alone";
    case Fate::beyond: return "cannot be faster, as a lower bound of their step says";
    case Fate::needless: return "are as others, or shard or compute again more than memory asks for";
    case Fate::impossible: return "cannot be split so";
    default: return std::string(name_of(fate));
  }
}

/// All that was looked at, by what became of it: the numbers add up.
std::string counts_html(const std::vector<Tried>& tried, std::size_t lost, std::size_t rows) {
  const auto others = std::ranges::count_if(tried, [](const Tried& t) { return !t.words.empty(); });
  std::map<Fate, int> unpriced;
  std::size_t left = tried.size() - lost;
  for (const Tried& t : tried)
    if (t.fate != Fate::taken && !is_priced(t)) ++unpriced[t.fate], --left;
  const std::size_t structures = tried.size() - static_cast<std::size_t>(others);
  const std::string split = "that split operators one by one, for which there is no flag";
  std::string out =
      fmt::format("<p>Looked at: {} plans{}.</p>\n<ul class=\"counts\">\n", tried.size(),
                  others == 0       ? ""
                  : structures == 0 ? " " + split
                                    : fmt::format(": {} structures, and {} {}", structures, others, split));
  const auto line = [&](std::size_t count, const std::string& what) {
    if (count > 0) out += fmt::format("<li><b>{}</b> {}</li>\n", count, what);
  };
  line(left, left == 1 ? "is the plan" : "are the plan, by other words");
  line(rows, "lost and stand above");
  line(lost - rows, "lost, too, behind these; <code>--json</code> has them");
  for (const auto& [fate, count] : unpriced) line(static_cast<std::size_t>(count), unpriced_words(fate));
  return out + "</ul>\n";
}

/// Of `lost` the numbers, what fits first, then what was simulated, then the fastest.
std::vector<std::size_t> best_first(const std::vector<Tried>& lost, const Evaluation& evaluation) {
  std::vector<std::size_t> out(lost.size());
  std::iota(out.begin(), out.end(), std::size_t{0});
  std::ranges::stable_sort(out, {}, [&](std::size_t i) {
    return std::tuple(!fits(lost[i], evaluation), lost[i].by != KnownBy::program, lost[i].seconds);
  });
  return out;
}

}  // namespace

namespace {

/// Where nothing else was looked at, nothing is known of what binds but that the plan does not fit, if so.
std::string binds_html(const Bound& bound, const Evaluation& evaluation) {
  const bool is_known = !bound.tried.empty() || bound.binding.by == Limit::memory;
  if (is_known)
    return fmt::format("<p>What keeps it from being faster: {}</p>\n",
                       breakable(binding_text(bound, evaluation)));
  const std::string& fixed = bound.binding.fixed;
  return fmt::format("<p>No other plan was looked at{}.</p>\n",
                     fixed.empty() ? "" : ", as this is fixed: " + code_html(fixed));
}

}  // namespace

std::string alternatives_part(const PageContent& content, const Json& document) {
  if (!content.bound) return "";
  constexpr std::size_t most_rows = 60;
  const Evaluation& evaluation = content.evaluation;
  const double step = evaluation.estimate.step_seconds();
  std::string out = binds_html(*content.bound, evaluation);
  const std::vector<Tried> lost = that_lost(content.bound->tried);
  std::vector<std::size_t> shown = best_first(lost, evaluation);
  const auto same = std::erase_if(shown, [&](std::size_t i) { return is_same(lost[i], evaluation); });
  shown.resize(std::min(shown.size(), most_rows));
  HtmlTable table{
      .head = heads({"asked for by", "step", "against the plan", "memory", "known by", "why not"}, 1, 4)};
  bool has_words = false;
  for (const std::size_t i : shown) {
    const Tried& t = lost[i];
    has_words = has_words || !t.words.empty();
    const std::string pointer = fmt::format("/alternatives/{}", i);
    table.rows.push_back({HtmlCell{.html = asked_html(t, content)},
                          seconds_cell(document, pointer + "/step_seconds"),
                          number_cell(fmt::format("{:+.1f}%", 100 * (t.seconds / step - 1)), t.seconds),
                          bytes_cell(document, pointer + "/memory_bytes"), text_cell(known_text(t.by)),
                          text_cell(fate_text(t, evaluation))});
  }
  const bool is_marked = std::ranges::any_of(
      table.rows, [](const auto& row) { return row.front().html.find("<mark>") != std::string::npos; });
  table.caption = fmt::format(
      "What lost: what fits before what does not, what was simulated before forecasts, the fastest first{}",
      is_marked ? "; underlined is what differs from the plan" : "");
  if (!table.rows.empty()) out += to_html(table);
  if (has_words)
    out +=
        "<p class=\"fine\">A row without a flag is a plan that splits operators one by one: no flag says all "
        "of it.</p>\n";
  if (content.bound->tried.empty()) return out;
  return out + counts_html(content.bound->tried, lost.size() - same, shown.size());
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
  std::vector<std::string> meshes, alike;
  const auto tell_alike = [&] {
    if (alike.size() == 1) out += fmt::format("<p>{}: as above.</p>\n", alike.front());
    if (alike.size() > 1) out += fmt::format("<p>{} to {}: as above.</p>\n", alike.front(), alike.back());
    alike.clear();
  };
  const std::vector<StageReport>& stages = content.report.stages;
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const StageReport& stage = stages[s];
    std::string part, heading = stage.heading;
    if (const std::string own = stage_name(s); heading.starts_with(own + " "))
      heading = part_name(content.pipeline, s) + heading.substr(own.size());
    if (stage.meshes != meshes)
      for (const std::string& mesh : stage.meshes)
        part += fmt::format("<p><code>{}</code></p>\n", escaped(mesh));
    std::vector<ReportRow> rows;
    for (const ReportRow& r : stage.rows)
      if (told.insert(key_of(r)).second) rows.push_back(r);
    if (s > 0 && rows.empty() && !stage.rows.empty() && stage.meshes == meshes) {
      alike.push_back(part_name(content.pipeline, s));
      continue;
    }
    tell_alike();
    if (!rows.empty())
      part +=
          to_html(operators_table(heading.empty() ? "How operators are split" : heading, rows, stage.beside));
    if (stage.splits_nothing) part += "<p>Nothing is split: every device does the whole work.</p>\n";
    if (s > 0 && !stage.rows.empty()) part += "<p>All else is as above.</p>\n";
    if (part.empty()) part = "<p>One device does all of it.</p>\n";
    if (stages.size() > 1)
      part = fmt::format("<details{}><summary>{}</summary>\n{}</details>\n", s == 0 ? " open" : "",
                         escaped(heading), part);
    meshes = stage.meshes;
    out += part;
  }
  tell_alike();
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

}  // namespace shardwright
