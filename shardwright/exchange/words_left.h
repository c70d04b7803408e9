// What a plan has decided otherwise than is usual, word by word. Who writes it takes the words that he writes; what is left
// at the end is what the format does not carry, so that no setting that anybody adds is dropped in silence.
#pragma once

#include <initializer_list>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/exchange/written_plan.h"

namespace shardwright {

class WordsLeft {
 public:
  /// Words of constraints; beside them `precision`, `optimizer`, `clip_norm`, `loss_scale`, `reduce_precision`, `attention`,
  /// `loss`; `recompute of NAME`, `NAME on the host`, `fusion numbers`, `frozen parameters`, `settings of parameters`; and of the grid `operators split otherwise`, `layers
  /// by stage`, `layers cut`.
  explicit WordsLeft(const WrittenPlan& plan);

  bool has(std::string_view word) const { return words_.contains(word); }
  /// They are written, if they are there.
  void take(std::initializer_list<std::string_view> words);
  /// They are left, if they are there, and this is why.
  void leave(std::initializer_list<std::string_view> words, std::string why);
  /// Who reads it back counts memory as `framework` does.
  void read_as(std::string_view framework);
  /// Something else that is left.
  void add(std::string line) { lines_.push_back(std::move(line)); }

  /// `schedule=gpipe: there are 1f1b and interleaved`
  std::vector<std::string> lines() const;

 private:
  void add_step(const WrittenPlan& plan);
  void add_network(const Origin& origin);
  void add_parameters(std::string word, const WrittenPlan& plan, bool PlacedTensor::*are_such);

  std::map<std::string, std::string, std::less<>> words_;  // and what they are
  std::map<std::string, std::string, std::less<>> whys_;
  std::string framework_;
  std::vector<std::string> lines_;
};

/// Each line behind `mark` and a space.
std::string comments(const std::vector<std::string>& lines, std::string_view mark = "#");

/// What stands at the top of a file: what it is of, and what it does not carry.
std::string head_text(const WrittenPlan& plan, std::string_view format, const std::vector<std::string>& left,
                      std::string_view mark = "#");

}  // namespace shardwright
