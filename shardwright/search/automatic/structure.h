// What `auto` chooses of a step beside the strategies of its operators: a structure is Constraints that leave nothing open
// but how its parts are split among themselves.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "shardwright/plan/constraints.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright::automatic {

/// Who has the same weights for other samples, or for other parts of their sequences, and who shares the work of a sample.
inline int replicas_of(const Constraints& s) { return s.degrees.sharing(Sharing::batch); }
inline int contexts_of(const Constraints& s) { return s.degrees.sharing(Sharing::sequence); }
inline int shards_of(const Constraints& s) { return s.degrees.sharing(Sharing::work); }
inline int stages_of(const Constraints& s) { return s.degrees.sharing(Sharing::stages); }
inline int stage_devices(const Constraints& s) { return replicas_of(s) * contexts_of(s) * shards_of(s); }
inline bool splits_sequence(const Constraints& s) { return s.sequence_parallel.value_or(false); }
inline Schedule schedule_of(const Constraints& s) { return s.schedule.value_or(Schedule{}); }
inline Pipelining pipelining_of(const Constraints& s) {
  return {schedule_of(s), stages_of(s), s.micro_batches.value_or(1), s.interleave.value_or(1)};
}
inline int level_of(const Constraints& s) { return s.zero.value_or(0); }
inline RecomputeMode mode_of(const Constraints& s) { return s.recompute.value_or(Again{}).mode; }
inline bool repeats_layers(const Constraints& s) { return s.recompute.value_or(Again{}).layers; }

/// Without fewer there is no place for its experts.
int fewest_replicas(const Constraints& s);
inline bool has_replicas(const Constraints& s) { return replicas_of(s) > fewest_replicas(s); }
/// With one replica, or as many as experts need, which share no states.
Constraints without_replicas(Constraints s);
/// What pieces depend on of it: neither stages nor their order, nor that some layers are computed again beside the mode.
Constraints of_pieces(Constraints s);

/// Without what is as it would be anyway: `dp=4,tp=2,pp=2,micro_batches=8,zero=1,schedule=1f1b`.
std::string structure_text(const Constraints& s);

/// The flag with which a user asks for `s`, and its text. Where a search cuts stages or counts layers it is --fix, which leaves
/// open what it does not say.
struct Said {
  std::string_view flag;
  std::string text;
};
Said said(const Constraints& s);

/// What `request` asks, with what `s` says of all that searches choose: nothing of the structure is left to choose.
PlanRequest with_structure(PlanRequest request, const Constraints& s);

/// What is left open of a step.
struct OpenStep {
  std::int64_t samples = 1;
  std::vector<int> counts;      // of micro-batches
  bool repeats_layers = false;  // there are layers, of which some may be computed again
  std::int64_t experts = 0;     // that lie side by side
};
/// Into how many micro-batches `samples` can be cut.
std::vector<int> micro_batch_counts(std::int64_t samples);

/// Every structure that `request` leaves open for a step. Stages that can only wait for each other are among them where
/// there is nothing else.
std::vector<Constraints> structures_of(const PlanRequest& request, const OpenStep& step);

/// Whether `fixed` says how operators are split, and how all else is.
bool fixes_split(const Constraints& fixed);
bool fixes_settings(const Constraints& fixed);

/// Throws: Error if operators or data of `request` are fixed one by one, which is for other searches.
void check_free(const PlanRequest& request);

/// What `request` fixes that together leaves no structure, as a user says it: ` (dp=3, micro_batches=2)`; empty if it is
/// nothing.
std::string conflict_text(const PlanRequest& request, const OpenStep& step);

/// Behind that, where the loss depends on micro-batches.
std::string kept_batch_text(int micro_batches);

/// With as many chunks of a device as a schedule is tried with where it is near the best, of a network of `pieces`; nothing where all
/// numbers of chunks are among the structures.
std::optional<Constraints> with_most_chunks(Constraints s, int pieces);

}  // namespace shardwright::automatic
