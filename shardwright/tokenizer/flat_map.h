// A table from 64 bits to 64 bits that is made once and then asked very often: open addressing, half empty.
#pragma once

#include <bit>
#include <cstdint>
#include <vector>

namespace shardwright {

class FlatMap {
 public:
  static constexpr std::uint64_t none = ~std::uint64_t{0};  // neither a key nor a value

  explicit FlatMap(std::size_t expected = 0) { resize(std::bit_ceil(2 * expected + 2)); }

  /// The value behind `key`; if there is none, `value` is put there.
  std::uint64_t& put(std::uint64_t key, std::uint64_t value) {
    if (2 * (count_ + 1) > slots_.size()) grow();
    Slot& slot = slots_[place_of(key)];
    if (slot.key == none) {
      slot = {key, value};
      ++count_;
    }
    return slot.value;
  }
  /// `none` if there is none.
  std::uint64_t at(std::uint64_t key) const { return slots_[place_of(key)].value; }
  std::size_t size() const { return count_; }

 private:
  struct Slot {
    std::uint64_t key = none, value = none;
  };
  std::size_t place_of(std::uint64_t key) const {
    std::size_t at = (key * 0x9E3779B97F4A7C15ULL) >> shift_;
    while (slots_[at].key != key && slots_[at].key != none) at = (at + 1) & (slots_.size() - 1);
    return at;
  }
  void resize(std::size_t size) {
    slots_.assign(size, {});
    shift_ = 64 - std::countr_zero(size);
  }
  void grow() {
    std::vector<Slot> before = std::move(slots_);
    resize(2 * before.size());
    for (const Slot& slot : before)
      if (slot.key != none) slots_[place_of(slot.key)] = slot;
  }

  std::vector<Slot> slots_;
  std::size_t count_ = 0;
  int shift_ = 0;
};

}  // namespace shardwright
