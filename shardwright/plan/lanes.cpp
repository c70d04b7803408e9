#include "shardwright/plan/lanes.h"

#include <algorithm>
#include <map>

#include "shardwright/base/index.h"
#include "shardwright/plan/played_tasks.h"
#include "shardwright/plan/slots_of_parts.h"

namespace shardwright {
namespace {

/// From the beginning of one task to the end of another, in places of an order of tasks.
struct Interval {
  double begin = 0, end = 0;
};
using Intervals = std::vector<Interval>;  // by micro-batch

/// Slots so that no two that overlap share one.
struct Assigned {
  int count = 1;
  std::vector<int> of;  // by micro-batch; empty: modulo the count
};

std::vector<int> by_begin(const Intervals& all) {
  std::vector<int> out(all.size());
  for (std::size_t m = 0; m < all.size(); ++m) out[m] = static_cast<int>(m);
  std::ranges::stable_sort(out, {}, [&](int m) { return all[at(m)].begin; });
  return out;
}

int most_at_once(const Intervals& all) {
  std::vector<double> ends;
  for (const Interval& i : all) ends.push_back(i.end);
  std::ranges::sort(ends);
  std::size_t ended = 0;
  int most = 0, alive = 0;
  for (int m : by_begin(all)) {
    while (ended < ends.size() && ends[ended] <= all[at(m)].begin) ++ended, --alive;
    most = std::max(most, ++alive);
  }
  return most;
}

bool fits_in_turn(const Intervals& all, int count) {
  if (!std::ranges::is_sorted(all, {}, &Interval::begin)) return false;
  for (std::size_t m = 0; m + at(count) < all.size(); ++m) {
    const Interval &one = all[m], &other = all[m + at(count)];
    if (one.begin < other.end && other.begin < one.end) return false;
  }
  return true;
}

/// A slot that is free longest is taken first.
Assigned assigned(const Intervals& all) {
  Assigned out{.count = most_at_once(all)};
  if (fits_in_turn(all, out.count)) return out;
  out.of.resize(all.size());
  std::vector<double> free(at(out.count), 0);
  for (int m : by_begin(all)) {
    const auto slot = std::ranges::min_element(free);
    out.of[at(m)] = static_cast<int>(slot - free.begin());
    *slot = all[at(m)].end;
  }
  return out;
}

/// Where each task of a micro-batch stands.
struct Times {
  Interval forward, inputs, weights;
};

/// Tasks of all stages that are asked for, each stage's once. Of a table their times in the order of all stages count, else
/// their places among the stage's own.
class Timeline {
 public:
  explicit Timeline(const Pipelining& p)
      : p_(p), is_table_(p.schedule.order == ChunkOrder::table && p.stages > 1), tasks_(at(p.stages)) {
    if (is_table_) played_ = played_evenly(p);
  }

  /// By micro-batch, of one part.
  std::vector<Times> of(int part) {
    std::vector<Times> out(at(p_.micro_batches));
    const int stage = p_.stage_of(part), chunk = p_.chunk_of(part);
    for_each(stage, chunk, [&](const Task& task, const Interval& time) {
      Times& of = out[at(task.micro_batch)];
      (task.phase == Phase::forward    ? of.forward
       : task.phase == Phase::backward ? of.inputs
                                       : of.weights) = time;
      if (task.phase == Phase::backward && !p_.schedule.splits_backward) of.weights = time;
    });
    const int taker = part - 1;
    if (taker < 0 || (!is_table_ && p_.stage_of(taker) != stage)) return out;
    for_each(p_.stage_of(taker), p_.chunk_of(taker), [&](const Task& task, const Interval& time) {
      Interval& last = out[at(task.micro_batch)].weights;
      if (task.phase == Phase::backward) last.end = std::max(last.end, time.end);
    });
    return out;
  }

 private:
  template <class F>
  void for_each(int stage, int chunk, F use) {
    std::vector<Task>& tasks = tasks_[at(stage)];
    if (tasks.empty()) tasks = tasks_of(p_, stage);
    for (std::size_t t = 0; t < tasks.size(); ++t) {
      if (tasks[t].chunk != chunk) continue;
      const auto place = static_cast<double>(t);
      if (is_table_)
        use(tasks[t], Interval{played_.times[at(stage)][t].begin, played_.times[at(stage)][t].end});
      else
        use(tasks[t], Interval{place, place + 1});
    }
  }

  const Pipelining& p_;
  bool is_table_;
  PlayedTasks played_;
  std::vector<std::vector<Task>> tasks_;  // by stage
};

Intervals between(const std::vector<Times>& times, Interval Times::*first, Interval Times::*last) {
  Intervals out;
  for (const Times& t : times) out.push_back({(t.*first).begin, (t.*last).end});
  return out;
}

}  // namespace

std::vector<OfLives> slots_of_parts(const Pipelining& p) {
  Timeline timeline(p);
  std::vector<OfLives> out;
  for (int part = 0; part < p.parts(); ++part) {
    const std::vector<Times> times = timeline.of(part);
    OfLives& own = out.emplace_back();
    own.fill(most_at_once(between(times, &Times::forward, &Times::weights)));
    if (!p.schedule.splits_backward) continue;
    own[1] = most_at_once(between(times, &Times::forward, &Times::inputs));
    own[2] = most_at_once(between(times, &Times::inputs, &Times::weights));
  }
  return out;
}

bool keeps_sends(const Pipelining& p) {
  return p.stages > 1 && (p.schedule.chunks > 1 || p.schedule.order == ChunkOrder::table);
}

MicroBatches micro_batches_of(const Pipelining& p, int part) {
  MicroBatches out{.count = p.micro_batches,
                   .keeps_sends = keeps_sends(p),
                   .splits_backward = p.stages > 1 && p.schedule.splits_backward,
                   .interleave = p.interleave};
  const std::vector<Times> times = Timeline(p).of(part);
  std::array<Assigned, lives> of{assigned(between(times, &Times::forward, &Times::weights)), {}, {}};
  if (out.splits_backward) {
    of[1] = assigned(between(times, &Times::forward, &Times::inputs));
    of[2] = assigned(between(times, &Times::inputs, &Times::weights));
  }
  for (std::size_t s = 0; s < lives; ++s) out.lanes.slots[s] = of[s].count;
  if (!out.splits_backward && of[0].of.empty()) return out;
  std::map<OfLives, int> lanes;
  for (int m = 0; m < p.micro_batches; ++m) {
    OfLives slots{};
    for (std::size_t s = 0; s < lives; ++s) slots[s] = of[s].of.empty() ? m % of[s].count : of[s].of[at(m)];
    const auto [lane, is_new] = lanes.try_emplace(slots, static_cast<int>(lanes.size()));
    if (is_new) out.lanes.slot_of.push_back(slots);
    out.lanes.of.push_back(lane->second);
  }
  return out;
}

}  // namespace shardwright
