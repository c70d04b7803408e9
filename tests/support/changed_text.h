// Texts of a format changed at random: what a slip of the hand, a script gone wrong or an enemy makes of a file.
#pragma once

#include <cstdint>
#include <random>
#include <string>

namespace shardwright::testing {

using Random = std::mt19937_64;

/// Of SHARDWRIGHT_SEED where that is set (scripts/test.sh --full), else of `seed`.
Random random_of(std::uint64_t seed);

/// A number from 0 to n - 1; 0 for n = 0.
std::size_t below(Random& random, std::size_t n);

/// `text` with a change or a few: bytes, words that meet other words, numbers at their extremes, lines taken out,
/// doubled and swapped, deep nesting.
std::string changed_text(Random& random, std::string text);

/// JSON with one field set to any value, taken out, doubled under another name, moved or nested. What is no JSON is
/// changed as a text.
std::string changed_json(Random& random, const std::string& text);

}  // namespace shardwright::testing
