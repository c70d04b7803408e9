// Schedules whose backward is cut, chunks in a V, and tables: the losses are those of one device.

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>
#include <random>

#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/schedule_table.h"
#include "shardwright/verify/verify.h"
#include "tests/support/draws.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

const TrainingRun dense{.model = "ffn:batch=80,widths=16-12-12-12-12-12-12-12-12-12-12-12-12-12-12-12-10",
                        .file = "",
                        .optimizer = {"adam", {{"rate", 0.001}}},
                        .precision = DType::f64,
                        .steps = 3};

void expect_same_losses(const TrainingRun& run, const std::optional<testing::Outcome>& alone,
                        const Pipelining& p, int devices, int level = 0) {
  SCOPED_TRACE(fmt::format("{}: {}, {} stages, {} micro-batches, {} devices, level {}", run.model,
                           name_of(p.schedule), p.stages, p.micro_batches, devices, level));
  const PlanRequest request{
      .devices = devices,
      .parallel = devices > p.stages ? Parallel::data_parallel : Parallel::auto_parallel,
      .constraints = constraints_of({.optimizer_parallel = {level, 0}, .pipelining = p})};
  testing::expect_same(testing::run_planned(run, request), alone, {.losses = 1e-9, .weights = 1e-7});
}

TEST(EndToEndSchedules, losses_are_those_of_one_device) {
  const auto alone = testing::run_alone(dense);
  unsigned mix = 0;
  for (const char* name : {"zero-bubble", "zero-bubble:2", "zb-v", "v-half", "v-min", "dualpipe-v"})
    for (const auto& [stages, micro_batches, devices, level] :
         {std::array{2, 4, 2, 0}, std::array{2, 5, 2, 0}, std::array{2, 8, 4, 2}, std::array{2, 4, 4, 3},
          std::array{4, 8, 4, 0}, std::array{4, 20, 4, 0}, std::array{4, 8, 8, 1}, std::array{2, 1, 2, 0}}) {
      const Pipelining p{schedule_called(name), stages, micro_batches};
      if (testing::is_asked(mix++, 8) && refusal_of(p).empty())
        expect_same_losses(dense, alone, p, devices, level);
    }
}

/// Its embedding is tied, all are clipped by one norm, and half of the layers are computed again.
TEST(EndToEndSchedules, losses_of_a_decoder_are_those_of_one_device) {
  OptimizerChoice optimizer{"adam", {{"rate", 0.001}}};
  optimizer.clip_norm = 0.1;
  const TrainingRun run{.model = "gpt:layers=8,hidden=16,heads=2,vocab=24,seq=4,batch=8",
                        .file = "",
                        .optimizer = optimizer,
                        .precision = DType::f64,
                        .steps = 3};
  const auto alone = testing::run_alone(run);
  unsigned mix = 0;
  for (const char* name : {"zero-bubble", "zero-bubble:2", "zb-v", "v-half", "v-min", "dualpipe-v"})
    for (const auto& [stages, devices] : {std::pair{2, 2}, std::pair{4, 4}, std::pair{2, 4}}) {
      if (!testing::is_asked(mix++, 3)) continue;
      const Pipelining p{schedule_called(name), stages, devices == 4 && stages == 2 ? 4 : 8};
      expect_same_losses(run, alone, p, devices, devices > stages ? 2 : 0);
    }
}

class Dice {
 public:
  explicit Dice(std::uint32_t seed) : engine_(seed) {}
  int below(int n) { return static_cast<int>(engine_() % static_cast<std::uint32_t>(n)); }

 private:
  std::mt19937 engine_;
};

std::vector<int> shuffled(Dice& dice, int count) {
  std::vector<int> out(static_cast<std::size_t>(count));
  std::iota(out.begin(), out.end(), 0);
  for (int i = count - 1; i > 0; --i)
    std::swap(out[static_cast<std::size_t>(i)], out[static_cast<std::size_t>(dice.below(i + 1))]);
  return out;
}

