// What a rank did last: a ring of instructions with their times, kept while it runs and written when it fails.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/lower/step.h"

namespace shardwright {

/// Of one rank, written by its thread. Adding an instruction is a look at the clock and a few stores.
class FlightRecord {
 public:
  static constexpr std::size_t size = 512;  // steps of most networks

  struct Entry {
    std::int64_t begin = 0;  // nanoseconds of the machine's clock
    std::int64_t end = 0;    // 0: it has not ended
    int step = 0;            // its number
    Instruction instruction;
  };

  void begin_step(int number) { step_ = number; }
  int step() const { return step_; }
  /// Ends what was begun before.
  void begin(const Instruction& instruction, int micro_batch);
  void end();

  /// The oldest first.
  std::vector<Entry> entries() const;

 private:
  std::vector<Entry> entries_ = std::vector<Entry>(size);
  std::size_t count_ = 0;  // that were ever begun
  bool is_open_ = false;
  int step_ = -1;
};

/// As lines for people, and for record_file.h: `why` the rank failed, then an instruction a line.
std::string to_text(const FlightRecord& record, const RankStep& step, const Pipeline& pipeline,
                    std::string_view why);

}  // namespace shardwright
