// What may be fixed of a plan, in the words of the field; one value with one text form:
//
//   dp=4,tp=2,pp=2,micro_batches=8,zero=1,recompute=selected,schedule=1f1b,sequence_parallel=1
//   zero_threshold=4096,comm_fusion={all_reduce=size:16;all_gather=auto;reduce_scatter=auto},dataset=full_batch
//   layers.0.ffn.up.matmul={n: tp},layers.*.norm1={},dense1.matmul={in: ((2, 4), (4, 1))}
//   offload={optimizer:0.5,parameters},layers.0=stage 0,layers.0=recompute,layers.1=fusion 2,embedding=host
//
// All doors lead here: --set says all of it (a degree that it leaves out is 1); --fix, flags of their own, annotations,
// strategy files and code say a part, and a search chooses the rest: what it tries is said in the same words. What all of
// it comes to is Settings (plan/settings.h).
#pragma once

#include <array>
#include <compare>
#include <cstdint>
#include <initializer_list>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shardwright/base/given.h"
#include "shardwright/base/rare.h"
#include "shardwright/plan/comm_fusion.h"
#include "shardwright/plan/offload.h"
#include "shardwright/plan/recompute.h"
#include "shardwright/plan/schedule.h"
#include "shardwright/plan/tensor_split.h"

namespace shardwright {

/// What is shared: the batch, the sequence of each sample, the work that is done of each element of it, or the network, by
/// stages. Experts are shared by the devices that share all else of a stage: that takes none of its own.
enum class Sharing : std::uint8_t { batch, sequence, work, stages, experts };

/// A degree of parallelism: so many devices, or stages of them, share something.
struct DegreeKind {
  std::string_view name;
  Sharing of;
  std::string_view missing = {};  // what there is not yet, so that it is 1; empty: there is
  bool is_rare = false;           // 1 is not told, and `auto` takes it where it is said
};
inline constexpr std::array<DegreeKind, 6> degree_kinds{{{"dp", Sharing::batch},
                                                         {"tp", Sharing::work},
                                                         {"pp", Sharing::stages},
                                                         {"cp", Sharing::sequence, "", true},
                                                         {"ep", Sharing::experts, "", true},
                                                         {"etp", Sharing::experts, "", true}}};

/// Degrees by name; each may be said or not.
class Degrees {
 public:
  Degrees() = default;
  Degrees(std::initializer_list<std::pair<std::string_view, int>> said);

  /// Nothing if it is not said. Pre: there is such a kind.
  std::optional<int> said(std::string_view name) const;
  /// 1 if it is not said.
  int of(std::string_view name) const { return said(name).value_or(1); }
  void set(std::string_view name, std::optional<int> degree);
  /// The product of those of `what`, all that there may be.
  int sharing(Sharing what) const;
  /// Sets all of `what` that are there.
  void share(Sharing what, std::optional<int> degree);
  /// How many all of them take.
  std::int64_t devices() const;
  /// Among so many devices of a stage an expert's features are split: `etp`; where it is not said as `tp`, if its experts may be
  /// so beside them, else 1.
  int of_experts_features() const;

  auto operator<=>(const Degrees&) const = default;

 private:
  std::array<int, degree_kinds.size()> said_{};  // 0: not said
};

/// What is computed again in the backward: a mode, and beside it of each stage as many layers whole as memory wants.
struct Again {
  RecomputeMode mode = RecomputeMode::none;
  bool layers = false;

