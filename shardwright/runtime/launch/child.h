// A process that this one has started, with what it prints.
#pragma once

#include <sys/types.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright {

/// Of a group of its own: Ctrl-C is for its parent, and who ends it ends all that it has started in that group.
class Child {
 public:
  /// What it reads: nothing, or what it is told.
  enum class Reads { nothing, what_is_told };

  /// The first of `words` is looked for in PATH. It does not have these variables of the environment, and
  /// gets SIGTERM when this process is gone.
  /// Throws: Error of kind io if no process can be started.
  explicit Child(const std::vector<std::string>& words, const std::vector<std::string>& without = {},
                 Reads reads = Reads::nothing);
  /// Ends it, if it has not ended.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  pid_t id() const { return id_; }
  /// Pipes; -1: at their end.
  int output() const { return output_; }
  int errors() const { return errors_; }
  /// What has come through such a pipe, when there is something to read; an empty text: its end.
  std::string read_output() { return read(output_); }
  std::string read_errors() { return read(errors_); }

  /// As far as it is read; waits for nobody.
  void tell(std::string_view text) const;
  /// What it reads is at its end.
  void end_input();

  void signal(int number) const;
  /// To all of its group.
  void signal_all(int number) const;
  /// As `$?` tells it, if it has ended.
  std::optional<int> status();
  int wait();
  /// What has ended it, if a signal has.
  int ended_by() const { return ended_by_; }

 private:
  static std::string read(int& pipe);
  void take(int state);

  pid_t id_ = -1;
  int input_ = -1, output_ = -1, errors_ = -1;
  std::optional<int> status_;
  int ended_by_ = 0;
};

/// How a program ends that is not there.
constexpr int not_found_status = 127;
/// Whether there is one, by its path or in PATH.
bool can_be_started(const std::string& program);

}  // namespace shardwright
