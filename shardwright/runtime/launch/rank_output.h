// What ranks print, told apart: mpirun, asked to, writes in front of each piece whose it is (`[1,3]<stdout>:`), in the
// middle of lines, too. Here it becomes whole lines of one rank each.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>

namespace shardwright {

class RankOutput {
 public:
  /// Takes a line with its newline, of a rank; without one: of mpirun itself.
  using Take = std::function<void(std::optional<int> rank, std::string_view line)>;
  explicit RankOutput(Take take) : take_(std::move(take)) {}

  void add(std::string_view text);
  /// What has not ended in a newline.
  void finish();

 private:
  void give(std::string_view text);

  Take take_;
  std::string pending_;                              // the beginning of what may be a mark
  std::optional<int> speaker_;                       // whose text comes
  std::map<std::optional<int>, std::string> lines_;  // that have begun
};

}  // namespace shardwright
