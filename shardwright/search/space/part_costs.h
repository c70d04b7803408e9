// What a part costs by itself, whoever searches: seconds of its forward, backward and update, and bytes of a device.
//
// Where axes are decided one after the other, the more inner ones will share the work among the devices inside the axis at
// hand, too: a device's work is 1 / inner of what it is after the cuts so far.
#pragma once

#include <vector>

#include "shardwright/cost/cluster.h"
#include "shardwright/cost/compute.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/search/space/cuts.h"

namespace shardwright::space {

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

class PartCosts {
 public:
  PartCosts(const CutProblem& problem, const Calls& calls, const Cluster& cluster, const Holding& holding);

  /// Forward, backward and, of parameters that `part` owns, update of one node of `part`, cut along `loop` too.
  double compute(const CutProblem& problem, int part, int loop, const AxisLevel& level) const;
  /// Bytes of an element of the gradient of `parameter` as it crosses devices; 0: it has none.
  double reduced_bytes(ValueId parameter) const { return beside(parameter).reduced; }
  /// Of a table that is updated by rows the bytes of all that are looked up in a step, and of their ids; 0: `parameter` is none.
  double row_bytes(ValueId parameter) const { return beside(parameter).rows; }
  /// Bytes of a device for one node of a part.
  struct Held {
    double owned = 0;      // its parameters with their states
    double gradients = 0;  // of these
    double kept = 0;       // of its operands and results, until its backward has read them
    double all() const { return owned + gradients + kept; }
    void add(const Held& more, double count) {
      owned += count * more.owned;
      gradients += count * more.gradients;
      kept += count * more.kept;
    }
  };
  Held memory(const CutProblem& problem, int part, int loop, const AxisLevel& level) const;

  /// Gradients are added up over micro-batches.
  bool accumulates() const { return accumulates_; }

  /// Fills in what a device takes that holds these. Gradients come while the backward lets go of what the forward kept,
  /// unless earlier micro-batches have left theirs.
  static void set_memory(CutTotals& totals, const Held& all, bool accumulates);

  /// Compute and memory of the finished problem.
  CutTotals totals(const CutProblem& problem) const;

 protected:
  const Cluster& cluster() const { return *cluster_; }

 private:
  /// What stands beside a parameter in training; bytes an element.
  struct Beside {
    double gradient = 0;  // as the update reads it
    double reduced = 0;   // the same as it crosses devices
    double states = 0;    // of the optimizer
    double rows = 0;      // instead of a gradient: all bytes
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

}  // namespace shardwright::space
