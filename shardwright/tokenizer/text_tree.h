// Texts as a tree of their bytes: what begins at a place of another text is found byte by byte.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "shardwright/tokenizer/flat_map.h"

namespace shardwright {

class TextTree {
 public:
  using Node = std::uint64_t;
  static constexpr Node none = FlatMap::none;

  /// `value` is 0 or more.
  void add(std::string_view text, std::int32_t value) {
    Node node = root();
    for (const char byte : text) {
      node = next_.put(branch(node, byte), values_.size());
      if (node == values_.size()) values_.push_back(-1);
    }
    values_[node] = value;
  }

  static Node root() { return 0; }
  /// `none` if no text goes on so.
  Node next(Node node, char byte) const { return next_.at(branch(node, byte)); }
  Node behind(std::string_view text) const {
    Node node = root();
    for (std::size_t i = 0; i < text.size() && node != none; ++i) node = next(node, text[i]);
    return node;
  }
  /// Of the text that ends there; -1: none does.
  std::int32_t value(Node node) const { return values_[node]; }

 private:
  static std::uint64_t branch(Node node, char byte) { return node << 8 | static_cast<unsigned char>(byte); }

  FlatMap next_;
  std::vector<std::int32_t> values_ = {-1};
};

}  // namespace shardwright
