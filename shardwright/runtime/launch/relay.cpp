#include "shardwright/runtime/launch/relay.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <csignal>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

constexpr std::string_view ours = "shardwright: ";

/// What Open MPI's transport says when a connection breaks: `[h0][[5,1],0][btl_tcp_frag.c:135:..] writev failed`, or what
/// MpirunMessages has made of a frame.
bool is_of_network(std::string_view line) {
  return line.starts_with(network_words) ||
         (line.starts_with('[') && line.find("][[") != line.npos && line.find("btl_tcp") != line.npos);
}

}  // namespace

Relay::Relay(const Launch& launch, Child& mpirun)
    : launch_(launch),
      mpirun_(mpirun),
      output_([this](std::optional<int> rank, std::string_view line) { print(rank, line); }),
      errors_([this](std::optional<int> rank, std::string_view line) { take_error_line(rank, line); }) {}

int Relay::run() {
  while (wait_a_little()) {
    pass_on_interrupts();
    end_what_is_lost();
    show_held();
  }
  output_.finish();
  errors_.finish();
  show_error({}, messages_.finish());
  held_since_ = {};
  show_held();
  const int status = mpirun_.wait();
  explain(status);
  if (failure_) std::rethrow_exception(failure_);
  return status;
}

/// Until both pipes are at their end; or mpirun is gone, and what it has started and left holds them open.
bool Relay::wait_a_little() {
  std::array<pollfd, 2> pipes{pollfd{mpirun_.output(), POLLIN, 0}, pollfd{mpirun_.errors(), POLLIN, 0}};
  if (pipes[0].fd < 0 && pipes[1].fd < 0) return false;
  constexpr int milliseconds = 100;
  if (poll(pipes.data(), pipes.size(), milliseconds) <= 0) return !mpirun_.status();
  if (pipes[0].revents != 0) take_output(mpirun_.read_output());
  if (pipes[1].revents != 0) take_errors(mpirun_.read_errors());
  return true;
}

/// Again and again, because mpirun loses what comes before the ranks are there. The third interrupt ends them.
void Relay::pass_on_interrupts() {
  constexpr auto pause = std::chrono::milliseconds(200);
  const auto now = Clock::now();
  const int wanted = launch_.interrupts();
  if (wanted == 0 || (wanted == passed_on_ && now - last_passed_on_ < pause)) return;
  if (passed_on_ >= 3) return;  // asked again, mpirun would leave before the ranks have ended
  constexpr std::array signals{SIGUSR1, SIGUSR2, SIGTERM};
  mpirun_.signal(signals[static_cast<std::size_t>(std::min(wanted, 3) - 1)]);
  passed_on_ = wanted;
  last_passed_on_ = now;
}

/// mpirun, told to end, waits for daemons that are gone; and for ever for a host that does not answer, of which ranks have said
/// that it is lost, or where it is stopped itself.
void Relay::end_what_is_lost() {
  constexpr auto patience = std::chrono::seconds(3), patience_with_rank = std::chrono::seconds(6);
  if (is_lost_) {
    if (Clock::now() - lost_at_ > patience) mpirun_.signal_all(SIGKILL);
    return;
  }
  if (messages_.has_lost_rank()) {
    if (!rank_lost_at_) rank_lost_at_ = Clock::now();
    if (Clock::now() - *rank_lost_at_ > patience_with_rank) mpirun_.signal_all(SIGKILL);
  }
  if (launch_.lost) {
    if (const auto why = launch_.lost()) {
      show_error({}, fmt::format("shardwright: {}\n", *why));
      if (!messages_.has_lost_host()) mpirun_.signal(SIGTERM);
      is_lost_ = true;
    }
  }
  is_lost_ = is_lost_ || messages_.has_lost_host();  // which it has told, and so it is ending
  lost_at_ = Clock::now();
}

void Relay::take_output(std::string_view text) {
  if (launch_.tells_ranks_apart) return output_.add(text);
  print({}, text);
}

void Relay::take_errors(std::string_view text) {
  if (launch_.tells_ranks_apart) return errors_.add(text);
  pending_.append(text);
  for (std::size_t end = pending_.find('\n'); end != std::string::npos; end = pending_.find('\n')) {
    const std::string line = pending_.substr(0, end + 1);
    pending_.erase(0, end + 1);
    take_error_line({}, line);
  }
  if (text.empty() && !pending_.empty()) take_error_line({}, std::exchange(pending_, "") + "\n");
}

void Relay::print(std::optional<int> rank, std::string_view text) {
  if (!text.empty()) hand(launch_.output, rank, text);
}

void Relay::hand(const Launch::Take& take, std::optional<int> rank, std::string_view text) {
  if (failure_) return;
  try {
    take(rank, text);
  } catch (...) {
    failure_ = std::current_exception();
    mpirun_.signal(SIGTERM);
  }
}

void Relay::take_error_line(std::optional<int> rank, std::string_view line) {
  if (rank) return show_error(rank, std::string(line));
  line.remove_suffix(line.ends_with('\n') ? 1 : 0);
  show_error({}, messages_.take(line));
}

/// What mpirun says of ranks that were told to end, or were lost, is left out.
void Relay::show_error(std::optional<int> rank, const std::string& text) {
  const bool is_ours = text.starts_with(ours);
  if (is_ours && reason_.empty()) reason_ = trim(std::string_view(text).substr(ours.size()));
  has_heard_ranks_ = has_heard_ranks_ || rank;
  if (failure_ || (passed_on_ > 0 && !is_ours)) return;
  if (is_of_network(text)) {
    if (held_.empty()) held_since_ = Clock::now();
    held_ += text;
  } else if (is_ours || rank || !is_known_lost()) {
    hand(launch_.errors, rank, text);
  }
}

/// A moment later, unless it was because somebody is lost, of whom there is better to say.
void Relay::show_held() {
  constexpr auto moment = std::chrono::seconds(5);
  if (held_.empty() || Clock::now() - held_since_ < moment) return;
  const std::string text = std::exchange(held_, "");
  if (!is_known_lost()) hand(launch_.errors, {}, text);
}

/// A rank that is killed in its first moments says nothing, and mpirun takes it for one that has.
void Relay::explain(int status) {
  if (status == 0 || passed_on_ > 0 || !reason_.empty()) return;
  reason_ = mpirun_.ended_by() > 0 ? fmt::format("mpirun was ended by signal {}", mpirun_.ended_by())
            : has_heard_ranks_
                ? fmt::format("a rank ended with status {}", status)
                : fmt::format("a rank ended before it could say why; mpirun's status is {}", status);
  hand(launch_.errors, {}, fmt::format("shardwright: {}\n", reason_));
}

}  // namespace shardwright
