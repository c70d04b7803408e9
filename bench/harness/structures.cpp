#include "bench/harness/structures.h"

#include <algorithm>

namespace shardwright {
namespace {

using automatic::Structure;

constexpr RecomputeMode modes[] = {RecomputeMode::none, RecomputeMode::selected, RecomputeMode::full};

int& degree(Structure& s, int which) {
  return which == 0 ? s.degrees.data : which == 1 ? s.degrees.tensor : s.pipelining.stages;
}

int smallest_factor(int n) {
  for (int f = 2; f * f <= n; ++f)
    if (n % f == 0) return f;
  return n;
}

}  // namespace

/// If there is such a structure; what would have no effect is left out.
void Structures::add(std::vector<Structure>& out, Structure s) const {
  const Pipelining& p = s.pipelining;
  if (s.degrees.data * s.degrees.tensor * p.stages != devices) return;
  if (std::ranges::find(counts, p.micro_batches) == counts.end()) return;
  if (samples / p.micro_batches % s.degrees.data || (p.stages == 1 && p.schedule != Schedule{})) return;
  if (s.degrees.tensor == 1) s.degrees.sequence = false;
  if (s.stage_devices() == 1) s.zero = 0;
  out.push_back(s);
}

std::vector<Structure> Structures::usual() const {
  std::vector<Structure> out;
  for (int stages : {1, 2, 4, 8})
    for (int tensor : {1, 2, 4, 8})
      for (RecomputeMode mode : modes)
        for (int at_once : {1, 2, 4}) {
          const int data = devices / stages / tensor;
          if (data == 0 || (stages > 1 && (at_once > 1 || tensor == 1))) continue;
          Structure s{.degrees = {data, tensor, tensor > 1}, .zero = stages > 1 ? 1 : 3, .recompute = mode};
          s.pipelining = {stages > 1 ? Schedule{Schedule::interleaved, 2} : Schedule{}, stages,
                          static_cast<int>(samples / data / at_once)};
          add(out, s);
        }
  return out;
}

std::vector<Structure> Structures::neighbours(const Structure& from) const {
  std::vector<Structure> out;
  Structure s = from;
  const auto add_with = [&](auto& part, auto value) {
    part = value;
    add(out, s);
    s = from;
  };
  add_degrees(out, from);
  for (RecomputeMode mode : modes) {
    add_with(s.recompute, mode);
    const auto here = std::ranges::lower_bound(counts, from.pipelining.micro_batches);
    for (auto count = here == counts.begin() ? here : here - 1; count != counts.end() && count <= here + 1;
         ++count) {
      s.recompute = mode;
      add_with(s.pipelining.micro_batches, *count);
    }
  }
  for (int zero = 0; zero <= 3; ++zero) add_with(s.zero, zero);
  for (const char* name : {"1f1b", "gpipe", "interleaved:2", "interleaved:4", "interleaved:8"})
    add_with(s.pipelining.schedule, schedule_called(name));
  add_with(s.degrees.sequence, !from.degrees.sequence);
  return out;
}

void Structures::add_degrees(std::vector<Structure>& out, const Structure& from) const {
  constexpr int degrees = 3;
  for (int a = 0; a < degrees; ++a)
    for (int b = 0; b < degrees; ++b) {
      Structure s = from;
      if (a == b || degree(s, a) == 1) continue;
      const int factor = smallest_factor(degree(s, a));
      degree(s, a) /= factor;
      degree(s, b) *= factor;
      if (s.pipelining.stages == 1) s.pipelining.schedule = {};
      add(out, s);
      const int at_once = from.degrees.data * from.pipelining.micro_batches;  // parts of the step's samples
      if (s.degrees.data == from.degrees.data || at_once % s.degrees.data) continue;
      s.pipelining.micro_batches = at_once / s.degrees.data;
      add(out, s);
    }
}

}  // namespace shardwright
