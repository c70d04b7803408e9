#include "shardwright/plan/schedule_table.h"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/plan/played_tasks.h"

namespace shardwright {
namespace {

constexpr std::string_view overlap_mark = ")OVERLAP_F_B";

/// A cell's task, before it is known which chunk of its stage the part is.
struct Action {
  int part = 0;
  char kind = 'F';
  int micro_batch = 0;
  std::string where;  // `row 2, cell 5 '7I0'`
};

int digits(std::string_view& text) {
  std::size_t count = 0;
  while (count < text.size() && text[count] >= '0' && text[count] <= '9') ++count;
  const auto number = to_integer(text.substr(0, count));
  text.remove_prefix(count);
  return number && *number < most_micro_batches ? static_cast<int>(*number) : -1;
}

Action parse_action(std::string_view text, const std::string& where) {
  Action out{.where = where};
  std::string_view left = text;
  out.part = digits(left);
  if (out.part < 0) throw error("{}: should begin with the number of a stage, as in 0F0", where);
  for (std::string_view moves : {"SEND_", "RECV_", "WAIT_", "UNSHARD", "RESHARD", "REDUCE_GRAD"})
    if (left.starts_with(moves))
      throw error(
          "{}: is communication, which plans add by themselves; give the table without it (PyTorch's "
          "compute_only)",
          where);
  if (left.empty() || std::string_view("FBIW").find(left.front()) == std::string_view::npos)
    throw error("{}: the stage's number should be followed by F, B, I or W", where);
  out.kind = left.front();
  left.remove_prefix(1);
  out.micro_batch = digits(left);
  if (out.micro_batch < 0) throw error("{}: should end with the number of a micro-batch, as in 0F0", where);
  if (!left.empty())
    throw error("{}: nothing should stand behind the micro-batch, but '{}' does", where, left);
  return out;
}

/// Those of a cell: none, one, or the two of a pair.
std::vector<Action> parse_cell(std::string_view text, const std::string& where) {
  if (text.empty()) return {};
  if (!text.starts_with('(')) return {parse_action(text, where)};
  if (!text.ends_with(overlap_mark)) throw error("{}: a pair is written (0F7;7B3)OVERLAP_F_B", where);
  const auto both = split(text.substr(1, text.size() - 1 - overlap_mark.size()), ';');
  if (both.size() != 2) throw error("{}: a pair is of two actions, with ';' between", where);
  std::vector<Action> out;
  for (std::string_view action : both) out.push_back(parse_action(trim(action), where));
  if (out[0].kind != 'F' || out[1].kind == 'F')
    throw error("{}: a pair is of a forward and a backward, in this order", where);
  return out;
}

class Table {
 public:
  explicit Table(const std::vector<std::string_view>& rows) {
    for (std::size_t r = 0; r < rows.size(); ++r) {
      std::vector<Action>& row = rows_.emplace_back();
      const auto cells = split(rows[r], ',');
      for (std::size_t c = 0; c < cells.size(); ++c) {
        const std::string_view cell = trim(cells[c]);
        for (Action& action : parse_cell(cell, fmt::format("row {}, cell {} '{}'", r, c, cell)))
          row.push_back(std::move(action));
      }
    }
  }

  Schedule schedule() {
    find_parts();
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (const Action& action : rows_[r]) check_once(action);
    check_all_there();
    check_turns();
    Schedule out = schedule_of(def_of({.name = "table"}), 0);
    out.chunks = static_cast<int>(row_of_.size() / rows_.size());
    out.splits_backward = splits_;
    out.stages = stages_;
    for (const auto& row : rows_) out.rows.push_back(tasks_of_row(row));
    check_order(out);
    return out;
  }

 private:
  void find_parts() {
    for (std::size_t r = 0; r < rows_.size(); ++r)
      for (const Action& a : rows_[r]) {
        const auto [known, is_new] = row_of_.emplace(a.part, static_cast<int>(r));
        if (known->second != static_cast<int>(r))
          throw error("{}: stage {} stands in row {} already; it is on the devices of one row", a.where,
                      a.part, known->second);
        splits_ = splits_ || a.kind == 'I' || a.kind == 'W';
        micro_batches_ = std::max(micro_batches_, a.micro_batch + 1);
      }
    if (rows_.size() < 2)
      throw error("{} row: a schedule is for several stages, with a row for the devices of each",
                  rows_.size());
    if (rows_.size() > static_cast<std::size_t>(most_devices))
      throw error("{} rows but there should be at most {}", rows_.size(), most_devices);
    std::vector<int> count(rows_.size());
    for (const auto& [part, row] : row_of_) {
      if (part != static_cast<int>(stages_.size())) throw error("stage {} stands in no row", stages_.size());
      if (part < static_cast<int>(rows_.size()) && row != part)
        throw error("row {} has stage {}; stages 0 to {} stand in rows 0 to {}, as in rounds or a V", row,
                    part, rows_.size() - 1, rows_.size() - 1);
      stages_.push_back(row);
      ++count[at(row)];
    }
    for (std::size_t r = 0; r < count.size(); ++r)
      if (count[r] != count.front() || count[r] == 0)
        throw error("row {} has {} stages but row 0 has {}; each should have as many", r, count[r],
                    count.front());
  }

