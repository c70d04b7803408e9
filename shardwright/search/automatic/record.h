// All that a search of whole plans looks at: an entry for each structure, by its number, and behind them one for whatever
// else becomes a program. The log is told of the same entries, as they change.
#pragma once

#include <string>
#include <vector>

#include "shardwright/plan/tried.h"
#include "shardwright/search/automatic/candidates.h"

namespace shardwright::automatic {

class Record {
 public:
  explicit Record(bool writes_log) : writes_log_(writes_log) {}

  /// Structures are there from the beginning, before all else.
  void add(std::vector<Constraints> structures);
  /// What constraints do not say; its number.
  std::size_t add(std::string words);
  /// A structure that is none of these, behind them.
  std::size_t add(Constraints structure);
  bool has(const Constraints& structure) const;
  /// Of programs that another search has made on its way, called after `words`, the fastest that does not fit.
  void add_misfit(const std::vector<Tried>& of_other, std::string_view words);

  Tried& operator[](std::size_t number) { return entries_[number]; }
  const Tried& operator[](std::size_t number) const { return entries_[number]; }
  /// Pre: it is one of them.
  std::size_t number_of(const Constraints& structure) const;
  std::vector<Constraints> structures() const;

  /// Of which the same fits with less computed again. Seconds of which no step of it is shorter; infinity if that holds of
  /// the same.
  double needless(std::size_t number, double least_seconds);
  void forecast(std::size_t number, const Candidate& c, double least_seconds);
  void simulated(std::size_t number, double seconds, double bytes, bool fits);

  const std::vector<std::string>& log() const { return log_; }
  /// With what the search has taken: what is still open of the others follows from what that takes.
  std::vector<Tried> settled(std::size_t taken) &&;

 private:
  void tell(const Tried& t);

  bool writes_log_;
  std::vector<Tried> entries_;
  std::vector<std::string> log_;
};

/// What `of_first`, of a search that took another plan, becomes where one that was searched with less memory is taken instead,
/// whose record is `of_taken`; `cap`: bytes that there are.
std::vector<Tried> with_taken(std::vector<Tried> of_first, const std::vector<Tried>& of_taken, double cap);

}  // namespace shardwright::automatic
