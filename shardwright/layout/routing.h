// Rows that go to few of many experts: which of them a device has use for, and what share of all that is.
//
// The devices that share experts gather rows from each other and add up what they make of them. Of a row none but those
// is read, and none but those adds something, that have one of its experts. So a gather brings a device these rows alone, and
// zeros for the others; a reduce_scatter adds up what comes from such devices. Shapes, buffers and who waits for whom stay.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "shardwright/base/dtype.h"
#include "shardwright/layout/layout.h"

namespace shardwright {

/// Of a step.
struct Routing {
  std::int64_t experts = 0;  // there are
  Axes axes;                 // over which they are split, major to minor
  std::int64_t choices = 0;  // of each row
  auto operator<=>(const Routing&) const = default;
};

/// Of all rows those that have at least one of the experts of one of `parts` equal parts, if each chooses at random, 0 to 1.
double share_of_rows(const Routing& routing, std::int64_t parts);

/// Of the axes of `routing` those along which devices have use for other rows: rows that stay split over the others, as `gathered`
/// says, are gathered later or have been added up before, for all of them.
Axes routed_axes(const Routing& routing, const Layout& gathered);

/// Which experts members of a group have, or pass on to: a set for each.
class ExpertSets {
 public:
  ExpertSets() = default;
  /// Of `ranks` of `mesh`.
  ExpertSets(const Routing& routing, const Layout& gathered, const Mesh& mesh, std::span<const int> ranks);
  /// Several of one set each, at least one.
  explicit ExpertSets(std::span<const ExpertSets> of);
  /// Those of some of `all`.
  ExpertSets(const ExpertSets& all, std::span<const std::size_t> members);

  std::int64_t choices() const { return choices_; }
  std::size_t members() const { return words_ == 0 ? 0 : sets_.size() / words_; }
  bool has(std::size_t member, std::int64_t expert) const {
    const auto word = static_cast<std::size_t>(expert) / bits;
    return sets_[member * words_ + word] >> (static_cast<std::size_t>(expert) % bits) & 1U;
  }
  /// One set, of all that any of `members` has.
  ExpertSets joined(std::span<const std::size_t> members) const;

 private:
  static constexpr std::size_t bits = 64;

  friend class RoutedIds;
  void add(std::size_t member, std::int64_t expert) {
    sets_[member * words_ + static_cast<std::size_t>(expert) / bits] |=
        std::uint64_t{1} << (static_cast<std::size_t>(expert) % bits);
  }

  std::int64_t experts_ = 0, choices_ = 0;
  std::size_t words_ = 0;  // of a set
  std::vector<std::uint64_t> sets_;
};

/// The ids of gathered rows: `choices` integers for each, below 0 for none. They and the sets outlive this.
class RoutedIds {
 public:
  RoutedIds(const ExpertSets& sets, DType type, const std::byte* ids) : sets_(sets), type_(type), ids_(ids) {}

  /// Whether `member` has an expert of this row.
  bool goes_to(std::size_t member, std::int64_t row) const {
    for (std::int64_t i = row * sets_.choices_; i < (row + 1) * sets_.choices_; ++i) {
      const std::int64_t e = type_ == DType::i32 ? reinterpret_cast<const std::int32_t*>(ids_)[i]
                                                 : reinterpret_cast<const std::int64_t*>(ids_)[i];
      if (e >= 0 && e < sets_.experts_ && sets_.has(member, e)) return true;  // others the kernel refuses
    }
    return false;
  }

 private:
  const ExpertSets& sets_;
  DType type_;
  const std::byte* ids_;
};

}  // namespace shardwright
