// Whether all processes of a run still take part, and in the same: one that ends its program, or does something else,
// would be waited for by the others.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string_view>

namespace shardwright {

/// Of the processes of one host, which count what they do together. MPI is joined before it is made, by all at the same
/// time, and left after it is gone.
class Attendance {
 public:
  Attendance();
  ~Attendance();
  Attendance(const Attendance&) = delete;
  Attendance& operator=(const Attendance&) = delete;

  /// Says that this process begins something for which all must come. `key`: the same for all who do the same; `words`:
  /// what it does, for people. Throws: Error if another process does something else in its place. Who comes last sees it.
  void enter(std::uint64_t key, std::string_view words);
  /// Says that it begins nothing more, and looks whether all others have said so, too, or another rank of the run has
  /// begun something since for which it would wait for ever: that one, or none.
  struct Left {
    bool have_all = false;
    std::optional<int> goes_on = {};
  };
  Left leave();

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
