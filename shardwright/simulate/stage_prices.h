// What the nodes of a stage's program take: kernels, fused as they run, and transfers. On devices of several kinds a kernel takes each
// another time, with the share of the batch that these have.
#pragma once

#include <memory>
#include <optional>
#include <unordered_map>
#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/cost/kernel_work.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/lower/joined_steps.h"
#include "shardwright/lower/step.h"
#include "shardwright/simulate/operator_seconds.h"
#include "shardwright/simulate/reuse.h"

namespace shardwright {

/// Seconds, and whose work they are.
struct OwnedSeconds {
  int stage = 0;
  NodeId owner;  // Node::owner
  double OperatorSeconds::*what = nullptr;
  double seconds = 0;
};

/// Equal calls are read once.
class CallWorks {
 public:
  const CallWork& of(const Graph& graph, const Node& node);

 private:
  struct Known {
    std::shared_ptr<const Rule> rule;  // by whose address it is known
    CallWork work;
  };
  std::unordered_map<const Rule*, Known> works_;
};

class StagePrices {
 public:
  /// Both must outlive it.
  StagePrices(const Program& program, int stage, const Cluster& cluster);
  StagePrices(const Program& program, int stage, Cluster&& cluster) = delete;

  const Graph& graph() const { return graph_; }
  /// That all devices at their peak take for the products that were asked for, none done again.
  double peak_seconds() const { return peak_seconds_; }
  /// For those that are done again.
  double repeated_peak_seconds() const { return repeated_peak_seconds_; }

  /// Kinds of devices that the stage has.
  std::size_t kind_count() const { return kinds_.size(); }
  /// Of the fusion that begins with node `first`, on devices of a kind.
  double compute_seconds_of(int first, std::size_t kind) { return timed(first)[kind].seconds; }
  /// The same; adds to `owned` whose work it is: that of nodes that run together is shared as they would take it alone.
  double compute_seconds_of(int first, std::size_t kind, std::vector<OwnedSeconds>& owned);

  /// Of the mean device.
  double mean_compute_seconds_of(int first);

  /// What that fusion does on a rank of the stage, all of it together; none if it does nothing.
  Work work_of(int first, int rank = 0) { return timed(first)[kind_of(rank)].work; }

  /// Of the steps that run as one: they start as one. Local ones take none.
  double seconds_of(const PreparedTransfer& t);
  /// Of a collective, as a part of one of many bytes: what that takes to start, and how much longer it moves by this one. Else all of its
  /// seconds move.
  struct AmongMany {
    double starting = 0, moving = 0, bytes = 0;
  };
  AmongMany among_many(const PreparedTransfer& t);
  /// How long its bytes move on the links, innermost first; the rest of its seconds starts them.
  std::vector<LinkUse> link_uses(const PreparedTransfer& t);
  /// Adds to `owned` whose the `seconds` are that are waited for a transfer: as its tensors take them.
  void share(double seconds, const PreparedTransfer& t, std::vector<OwnedSeconds>& owned);

  const Redistribution& redistribution(const Node& node) {
    return redistribution_of(graph_, node, redistributor_);
  }

 private:
  JoinedBytes bytes_of_all(const PreparedTransfer& t);

  struct Timed {
    Work work = {};
    double seconds = 0;
    std::vector<OwnedSeconds> owned = {};
  };
  /// Devices that are alike.
  struct Devices {
    Cluster device;
    Cluster host;  // its processors, as a device's share of them
    RanksOf ranks;
  };
  Timed timed(const Fusion& fusion, const Devices& on);
  /// On each kind.
  const std::vector<Timed>& timed(int first);
  void add_peak_seconds(const Fusion& fusion);
  void add_cached_bytes(Work& work, int first, const Cluster& device) const;
  /// Of a step by itself.
  double seconds_of(const Node& node);
  std::int64_t place(ValueId v) const { return program_.offset(v); }
  bool is_free(const Fusion& fusion) const;
  std::size_t kind_of(int rank) const;

  const Program& program_;
  const Graph& graph_;
  int stage_;
  const Cluster& cluster_;
  std::vector<Devices> kinds_;
  Redistributor redistributor_;
  CallWorks works_;
  std::optional<Reuse> reuse_;  // where the cluster has caches
  std::vector<ValueId> moved_;
  double peak_seconds_ = 0, repeated_peak_seconds_ = 0;
  std::unordered_map<int, NodeId> ends_;                 // of fusions, by their first node
  std::unordered_map<int, std::vector<Timed>> compute_;  // likewise
};

}  // namespace shardwright
