// What a checkpoint's folder holds: `manifest.json`, which this is, and shards, safetensors files with one part of each
// tensor that a rank writes.
//
// A tensor is cut along each dim at places that all its parts share, so parts are the cells of a grid: no two can
// overlap, and none can be missing. The first field is the checksum of all text behind it; shards have one for each
// block of the file, so that whoever reads a range proves what it reads and no more.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/runtime/boxes.h"

namespace shardwright {

struct SavedTensor {
  std::string name;
  Type type;                                    // of the whole
  bool is_state = false;                        // else a parameter
  std::string layout;                           // on the mesh of the plan's stage that wrote it
  std::vector<std::vector<std::int64_t>> cuts;  // per dim: where parts begin, ascending from 0
  std::vector<int> shards;                      // that hold the parts, row-major over the grid

  std::vector<std::int64_t> grid() const;
  /// Of the part `i`.
  Box part(std::size_t i) const;
};

struct Shard {
  std::string file;
  std::int64_t bytes = 0;
  std::vector<std::uint64_t> blocks;  // checksums
};

/// What a run needs to go on, besides the tensors.
struct RunState {
  std::string model;           // as it was called
  std::int64_t step = 0;       // that have been done; the data go on behind as many batches
  std::uint64_t seed = 0;      // of data order, dropout and initial values, which follow from it and the step
  std::int64_t samples = 0;    // of a step's batch
  std::string schedule;        // of the learning rate
  std::optional<double> best;  // so far, of what --keep-best looks at
  std::string best_of = {};    // loss or accuracy
  std::string frozen =
      {};  // what parameters that are not saved were like (sample_of_frozen); empty: there are none
  std::string lengths = {};  // of sequences, where batches have several, as in 64,128; empty: one
};

struct Manifest {
  RunState run;
  std::string plan;  // a JSON document; empty: written by no plan
  std::int64_t block_bytes = std::int64_t{1} << 20;
  std::vector<SavedTensor> tensors;
  std::vector<Shard> shards;

  /// Throws: Error if there is no tensor of this name.
  const SavedTensor& tensor(std::string_view name) const;
};

constexpr std::string_view manifest_file = "manifest.json";
std::string shard_file(int number);

/// Who holds which part, by shard. Throws: Error if the parts of a tensor are no grid.
void set_parts(SavedTensor& tensor, const std::vector<std::pair<int, Box>>& parts);

std::string to_json(const Manifest& manifest);
/// As it stands in a manifest, and in what plain files say of themselves.
std::string to_json(const RunState& run);
/// Throws: Error if it is none.
RunState parse_run(std::string_view text);
/// A shard alone, as it stands in a manifest of so long blocks. Throws: Error, as parse_manifest.
std::string to_json(const Shard& shard);
Shard parse_shard(std::string_view text, std::int64_t block_bytes);
/// Throws: Error of kind io that names `path` and what is wrong: damage, another format, files outside of the folder,
/// tensors with holes.
Manifest parse_manifest(std::string_view text, const std::string& path);

}  // namespace shardwright