  void check_once(const Action& a) {
    for (char kind : a.kind == 'B' ? std::string_view("IW") : std::string_view(&a.kind, 1)) {
      const auto [known, is_new] = seen_.emplace(std::tuple(a.part, kind, a.micro_batch), a.where);
      if (!is_new) throw error("{}: {} has that already", a.where, known->second);
    }
    const auto wants = [&](char before) {
      if (!seen_.contains({a.part, before, a.micro_batch}))
        throw error("{}: stands before {}{}{}, on which it waits", a.where, a.part, before, a.micro_batch);
    };
    if (a.kind == 'I' || a.kind == 'B') wants('F');
    if (a.kind == 'W') wants('I');
  }

  void check_all_there() const {
    for (int part = 0; part < static_cast<int>(stages_.size()); ++part)
      for (int m = 0; m < micro_batches_; ++m)
        for (char kind : {'F', 'I', 'W'})
          if (!seen_.contains({part, kind, m}))
            throw error("{}{}{} stands nowhere; row {} should have it", part,
                        kind == 'I' && !splits_ ? 'B' : kind, m, stages_[at(part)]);
  }

  std::vector<Task> tasks_of_row(const std::vector<Action>& row) const {
    std::vector<Task> out;
    for (const Action& a : row) {
      const auto chunk =
          static_cast<int>(std::count(stages_.begin(), stages_.begin() + a.part, stages_[at(a.part)]));
      if (a.kind == 'F') out.push_back({Phase::forward, a.micro_batch, chunk});
      if (a.kind == 'I' || a.kind == 'B') out.push_back({Phase::backward, a.micro_batch, chunk});
      if (a.kind == 'W' || (a.kind == 'B' && splits_)) out.push_back({Phase::weights, a.micro_batch, chunk});
    }
    return out;
  }

  /// What goes from part to part does so in one order.
  void check_turns() const {
    std::map<int, std::vector<const Action*>> forwards, inputs;  // by part
    for (const auto& row : rows_)
      for (const Action& a : row) {
        if (a.kind == 'F') forwards[a.part].push_back(&a);
        if (a.kind == 'I' || a.kind == 'B') inputs[a.part].push_back(&a);
      }
    for (const auto& all : {forwards, inputs})
      for (const auto& [part, turns] : all)
        for (std::size_t t = 0; t < turns.size(); ++t)
          if (const int first = all.at(0)[t]->micro_batch; turns[t]->micro_batch != first)
            throw error(
                "{}: stage 0 takes micro-batch {} in its place ({}); all stages take them in one order",
                turns[t]->where, first, all.at(0)[t]->where);
  }

  /// No task waits for one that stands behind it.
  void check_order(const Schedule& schedule) const {
    const Pipelining p{schedule, static_cast<int>(rows_.size()), micro_batches_};
    const PlayedTasks played = played_evenly(p);
    if (!played.stuck) return;
    const auto [row, task] = *played.stuck;
    std::size_t before = 0;  // tasks of the cells in front
    for (const Action& a : rows_[at(row)]) {
      before += a.kind == 'B' && splits_ ? 2 : 1;
      if (before > task)
        throw error("{}: waits for another row, which waits for a later cell of this one", a.where);
    }
  }

  std::vector<std::vector<Action>> rows_;
  std::map<int, int> row_of_;  // by part
  std::vector<int> stages_;    // the same
  std::map<std::tuple<int, char, int>, std::string> seen_;
  bool splits_ = false;
  int micro_batches_ = 0;
};

std::string text_of(const std::vector<Task>& tasks, const std::vector<int>& parts, bool splits) {
  std::string out;
  for (const Task& t : tasks) {
    const char kind = t.phase == Phase::forward ? 'F' : t.phase == Phase::weights ? 'W' : splits ? 'I' : 'B';
    out += fmt::format("{}{}{}{}", out.empty() ? "" : ",", parts[at(t.chunk)], kind, t.micro_batch);
  }
  return out;
}

}  // namespace

Schedule schedule_of_rows(const std::vector<std::string_view>& rows) { return Table(rows).schedule(); }

Schedule load_schedule_table(const std::string& path) {
  const std::string text = read_text(path);
  std::vector<std::string_view> rows = split(text, '\n');
  while (!rows.empty() && trim(rows.back()).empty()) rows.pop_back();
  try {
    return schedule_of_rows(rows);
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

int micro_batches_of_table(const Schedule& table) {
  int out = 0;
  for (const Task& t : table.rows.front()) out = std::max(out, t.micro_batch + 1);
  return out;
}

std::string row_text(const Schedule& table, int row) {
  std::vector<int> parts;
  for (std::size_t part = 0; part < table.stages.size(); ++part)
    if (table.stages[part] == row) parts.push_back(static_cast<int>(part));
  return text_of(table.rows[at(row)], parts, table.splits_backward);
}

std::string table_text(const Pipelining& p) {
  std::string out;
  for (int stage = 0; stage < p.stages; ++stage)
    out += text_of(tasks_of(p, stage), p.parts_of(stage), p.schedule.splits_backward) + "\n";
  return out;
}

}  // namespace shardwright
