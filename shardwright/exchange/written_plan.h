// What formats write of a plan, derived once: how every tensor lies, and which degrees of parallelism that is.
//
// Formats of two kinds read it. Those of layouts (dtensor, jax, mindspore) take the tensors of each part. Those of degrees
// (megatron, torchtitan, deepspeed, ...) take `grid`: the words of constraints that give this plan again, found by making
// the plan of these words and looking at what it decides otherwise. What such a format does not take of the words is told
// by who wrote them down (words_left.h), and so is each operator that lies otherwise.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/annotations/strategy_file.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

struct PlacedTensor {
  std::string name;
  Type type;
  Layout layout;  // of meshes of its part; of a parameter as it is stored
  Layout read;    // as its first reader wants it: another where optimizer parallelism shards weights
  Layout state;   // of a parameter: as the states of its update lie
  bool is_trained = false;
  bool is_frozen = false;         // of a parameter: read and never trained
  bool has_own_settings = false;  // of a parameter: not those of the optimizer
};

/// A part of the network: a stage, or of several chunks a stage one of them.
struct PlacedPart {
  int stage = 0;  // whose devices have it
  int first_rank = 0;
  std::vector<Mesh> meshes;
  std::vector<PlacedTensor> inputs, parameters;
  std::vector<PlacedTensor> activations;  // what forward operators make
  std::vector<std::string> modules;       // layers and others, as names begin: `embedding`, `layers.0`

  int ranks() const { return meshes.front().size(); }
};

/// The degrees that a plan is, in words that give it again.
struct Grid {
  Constraints said;                          // of --set, all that is decided
  std::vector<std::string> split_otherwise;  // operators that lie otherwise than these make them
  std::vector<std::string> cut_otherwise;    // layers in which a stage begins

  int of(std::string_view degree) const { return said.degrees.of(degree); }
  bool by_sequence() const { return said.sequence_parallel.value_or(false); }
};

/// What somebody calls the sizes of a model: `layers`, `hidden`, `heads`, `kv_heads`, `ffn`, `vocab`, `seq`.
struct ModelSizes {
  std::string family;  // of whose architecture it is: `llama`, `gpt`; empty: of none that others have by name
  std::map<std::string, std::int64_t> sizes = {};

  std::int64_t of(const std::string& key) const;  // 0: it has none
  bool has(const std::string& key) const { return sizes.contains(key); }
};

/// What a strategy file says of the plan, and what it cannot.
struct SavedStrategies {
  StrategyFile file;
  std::vector<std::string> left_out;
};

/// What a plan is written with.
struct WhatIsWritten {
  std::string model;  // as a user calls it
  ModelSizes sizes = {};
  std::int64_t samples = 0;                          // of a batch part; 0: its inputs have none
  std::string path = {};                             // of the file; empty: there is none
  std::function<SavedStrategies()> strategies = {};  // asked for by who writes them
};

struct WrittenPlan {
  const Plan& plan;
  WhatIsWritten what;
  std::vector<PlacedPart> parts;  // in the order of the network
  std::optional<Grid> grid;       // none: no axes of degrees, or stages that have different ones
  std::string why_no_grid;
  std::vector<std::string>
      far_crossings;  // `embedding.weight from stage 0 to stage 3`: between parts that are no neighbours

  /// Throws: Error that says why `format`, which says degrees, cannot say this plan.
  const Grid& grid_for(std::string_view format) const;
  /// Throws: Error if replicas have unequal shares of the batch, for which `format` has no word.
  void check_equal_shares(std::string_view format) const;
  std::int64_t batch() const;  // samples of a step; 0 as above
};

/// `graph`: the step of a part of the batch, for which `plan` is. Throws: Error if it is for another.
WrittenPlan written_plan(const Plan& plan, const Graph& graph, WhatIsWritten what);

/// Why the tensor's parts are not as equal pieces of a dim, cut over so many devices, would be; empty: they are.
std::string unevenness(const PlacedTensor& tensor, const Layout& layout, const Mesh& mesh);

/// `'a', 'b', 'c' and 4 others`
std::string some_of(const std::vector<std::string>& names);

}  // namespace shardwright
