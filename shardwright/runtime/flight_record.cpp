#include "shardwright/runtime/flight_record.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardwright/base/host_name.h"
#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

void FlightRecord::begin(const Instruction& instruction, int micro_batch) {
  const std::int64_t now = machine_time();
  if (is_open_) entries_[(count_ - 1) % size].end = now;
  Entry& entry = entries_[count_++ % size];
  entry = {.begin = now, .end = 0, .step = step_, .instruction = instruction};
  entry.instruction.micro_batch = micro_batch;
  is_open_ = true;
}

void FlightRecord::end() {
  if (is_open_) entries_[(count_ - 1) % size].end = machine_time();
  is_open_ = false;
}

std::vector<FlightRecord::Entry> FlightRecord::entries() const {
  std::vector<Entry> out;
  for (std::size_t i = count_ - std::min(count_, size); i < count_; ++i) out.push_back(entries_[i % size]);
  return out;
}

std::string to_text(const FlightRecord& record, const RankStep& step, const Pipeline& pipeline,
                    std::string_view why) {
  const auto seconds = [](std::int64_t time) { return static_cast<double>(time) * 1e-9; };
  const std::vector<FlightRecord::Entry> entries = record.entries();
  std::string out = fmt::format(
      "rank {} of {} on {} failed at {:.6f} s of its machine's clock: {}\n"
      "its last {} instructions, when they began and what they took:\n",
      step.rank, pipeline.rank_count(), host_name(), seconds(machine_time()), why, entries.size());
  for (const FlightRecord::Entry& e : entries) {
    const std::string took = e.end > 0 ? fmt::format("{:.6f} s", seconds(e.end - e.begin)) : "has not ended";
    out += fmt::format("step {}, {:.6f} s, {}: {}\n", e.step, seconds(e.begin), took,
                       to_text(step, e.instruction, pipeline));
  }
  return out;
}

}  // namespace shardwright
