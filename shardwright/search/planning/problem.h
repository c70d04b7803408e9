// What a search gets and what it returns. A search knows nothing of files, commands or lowering: it sees a
// graph with rules, meshes, prices and what is already fixed, and says which strategy each forward node
// takes.
#pragma once

#include <bitset>
#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/annotations/fixed_choices.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/graph.h"
#include "shardwright/layout/redistribution.h"
#include "shardwright/plan/plan.h"
#include "shardwright/plan/reason.h"
#include "shardwright/search/planning/deadline.h"

namespace shardwright {

/// One forward node's choice and why it was made.
struct Choice {
  Strategy strategy;
  Reason reason;
};

struct SearchResult {
  SearchStatus status = SearchStatus::infeasible;
  std::string violation;                      // infeasible: what cannot be satisfied
  std::vector<Mesh> meshes;                   // of the choices; empty: those of what is fixed
  std::map<ValueId, Layout> layouts;          // the fixed choices', in these meshes
  std::vector<Choice> choices;                // per node; only those of forward compute nodes count
  std::optional<double> lower_bound_seconds;  // no plan is faster, where the search can prove that
  std::string compared;                       // what was looked at, in words; may be empty
  std::vector<std::string> log;               // each choice with its costs, a line each
};

class Judge;

struct Problem {
  const Graph* graph = nullptr;
  const Calls* calls = nullptr;  // of the graph
  const Cluster* cluster = nullptr;
  FixedChoices fixed;
  Redistributor* redistributor = nullptr;  // prices, for fixed.meshes
  bool parameters_stay_whole = false;      // data parallelism: no weight is sharded

  const Judge* judge = nullptr;  // of whole plans
};

/// By what a search ranks: symbols (elements of tensors, as the described system does), or seconds and bytes.
enum class Costs { symbolic, seconds };
/// In which order operators are decided: from the last to the first, heaviest first, or as suits the problem.
enum class SearchOrder { automatic, topology, weight };

/// The members of SearchOptions by which a user tells searches apart: each search heeds some of them.
enum class Setting {
  costs,
  order,
  mem_coeff,
  fold_layers,
  described,
  fully_use_devices,
  elementwise_follow,
  approximate,
  approximation,
  align_slices,
  slice_size,
  log,
  fix,
  auto_pipeline,
  search_time
};

/// What the user asks of a search; each takes from it what it knows.
struct SearchOptions {
  Costs costs = Costs::seconds;
  SearchOrder order = SearchOrder::automatic;
  double mem_coeff = 0.1;                  // above 0: higher shards weights, lower shards the batch
  bool fold_layers = true;                 // plan repeated layers once
  bool is_described = false;               // with the limits of the system that the seeds describe
  bool fully_use_devices = false;          // a strategy uses all devices, or none
  bool elementwise_follow = false;         // what reads a point-wise operator takes its split
  bool approximates = false;               // of each operator only some strategies, cheap by themselves
  double approximation = 0.1;              // above 0, at most 1: how many, 1 / this
  bool aligns_slices = false;              // the last two dims of a part are multiples of slice_size
  std::int64_t slice_size = 16;            // above 0
  std::optional<std::int64_t> memory_cap;  // bytes of one device
  std::optional<std::int64_t> host_cap;    // of the host, for each device
  int micro_batches = 1;
  std::optional<double> most_seconds;  // of the search
  Deadline deadline;                   // the same, once it has begun
  bool tries_sparing = false;          // of plans that fit, programs of some that take less memory, too
  bool is_advice = false;              // where no structure becomes a plan, few others are tried in its stead
  bool writes_log = false;             // fill SearchResult::log
  std::bitset<16> said;                // by Setting: somebody said so, even if it is as it would be anyway
};

struct PlanRequest;
/// The network or train step of one of so many micro-batches. Throws: Error if its batch has no such parts.
using StepOf = std::function<Graph(int batch_parts)>;

struct Searcher {
  std::string name;
  std::vector<std::string> aliases;
  std::string doc;  // one line
  /// Settings that it has a use for; asking for another one is an error.
  std::vector<Setting> heeds;
  /// Where nobody names a search: the first in this order that heeds all that is asked.
  int preference = std::numeric_limits<int>::max();
  bool spreads = false;  // what is fixed to all else; semi_auto_parallel is left to the first such
  SearchResult (*run)(const Problem&, const SearchOptions&) = nullptr;
  /// In its stead, of a search that chooses stages and micro-batches, too. The request has a cluster.
  Plan (*plan)(const StepOf&, const PlanRequest&) = nullptr;
};

bool heeds(const Searcher& search, Setting setting);

/// The strategy splits nothing, or over all devices of its mesh.
bool is_all_or_nothing(const Strategy& strategy, const Mesh& mesh);

/// Every search there is; written by CMake from the files in search/.
std::span<const Searcher> all_search();
/// The same by preference.
std::vector<const Searcher*> searches_by_preference();
/// The first of whole plans, and the first that spreads what is fixed.
const Searcher& usual_search();
const Searcher& spreading_search();
/// The search called `name`, or where nobody names one the first that splits operators only.
const Searcher& splitting_search(std::string_view name = {});
/// The search called `name` or by an alias. Throws: Error that lists them.
const Searcher& find_search(std::string_view name);

/// The plan in the file at `path`, its searches called by their own names.
/// Throws: Error as load_plan does, and if there is no such search.
Plan known_plan(const std::string& path);

}  // namespace shardwright
