// Why an operator has its strategy, as data: what its choice moves to and from each neighbour, and what else decided.
//
// Text, in plan files: `from relu1: all_gather(dim 1, tp); from data x: no communication; to dense3.add: ...; a note`.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

struct Reason {
  /// An operator beside it, or a leaf that it reads.
  struct Neighbour {
    enum Kind { from, data, to } kind = from;
    std::string name;
    std::string moves;  // the steps between the two; empty: none that communicates
    bool operator==(const Neighbour&) const = default;
  };

  std::vector<Neighbour> neighbours = {};
  std::vector<std::string> notes = {};

  Reason() = default;
  Reason(std::string note)  // NOLINT(google-explicit-constructor): a sentence is a reason
      : notes{std::move(note)} {}
  Reason(const char* note) : Reason(std::string(note)) {}  // NOLINT(google-explicit-constructor): the same

  bool is_empty() const { return neighbours.empty() && notes.empty(); }
  bool operator==(const Reason&) const = default;
};

std::string to_text(const Reason& reason);
/// Any text is one: what names no neighbour is a note.
Reason parse_reason(std::string_view text);

}  // namespace shardwright
