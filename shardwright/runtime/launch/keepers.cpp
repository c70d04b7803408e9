#include "shardwright/runtime/launch/keepers.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <cstdlib>
#include <set>

#include "shardwright/base/text.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launch/wire.h"

namespace shardwright {
namespace {

using KeepersClock = std::chrono::steady_clock;

double seconds_in(std::chrono::nanoseconds time) { return std::chrono::duration<double>(time).count(); }

/// What a remote shell has said last.
std::string last_line_of(const std::string& text) {
  std::string out;
  for (std::string_view line : split(text, '\n'))
    if (!trim(line).empty()) out = trim(line);
  constexpr std::string_view ours = "shardwright: ";
  return out.starts_with(ours) ? out.substr(ours.size()) : out;
}

}  // namespace

Keepers::Keepers(std::chrono::nanoseconds patience) : patience_(patience), own_(new_keeper_name()) {
  setenv(variable_of_keeper, own_.name().c_str(), 1);  // launcher.cpp hands it on
  thread_ = std::jthread([this](const std::stop_token& stop) { live(stop); });
}

/// They are told, and given a moment to remove what they keep.
Keepers::~Keepers() {
  thread_.request_stop();
  thread_.join();
  for (Keeper& k : keepers_) k.shell->end_input();
  const auto until = KeepersClock::now() + std::chrono::seconds(2);
  for (Keeper& k : keepers_)
    while (!k.shell->status() && KeepersClock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
  unsetenv(variable_of_keeper);
}

void Keepers::live(const std::stop_token& stop) {
  auto last_sign = KeepersClock::now();
  while (!stop.stop_requested()) {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    const std::lock_guard lock(mutex_);
    for (Keeper& k : keepers_) hear(k);
    if (KeepersClock::now() - last_sign < sign_pause) continue;
    last_sign = KeepersClock::now();
    for (const Keeper& k : keepers_) k.shell->tell(".");
  }
}

void Keepers::hear(Keeper& k) {
  const auto has_come = [](int pipe) {
    pollfd one{pipe, POLLIN, 0};
    return pipe >= 0 && poll(&one, 1, 0) > 0;
  };
  while (has_come(k.shell->output())) {
    const std::string text = k.shell->read_output();
    if (text.empty()) break;
    k.heard = KeepersClock::now();
    if (k.is_there) continue;
    k.said += text;
    k.is_there = k.said.find(keeper_is_there) != k.said.npos;
  }
  while (has_come(k.shell->errors())) k.errors += k.shell->read_errors();
}

std::optional<Keepers::Missing> Keepers::missing_of(Keeper& k) const {
  const auto silence = KeepersClock::now() - k.heard;
  const std::string said = last_line_of(k.errors);
  if (const auto status = k.shell->status())
    return Missing{k.host, !said.empty() ? said
                           : k.is_there  ? "what keeps its copies has ended"
                                         : fmt::format("its shell ended with status {}", *status)};
  if (silence > patience_)
    return Missing{k.host, fmt::format("it gives no sign of life for {:.0f} s", seconds_in(silence))};
  return std::nullopt;
}

void Keepers::start(const std::string& host) {
  std::vector<std::string> words = remote_shell();
  words.push_back(host);
  words.push_back(fmt::format("exec {} {} {} {}", shell_quoted(own_path()), keeper_word,
                              shell_quoted(own_.name()), seconds_in(patience_)));
  keepers_.push_back(
      {host, std::make_unique<Child>(words, variables_of_others(), Child::Reads::what_is_told)});
}

std::optional<Keepers::Missing> Keepers::keep_on(const std::vector<std::string>& hosts) {
  std::set<std::string> wanted;
  for (const std::string& host : hosts)
    if (!shardwright::is_here(host)) wanted.insert(host);
  {
    const std::lock_guard lock(mutex_);
    std::erase_if(keepers_, [&](Keeper& k) { return !wanted.contains(k.host) || missing_of(k); });
    for (const std::string& host : wanted)
      if (std::ranges::find(keepers_, host, &Keeper::host) == keepers_.end()) start(host);
  }
  return wait_for_all();
}

std::optional<Keepers::Missing> Keepers::wait_for_all() {
  for (;;) {
    {
      const std::lock_guard lock(mutex_);
      for (Keeper& k : keepers_)
        if (auto missing = missing_of(k)) return missing;
      if (std::ranges::all_of(keepers_, &Keeper::is_there)) return std::nullopt;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
  }
}

std::optional<Keepers::Missing> Keepers::lost() {
  const std::lock_guard lock(mutex_);
  for (Keeper& k : keepers_)
    if (auto missing = missing_of(k)) return missing;
  return std::nullopt;
}

}  // namespace shardwright
