// Transfers of all ranks as data for parallel.py: a collective by the axes that it joins; what is none, or of unequal
// parts, piece by piece.
#pragma once

#include <map>
#include <utility>
#include <vector>

#include "shardwright/lower/step.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::torch {

class Transfers {
 public:
  /// `names` of values, by stage. `steps` of all ranks, which outlive this.
  Transfers(const Pipeline& pipeline, const std::vector<RankStep>& steps,
            const std::vector<std::vector<std::string>>& names);

  /// Its number in `list`, of a crossing or of the steps from a node on; -1: nobody takes part in it.
  int of_crossing(int crossing) const { return number(-1, crossing); }
  int of_step(int stage, int node) const { return number(stage, node); }
  const Json& list() const { return list_; }

 private:
  using Key = std::pair<int, int>;  // stage and node; -1 and crossing
  struct OnRank {
    int rank = 0;
    const PreparedTransfer* transfer = nullptr;
  };

  int number(int stage, int what) const {
    const auto found = numbers_.find({stage, what});
    return found == numbers_.end() ? -1 : found->second;
  }
  Json collective(int stage, const PreparedTransfer& first, bool is_even) const;
  Json pieces(const std::vector<OnRank>& all) const;
  bool is_once(const PreparedTransfer& transfer) const;
  bool is_even(int stage, const PreparedTransfer& transfer) const;
  Json told(const PreparedTransfer& transfer, bool is_collective) const;
  Json spec_of(const std::vector<OnRank>& all) const;

  const Pipeline& pipeline_;
  const std::vector<std::vector<std::string>>& names_;
  std::map<Key, int> numbers_;
  Json list_ = Json::array();
};

}  // namespace shardwright::torch
