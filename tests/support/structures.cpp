#include "tests/support/structures.h"

#include <algorithm>
#include <array>

namespace shardwright {
namespace {

using namespace automatic;

constexpr RecomputeMode modes[] = {RecomputeMode::none, RecomputeMode::selected, RecomputeMode::full};

int smallest_factor(int n) {
  for (int f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

}  // namespace

/// If there is such a structure; what would have no effect is left out.
void Structures::add(std::vector<Constraints>& out, Constraints s) const {
  const Pipelining p = pipelining_of(s);
  if (s.degrees.devices() != devices) return;
  if (std::ranges::find(counts, p.micro_batches) == counts.end()) return;
  if (samples / p.micro_batches % replicas_of(s) || (p.stages == 1 && p.schedule != Schedule{})) return;
  if (shards_of(s) == 1) s.sequence_parallel = false;
  if (stage_devices(s) == 1) s.zero = 0;
  out.push_back(s);
}

std::vector<Constraints> Structures::usual() const {
  std::vector<Constraints> out;
  for (int stages : {1, 2, 4, 8})
    for (int tensor : {1, 2, 4, 8})
      for (RecomputeMode mode : modes)
        for (int at_once : {1, 2, 4}) {
          const int data = devices / stages / tensor;
          if (data == 0 || (stages > 1 && (at_once > 1 || tensor == 1))) continue;
          add(out, {.degrees = {{"dp", data}, {"tp", tensor}, {"pp", stages}},
                    .micro_batches = static_cast<int>(samples / data / at_once),
                    .zero = stages > 1 ? 1 : 3,
                    .recompute = mode,
                    .schedule = stages > 1 ? Schedule::interleaved(2) : Schedule{},
                    .sequence_parallel = tensor > 1});
        }
  return out;
}

std::vector<Constraints> Structures::neighbours(const Constraints& from) const {
  std::vector<Constraints> out;
  Constraints s = from;
  const auto add_with = [&](auto& part, auto value) {
    part = value;
    add(out, s);
    s = from;
  };
  add_degrees(out, from);
  for (RecomputeMode mode : modes) {
    add_with(s.recompute, mode);
    const auto here = std::ranges::lower_bound(counts, *from.micro_batches);
    for (auto count = here == counts.begin() ? here : here - 1; count != counts.end() && count <= here + 1;
         ++count) {
      s.recompute = mode;
      add_with(s.micro_batches, *count);
    }
  }
  for (int zero = 0; zero <= 3; ++zero) add_with(s.zero, zero);
  for (const char* name : {"1f1b", "gpipe", "interleaved:2", "interleaved:4", "interleaved:8"})
    add_with(s.schedule, schedule_called(name));
  add_with(s.sequence_parallel, !splits_sequence(from));
  return out;
}

void Structures::add_degrees(std::vector<Constraints>& out, const Constraints& from) const {
  constexpr std::array<std::string_view, 3> degrees{"dp", "tp", "pp"};
  for (std::string_view a : degrees)
    for (std::string_view b : degrees) {
      Constraints s = from;
      if (a == b || s.degrees.of(a) == 1) continue;
      const int factor = smallest_factor(s.degrees.of(a));
      s.degrees.set(a, s.degrees.of(a) / factor);
      s.degrees.set(b, s.degrees.of(b) * factor);
      if (stages_of(s) == 1) s.schedule = Schedule{};
      add(out, s);
      const int at_once = replicas_of(from) * *from.micro_batches;  // parts of the step's samples
      if (replicas_of(s) == replicas_of(from) || at_once % replicas_of(s)) continue;
      s.micro_batches = at_once / replicas_of(s);
      add(out, s);
    }
}

}  // namespace shardwright
