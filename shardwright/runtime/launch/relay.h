// mpirun while it runs: what ranks print goes to whom it is for, what it says itself becomes lines for people, interrupts
// are passed on, and one that does not come to an end is ended.
#pragma once

#include <chrono>
#include <exception>
#include <optional>
#include <string>

#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/rank_output.h"
#include "shardwright/runtime/launcher.h"

namespace shardwright {

class Relay {
 public:
  Relay(const Launch& launch, Child& mpirun);

  /// Shows what comes until it ends; returns its status. Throws: what `output` and `errors` throw, once it has ended.
  int run();

  const MpirunMessages& messages() const { return messages_; }
  bool has_lost() const { return is_lost_; }
  /// Why the job has ended, if somebody has said it.
  const std::string& reason() const { return reason_; }

 private:
  using Clock = std::chrono::steady_clock;

  bool wait_a_little();
  void pass_on_interrupts();
  void end_what_is_lost();
  void take_output(std::string_view text);
  void take_errors(std::string_view text);
  void print(std::optional<int> rank, std::string_view text);
  void hand(const Launch::Take& take, std::optional<int> rank, std::string_view text);
  void take_error_line(std::optional<int> rank, std::string_view line);
  void show_error(std::optional<int> rank, const std::string& text);
  bool is_known_lost() const { return is_lost_ || messages_.has_lost_rank() || messages_.has_lost_host(); }
  void show_held();
  void explain(int status);

  const Launch& launch_;
  Child& mpirun_;
  MpirunMessages messages_;
  RankOutput output_, errors_;
  std::string pending_;  // of untold lines
  std::string held_;     // of the network, which is full of words where a peer is gone
  int passed_on_ = 0;
  std::string reason_;
  bool is_lost_ = false;
  bool has_heard_ranks_ = false;  // of an error, in whatever words
  Clock::time_point last_passed_on_, lost_at_, held_since_;
  std::optional<Clock::time_point> rank_lost_at_;
  std::exception_ptr failure_;
};

}  // namespace shardwright
