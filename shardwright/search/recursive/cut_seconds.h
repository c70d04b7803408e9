// What cuts cost in seconds: the work of a part and of its backward, collectives over the axis at hand, reductions of
// parameters' gradients, and memory at a price.
//
// An axis is decided before the more inner ones, which will share the work among the devices inside it too. So a
// device's work, and what it sends over this axis, are 1 / inner of what they are after the cuts so far: whether the
// inner axes shard a tensor or reduce it in steps (reduce_scatter inside, all_reduce across, all_gather inside), only
// that part crosses. The sum over all axes is then what the whole collective moves.
#pragma once

#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/cost/compute.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/search/recursive/cut_tables.h"

namespace shardwright::recursive {

/// One axis of the mesh, as it is priced.
struct AxisLevel {
  Halving halving;
  double inner = 1;                   // devices inside
  std::vector<GroupLink> group = {};  // the links that it crosses, outermost first
};

/// What weighs how much; all else weighs 1.
struct CutWeights {
  double gradients = 1;  // reducing parameters' gradients, which may hide behind the backward
  double memory = 0;     // seconds per byte of a device
};

/// Of a whole plan.
struct CutTotals {
  double compute = 0;
  double activations = 0;   // communication of values and their gradients, seconds
  double gradients = 0;     // of parameters' gradients
  double memory = 0;        // bytes of a device
  double least_memory = 0;  // the same without gradients that may be used as they come

  /// Seconds of a step, if a share `overlap` of the gradients' communication may run beside the backward.
  double seconds(double overlap) const;
};

/// What a device holds more or less of than its cuts say.
struct Holding {
  int slots = 1;              // micro-batches alive at once, each with what its backward reads
  OptimizerParallel sharded;  // over the devices that would hold the same of a parameter
};

class CutSeconds {
 public:
  CutSeconds(const CutProblem& problem, const Calls& calls, const Cluster& cluster, const Holding& holding);

  /// For the next axis. `problem` must live as long as what is returned.
  CutPrices prices(const CutProblem& problem, const AxisLevel& level, const CutWeights& weights) const;

  /// Forward, backward and, of parameters that `part` owns, update of one node of `part`, cut along `loop` too.
  double compute(const CutProblem& problem, int part, int loop, const AxisLevel& level) const;
  double reduce(const CutProblem& problem, const CutValue& parameter, Cut gradient, const AxisLevel& level,
                Joined joined) const;
  MovePrices moves(double bytes, const AxisLevel& level) const;
  /// Bytes of a device for one node of a part.
  struct Held {
    double owned = 0;      // its parameters with their states
    double gradients = 0;  // of these
    double kept = 0;       // of its operands and results, until its backward has read them
    double all() const { return owned + gradients + kept; }
  };
  Held memory(const CutProblem& problem, int part, int loop, const AxisLevel& level) const;

  /// Compute and memory of the finished problem.
  CutTotals totals(const CutProblem& problem) const;

 private:
  /// What stands beside a parameter in training; bytes an element.
  struct Beside {
    double gradient = 0;  // as the update reads it
    double reduced = 0;   // the same as it crosses devices
    double states = 0;    // of the optimizer
    Work update = {};     // of the whole parameter
  };
  struct PartWork {
    std::vector<Work> works;        // forward first, then backward
    double bytes = 0;               // of the forward
    std::vector<int> owned;         // operands that are parameters and lie as this part wants them
    std::vector<int> kept_results;  // read by its backward
    std::vector<double> kept;  // per operand, the part of it that is kept for its backward alone: 1 / readers
  };
  static void keep(PartWork& part, const Graph& graph, NodeId id);
  static std::vector<Beside> beside_of(const Graph& graph);
  const Beside& beside(ValueId parameter) const { return beside_[static_cast<std::size_t>(parameter.index)]; }
  /// Bytes that the forward of `part`, of `flops` on a device, reads and writes there.
  double bytes_moved(const CutProblem& problem, int part, int loop, int parts, double flops) const;

  const Cluster* cluster_;
  Holding holding_;
  bool accumulates_ = false;  // gradients, over micro-batches
  std::vector<PartWork> works_;
  std::vector<Beside> beside_;  // by value
};

}  // namespace shardwright::recursive
