// Texts that are drawn by chance, of which a model can learn what follows what: each token is followed by one of four
// others, by one of them more often than not.
#pragma once

#include <cstdint>
#include <string>

namespace shardwright {

struct DrawnTokensOptions {
  std::int64_t vocabulary = 256;
  std::int64_t train = 200'000;  // tokens
  std::int64_t test = 20'000;
  std::uint64_t seed = 1;
};

/// Writes DIR/train.bin and DIR/val.bin, tokens of 2 bytes. Throws: Error if they are there already.
void write_drawn_tokens(const std::string& directory, const DrawnTokensOptions& options = {});

}  // namespace shardwright
