// Tokens one behind the other, and what is known of each beside what it is.
#pragma once

#include <cstdint>
#include <vector>

namespace shardwright {

/// A label that is not asked for, as PyTorch has it.
constexpr std::int64_t not_asked = -100;

struct TokenMark {
  bool begins = false;   // a document
  bool is_asked = true;  // whether it is learnt to say it
  bool operator==(const TokenMark&) const = default;
};

struct MarkedTokens {
  std::vector<std::int32_t> ids;
  std::vector<TokenMark> marks;  // one each
};

}  // namespace shardwright
