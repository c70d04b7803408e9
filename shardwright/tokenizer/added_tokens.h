// Tokens that are found in a text before anything else is done with it, as `<|endoftext|>`.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/text_tree.h"

namespace shardwright {

struct AddedToken {
  std::int32_t id = 0;
  std::string content;
  bool is_special = false;   // left out of decoded text, if that is asked for
  bool is_word = false;      // found where no word character stands beside it
  bool takes_left = false;   // with the white space before it
  bool takes_right = false;  // behind it
  bool is_normalized = false;
};

/// Finds the longest token at the leftmost place, again and again.
class AddedTokens {
 public:
  /// `contents`: as they stand in the text that is looked through, one for each token.
  AddedTokens(const std::vector<AddedToken>& tokens, const std::vector<std::string>& contents);

  /// The parts of a text in order: texts without a token, not empty; and tokens.
  void split(std::string_view text,
             const std::function<void(std::string_view text, std::size_t at)>& take_text,
             const std::function<void(std::int32_t id)>& take_token) const;

 private:
  struct Match {
    std::size_t bytes = 0;
    const AddedToken* token = nullptr;  // null: none begins here
  };
  Match longest_at(std::string_view text, std::size_t at) const;

  std::vector<AddedToken> tokens_;
  TextTree tree_;          // contents to places in tokens_
  bool begins_[256] = {};  // whether one begins with that byte
};

}  // namespace shardwright
