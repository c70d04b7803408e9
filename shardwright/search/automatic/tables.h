// Figures of pieces, made when they are asked for and remembered: per degrees, samples, level and recompute.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "shardwright/plan/lanes.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/evaluated_plans.h"

namespace shardwright::automatic {

/// What pieces take, by kind.
using Pieces = std::vector<Figures>;

/// Of the micro-batches of a step those that figures add up; more make no difference to what a piece takes of each.
inline int summed_of(const Pipelining& p) { return p.batch_parts() > 1 ? 2 : 1; }

/// What the devices of a stage are: of one kind of the cluster, or so many of several, among whom samples may be shared by speed.
struct StageKind {
  std::optional<std::size_t> only = {};
  int first = 0, count = 0;
  bool is_by_shares = false;
  auto operator<=>(const StageKind&) const = default;
};

class Tables {
 public:
  /// All must outlive it. `row`: the pieces of the network, if they are known. Throws: Error if no input of the network has a batch.
  Tables(const StepOf& step, const PlanRequest& request, const Row* row = nullptr);

  /// Of a step, of which parts of a micro-batch that run side by side count as one.
  std::int64_t samples() const { return samples_; }
  /// The largest share of a micro-batch.
  std::int64_t samples_of_device(const Constraints& s) const {
    const std::int64_t all = samples_ / *s.micro_batches, replicas = replicas_of(s);
    return (all + replicas - 1) / replicas;
  }
  bool are_shares_even(const Constraints& s) const {
    return samples_ / *s.micro_batches % replicas_of(s) == 0;
  }

  /// Null where the network cannot be made for a part of the batch: some imports are for one number of samples, and of
  /// fewer samples than replicas there are 0 micro-batches.
  const Graph* graph(int micro_batches);
  /// The pieces that stages of `s` are made of: where there are no layers and one stage, all is one.
  const Row& row(const Constraints& s) const {
    return stages_of(s) == 1 && !has_layers_ ? shelf_->whole : shelf_->row;
  }

  bool has_layers() const { return has_layers_; }
  /// Its pieces would be others without it; `s` has sequence parallelism.
  bool differs_by_sequence(Constraints s);

  /// On a stage's devices; nothing where the structure cannot split one of them.
  std::optional<Pieces> of_stage(const Constraints& s);
  /// At least, without making such pieces: time is convex in the samples of a device, so that it lies above the line
  /// through what `fewest` and twice as many take; bytes grow with them.
  std::optional<Pieces> at_least(const Constraints& s, std::int64_t fewest);

  /// In the passes: for what is computed of all samples of a micro-batch, or where the batch lies so that all get all of it.
  bool replicas_wait(Constraints s);
  /// Adds what that takes of one, with the memory for it.
  void wait_for_replicas(Pieces& pieces, const Constraints& s);

  /// Of the same network on the devices of a stage, of a cluster that has several kinds.
  Tables& on(const StageKind& kind);
  /// Where devices are of several kinds figures are those of the fastest, which some stage may have; of one stage of the slowest.
  bool is_on_fastest(const Constraints& s) const {
    return !request_.cluster->kinds.empty() && stages_of(s) > 1;
  }
  /// On which the stages of `s` are, in such a cluster.
  std::vector<StageKind> kinds_of(const Constraints& s) const;

  /// How the backwards of `pieces`, which are of `s`, fall apart where the schedule cuts them in two.
  void split_backwards(Pieces& pieces, Constraints s);

  /// By whose memory plans are judged.
  const Framework& framework() const { return framework_; }

  /// How many micro-batches are alive in each part at once, by life.
  const std::vector<OfLives>& slots(const Pipelining& p);

  /// Programs that searches of it have made.
  EvaluatedPlans& evaluated() { return evaluated_; }

  /// Why the last thing that could not be made could not.
  const std::string& why() const { return why_; }

 private:
  struct OnKind;
  /// What pieces depend on, micro-batches that are summed, whether all is one piece, on which devices it is, what of backwards is told,
  /// and whether there are no other stages.
  using KeyOfPieces = std::tuple<Constraints, int, bool, bool, Backward, bool>;

  const Network* network(int micro_batches, int summed, const Row& row);
  const Pieces* figures(const Constraints& s, int summed, Backward backward = Backward::alone);
  /// Without data parallelism; of samples that do not divide the batch between those that do.
  const Pieces* alone(Constraints s, std::int64_t samples_of_device, RecomputeMode recompute,
                      Backward backward = Backward::alone);
  const Pieces* alone(const Constraints& s, std::int64_t samples_of_device) {
    return alone(s, samples_of_device, mode_of(s));
  }
  const Pieces* alone(const Constraints& s) { return alone(s, samples_of_device(s)); }
  const Pieces* between_divisors(const Constraints& s, std::int64_t samples_of_device,
                                 RecomputeMode recompute);
  /// As many or fewer samples that divide the batch.
  std::int64_t divisor_below(std::int64_t samples) const {
    while (samples_ % samples) --samples;
    return samples;
  }
  /// The devices of a stage.
  Cluster devices_of(const Constraints& s) const;
  bool shares_links(const Constraints& s) const;
  std::optional<Pieces> as_it_is(const Constraints& s);
  void let_layers_share(Pieces& pieces, const Constraints& s, std::int64_t of_samples);
  const Pieces& shared_by_layers(Constraints s, std::int64_t samples);
  /// Figures of the same pieces.
  struct BesideReplicas {
    const Pieces *together = nullptr, *alone = nullptr;
    explicit operator bool() const { return together && alone; }
    double more(std::size_t k, double Figures::*part) const {
      return (*together)[k].*part - (*alone)[k].*part;
    }
  };
  BesideReplicas beside_replicas(Constraints s, std::int64_t samples);
  void take_detours(Pieces& pieces, const Constraints& s);
  Pieces among_others(Pieces pieces, const Constraints& s, std::int64_t of_samples);

  const StepOf& step_;
  const PlanRequest& request_;
  int interleave_;  // parts of a micro-batch, of which each has the network's samples
  const Framework& framework_;
  std::map<int, std::optional<Graph>> graphs_;  // by micro-batches
  Stock own_;                                   // where the request brings none
  Stock& stock_;
  Shelf* shelf_ = nullptr;
  EvaluatedPlans evaluated_;
  bool has_layers_ = false;            // pieces that are alike
  bool names_layers_ = false;          // modules that repeat
  std::optional<bool> replicas_wait_;  // not known yet
  std::map<KeyOfPieces, std::unique_ptr<Pieces>> figures_;
  std::map<std::tuple<Constraints, std::int64_t, int, bool, bool>, Pieces> shared_;
  std::map<std::tuple<Constraints, std::int64_t, int, bool, bool>, Pieces> between_;
  std::map<Pipelining, std::vector<OfLives>> slots_;
  std::int64_t samples_ = 0;
  std::string why_;
  std::map<StageKind, std::unique_ptr<OnKind>> kinds_;  // of a cluster that has several
};

struct Tables::OnKind {
  PlanRequest request;
  Tables tables;
  OnKind(const StepOf& step, PlanRequest asked, const Row& row)
      : request(std::move(asked)), tables(step, request, &row) {}
};

}  // namespace shardwright::automatic
