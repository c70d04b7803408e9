// How tokens lie in a file.
//
//   *.npy          numpy's format: one dim, of uint8, uint16, uint32, int32 or int64
//   with NAME.idx  beside NAME.bin: the index that Megatron-LM writes, which says the type and where documents end
//   with a header  256 int32 in front that start with 20240520, 1 and the number of tokens; tokens of 2 bytes
//   other files    little-endian integers and nothing else, as nanoGPT writes them: of 2 bytes, or of 4 if the first
//                  thousands are tokens of the model's as such
#pragma once

#include <cstdint>
#include <span>

#include "shardwright/runtime/data/open_file.h"

namespace shardwright {

struct TokenLay {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t bytes = 2;  // of a token
  bool is_signed = false;
};

/// `bytes`: of a token, in a file that does not say it; 0: 2 or 4, by what `vocabulary` allows (0: 2).
/// Throws: Error of kind io if the file is damaged.
TokenLay lay_of_tokens(const OpenFile& file, std::int64_t bytes, std::int64_t vocabulary);

/// Tokens from `first` on. They may be anything that fits into their bytes.
void read_tokens(const OpenFile& file, const TokenLay& lay, std::int64_t first, std::span<std::int64_t> to);

/// Of Megatron-LM's index: its first bytes, and the numbers of types.
constexpr char index_magic[] = "MMIDIDX\0";  // with a second 0 behind it
constexpr std::int64_t index_head_bytes = 9 + 8 + 1 + 8 + 8;
constexpr int index_of_i32 = 4, index_of_u16 = 8;
/// `NAME.idx` of `NAME.bin`
std::string index_path(const std::string& path);

}  // namespace shardwright
