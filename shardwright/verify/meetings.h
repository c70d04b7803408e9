// Who meets whom: the ranks of a pipeline in classes, and the groups in which they communicate.
//
// Ranks of a stage run the same list; what differs is where they stand: whom their groups hold and which pieces they
// take. Such ranks are one class, whose list is written down once, for its first rank. What a rank of a class knows as one
// group (its transfers among the same ranks on one channel) is a slot of the class: every rank of the class has it, each
// with ranks of its own. So a proof looks at slots that meet, which are few however many ranks there are; only who
// stands in which group, and what lies where, is asked of every rank.
//
// A rank whose list is like nobody's is a class by itself: classes of one rank each are the plain proof.
#pragma once

#include <map>
#include <vector>

#include "shardwright/verify/rank_groups.h"
#include "shardwright/verify/violation.h"

namespace shardwright {

/// The ranks of a pipeline. Cost: O(ranks * different steps), and the lists of the first ranks.
std::vector<RankClass> classes_of(const Pipeline& pipeline);
/// Every rank by itself.
std::vector<RankClass> each_alone(std::vector<RankStep> steps);

/// What the ranks of a class know as one group.
struct Slot {
  int rank_class = 0;
  int group = 0;  // of the class's first rank
  int channel = 0;
  std::vector<int> prepared = {};         // transfers of the class's list
  std::vector<Instruction> started = {};  // `what` is the place among `prepared`
};

/// Ranks that communicate on a channel.
struct Gathering {
  int group = 0;           // of RankGroups
  std::vector<int> slots;  // by member; -1: it knows nothing of this group
};

/// What all that is proven of transfers starts from.
struct Meetings {
  Meetings(const std::vector<RankClass>& classes, const Pipeline& pipeline);

  const std::vector<RankClass>& classes;
  const Pipeline& pipeline;
  RankGroups groups;
  std::vector<Slot> slots;
  std::vector<std::vector<int>> slot_of;  // by class and transfer
  std::vector<Gathering> gatherings;
  /// Gatherings of the same slots, by those: there the same happens.
  std::map<std::vector<int>, std::vector<int>> kinds;
  Violations unsound;  // transfers that make no sense alone; then the rest is empty

  const RankStep& step_of(const Slot& slot) const {
    return classes[static_cast<std::size_t>(slot.rank_class)].step;
  }

 private:
  using Places = std::map<std::pair<int, int>, int>;  // gatherings by group and channel

  void collect(int rank_class);
  void enter(int slot, Places& places);
  bool is_sound(const RankStep& step, const PreparedTransfer& transfer);
};

}  // namespace shardwright
