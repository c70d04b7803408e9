#include "shardwright/plan/schedule.h"

#include <algorithm>
#include <array>

#include "shardwright/base/error.h"
#include "shardwright/cost/cluster.h"

namespace shardwright {
namespace {

constexpr std::array<std::string_view, 2> names{"gpipe", "1f1b"};

void check(std::string_view what, int count, int most) {
  if (count < 1 || count > most)
    throw error("pipelining: {} {} but there should be from 1 to {}", count, what, most);
}

/// Forwards before the first backward.
int warm_up_of(const Pipelining& p, int stage) {
  if (p.stages == 1) return 1;
  return p.schedule == Schedule::gpipe ? p.micro_batches : std::min(p.micro_batches, p.stages - stage);
}

}  // namespace

std::string_view name_of(Schedule schedule) { return names[static_cast<std::size_t>(schedule)]; }

Schedule schedule_called(std::string_view name) {
  for (std::size_t i = 0; i < names.size(); ++i)
    if (names[i] == name) return static_cast<Schedule>(i);
  throw error("schedule '{}' does not exist; there are gpipe, 1f1b", name);
}

void check(const Pipelining& p) {
  check("stages", p.stages, most_devices);
  check("micro-batches", p.micro_batches, most_micro_batches);
}

std::vector<Task> tasks_of(const Pipelining& p, int stage) {
  std::vector<Task> out;
  const int warm_up = warm_up_of(p, stage);
  int forwards = 0;
  for (int backwards = 0; backwards < p.micro_batches; ++backwards) {
    while (forwards < std::min(p.micro_batches, backwards + warm_up))
      out.push_back({Phase::forward, forwards++});
    out.push_back({Phase::backward, backwards});
  }
  return out;
}

int slots_of(const Pipelining& p, int stage) { return warm_up_of(p, stage); }

}  // namespace shardwright
