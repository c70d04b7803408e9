// Where samples lie, as users say it.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace shardwright {

struct SampleSource {
  std::string path;       // empty: nobody has said it
  std::string tokenizer;  // a folder or tokenizer.json, which makes tokens of texts; empty: there is none
  std::string end =
      {};  // of a document, a token by its text or number, or `none`; empty: as the tokenizer has it
  bool are_talks = false;  // JSON lines of messages, of which answers are learnt

  // NOLINTNEXTLINE(google-explicit-constructor): a path is one
  SampleSource(std::string where, std::string made_by = {})
      : path(std::move(where)), tokenizer(std::move(made_by)) {}
  // NOLINTNEXTLINE(google-explicit-constructor)
  SampleSource(const char* where) : path(where) {}

  /// Whether a file holds texts: by its name, or, with a tokenizer, because it is no file of tokens or tensors.
  bool is_text(std::string_view file) const;
  /// Whether what lies there is texts. Of a folder: its part for training.
  bool is_text() const;
};

}  // namespace shardwright
