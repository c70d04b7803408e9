// On a terminal, one line that says how far a command is: after two seconds, on standard error, redrawn a few times a
// second in place, and away before anything else is printed. In a pipe, in the background and on a dumb terminal there is
// none.
//
// A thread draws it, so that it goes on counting seconds while the work has nothing to tell.
#pragma once

#include <condition_variable>
#include <mutex>
#include <stop_token>
#include <streambuf>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "shardwright/base/progress.h"

namespace shardwright {

/// `train gpt, 12 s, about 40 s left: step 12 of 52, loss 2.3`, cut to so many columns.
std::string progress_text(const std::vector<WorkPart>& parts, WorkPart::Clock::time_point now,
                          std::size_t columns);

class ProgressLine {
 public:
  /// Draws nothing unless `is_shown`.
  explicit ProgressLine(bool is_shown);
  ~ProgressLine();
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  /// Null where nothing is drawn.
  Progress* progress() { return is_shown_ ? &progress_ : nullptr; }

  /// To be held while `text` is written to the terminal. Between lines of text the line is drawn again.
  std::unique_lock<std::mutex> make_way(std::string_view text);

 private:
  void draw_until(const std::stop_token& stop);
  void draw();

  Progress progress_;
  bool is_shown_;
  std::mutex mutex_;  // of the terminal, and of what follows
  std::condition_variable_any stopped_;
  bool is_between_lines_ = true;
  std::jthread thread_;
};

/// Whether standard error is a terminal that can redraw a line, and nobody else's.
bool can_redraw_lines();

/// Takes the line away, for now or for good. For handlers of signals: they only make system calls.
void erase_progress_line();
void end_progress_line();

/// Standard error under its line.
class StandardError : public std::streambuf {
 public:
  explicit StandardError(ProgressLine& line) : line_(line) {}

 protected:
  int_type overflow(int_type c) override;
  std::streamsize xsputn(const char* text, std::streamsize size) override;

 private:
  ProgressLine& line_;
};

}  // namespace shardwright
