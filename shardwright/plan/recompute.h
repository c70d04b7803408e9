// Recompute, as a plan says it: which modules' results are dropped after the forward and computed again in the
// backward, so that the results of one module lie in memory at a time instead of those of all.
//
//   none        everything that the backward reads is kept
//   selected    what is cheap to compute against its bytes is computed again, everywhere (lower/recompute.h)
//   full        every repeated module is a region: `layers.0`, `layers.1`, ...; a network without such modules is cut
//               into about sqrt(n) parts of its n products with parameters, and so is each of its stages
//   MODULE,...  these modules: `layers.0`, `layers.*.ffn`, `layers.4-11`; `layers` stands for each of layers.0, layers.1, ...
//   selected+MODULE,...  these modules, and of all others what is selected
//
// A region is what is computed again at one go. Its inputs are kept, and of its results those that are kept anyway,
// because somebody else reads them. A region inside another would be computed three times, so that is an error; an
// operator inside that is not recomputed (`"recompute": false`) only has its result kept.
#pragma once

#include <compare>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/graph/graph.h"

namespace shardwright {

struct RecomputeOptions {
  /// Redistributions inside a region are done again, too. Else what they made is kept, and only local work is
  /// repeated: faster, and more memory.
  bool communication = true;
  /// What a region reads is kept sharded over the axes along which it is replicated, and gathered again.
  bool shard_kept = false;
  auto operator<=>(const RecomputeOptions&) const = default;
};

struct RecomputedModule {
  std::string module;              // a name or pattern
  std::vector<std::string> nodes;  // the operators that it consists of; empty: by their names
  RecomputeOptions options = {};
  bool is_on = true;  // false: what matches is kept although the rest of a region, or of `full`, is not
  auto operator<=>(const RecomputedModule&) const = default;
};

enum class RecomputeMode : std::uint8_t { none, selected, full };
std::string_view name_of(RecomputeMode mode);

struct Recompute {
  RecomputeMode mode = RecomputeMode::none;  // of what no module says
  RecomputeOptions options = {};             // of the mode
  std::vector<RecomputedModule> modules = {};

  bool is_on() const { return mode != RecomputeMode::none || !modules.empty(); }
  bool operator==(const Recompute&) const = default;
};

/// Of a mode where nothing else is said: `selected` repeats no communication, which is never cheap.
RecomputeOptions default_options(RecomputeMode mode);

/// What --recompute takes: `full`, `layers.0,layers.1`, `full:communication=false,shard_kept=true`.
/// Throws: Error that says what there is.
Recompute parse_recompute(std::string_view text);

/// `said` and, beside it, what annotations say of modules; these win for their modules.
Recompute with_modules(Recompute said, const std::vector<RecomputedModule>& modules);

/// The same, by their names alone where what they consist of is a repeated module of `graph`, or several in a row.
std::vector<RecomputedModule> by_name(std::vector<RecomputedModule> modules, const Graph& graph);

/// Forward nodes that are computed again at one go.
struct RecomputeRegion {
  std::string name;
  std::vector<NodeId> nodes;
  std::vector<NodeId> kept;  // of the nodes those whose results are kept all the same
  RecomputeOptions options = {};
  bool is_selective = false;  // only what is cheap is computed again
};

/// Whether `network` has modules that repeat: then a mode means these, in its stages, too, however many one has of them.
bool has_layers(const Graph& network);

/// No node is in two of them. Modules that `graph` does not have are passed over: it may be a part of a network, which
/// `has_layers` or not.
std::vector<RecomputeRegion> regions_of(const Graph& graph, const Recompute& recompute, bool has_layers);

/// Throws: Error with near names if a module does not exist, or if one is said twice or inside another.
void check(const Recompute& recompute, const Graph& graph);

}  // namespace shardwright
