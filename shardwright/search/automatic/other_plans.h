// Whole plans that degrees do not say: operators split as another search would, within a structure or in its stead, and
// nothing split at all.
#pragma once

#include <vector>

#include "shardwright/search/automatic/structure.h"
#include "shardwright/search/automatic/tables.h"
#include "shardwright/search/automatic/trials.h"

namespace shardwright::automatic {

class OtherPlans {
 public:
  /// All must outlive it.
  OtherPlans(const PlanRequest& request, Tables& tables, Trials& trials, Record& record)
      : request_(request), tables_(tables), trials_(trials), record_(record) {}

  /// With the settings that were asked for and with those of the best so far; of a small network also as if gradients were
  /// nearly free or dear, and with all of it on each device.
  void try_beside_best();

  /// As if gradients were nearly free: what a lower limit of memory may lead to.
  void try_sparing();

  /// Where degrees divide nothing: once for each number of stages and micro-batches of `structures`.
  void try_instead(const std::vector<Constraints>& structures, std::size_t most);

  /// Other searches are quick with so few operators.
  bool is_small() { return nodes() <= 2000; }
  /// What takes less is looked for. A program of a large network that none may undercut by more than 1 % is as good as the best.
  double seconds_to_beat() {
    constexpr double as_good = 0.99;
    return (is_small() ? 1 : as_good) * trials_.seconds();
  }
  /// And so are many programs.
  bool is_tiny() { return nodes() <= 600; }

 private:
  /// No plan fits, whatever is searched: one of what is asked has to be known, and others say no more.
  bool is_hopeless();
  std::size_t nodes() { return tables_.graph(1)->nodes.size(); }
  PlanRequest asked();
  void try_with_memory_at(double coeff);
  void try_plan(PlanRequest asked, const std::string& what);

  int left_of_advice_ = 5;  // plans that are tried where a search only advises
  const PlanRequest& request_;
  Tables& tables_;
  Trials& trials_;
  Record& record_;
};

}  // namespace shardwright::automatic
