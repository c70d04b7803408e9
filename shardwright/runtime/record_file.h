// Flight records as they were written (flight_record.h): what ranks of a run did last.
//
// A folder holds `rank-N.txt` of the ranks that could still write when one failed. One that was stopped or killed has
// none, and one on another host may have left it there.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// What several ranks do together: `all_reduce.sum %y over tp`, among `ranks`.
struct RecordedTransfer {
  std::string kind;        // all_reduce.sum, send, receive, ...
  std::string value;       // `%y`
  std::string name;        // the same on all its ranks; that of what crosses between stages, on both
  std::vector<int> ranks;  // as far as the text lists them
  int rank_count = 0;      // of which it is
};

struct RecordedInstruction {
  int step = 0;                   // since the session began
  double begin = 0;               // seconds of the machine's clock
  std::optional<double> seconds;  // nothing: it has not ended
  std::string text;               // without its micro-batch
  std::optional<int> micro_batch;
  enum class Act { start, finish, other } act = Act::other;
  std::optional<RecordedTransfer> transfer = {};  // of start and finish
};

struct RankRecord {
  int rank = 0;
  int ranks = 0;                                  // of the run; 0: it does not say
  std::string host;                               // empty: it does not say
  double time = 0;                                // when it was written, by the machine's clock
  std::string why;                                // the run failed, as this rank has it
  std::vector<RecordedInstruction> instructions;  // the oldest first

  /// What it has begun and not ended; null: nothing.
  const RecordedInstruction* current() const;
};

/// Throws: Error that names the line.
RankRecord parse_record(std::string_view text);

/// All of a folder, by rank. Throws: Error that names the file, or says that there is none.
std::map<int, RankRecord> read_records(const std::string& folder);

}  // namespace shardwright
