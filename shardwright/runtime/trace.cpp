#include "shardwright/runtime/trace.h"

#include <fstream>
#include <functional>
#include <string>

namespace shardwright {
namespace {

constexpr std::size_t numbers_per_event = 5;

}  // namespace

std::int64_t clock_name() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return static_cast<std::int64_t>(std::hash<std::string>()(id));
}

std::vector<std::int64_t> packed(std::span<const TraceEvent> events) {
  std::vector<std::int64_t> out;
  out.reserve(events.size() * numbers_per_event);
  for (const TraceEvent& e : events) {
    out.insert(out.end(), {e.begin, e.end});
    const Instruction& i = e.instruction;
    out.push_back(static_cast<std::int64_t>(i.what) << 32 | static_cast<std::uint32_t>(i.micro_batch));
    out.push_back(i.stage);
    out.push_back(static_cast<int>(i.act) << 16 | static_cast<int>(e.activity) << 8 |
                  static_cast<int>(e.phase));
  }
  return out;
}

std::vector<TraceEvent> unpacked(std::span<const std::int64_t> n) {
  std::vector<TraceEvent> out;
  for (; n.size() >= numbers_per_event; n = n.subspan(numbers_per_event))
    out.push_back({.begin = n[0],
                   .end = n[1],
                   .instruction = {.act = static_cast<Act>(n[4] >> 16),
                                   .stage = static_cast<int>(n[3]),
                                   .what = static_cast<int>(n[2] >> 32),
                                   .micro_batch = static_cast<int>(n[2] & 0xffffffff)},
                   .activity = static_cast<Activity>(n[4] >> 8 & 0xff),
                   .phase = static_cast<Phase>(n[4] & 0xff)});
  return out;
}

}  // namespace shardwright
