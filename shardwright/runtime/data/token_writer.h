// Files of tokens, document by document, as token_lay.h reads them.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/base/file.h"

namespace shardwright {

struct TokenWriting {
  std::int64_t vocabulary = 0;  // tokens are below it: of 2 bytes if that is enough, else of 4
  bool has_index = false;       // NAME.idx beside NAME.bin
};

class TokenWriter {
 public:
  /// `*.bin` or `*.npy`. Throws: Error if it is called otherwise, or cannot be written.
  TokenWriter(const std::string& path, const TokenWriting& options);

  void write(std::span<const std::int32_t> document);
  /// The files are whole from here on.
  void keep();
  std::int64_t token_bytes() const { return bytes_; }

 private:
  void flush();
  void write_index();

  NewFile file_;
  std::optional<NewFile> index_;
  std::int64_t bytes_;
  bool is_numpy_;
  std::string unwritten_;
  std::int64_t count_ = 0;
  std::vector<std::int32_t> lengths_;  // of documents, for the index
};

}  // namespace shardwright
