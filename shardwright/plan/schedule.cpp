#include "shardwright/plan/schedule.h"

#include <algorithm>

#include <fmt/format.h>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/cost/cluster.h"

namespace shardwright {
namespace {

constexpr std::string_view interleaved = "interleaved:";

void check(std::string_view what, int count, int most) {
  if (count < 1 || count > most)
    throw error("pipelining: {} {} but there should be from 1 to {}", count, what, most);
}

/// How many micro-batches go through a chunk before the next chunk has its turn: S at a time, and what S does not divide
/// goes with the first.
int first_turn(const Pipelining& p) {
  return p.micro_batches < p.stages ? p.micro_batches : p.stages + p.micro_batches % p.stages;
}

/// The passes of all micro-batches through the chunks of a stage, one way.
std::vector<Task> passes_of(const Pipelining& p, Phase phase) {
  std::vector<Task> out;
  const int chunks = p.schedule.chunks;
  const int turn = p.schedule.kind == Schedule::interleaved ? first_turn(p) : p.micro_batches;
  for (int begin = 0, end = turn; begin < p.micro_batches; begin = end, end += p.stages)
    for (int c = 0; c < chunks; ++c)
      for (int m = begin; m < end; ++m)
        out.push_back({phase, m, phase == Phase::forward ? c : chunks - 1 - c});
  return out;
}

}  // namespace

std::string name_of(const Schedule& schedule) {
  if (schedule.kind == Schedule::interleaved) return fmt::format("{}{}", interleaved, schedule.chunks);
  return schedule.kind == Schedule::gpipe ? "gpipe" : "1f1b";
}

Schedule schedule_called(std::string_view name) {
  if (name == "gpipe") return Schedule::gpipe;
  if (name == "1f1b") return Schedule::one_forward_one_backward;
  if (name.starts_with(interleaved)) {
    const auto chunks = to_integer(name.substr(interleaved.size()));
    if (!chunks || *chunks < 1 || *chunks > most_devices)
      throw error("schedule '{}': interleaved:V has V chunks per stage, from 1 to {}", name, most_devices);
    return {Schedule::interleaved, static_cast<int>(*chunks)};
  }
  throw unknown("schedule", name, std::array<std::string, 3>{"gpipe", "1f1b", "interleaved:V"});
}

void check(const Pipelining& p) {
  check("stages", p.stages, most_devices);
  check("chunks", p.schedule.chunks, most_devices / p.stages);
  check("micro-batches", p.micro_batches, most_micro_batches);
}

std::vector<Task> tasks_of(const Pipelining& p, int stage) {
  const std::vector<Task> forwards = passes_of(p, Phase::forward), backwards = passes_of(p, Phase::backward);
  const auto warm_up = static_cast<std::size_t>(warm_up_of(p, stage));
  std::vector<Task> out;
  std::size_t next = 0;
  for (std::size_t b = 0; b < backwards.size(); ++b) {
    while (next < std::min(forwards.size(), b + warm_up)) out.push_back(forwards[next++]);
    out.push_back(backwards[b]);
  }
  return out;
}

int warm_up_of(const Pipelining& p, int stage) {
  if (p.stages == 1) return 1;
  switch (p.schedule.kind) {
    case Schedule::gpipe: return p.micro_batches;
    case Schedule::one_forward_one_backward: return p.stages - stage;
    case Schedule::interleaved: break;
  }
  return first_turn(p) * (p.schedule.chunks - 1) + 2 * (p.stages - stage - 1) + 1;
}

MicroBatches micro_batches_of(const Pipelining& p, int part) {
  const int chunk = part / p.stages;
  int alive = 0, most = 0;
  for (const Task& task : tasks_of(p, part % p.stages)) {
    if (task.chunk != chunk) continue;
    alive += task.phase == Phase::forward ? 1 : -1;
    most = std::max(most, alive);
  }
  return {p.micro_batches, most, p.schedule.kind == Schedule::interleaved};
}

}  // namespace shardwright