/// A table drawn by running tasks that may run. Forwards and backwards each have an order of micro-batches, gradients of
/// weights any.
std::string drawn_table(Dice& dice, int stages, int chunks, int micro_batches, bool splits) {
  const Pipelining p{Schedule::interleaved(chunks), stages, micro_batches};
  const std::array orders{shuffled(dice, micro_batches), shuffled(dice, micro_batches)};
  std::vector<std::array<int, 2>> done(static_cast<std::size_t>(p.parts()));  // forwards and backwards over
  std::vector<std::vector<int>> waiting(done.size());                         // for gradients of weights
  std::vector<std::string> rows(static_cast<std::size_t>(stages));
  for (int left = 2 * p.parts() * micro_batches + (splits ? p.parts() * micro_batches : 0); left > 0;) {
    const auto part = static_cast<std::size_t>(dice.below(p.parts()));
    std::string& row = rows[static_cast<std::size_t>(p.stage_of(static_cast<int>(part)))];
    const auto put = [&](char kind, int m) {
      if (dice.below(6) == 0) row += ",";  // idle
      row += fmt::format("{}{}{}{}", row.empty() || row.back() == ',' ? "" : ",", part, kind, m);
      --left;
    };
    const auto has = [&](std::size_t pass, std::size_t of, int m) {
      const auto end = orders[pass].begin() + done[of][pass];
      return std::find(orders[pass].begin(), end, m) != end;
    };
    const auto pass = static_cast<std::size_t>(dice.below(splits ? 3 : 2));
    if (pass == 2) {
      if (waiting[part].empty()) continue;
      const auto one = waiting[part].begin() + dice.below(static_cast<int>(waiting[part].size()));
      put('W', *one);
      waiting[part].erase(one);
      continue;
    }
    int& next = done[part][pass];
    if (next == micro_batches) continue;
    const int m = orders[pass][static_cast<std::size_t>(next)];
    if (pass == 0 && part > 0 && !has(0, part - 1, m)) continue;
    if (pass == 1 && !has(0, part, m)) continue;
    if (pass == 1 && part + 1 < done.size() && !has(1, part + 1, m)) continue;
    ++next;
    const bool is_whole = splits && pass == 1 && dice.below(3) == 0;
    put(pass == 0 ? 'F' : !splits || is_whole ? 'B' : 'I', m);
    if (is_whole) --left;
    if (splits && pass == 1 && !is_whole) waiting[part].push_back(m);
  }
  std::string out;
  for (const std::string& row : rows) out += row + "\n";
  return out;
}

TEST(EndToEndSchedules, drawn_tables_give_the_losses_of_one_device) {
  const auto alone = testing::run_alone(dense);
  Dice dice(static_cast<std::uint32_t>(20261126 + testing::further_seeds()));
  for (unsigned i = 0; i < testing::draws(30); ++i) {
    const int stages = 2 + 2 * dice.below(2), chunks = 1 + dice.below(3),
              micro_batches = std::array{2, 4, 5, 8}[static_cast<std::size_t>(dice.below(4))];
    const std::string text = drawn_table(dice, stages, chunks, micro_batches, dice.below(3) > 0);
    SCOPED_TRACE(text);
    std::vector<std::string_view> rows;
    for (std::size_t begin = 0, end; (end = text.find('\n', begin)) != text.npos; begin = end + 1)
      rows.push_back(std::string_view(text).substr(begin, end - begin));
    expect_same_losses(dense, alone, {schedule_of_rows(rows), stages, micro_batches}, stages);
  }
}

/// Whatever the numbers, the step of each schedule is proven.
TEST(EndToEndSchedules, steps_are_proven_for_all_numbers) {
  for (const char* name : {"zero-bubble", "zero-bubble:2", "zb-v", "v-half", "v-min", "dualpipe-v"})
    for (int stages = 2; stages <= 8; ++stages)
      for (int micro_batches : {1, 2, 3, 5, 8, 13, 16, 20}) {
        const Pipelining p{schedule_called(name), stages, micro_batches};
        if (!refusal_of(p).empty()) continue;
        SCOPED_TRACE(fmt::format("{}, {} stages, {} micro-batches", name, stages, micro_batches));
        const TrainingRun run{
            .model = fmt::format("ffn:batch={},widths=4-4-4-4-4-4-4-4-4-4-4-4-4-4-4-4-4", micro_batches),
            .file = "",
            .optimizer = {"sgd", {{"rate", 0.001}}}};
        const Model model = testing::train_model(run, micro_batches);
        const PlanRequest request{
            .model = run.model, .devices = stages, .constraints = constraints_of({.pipelining = p})};
        const Pipeline pipeline = compile_pipeline(model.graph, make_plan(model.graph, request));
        EXPECT_NO_THROW(prove(pipeline));
      }
}

}  // namespace
}  // namespace shardwright
