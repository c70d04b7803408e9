// Schedules whose backward is whole. With S stages and M micro-batches:
//
//   gpipe          all forwards, then all backwards: M micro-batches are alive in every stage
//   1f1b           stage s runs S - s forwards, then a backward and a forward in turn: at most S - s are alive
//   interleaved:V  the devices of a stage have V chunks, in rounds. Micro-batches go S at a time through one chunk after
//                  the other; backwards begin as soon as there are any, and then a forward and a backward take turns
//
// The first two leave a stage idle for (S - 1) / (M + S - 1) of the step, the third for (S - 1) / (V M) of the time in
// which it works, if S divides M (Narayanan et al., 2021).

#include <algorithm>

#include "shardwright/cost/cluster.h"
#include "shardwright/plan/schedule.h"

namespace shardwright::schedules {
namespace {

/// How many micro-batches go through a chunk before the next chunk has its turn: S at a time, and what S does not divide
/// goes with the first.
int first_turn(const Pipelining& p) {
  return p.micro_batches < p.stages ? p.micro_batches : p.stages + p.micro_batches % p.stages;
}

/// The passes of all micro-batches through the chunks of a stage, one way.
std::vector<Task> passes_of(const Pipelining& p, Phase phase) {
  std::vector<Task> out;
  const int chunks = p.schedule.chunks;
  const int turn = p.schedule.argument > 0 ? first_turn(p) : p.micro_batches;
  for (int begin = 0, end = turn; begin < p.micro_batches; begin = end, end += p.stages)
    for (int c = 0; c < chunks; ++c)
      for (int m = begin; m < end; ++m)
        out.push_back({phase, m, phase == Phase::forward ? c : chunks - 1 - c});
  return out;
}

/// Forwards ahead of backwards by the warm-up.
std::vector<Task> in_turn(const Pipelining& p, int stage) {
  const std::vector<Task> forwards = passes_of(p, Phase::forward), backwards = passes_of(p, Phase::backward);
  const int ahead = p.stages == 1 ? 1 : def_of(p.schedule).warm_up(p, stage);
  const auto warm_up = static_cast<std::size_t>(ahead);
  std::vector<Task> out;
  std::size_t next = 0;
  for (std::size_t b = 0; b < backwards.size(); ++b) {
    while (next < std::min(forwards.size(), b + warm_up)) out.push_back(forwards[next++]);
    out.push_back(backwards[b]);
  }
  return out;
}

}  // namespace

std::vector<ScheduleDef> in_rounds() {
  return {{.name = "gpipe",
           .doc = "all forwards, then all backwards",
           .is_for_stages = false,
           .tasks = in_turn,
           .warm_up = [](const Pipelining& p, int) { return p.micro_batches; }},
          {.name = "1f1b",
           .doc = "a forward and a backward in turn",
           .is_for_stages = false,
           .tasks = in_turn,
           .warm_up = [](const Pipelining& p, int stage) { return p.stages - stage; }},
          {.name = "interleaved",
           .argument = "V",
           .least = 1,
           .most = most_devices,
           .doc = "V chunks per stage",
           .chunks = 0,
           .searched = {2, 4},
           .near = {3, 5, 6, 8, 10, 12, 16},
           .tasks = in_turn,
           .warm_up = [](const Pipelining& p, int stage) {
             return first_turn(p) * (p.schedule.chunks - 1) + 2 * (p.stages - stage - 1) + 1;
           }}};
}

}  // namespace shardwright::schedules