  constexpr Again() = default;
  constexpr Again(RecomputeMode of_all,
                  bool of_layers = false)  // NOLINT(google-explicit-constructor): mostly a mode is all
      : mode(of_all), layers(of_layers) {}
  auto operator<=>(const Again&) const = default;
};

/// How queries of a part of the sequence come to the keys of the others: all keys are gathered, parts of heads are had of the
/// whole sequence instead, or keys go round while each part is attended to.
enum class ContextWay : std::uint8_t { gather, exchange, ring };

/// How cp is gone: all of it one way, or (`exchange:4+ring`) heads are exchanged among the inner 4 devices of it and the rest goes
/// another way.
struct ContextWays {
  ContextWay way = ContextWay::gather;
  int exchanged = 1;
  auto operator<=>(const ContextWays&) const = default;
};

/// `{m: dp, n: tp}`: by the names of degrees, over which devices each loop dim of an operator is split; else it is whole.
using LoopSplit = std::map<std::string, std::vector<std::string>>;
std::string to_text(const LoopSplit& split);

/// What is not fixed is empty.
struct Constraints {
  Degrees degrees;
  std::optional<std::int64_t> micro_batch;     // samples of each of dp in a micro-batch, or a part of it
  std::optional<int> micro_batches;            // of a step
  std::optional<int> interleave;               // parts of a micro-batch that run side by side
  std::optional<std::int64_t> global_batch;    // samples of a step
  std::optional<int> zero;                     // level of optimizer parallelism
  std::optional<std::int64_t> zero_threshold;  // bytes of a parameter that it begins with
  std::optional<int> zero_group;               // at most so many replicas share a state
  std::optional<Again> recompute;
  std::optional<bool> recompute_communication, recompute_shard_kept;  // RecomputeOptions of the mode
  std::optional<Schedule> schedule;
  std::optional<bool> sequence_parallel;  // what tp would repeat is split by the sequence
  std::optional<bool> overlap_tensor;     // products beside their transfers
  std::optional<ContextWays> context;     // of cp; not said: what sends less
  Rare<std::vector<int>> batch_shares;    // of each of dp in a micro-batch; none: by the speed of devices
  Rare<Offload> offload;                  // shares; of operators `hosted` says it
  Rare<CommFusion> comm_fusion;           // limits; of parameters fusion_numbers say it
  Rare<std::string> framework;            // by whose memory a plan is judged
  Rare<DataSplit> dataset;
  // Of operators, parameters and modules by name or pattern:
  std::map<std::string, LoopSplit> operators;  // in the stead of what degrees would make of them
  std::map<std::string, Annotation> tensors;   // of operators and parameters, where degrees say nothing
  std::map<std::string, int> stages;
  std::set<std::string> hosted;               // run on the host
  std::map<std::string, int> fusion_numbers;  // as in CommFusion
  std::vector<RecomputedModule> recomputed;   // a name once

  auto operator<=>(const Constraints&) const = default;
};

/// A word of the text form: how its value is read and written (empty: it is not fixed), and taken over as it is, said or not.
struct ConstraintWord {
  std::string_view name;
  void (*read)(Constraints&, std::string_view name, const Given& value);
  std::string (*print)(const Constraints&, std::string_view name);
  void (*copy)(Constraints& to, const Constraints& from, std::string_view name);
  /// A search of whole plans chooses it where it is left open.
  bool is_chosen = true;

  bool is_said(const Constraints& c) const { return !print(c, name).empty(); }
  void open(Constraints& c) const { copy(c, {}, name); }
};
/// In the order in which they are written.
std::span<const ConstraintWord> constraint_words();
/// Pre: there is one.
const ConstraintWord& constraint_word(std::string_view name);

/// `dp=4,tp=2`; parsing it gives the same constraints.
std::string to_text(const Constraints& constraints, std::string_view between = ",");
/// `NAME={..}` is of an operator or parameter; `NAME=stage N`, `NAME=fusion N`, `NAME=recompute` and `NAME=keep` are of what
/// has that name; all else is a word, whose value may stand in braces.
/// Throws: Error on other words, with near names, on what is said twice, and on values that are none.
Constraints parse_constraints(const Given& given);

/// The first word or name that both fix, and otherwise: what `b` wants and `a` has given.
std::optional<Conflict> conflict_of(const Constraints& a, const Constraints& b);
/// What either fixes; of what both do, what `stronger` says.
Constraints merged(Constraints weaker, const Constraints& stronger);

/// Whether single operators or the data are split otherwise than by degrees.
bool splits_tensors(const Constraints& c);

/// Of a mode under the degrees: as Megatron does it, what is selected and split by the sequence is kept so, and gathered
/// again in the backward.
RecomputeOptions recompute_options(RecomputeMode mode, bool by_sequence);

}  // namespace shardwright
