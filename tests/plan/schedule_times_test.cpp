// Schedules in time and memory, against their published formulas and against PyTorch's own tables.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <sstream>

#include "shardwright/base/error.h"
#include "shardwright/plan/lanes.h"
#include "shardwright/plan/played_tasks.h"
#include "shardwright/plan/schedule_table.h"

namespace shardwright {
namespace {

std::vector<std::vector<Task>> all_tasks(const Pipelining& p) {
  std::vector<std::vector<Task>> out;
  for (int s = 0; s < p.stages; ++s) out.push_back(tasks_of(p, s));
  return out;
}

/// How long the devices of a stage wait between their first and their last task, at most, if F = I = W = 1.
double most_idle(const Pipelining& p) {
  const double backward = p.schedule.splits_backward ? 1 : 2;
  const PlayedTasks all =
      played(p, all_tasks(p), [&](int, Phase phase) { return phase == Phase::backward ? backward : 1; });
  EXPECT_FALSE(all.stuck);
  double most = 0;
  for (const auto& times : all.times) {
    double busy = 0;
    for (const auto& t : times) busy += t.end - t.begin;
    most = std::max(most, times.back().end - times.front().begin - busy);
  }
  return most;
}

/// Chunks of micro-batches whose activations a stage holds, at most.
int most_alive(const Pipelining& p) {
  int most = 0;
  for (const auto& tasks : all_tasks(p)) {
    int alive = 0;
    const Phase last = p.schedule.splits_backward ? Phase::weights : Phase::backward;
    for (const Task& t : tasks) {
      most = std::max(most, alive += t.phase == Phase::forward);
      alive -= t.phase == last;
    }
  }
  return most;
}

struct Known {
  std::string name;
  int (*enough)(int p);    // micro-batches from which on the formulas hold
  double (*idle)(int p);   // exactly, or at most
  double (*alive)(int p);  // likewise, in chunks
  bool is_exact = true;
};

TEST(ScheduleTimes, are_those_of_their_formulas) {
  const std::vector<Known> all{
      {"1f1b", [](int p) { return p; }, [](int p) { return 3.0 * (p - 1); }, [](int p) { return 1.0 * p; }},
      {"zero-bubble", [](int p) { return p; }, [](int p) { return p - 1.0; }, [](int p) { return 1.0 * p; }},
      {"zero-bubble:2", [](int p) { return 2 * p - 1; }, [](int) { return 0.0; },
       [](int p) { return 2.0 * p - 1; }},
      {"zb-v", [](int p) { return 2 * p - 1; }, [](int) { return 0.0; }, [](int p) { return 2.0 * p; }},
      // A half and two thirds of 1f1b's, whose stages are two chunks long; a half and a third of its 2 p chunks.
      {"v-half", [](int p) { return 2 * p; }, [](int p) { return 6.0 * (p - 1) / 2; },
       [](int p) { return p + 3.0; }, false},
      {"v-min", [](int p) { return 2 * p; }, [](int p) { return 6.0 * (p - 1) * 2 / 3; },
       [](int p) { return 2.0 * p / 3 + 2.7; }, false}};
  for (const Known& known : all)
    for (int p = 2; p <= 8; ++p)
      for (int m = known.enough(p); m <= 24; ++m) {
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", known.name, p, m));
        const Pipelining pipelining{schedule_called(known.name), p, m};
        if (known.is_exact) {
          EXPECT_EQ(most_idle(pipelining), known.idle(p));
          EXPECT_EQ(most_alive(pipelining), known.alive(p));
        } else {
          EXPECT_LE(most_idle(pipelining), known.idle(p));
          EXPECT_LE(most_alive(pipelining), known.alive(p));
          EXPECT_GE(most_idle(pipelining),
                    known.idle(p) - 1);  // and no better by much: the formula is that of this one
        }
      }
}

/// (P/2 - 1) (F&B + B - 3 W) with P = 2 p, F&B = 3 and B = 2, where a pair and a whole backward are over at once. Ours send
/// as soon as gradients of inputs are there, and are idle for no more. P + 1 chunks are alive.
TEST(ScheduleTimes, dualpipe_v_is_idle_for_no_more_than_its_formula) {
  for (int p = 2; p <= 8; ++p)
    for (int m = 2 * p; m <= 24; ++m) {
      SCOPED_TRACE(fmt::format("{} stages, {} micro-batches", p, m));
      const Pipelining pipelining{schedule_called("dualpipe-v"), p, m};
      EXPECT_LE(most_idle(pipelining), (p - 1) * (3 + 2 - 3));
      EXPECT_EQ(most_alive(pipelining), 2 * p + 1);
    }
}

/// Whatever the numbers: each task once, none waits for ever, and slots are as many as are alive.
TEST(ScheduleTimes, are_complete_for_all_numbers) {
  for (const ScheduleDef& def : all_schedules())
    for (int argument : def.searched)
      for (int p = 2; p <= 8; ++p)
        for (int m = 1; m <= 20; ++m) {
          const Pipelining pipelining{schedule_of(def, argument), p, m};
          if (!refusal_of(pipelining).empty()) continue;
          SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", name_of(pipelining.schedule), p, m));
          EXPECT_FALSE(played_evenly(pipelining).stuck);
          for (int s = 0; s < p; ++s) {
            std::vector<Task> tasks = tasks_of(pipelining, s);
            const std::size_t per_chunk = def.splits_backward ? 3 : 2;
            EXPECT_EQ(tasks.size(), per_chunk * static_cast<std::size_t>(m * pipelining.schedule.chunks));
            std::ranges::sort(tasks);
            EXPECT_EQ(std::ranges::adjacent_find(tasks), tasks.end());
          }
          for (int part = 0; part < pipelining.parts(); ++part) {
            const MicroBatches at_once = micro_batches_of(pipelining, part);
            EXPECT_EQ(at_once.splits_backward, def.splits_backward);
            for (int slots : at_once.lanes.slots) EXPECT_LE(slots, m);
          }
        }
}

std::string reference(const std::string& name) { return "tests/reference/torch_schedules/" + name; }

TEST(ScheduleTimes, are_those_of_pytorch) {
  const std::vector<std::pair<std::string, std::string>> same{{"GPipe_p4_v1_m8", "gpipe"},
                                                              {"1F1B_p4_v1_m8", "1f1b"},
                                                              {"Interleaved1F1B_p4_v2_m8", "interleaved:2"},
                                                              {"ZBVZeroBubble_p4_v2_m8", "zb-v"},
                                                              {"DualPipeV_p4_v2_m8", "dualpipe-v"}};
  for (const auto& [file, name] : same) {
    SCOPED_TRACE(file);
    const Schedule table = load_schedule_table(reference(file + ".compute.csv"));
    const Pipelining p{schedule_called(name), 4, 8};
    EXPECT_EQ(table.rows, all_tasks(p));
    EXPECT_EQ(table.chunks, p.schedule.chunks);
    for (int part = 0; part < p.parts(); ++part)
      EXPECT_EQ(table.stages[static_cast<std::size_t>(part)], p.stage_of(part));
  }
}

TEST(ScheduleTimes, read_all_tables_of_pytorch_and_write_them) {
  for (const auto& file : std::filesystem::directory_iterator(reference(""))) {
    if (file.path().extension() != ".csv") continue;
    SCOPED_TRACE(file.path().string());
    const Schedule table = load_schedule_table(file.path().string());
    EXPECT_EQ(micro_batches_of_table(table), 8);
    EXPECT_EQ(schedule_called(to_text(table)), table);
    const std::string text = table_text({table, 4, 8});
    std::vector<std::string_view> rows;
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      rows.push_back(std::string_view(text).substr(begin, end - begin));
    EXPECT_EQ(schedule_of_rows(rows), table);
  }
}

/// The formula itself, of the cells of PyTorch's table: each is over at once.
TEST(ScheduleTimes, dualpipe_v_of_pytorch_has_its_formula) {
  struct Action {
    int part = 0;
    char kind = 'F';
    int micro_batch = 0;
  };
  std::vector<std::vector<std::vector<Action>>> rows;  // of cells
  std::ifstream file(reference("DualPipeV_p4_v2_m8.compute.csv"));
  for (std::string line; std::getline(file, line);) {
    auto& row = rows.emplace_back();
    std::stringstream cells(line);
    for (std::string cell; std::getline(cells, cell, ',');) {
      std::vector<Action> actions;
      for (std::size_t i = 0; i + 2 < cell.size(); ++i)
        if (std::isdigit(static_cast<unsigned char>(cell[i])) && std::strchr("FBIW", cell[i + 1]))
          actions.push_back({cell[i] - '0', cell[i + 1], cell[i + 2] - '0'});
      if (!actions.empty()) row.push_back(actions);
    }
  }
  ASSERT_EQ(rows.size(), 4U);
  std::map<std::tuple<int, char, int>, int> over;
  std::vector<std::size_t> next(4, 0);
  std::vector<int> free(4, 0), first(4, -1), busy(4, 0);
  for (bool moves = true; std::exchange(moves, false);)
    for (std::size_t r = 0; r < 4; ++r)
      while (next[r] < rows[r].size()) {
        int begin = free[r], length = 0;
        bool waits = false;
        const auto want = [&](int part, char kind, int m) {
          const auto known = over.find({part, kind, m});
          waits = waits || known == over.end();
          if (!waits) begin = std::max(begin, known->second);
        };
        for (const Action& a : rows[r][next[r]]) {
          length += a.kind == 'B' ? 2 : 1;
          if (a.kind == 'F' && a.part > 0) want(a.part - 1, 'F', a.micro_batch);
          if ((a.kind == 'B' || a.kind == 'I') && a.part < 7) want(a.part + 1, 'B', a.micro_batch);
        }
        if (waits) break;
        if (first[r] < 0) first[r] = begin;
        free[r] = begin + length, busy[r] += length;
        for (const Action& a : rows[r][next[r]])
          if (a.kind != 'W') over[{a.part, a.kind == 'F' ? 'F' : 'B', a.micro_batch}] = free[r];
        ++next[r], moves = true;
      }
  int most = 0;
  for (std::size_t r = 0; r < 4; ++r) {
    EXPECT_EQ(next[r], rows[r].size());
    most = std::max(most, free[r] - first[r] - busy[r]);
  }
  EXPECT_EQ(most, (4 - 1) * (3 + 2 - 3));
}

std::string refused(std::vector<std::string_view> rows) {
  try {
    schedule_of_rows(rows);
  } catch (const Error& e) {
    return e.what();
  }
  return "";
}

TEST(ScheduleTable, names_the_cell_that_is_wrong) {
  EXPECT_EQ(refused({"0F0,0B0", "1F0,1B0"}), "");
  EXPECT_EQ(refused({"0F0,,0B0", ",1F0,1I0,1W0"}), "");
  EXPECT_EQ(refused({"0F0,0X0", "1F0,1B0"}),
            "row 0, cell 1 '0X0': the stage's number should be followed by F, B, I or W");
  EXPECT_EQ(refused({"0F0,B0", "1F0,1B0"}),
            "row 0, cell 1 'B0': should begin with the number of a stage, as in 0F0");
  EXPECT_EQ(refused({"0F0,0B", "1F0,1B0"}),
            "row 0, cell 1 '0B': should end with the number of a micro-batch, as in 0F0");
  EXPECT_EQ(refused({"0F0,0B0x", "1F0,1B0"}),
            "row 0, cell 1 '0B0x': nothing should stand behind the micro-batch, but 'x' does");
  EXPECT_EQ(
      refused({"0F0,0SEND_F0,0B0", "1F0,1B0"}),
      "row 0, cell 1 '0SEND_F0': is communication, which plans add by themselves; give the table without it "
      "(PyTorch's compute_only)");
  EXPECT_EQ(refused({"0F0,0B0,0B0", "1F0,1B0"}), "row 0, cell 2 '0B0': row 0, cell 1 '0B0' has that already");
  EXPECT_EQ(refused({"0B0,0F0", "1F0,1B0"}), "row 0, cell 0 '0B0': stands before 0F0, on which it waits");
  EXPECT_EQ(refused({"0F0,0W0,0I0", "1F0,1B0"}), "row 0, cell 1 '0W0': stands before 0I0, on which it waits");
  EXPECT_EQ(refused({"0F0,0B0,0F1", "1F0,1B0,1F1,1B1"}), "0B1 stands nowhere; row 0 should have it");
  EXPECT_EQ(refused({"0F0,0B0", "1F0,1B0,0F1"}),
            "row 1, cell 2 '0F1': stage 0 stands in row 0 already; it is on the devices of one row");
  EXPECT_EQ(refused({"0F0,0B0", "2F0,2B0"}), "stage 1 stands in no row");
  EXPECT_EQ(refused({"1F0,1B0", "0F0,0B0"}),
            "row 1 has stage 0; stages 0 to 1 stand in rows 0 to 1, as in rounds or a V");
  EXPECT_EQ(refused({"0F0,0B0,2F0,2B0", "1F0,1B0"}),
            "row 1 has 1 stages but row 0 has 2; each should have as many");
  EXPECT_EQ(refused({"0F0,0B0"}),
            "1 row: a schedule is for several stages, with a row for the devices of each");
  EXPECT_EQ(
      refused({"0F0,0F1,0B0,0B1", "1F1,1F0,1B0,1B1"}),
      "row 1, cell 0 '1F1': stage 0 takes micro-batch 0 in its place (row 0, cell 0 '0F0'); all stages take "
      "them in one order");
  EXPECT_EQ(refused({"0F0,0B0,0F1,0B1", "1F0,1F1,1B0,1B1"}),
            "row 0, cell 1 '0B0': waits for another row, which waits for a later cell of this one");
  EXPECT_EQ(refused({"(0F0;0B0)", "1F0,1B0"}),
            "row 0, cell 0 '(0F0;0B0)': a pair is written (0F7;7B3)OVERLAP_F_B");
  EXPECT_EQ(refused({"(0B0;0F0)OVERLAP_F_B", "1F0,1B0"}),
            "row 0, cell 0 '(0B0;0F0)OVERLAP_F_B': a pair is of a forward and a backward, in this order");
}

}  // namespace
}  // namespace shardwright
