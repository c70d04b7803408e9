// Two chunks per stage in a V with fewer activations alive than 1f1b has (V-Half and V-Min; Qi et al., 2024).
//
// A micro-batch passes the stages at fixed times, its *block*; the next one follows 6 later, as a device has six tasks of
// each: F, I and W of two chunks. From stage to stage a pass takes 1 or 2, and where it turns a little more, so that no two
// tasks of a device fall on one time modulo 6. Gradients of weights take the two times that are left. What is alive is how
// long a block is, over 6: of S stages
//
//   v-min   1 a stage everywhere: 4 S / 6 chunks, a third of 1f1b's activations; idle for two thirds of what 1f1b is
//   v-half  1 one way and 2 the other: 6 S / 6 chunks, a half; idle for a half
//
// Ranks run the tasks in the order of these times, each as soon as it can.

#include <algorithm>
#include <array>

#include "shardwright/plan/schedule.h"

namespace shardwright::schedules {
namespace {

constexpr int period = 6;

/// Times per stage of the four passes, and at their turns: down, up, down again with gradients, and up.
struct Block {
  std::array<int, 4> steps;
  std::array<int, 3> turns;
};

Block v_min(int stages) {
  return {{1, 1, 1, 1}, stages % 3 == 0 ? std::array{3, 1, 3} : std::array{1, 1, 1}};
}
Block v_half(int stages) {
  if (stages == 3) return {{1, 2, 1, 2}, {2, 1, 1}};  // of which the others are idle for a little longer
  return {{1, 2, 1, 2}, stages % 2 == 0 ? std::array{4, 2, 2} : std::array{1, 2, 5}};
}

struct TimedTask {
  int time = 0;
  Phase phase = Phase::forward;
  int chunk = 0;
};

/// The first time behind `time` that is `residue` modulo the period.
int behind(int time, int residue) {
  return time + 1 + (residue - time - 1 + (time / period + 2) * period) % period;
}

/// The four passes of a stage, then its gradients of weights where there is time left.
std::array<TimedTask, period> times_of(const Block& block, int stages, int stage) {
  using enum Phase;
  std::array<TimedTask, period> out{{{0, forward, 0}, {0, forward, 1}, {0, backward, 1}, {0, backward, 0}}};
  std::array<bool, period> is_taken{};
  for (std::size_t pass = 0, begin = 0; pass < 4; ++pass) {
    const auto steps = static_cast<std::size_t>(block.steps[pass]);
    const bool is_down = pass % 2 == 0;
    out[pass].time =
        static_cast<int>(begin + steps * static_cast<std::size_t>(is_down ? stage : stages - 1 - stage));
    is_taken[static_cast<std::size_t>(out[pass].time % period)] = true;
    if (pass < 3)
      begin += steps * static_cast<std::size_t>(stages - 1) + static_cast<std::size_t>(block.turns[pass]);
  }
  std::array<int, 2> left{};
  std::size_t count = 0;
  for (int residue = 0; residue < period; ++residue)
    if (!is_taken[static_cast<std::size_t>(residue)] && count < left.size()) left[count++] = residue;
  const auto length = [&](int of_1, int of_0) {
    return behind(out[2].time, of_1) - out[2].time + behind(out[3].time, of_0) - out[3].time;
  };
  // Those of chunk 1 take the nearer time, unless both are then later than they need be.
  if (behind(out[2].time, left[1]) < behind(out[2].time, left[0])) std::swap(left[0], left[1]);
  if (length(left[1], left[0]) < length(left[0], left[1])) std::swap(left[0], left[1]);
  out[4] = {behind(out[2].time, left[0]), weights, 1};
  out[5] = {behind(out[3].time, left[1]), weights, 0};
  return out;
}

template <Block (*block_of)(int)>
std::vector<Task> tasks(const Pipelining& p, int stage) {
  std::vector<std::pair<int, Task>> timed;
  for (const TimedTask& t : times_of(block_of(p.stages), p.stages, stage))
    for (int m = 0; m < p.micro_batches; ++m) timed.push_back({t.time + period * m, {t.phase, m, t.chunk}});
  std::ranges::stable_sort(timed, {}, &std::pair<int, Task>::first);
  std::vector<Task> out;
  for (const auto& [time, task] : timed) out.push_back(task);
  return out;
}

}  // namespace

std::vector<ScheduleDef> v_blocks() {
  ScheduleDef half{.name = "v-half",
                   .doc = "two chunks per stage in a V, half the activations of 1f1b",
                   .chunks = 2,
                   .order = ChunkOrder::v,
                   .splits_backward = true,
                   .searched = {0},
                   .tasks = tasks<v_half>};
  ScheduleDef least = half;
  least.name = "v-min", least.doc = "two chunks per stage in a V, a third of the activations of 1f1b";
  least.tasks = tasks<v_min>;
  return {half, least};
}

}  // namespace shardwright::schedules
