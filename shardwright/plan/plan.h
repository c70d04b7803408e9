// The plan: everything that was decided, as data. Made by a search, by annotations or by hand; saved, diffed,
// edited, loaded. Searches make plans and lowering obeys them; neither knows the other.
//
// A plan is a head and the plans of its stages, of which there is at least one. It speaks in names (operators, loop dims,
// axes), so it can be read without the network; `apply` writes it onto the graph it was made for.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/precision.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/cost/framework.h"
#include "shardwright/graph/graph.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/plan/lanes.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/plan/offload.h"
#include "shardwright/plan/reason.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/plan/schedule.h"
#include "shardwright/plan/stages.h"

namespace shardwright {

/// The parallel modes of the seeds.
enum class Parallel { stand_alone, data_parallel, semi_auto_parallel, auto_parallel };
std::string_view name_of(Parallel mode);
/// Throws: Error that lists the modes.
Parallel parallel_called(std::string_view name);

enum class SearchStatus { optimal, feasible, infeasible, timeout };
std::string_view name_of(SearchStatus status);

/// Nothing satisfies what is asked, though it is asked correctly.
class Infeasible : public Error {
 public:
  using Error::Error;
};

/// How attention is done: as one operator whose scores never lie in memory, or with products and a softmax between.
enum class Attention : std::uint8_t { flash, in_memory };

/// What a network is made of besides its model: with both, a plan file is enough to make it again.
struct Origin {
  std::optional<std::int64_t> global_batch;  // empty: the model's own
  Precision precision;
  std::string loss;  // empty: the model's own
  Attention attention = Attention::flash;
  OptimizerChoice optimizer;
};

/// How a step is done beside the strategies of its operators, decided. What is asked of it, constraints say
/// (plan/constraints.h), and settings_of (plan/settings.h) what that comes to.
struct Settings {
  OptimizerParallel optimizer_parallel = {};
  CommFusion comm_fusion = {};  // of parameters, with the names that the graph has
  Recompute recompute = {};
  Offload offload = {};
  Pipelining pipelining = {};
  bool overlap_tensor =
      false;  // products beside what brings their operands and adds up their results (lower/cut_products.h)
  std::string framework{own_framework};  // by whose memory it is judged (cost/framework.h)
  bool operator==(const Settings&) const = default;
};

/// How a loop dim is cut where its axes do not divide it, or it is cut by their shares: runs of so many elements stay together.
struct UnevenCut {
  std::int64_t grain = 1;
  bool is_by_shares = false;
  auto operator<=>(const UnevenCut&) const = default;
};
/// What stands behind its axes: `/128`, `/shares`, `/128/shares`.
std::string to_text(const UnevenCut& cut);

struct PlannedOperator {
  std::string name;
  std::string kind;  // operator
  std::vector<std::pair<std::string, std::vector<std::string>>>
      strategy;  // loop dim -> axes; `+0`: linear group
  int mesh = 0;
  std::vector<std::vector<std::int64_t>> in;   // parts per input dim, as in the seeds; told, not obeyed
  std::string out;                             // layout that the result is brought into, or empty
  Reason reason;                               // told, not obeyed
  bool is_fixed = false;                       // by annotations or the mode; told, not obeyed
  std::map<std::string, UnevenCut> cuts = {};  // of loop dims that are not cut evenly
  bool operator==(const PlannedOperator&) const = default;
};

/// How one stage's part of the network is split over its devices.
struct StagePlan {
  std::vector<Mesh> meshes{Mesh{}};            // of all its devices; further ones have no common refinement
  std::vector<PlannedOperator> operators;      // forward operators
  std::map<std::string, std::string> layouts;  // of inputs, parameters, modules' states: how they lie

  int devices() const { return meshes.front().size(); }
  bool operator==(const StagePlan&) const = default;
};

/// What holds for the whole step, and the plan of each stage.
struct Plan {
  std::string model;  // as the user named it
  Origin origin;
  std::string fingerprint;  // of the forward graph of one micro-batch
  Cluster cluster;          // that it was priced by; it has the plan's devices
  std::string parallel;
  std::string search;  // empty: no search was needed
  std::string status = "feasible";
  double search_seconds = 0;
  std::optional<double> lower_bound_seconds;  // of a step, where the search proved one
  std::string compared;                       // what the search looked at; told, not kept in the file
  std::vector<std::string> log;               // each choice of the search with its costs; the same
  std::string suggestion;                     // another structure, and what it takes; the same
  std::string structure;                      // of whole plans, as --set says it; the same
  std::string objective;                      // why so many devices; the same
  Settings settings;
  std::vector<StagePlan> stages{StagePlan{}};  // settings.pipelining.parts() of them, in order

  int devices() const { return cluster.devices(); }
  /// The devices of a stage.
  Cluster cluster_of(std::size_t stage) const;
};

/// What is decided of one stage, in terms of its graph: searches choose it, plans tell it in names.
struct Choices {
  std::vector<Mesh> meshes;
  std::vector<std::optional<Strategy>> strategies;  // per node; of forward operators
  std::map<ValueId, Layout> layouts;                // of leaves, and of results that are brought into one
};

/// A graph with a plan written onto it.
struct PlannedGraph {
  Graph graph;
  std::map<ValueId, Layout> update_layouts;  // per parameter, where it differs from its state's
  CommFusion comm_fusion = {};
  Recompute recompute = {};
  bool has_layers = false;  // the network that it is of (plan/recompute.h)
  Offload offload = {};
  MicroBatches micro_batches = {};
  bool overlap_tensor = false;
};

/// Writes `choices` onto the graph of one stage, with the layouts of states that follow from the settings. `has_layers`:
/// of the whole network, asked of where anything is computed again.
PlannedGraph written(Graph graph, Choices choices, const Settings& settings,
                     const MicroBatches& micro_batches, bool has_layers);

/// A step cut into stages, with the plan of each written onto its part.
struct PlannedStages {
  std::vector<PlannedGraph> stages;
  std::vector<Crossing> crossings;
  std::vector<StagedGraph::Output> outputs;
};

/// What identifies the network of `graph`: a hash of its forward nodes and types.
std::string fingerprint_of(const Graph& graph);

/// `graph`, a network or train step of one micro-batch, cut as the plan says, for its micro-batches.
/// Throws: Error if the plan is for another network, or an operator has no stage, or two.
StagedGraph staged(const Graph& graph, const Plan& plan);

/// The same with the plan of each stage written onto its part.
/// Throws: Error also if the plan names what does not exist, or is not legal.
PlannedStages apply(const Plan& plan, const Graph& graph);

/// Lays out the optimizer's states: as their parameter; from optimizer parallel level 1 on also sharded over its
/// replicas.
void shard_states(PlannedGraph& planned, const std::vector<Mesh>& meshes,
                  const OptimizerParallel& optimizer_parallel);

/// Whether the optimizer parallelism of `plan` shards anything: some weight's states lie otherwise than it is read.
bool shards_states(const Plan& plan, const Graph& graph);

/// JSON with the keys of commands.md. Files of format 1 are read, too.
std::string to_json(const Plan& plan);
Plan parse_plan(std::string_view json, std::string_view where);
Plan load_plan(const std::string& path);
void save_plan(const Plan& plan, const std::string& path);

}  // namespace shardwright
