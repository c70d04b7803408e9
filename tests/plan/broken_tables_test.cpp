// Tables of tasks with something wrong in them, drawn: what is refused names where, and what is not refused runs.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <random>
#include <regex>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/plan/schedule_table.h"
#include "tests/support/message_of.h"

namespace shardwright {
namespace {

using Cells = std::vector<std::vector<std::string>>;

Cells cells_of(const std::string& table) {
  Cells out;
  for (std::string_view line : split(table, '\n')) {
    if (line.empty()) continue;
    std::vector<std::string>& row = out.emplace_back();
    for (std::string_view cell : split(line, ',')) row.emplace_back(cell);
  }
  return out;
}

std::vector<std::string> rows_of(const Cells& cells) {
  std::vector<std::string> out;
  for (const auto& row : cells) out.push_back(join(row, ","));
  return out;
}

struct Task {
  int part = 0;
  char kind = 'F';
  int micro_batch = 0;
  auto operator<=>(const Task&) const = default;
};

/// Written anew: whether the rows, each in its order, come to their ends.
bool runs(const Cells& cells) {
  static const std::regex action(R"((\d+)([FBIW])(\d+))");
  std::vector<std::vector<Task>> rows;
  int parts = 0;
  for (const auto& row : cells) {
    rows.emplace_back();
    for (const std::string& cell : row)
      for (std::sregex_iterator it(cell.begin(), cell.end(), action), end; it != end; ++it) {
        rows.back().push_back({std::stoi((*it)[1]), (*it)[2].str()[0], std::stoi((*it)[3])});
        parts = std::max(parts, rows.back().back().part + 1);
      }
  }
  std::set<Task> done;
  const auto has_backward = [&](int part, int m) {
    return done.contains({part, 'B', m}) || done.contains({part, 'I', m});
  };
  const auto may_run = [&](const Task& t) {
    if (t.kind == 'F') return t.part == 0 || done.contains({t.part - 1, 'F', t.micro_batch});
    if (t.kind == 'W') return done.contains({t.part, 'I', t.micro_batch});
    return done.contains({t.part, 'F', t.micro_batch}) &&
           (t.part + 1 == parts || has_backward(t.part + 1, t.micro_batch));
  };
  std::vector<std::size_t> next(rows.size(), 0);
  for (bool goes_on = true; std::exchange(goes_on, false);)
    for (std::size_t r = 0; r < rows.size(); ++r)
      while (next[r] < rows[r].size() && may_run(rows[r][next[r]])) {
        if (!done.insert(rows[r][next[r]++]).second) return false;
        goes_on = true;
      }
  for (std::size_t r = 0; r < rows.size(); ++r)
    if (next[r] < rows[r].size()) return false;
  return true;
}

class Breaking {
 public:
  explicit Breaking(std::uint32_t seed) : engine_(seed) {}

  Cells broken(Cells cells) {
    std::vector<std::string>& row = cells[below(cells.size())];
    std::string& cell = row[below(row.size())];
    switch (below(8)) {
      case 0:
        cell = std::array{
            "0X0", "F0", "0F", "-1F0", "99F0", "0F99999", "0F0F0", "(0F0;0B0)", "#", "0SEND_F0"}[below(10)];
        break;
      case 1: row.erase(row.begin() + static_cast<std::ptrdiff_t>(below(row.size()))); break;
      case 2: row.push_back(cell); break;
      case 3: std::swap(cell, row[below(row.size())]); break;
      case 4: std::swap(cell, cells[below(cells.size())].front()); break;
      case 5: std::replace(cell.begin(), cell.end(), 'F', 'B'); break;
      case 6: std::replace(cell.begin(), cell.end(), 'I', 'W'); break;
      default:
        if (!cell.empty()) cell.back() = static_cast<char>('0' + below(10));
    }
    return cells;
  }
  std::size_t below(std::size_t n) { return engine_() % n; }

 private:
  std::mt19937 engine_;
};

TEST(BrokenTables, are_refused_with_their_place_or_run) {
  Breaking dice(20261126);
  const std::array<Pipelining, 5> origins{{{schedule_called("1f1b"), 3, 5},
                                           {schedule_called("gpipe"), 2, 3},
                                           {schedule_called("zero-bubble"), 4, 6},
                                           {schedule_called("interleaved:2"), 2, 4},
                                           {schedule_called("zb-v"), 2, 6}}};
  static const std::regex place(R"(row \d+|stage \d+|\d+[FBIW]\d+)");
  int refused = 0, taken = 0;
  for (int i = 0; i < 1000; ++i) {
    const Cells cells = dice.broken(cells_of(table_text(origins[dice.below(origins.size())])));
    const std::vector<std::string> rows = rows_of(cells);
    const std::string why = testing::message_of([&] { schedule_of_rows({rows.begin(), rows.end()}); });
    SCOPED_TRACE(join(rows, "\n") + "\n" + why);
    if (why == "nothing") {
      ++taken;
      EXPECT_TRUE(runs(cells));
    } else {
      ++refused;
      EXPECT_TRUE(std::regex_search(why, place));
      EXPECT_EQ(why.find('\n'), why.npos);
    }
  }
  EXPECT_GT(refused, 300);
  EXPECT_GT(taken, 10);
}

}  // namespace
}  // namespace shardwright
