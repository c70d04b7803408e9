// Bounds of structures that none of them undercuts, closer and closer: each is looked at only as far as it may be the best.
//
//   tp=1  <=  tp=2 / 2  <=  ..  <=  tp=t / t  <=  the same with what is computed again
//
// A device's passes take no less where more devices share a piece than its part of what fewer take: what is split waits for
// the others, and small operators are no faster than large ones. So most structures of many devices are left alone with the
// bound of a few, and their pieces are never made.
#pragma once

#include <map>
#include <optional>
#include <tuple>

#include "shardwright/search/automatic/tables.h"

namespace shardwright::automatic {

class Bounds {
 public:
  /// `tables` must outlive it; `fewest`: samples of a device in a micro-batch, of all structures.
  Bounds(Tables& tables, std::int64_t fewest) : tables_(tables), fewest_(fewest) {}

  /// How many bounds there are of it; the last is the closest.
  int count(const Constraints& s);
  /// The `i`-th in seconds; nothing where such a structure cannot be split. Pre: its network has as many pieces as `s` parts.
  std::optional<double> seconds(const Constraints& s, int i);
  /// The closest that is known already, else the first that there is: where no time is left to look further.
  std::optional<double> known_seconds(const Constraints& s);
  /// What pieces of it take at least; nothing where one of them cannot be split.
  const std::optional<Pieces>& pieces(const Constraints& s) { return pieces(Step{s, true}); }

 private:
  struct Step {
    Constraints structure;
    bool waits = false;  // for other replicas
  };
  /// Whose passes take no longer, farthest first; it is the last itself.
  Step step(const Constraints& s, int before);
  using Key = std::tuple<Constraints, std::int64_t, int, const Row*, bool, bool>;
  Key key(const Step& step) const;
  const std::optional<Pieces>& pieces(const Step& step);

  Tables& tables_;
  std::int64_t fewest_;
  std::map<Key, std::optional<Pieces>> known_;
};

}  // namespace shardwright::automatic
