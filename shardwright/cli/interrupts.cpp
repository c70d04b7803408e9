// Handlers of signals run between any two instructions: they look at atomics and make system calls, nothing else.
#include "shardwright/cli/interrupts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <csignal>
#include <string_view>

#include "shardwright/base/file.h"
#include "shardwright/cli/progress_line.h"
#include "shardwright/runtime/communicator/fatal_signals.h"

namespace shardwright {
namespace {

constexpr std::array signals{SIGINT, SIGTERM, SIGHUP, SIGUSR1, SIGUSR2};

std::atomic<int> interruptions{0};
std::atomic<int> patience{0};
std::atomic<std::int64_t> current_step{-1};
std::atomic<bool> at_once{false};
std::atomic<bool> is_answered{false};
std::atomic<bool> is_quiet{false}, is_rank{false};
static_assert(std::atomic<std::int64_t>::is_always_lock_free);

void say(std::string_view text) {
  [[maybe_unused]] const ssize_t may_fail = ::write(STDERR_FILENO, text.data(), text.size());
}

/// What is there of a command that ends here: files that it has written, each whole.
void say_what_is_left() {
  const KeptFiles kept = kept_files();
  say("shardwright: interrupted: ");
  if (kept.count == 0) return say("nothing was written\n");
  std::array<char, 64> more{};
  char* end = more.data();
  if (kept.count > 1) {
    constexpr std::string_view before = ", the last of ", after = " files,";
    end = std::copy(before.begin(), before.end(), end);
    end = std::to_chars(end, more.data() + 40, kept.count).ptr;
    end = std::copy(after.begin(), after.end(), end);
  }
  say(kept.last);
  say({more.data(), static_cast<std::size_t>(end - more.data())});
  say(" was written\n");
}

void say_which_step(std::int64_t step) {
  if (is_answered.exchange(true)) return;
  erase_progress_line();
  constexpr std::string_view before = "shardwright: interrupted: finishing step ";
  constexpr std::string_view after = "; once more stops at once\n";
  std::array<char, 128> text{};
  char* end = std::copy(before.begin(), before.end(), text.begin());
  end = std::to_chars(end, text.end(), step).ptr;
  end = std::copy(after.begin(), after.end(), end);
  say({text.data(), static_cast<std::size_t>(end - text.data())});
}

/// How many there have been; 0 if that is known already.
int count_with(int signal) {
  if (signal != SIGUSR1 && signal != SIGUSR2) return ++interruptions;
  const int told = signal == SIGUSR1 ? 1 : 2;
  int known = interruptions;
  while (known < told)
    if (interruptions.compare_exchange_weak(known, told)) return told;
  return 0;
}

void handle(int signal) {
  const int code = errno;
  const int number = count_with(signal);
  const bool speaks = !is_quiet && !(is_rank && signal == SIGTERM);
  if (number > patience) {
    remove_unfinished_files();
    end_progress_line();
    if (speaks && number == 1) say_what_is_left();
    if (speaks && number > 1)
      say("shardwright: interrupted: stopped at once; checkpoints that were said to be saved are whole\n");
    show_end();
    ::_exit(interrupted_status);
  }
  if (number == 1 && !speaks) is_answered = true;
  const std::int64_t step = current_step;  // once: it may end meanwhile
  if (number == 1 && step >= 0) say_which_step(step);
  if (number >= 2) at_once = true;
  errno = code;
}

}  // namespace

void catch_interrupts(CatchOptions options) {
  is_quiet = options.is_quiet;
  is_rank = options.is_rank;
  struct sigaction action {};
  action.sa_handler = handle;
  action.sa_flags = SA_RESTART;
  for (const int signal : signals) {
    struct sigaction before {};
    if (signal == SIGHUP && ::sigaction(signal, nullptr, &before) == 0 && before.sa_handler == SIG_IGN)
      continue;
    ::sigaction(signal, &action, nullptr);
  }
}

int interrupts() { return interruptions; }

Patience::Patience(int interrupts) { patience = interrupts; }

Patience::~Patience() {
  patience = 0;
  step_ends();
}

void step_begins(std::int64_t step) {
  current_step = step;
  if (interruptions > 0) say_which_step(step);
}

void step_ends() { current_step = -1; }

const std::atomic<bool>& stops_at_once() { return at_once; }

}  // namespace shardwright
