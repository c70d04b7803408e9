// A value that somebody gave, as text, with the name by which it was given: what reads it says in errors who said what.
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "shardwright/base/error.h"

namespace shardwright {

struct Given {
  std::string called;  // `--batch-size`, `config c.yaml: parallel.parallel_mode`
  std::string text;

  /// Throws: Error if it is not an integer in [least, most].
  std::int64_t integer(std::int64_t least = 1, std::int64_t most = 1LL << 40) const;
  /// Throws: Error if it is not a finite number.
  double number() const;
  /// Which of `words` it is. Throws: Error that lists them.
  std::size_t word(std::span<const std::string_view> words) const;

  /// `--mem-coeff 0: should be a number above 0`
  Error wrong(std::string_view why) const { return error("{} {}: {}", called, text, why); }
};

}  // namespace shardwright
