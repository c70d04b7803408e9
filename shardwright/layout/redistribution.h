// Redistribution: the cheapest steps from one layout of a tensor to another.
//
// A step takes one tensor from a layout to a neighbouring one; it acts on the minor end (a suffix) of a dim's
// axes or appends there, several axes at once being one collective. The steps are a shortest path over
// layouts (Dijkstra; 18 states for a matrix on 2 axes, 92 on 3), so no order of cases decides what is found:
//
//   slice        keep one's own part            all_gather      join the parts of a dim
//   mask         whole -> partial(sum)          all_to_all      move axes from one dim to another
//   all_reduce   reduce partials                reduce_scatter  reduce partials and shard a dim
//   permute      reorder axes, swap equal axes  exchange        any layout to any, also of another mesh
//   halo         fetch what windows reach of the neighbours' parts: the last step to a layout with a halo
//
// Price of a step: collective.h, of the bytes that a rank holds before it (all_gather, permute: after it; the largest
// rank's). An exchange starts once, and on one mesh once more per peer, so that there it wins only where no short
// sequence of collectives does the work. A path slices only over axes that the target uses.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/layout/collective.h"
#include "shardwright/layout/layout.h"
#include "shardwright/layout/routing.h"

namespace shardwright {

struct Step {
  StepKind kind = StepKind::slice;
  Axes axes;          // major to minor; empty for an exchange between meshes
  int dim_from = -1;  // the dim that is gathered, sliced, scattered or left
  int dim_to = -1;    // all_to_all: the dim that takes the axes
  Reduction reduction = Reduction::sum;
  Layout from;
  Layout to;
  std::int64_t bytes = 0;  // received by one rank, the largest; with a routing at most
  double seconds = 0;
  std::optional<Routing> routing = {};  // of an all_gather or reduce_scatter of rows
};

struct Redistribution {
  std::vector<Step> steps;
  std::int64_t bytes = 0;  // received by one rank over all steps
  double seconds = 0;
  int collective_count() const;
};

/// `all_gather(dim 1, tp); slice(dim 0, dp)`
std::string to_text(const Redistribution& r, std::span<const Mesh> meshes);
std::string to_text(const Step& step, std::span<const Mesh> meshes);

/// Prices of one mesh's axes, and of a local copy.
struct MeshCost {
  std::vector<LinkCost> axes;  // the slowest link that ranks along the axis need
  /// Per axis the levels of links that it crosses, outermost first; none: those of one level, its link's.
  std::vector<std::vector<GroupLink>> levels = {};
  double copy_seconds_per_byte = 1e-12;
  double routing_imbalance = 1;  // what the busiest device has of rows that are routed, of the mean
};

/// Every axis the same: 10 us to start and 10 GB/s, for where no cluster is known.
MeshCost uniform_cost(const Mesh& mesh);

struct RedistributorOptions {
  bool even_only = false;  // pass only through layouts that cut the tensor evenly
};

/// Finds and remembers redistributions between layouts of the given meshes.
class Redistributor {
 public:
  Redistributor(std::vector<Mesh> meshes, std::vector<MeshCost> costs, RedistributorOptions options = {});
  explicit Redistributor(const Mesh& mesh, RedistributorOptions options = {});

  const std::vector<Mesh>& meshes() const { return meshes_; }
  const Mesh& mesh_of(const Layout& layout) const { return meshes_[static_cast<std::size_t>(layout.mesh)]; }

  /// Steps that turn `from` into `to` for a tensor of global type `type`.
  /// The result stays valid as long as this object.
  /// Throws: InternalError if there is no path (a target partial(max)).
  /// Cost: O(states * axes) once per (from, to, shape), then a look-up.
  const Redistribution& find(const Layout& from, const Layout& to, const Type& type);
  /// One step, whose layouts and routing are those of `step`. The result stays valid likewise.
  const Redistribution& find_routed(const Step& step, const Type& type);

  /// What a collective of which a rank holds `bytes` takes beside moving them; those over the same axes that run as one pay it once.
  double latency(const Step& step, double bytes) const;
  /// How long a step that is not local moves its bytes on the links, innermost first: its seconds but starts and
  /// latencies.
  std::vector<LinkUse> link_uses(const Step& step) const;

 private:
  struct Key {
    Layout from, to;
    Shape shape;
    std::size_t element_bytes;
    std::optional<Routing> routing = {};
    bool operator==(const Key&) const = default;
  };
  struct KeyHash {
    std::size_t operator()(const Key& key) const;
  };
  Redistribution search(const Layout& from, const Layout& to, const Type& type) const;
  Redistribution on_few_axes(const Layout& from, const Layout& to, const Type& type) const;
  Redistribution with_halo(const Layout& from, const Layout& to, const Type& type);

  std::vector<Mesh> meshes_;
  std::vector<MeshCost> costs_;
  RedistributorOptions options_;
  std::unordered_map<Key, Redistribution, KeyHash> found_;
};

}  // namespace shardwright
