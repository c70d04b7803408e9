// Counter-based randomness: a number is a pure function of (seed, name, index), so initial weights, data
// order and dropout do not depend on the plan. SplitMix64 finaliser (Steele, Lea, Flood 2014) over an FNV-1a
// hash of the name.
#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>
#include <string_view>

namespace shardwright {

constexpr std::uint64_t splitmix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

constexpr std::uint64_t hash_of(std::string_view name) {
  std::uint64_t h = 0xcbf29ce484222325ULL;
  for (char c : name) h = (h ^ static_cast<unsigned char>(c)) * 0x100000001b3ULL;
  return h;
}

/// A stream of numbers addressed by index; copies are free and order of use does not matter.
class RandomStream {
 public:
  RandomStream(std::uint64_t seed, std::string_view name) : key_(splitmix64(seed ^ hash_of(name))) {}

  std::uint64_t bits(std::uint64_t index) const { return splitmix64(key_ + splitmix64(index)); }
  /// Uniform in [0, 1).
  double uniform(std::uint64_t index) const { return static_cast<double>(bits(index) >> 11) * 0x1.0p-53; }
  /// Uniform integer in [0, n).
  std::int64_t below(std::uint64_t index, std::int64_t n) const {
    return static_cast<std::int64_t>(bits(index) % static_cast<std::uint64_t>(n));
  }
  /// Standard normal (Box-Muller).
  double normal(std::uint64_t index) const {
    const double u = 1.0 - uniform(2 * index);
    const double v = uniform(2 * index + 1);
    return std::sqrt(-2.0 * std::log(u)) * std::cos(2.0 * std::numbers::pi * v);
  }

 private:
  std::uint64_t key_;
};

}  // namespace shardwright
