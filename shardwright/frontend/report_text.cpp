// The report of a plan as lines of text.

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <utility>

#include "shardwright/frontend/report.h"

namespace shardwright {
namespace {

/// More rows than this and the summary do not fit a screen.
constexpr std::size_t most_rows = 30;
/// A terminal's screen has so many.
constexpr std::size_t most_lines = 45;

std::string table_of(const std::vector<ReportRow>& rows, const std::string& beside) {
  Rows lines{{"operator", "strategy", "parts of inputs", "time", "memory", "collectives; why"}};
  for (const ReportRow& r : rows)
    lines.push_back({r.name, r.strategy, r.parts, r.time, r.memory,
                     r.collectives + (r.collectives.empty() || r.reason.empty() ? "" : "; ") + r.reason});
  if (!beside.empty()) lines.push_back({std::string(beside_operators), "", "", beside, "", ""});
  return aligned(lines, {.begin = 3, .end = 5});
}

/// Each line at most so long; where it is cut stand three dots.
std::string cut(const std::string& text, std::size_t columns) {
  constexpr std::size_t least = 20;
  if (columns < least) return text;
  std::string out;
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string_view line = std::string_view(text).substr(begin, end - begin);
    out += line.size() <= columns ? std::string(line) : std::string(line.substr(0, columns - 3)) + "...";
    out += '\n';
    begin = end + 1;
  }
  return out;
}

/// So many lines of a terminal.
std::size_t height_of(const std::string& line, std::size_t columns) {
  return std::max<std::size_t>(1, (line.size() + columns - 1) / columns);
}

/// Without those that take nothing, which one row stands for.
std::vector<ReportRow> folded_rows(const StageReport& stage) {
  std::vector<ReportRow> out = stage.rows;
  std::erase_if(out, takes_nothing);
  if (stage.others) out.push_back(*stage.others);
  return out;
}

/// Prints stage after stage; of later ones what no earlier one has, but for wide reports.
class StageTables {
 public:
  /// So many rows of a stage are told one by one.
  StageTables(const ReportStyle& style, std::size_t most) : style_(style), most_rows_(most) {}

  void add(const StageReport& stage, std::size_t number) {
    const std::vector<ReportRow> own = style_.columns > 0 ? folded_rows(stage) : stage.rows;
    const bool is_short = style_.is_wide || own.size() <= most_rows_;
    const std::vector<ReportRow>& all = is_short ? own : stage.kinds;
    std::vector<ReportRow> rows;
    for (const ReportRow& r : all)
      if (style_.is_wide || !told_.contains(key_of(r, !is_short))) rows.push_back(r);
    for (const ReportRow& r : all) told_.insert(key_of(r, !is_short));
    const bool is_alike = number > 0 && rows.empty() && !stage.rows.empty() && stage.meshes == meshes_;
    if (is_alike) {
      alike_.push_back(number);
      return;
    }
    tell_alike();
    if (!stage.heading.empty()) out_ += stage.heading + "\n";
    if (style_.is_wide || stage.meshes != meshes_)
      for (const std::string& mesh : stage.meshes) out_ += mesh + "\n";
    meshes_ = stage.meshes;
    if (!rows.empty()) out_ += cut(table_of(rows, stage.beside), style_.columns);
    if (stage.splits_nothing) out_ += "nothing is split: every device does the whole work\n";
    if (number > 0 && !style_.is_wide && !stage.rows.empty()) out_ += "  all else as above\n";
  }

  std::string text() {
    tell_alike();
    return std::move(out_);
  }

 private:
  void tell_alike() {
    if (alike_.size() == 1) out_ += fmt::format("stage {}: as above\n", alike_[0]);
    if (alike_.size() > 1) out_ += fmt::format("stages {} to {}: as above\n", alike_.front(), alike_.back());
    alike_.clear();
  }

  ReportStyle style_;
  std::size_t most_rows_;
  std::string out_;
  std::set<std::string> told_;  // in earlier stages
  std::vector<std::string> meshes_;
  std::vector<std::size_t> alike_;  // not yet told
};

}  // namespace

std::string key_of(const ReportRow& row, bool is_kind) {
  return fmt::format("{}|{}|{}", is_kind ? row.name : without_numbers(row.name), row.strategy, row.parts);
}

std::string to_text(const StepReport& report, const ReportStyle& style) {
  std::string out = report.heading + "\n";
  std::size_t lines = 3;  // the heading, the mesh, the head of the table
  for (const SummaryLine& line : report.summary) {
    const bool is_brief = style.columns > 0 && line.text.size() > style.columns && !line.brief.empty();
    const std::string& text = is_brief ? line.brief : line.text;
    out += text + "\n";
    if (style.columns > 0) lines += height_of(text, style.columns);
  }
  const std::size_t room = std::max(most_lines, lines) - lines;
  StageTables tables(style, style.columns > 0 ? std::min(most_rows, room) : most_rows);
  for (std::size_t s = 0; s < report.stages.size(); ++s) tables.add(report.stages[s], s);
  return out + tables.text();
}

}  // namespace shardwright
