// Who has written each byte of an arena last.
#pragma once

#include <cstdint>
#include <iterator>
#include <map>

namespace shardwright {

/// Who wrote a byte: a number for each write; 0 is nobody.
using Stamp = std::int64_t;

/// The last writer of every byte, as ranges.
class ByteMap {
 public:
  explicit ByteMap(std::int64_t bytes) { writers_[0] = 0, writers_[bytes] = 0; }

  void write(std::int64_t begin, std::int64_t end, Stamp stamp) {
    if (begin == end) return;
    split(end);
    const auto first = split(begin);
    writers_.erase(std::next(first), writers_.find(end));
    first->second = stamp;
  }
  /// Whether all of it was written by `stamp`.
  bool holds(std::int64_t begin, std::int64_t end, Stamp stamp) const {
    auto it = std::prev(writers_.upper_bound(begin));
    for (; it != writers_.end() && it->first < end; ++it)
      if (it->second != stamp) return false;
    return true;
  }
  /// Somebody else's write in a range that `stamp` does not hold.
  Stamp intruder(std::int64_t begin, std::int64_t end, Stamp stamp) const {
    for (auto it = std::prev(writers_.upper_bound(begin)); it != writers_.end() && it->first < end; ++it)
      if (it->second != stamp) return it->second;
    return 0;
  }

 private:
  std::map<std::int64_t, Stamp>::iterator split(std::int64_t where) {
    const auto it = std::prev(writers_.upper_bound(where));
    return it->first == where ? it : writers_.emplace_hint(std::next(it), where, it->second);
  }

  std::map<std::int64_t, Stamp> writers_;  // by where a range begins
};

}  // namespace shardwright
