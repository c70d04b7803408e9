// Trace files as what ranks did in a step: of `train --trace`, or of a package that `emit --to torch` has written.
#pragma once

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardwright {

/// A stretch of a rank's thread, but of one that only says of which micro-batch others are.
struct RecordedSpan {
  std::string category;  // compute, exposed, bubble, data (trace_file.h)
  std::string node;      // of a kernel or collective its first, by name; empty: it says none
  std::string what;      // its operator, or the kind of collective
  std::string phase;
  double begin = 0, end = 0;  // seconds

  double seconds() const { return end - begin; }
};

/// The recorded step of median length.
struct MeasuredRanks {
  double seconds = 0;                            // from the first rank's begin to the last one's end
  std::vector<std::vector<RecordedSpan>> ranks;  // in the order of their begins
};

/// Whether a text is such a file, by what it looks like.
bool is_trace_text(const std::string& text);

/// Throws: Error that begins with `path` if it is none, or tells of no whole step.
MeasuredRanks recorded_step(const std::string& text, const std::string& path);

/// The document of such a file. Throws: Error if it is another.
nlohmann::ordered_json trace_document(const std::string& text);
/// The rank that each track is about: `rank 3 (stage 1) compute`.
std::map<int, int> ranks_of_tracks(const nlohmann::ordered_json& events);

/// Such a file may be so long.
constexpr std::int64_t most_trace_bytes = std::int64_t{1} << 31;

}  // namespace shardwright
