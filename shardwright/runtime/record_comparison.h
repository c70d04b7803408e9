// Who waited for whom when a run failed, and who is to blame: the flight records of its ranks beside each other.
//
// What ranks do together has the same name in all their records. A rank that waits to finish it waits for those that have
// not started it, or, where all have, for those that have not finished. Following that from rank to rank ends at one that
// waits for nobody: it left no record, was at work, or went on without the others. Two ranks of a group of which each
// waits in something that the other has not started do different things.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/runtime/record_file.h"

namespace shardwright {

/// What a rank was at when it wrote its record.
struct RankState {
  enum class Does { failed, waits, works, silent, between };  // gave no sign; two instructions, or steps

  int rank = 0;
  Does does = Does::between;
  const RecordedInstruction* instruction = nullptr;  // the current one, or the last
  double since = 0;                                  // seconds for which it has been at that
  std::vector<int> waits_for = {};
  std::string why = {};  // of one that failed, or waits for what is no instruction
};

struct RecordFindings {
  enum class Fault { none, failed, different, silent, missing, works, skipped, each_other };

  int ranks = 0;  // of the run
  std::vector<RankState> states;
  std::vector<int> missing;  // left no record
  Fault fault = Fault::none;
  std::vector<int> to_blame;  // the first, mostly one
  std::string why;            // in a sentence that begins with it
};

/// `records` outlive what comes out.
RecordFindings compared(const std::map<int, RankRecord>& records);

/// A line for each rank, then who is to blame.
std::string to_text(const RecordFindings& findings);

}  // namespace shardwright
