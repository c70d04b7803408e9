// A simulated step as a page draws it, of one rank of each stage: ranks of a stage do the same.
//
// A rank has *blocks*: tasks of the schedule, one behind the other, and what it waits for between them. What a task does
// inside is a *pattern* of pieces, which tasks that run alike share: micro-batches mostly do, so that the picture does not
// grow with them. Where there are more pieces or blocks than a page should hold, neighbours become one. Such a piece still
// says how much of it is what, so that sums stay what they are.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "shardwright/lower/pipeline.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/simulate/estimate.h"

namespace shardwright {

/// What a device does at a time.
enum class SpentOn : std::uint8_t {
  compute,
  again,          // computes what the forward has computed already
  communication,  // waits for a collective
  waiting         // for another stage, or for others to end the step
};
constexpr std::size_t spent_kinds = 4;
using SpentTimes = std::array<std::int64_t, spent_kinds>;  // nanoseconds

struct TimelinePiece {
  SpentTimes times{};
  std::string name;  // of the longest that it stands for
  int count = 1;     // for so many
};

/// Transfers on their way.
struct WirePiece {
  std::int64_t begin = 0, end = 0;  // from the begin of its pattern, or of the step
  std::string name;
  int count = 1;
  std::int64_t busy = 0;  // of this time
  bool is_crossing =
      false;  // between stages: when, the other stage says, so that tasks that are alike may differ in it
};

struct TimelinePattern {
  std::vector<TimelinePiece> pieces;
  std::vector<WirePiece> wire;  // sets out there
};

enum class BlockKind : std::uint8_t {
  forward,
  backward,
  update,
  between,  // tasks
  several,  // tasks, and what is between them
  weights   // of a backward that is cut in two, whose first part `backward` is then
};

struct TimelineBlock {
  std::int64_t begin = 0, end = 0;
  BlockKind kind = BlockKind::between;
  int micro_batch = 0;
  int stage = 0;
  std::size_t pattern = 0;
};

struct RankTimeline {
  int rank = 0;
  std::vector<int> stages;
  int count = 1;  // ranks that do the same, with it
  std::vector<TimelineBlock> blocks;
  std::vector<WirePiece> wire;  // what no pattern has
};

struct Timeline {
  std::int64_t end = 0;
  std::vector<TimelinePattern> patterns;
  std::vector<RankTimeline> ranks;
  std::size_t events = 0;     // that it is made of
  bool joins_pieces = false;  // neighbours have become one
  bool joins_blocks = false;
};

struct TimelineLimits {
  std::size_t pieces = 5500;
  std::size_t blocks = 2400;
};
Timeline timeline_of(const Pipeline& pipeline, const std::vector<SimulatedRank>& ranks,
                     const StepTrace& trace, const TimelineLimits& limits = {});

/// What one rank does all in all.
SpentTimes times_of(const Timeline& timeline, const RankTimeline& rank);

/// For the page's script (page/timeline.js says how it is read).
Json json_of(const Timeline& timeline);

/// Events of a step; beyond some millions nobody should ask for them.
std::size_t event_count(const Pipeline& pipeline);

}  // namespace shardwright
