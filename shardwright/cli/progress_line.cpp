#include "shardwright/cli/progress_line.h"

#include <fmt/format.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdlib>
#include <optional>

namespace shardwright {
namespace {

using namespace std::chrono_literals;

constexpr auto line_patience = 2s;
constexpr auto redraw_pause = 200ms;
constexpr std::string_view line_erasing = "\r\x1b[K";

// Handlers of signals read and write these.
std::atomic<bool> line_is_there{false};
std::atomic<bool> line_is_over{false};

/// What a terminal that has gone does not take is lost.
void write_to_terminal(std::string_view text) {
  while (!text.empty()) {
    const ssize_t n = ::write(STDERR_FILENO, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return;
    text.remove_prefix(static_cast<std::size_t>(n));
  }
}

std::size_t columns_of_terminal() {
  winsize size{};
  constexpr std::size_t usual = 80;
  return ::ioctl(STDERR_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_col > 0 ? size.ws_col : usual;
}

double seconds_in(WorkPart::Clock::duration d) { return std::chrono::duration<double>(d).count(); }

/// `75 s`, `12 min`, `3 h 10 min`
std::string rough_text(double seconds) {
  if (seconds < 100) return fmt::format("{:.0f} s", seconds);
  const auto minutes = static_cast<long long>(seconds / 60 + 0.5);
  return minutes < 100 ? fmt::format("{} min", minutes)
                       : fmt::format("{} h {} min", minutes / 60, minutes % 60);
}

std::string part_text(const WorkPart& part) {
  std::string out = part.what;
  if (part.all > 0) out += fmt::format(" {} of {}", part.done, part.all);
  return part.note.empty() ? out : fmt::format("{}, {}", out, part.note);
}

/// If the rest takes as long as what has been done.
std::optional<double> rest_of(const WorkPart& part, WorkPart::Clock::time_point now) {
  if (part.done <= part.first || part.done >= part.all) return std::nullopt;
  return seconds_in(now - part.begin) / static_cast<double>(part.done - part.first) *
         static_cast<double>(part.all - part.done);
}

/// The terminal is not somebody else's meanwhile, such as the shell's that has started this in the background.
bool is_in_front() {
  const pid_t front = ::tcgetpgrp(STDERR_FILENO);
  return front < 0 || front == ::getpgrp();
}

/// At most so many characters, of UTF-8, without what would end the line or move in it.
std::string cut_to(const std::string& text, std::size_t columns) {
  std::string out;
  std::size_t count = 0;
  for (const char c : text) {
    const bool begins = (static_cast<unsigned char>(c) & 0xc0U) != 0x80U;
    if (begins && ++count > columns) break;
    out += static_cast<unsigned char>(c) < 0x20 || c == 0x7f ? '?' : c;
  }
  return out;
}

}  // namespace

std::string progress_text(const std::vector<WorkPart>& parts, WorkPart::Clock::time_point now,
                          std::size_t columns) {
  if (parts.empty()) return "";
  std::string out =
      fmt::format("{}, {}", part_text(parts.front()), rough_text(seconds_in(now - parts.front().begin)));
  std::optional<double> rest;
  for (const WorkPart& part : parts)
    if (!rest) rest = rest_of(part, now);
  if (rest) out += fmt::format(", about {} left", rough_text(*rest));
  for (std::size_t i = 1; i < parts.size(); ++i) out += (i == 1 ? ": " : "; ") + part_text(parts[i]);
  return cut_to(out, columns);
}

bool can_redraw_lines() {
  const char* kind = std::getenv("TERM");
  return ::isatty(STDERR_FILENO) == 1 && kind && *kind && std::string_view(kind) != "dumb" && is_in_front();
}

void erase_progress_line() {
  if (line_is_there.exchange(false)) write_to_terminal(line_erasing);
}

void end_progress_line() {
  line_is_over = true;
  erase_progress_line();
}

ProgressLine::ProgressLine(bool is_shown) : is_shown_(is_shown) {
  if (is_shown_) thread_ = std::jthread([this](const std::stop_token& stop) { draw_until(stop); });
}

ProgressLine::~ProgressLine() {
  thread_.request_stop();
  if (thread_.joinable()) thread_.join();
  erase_progress_line();
}

std::unique_lock<std::mutex> ProgressLine::make_way(std::string_view text) {
  std::unique_lock lock(mutex_);
  if (!text.empty()) is_between_lines_ = text.ends_with('\n');
  erase_progress_line();
  return lock;
}

void ProgressLine::draw_until(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  while (!stopped_.wait_for(lock, stop, redraw_pause, [&] { return stop.stop_requested(); })) draw();
}

/// The last column stays free, where some terminals begin a new line.
void ProgressLine::draw() {
  const std::vector<WorkPart> parts = progress_.parts();
  const auto now = WorkPart::Clock::now();
  if (parts.empty() || now - parts.front().begin < line_patience || !is_between_lines_ || !is_in_front())
    return;
  const std::string text = progress_text(parts, now, columns_of_terminal() - 1);
  if (line_is_over) return;
  line_is_there = true;
  write_to_terminal(fmt::format("\r{}\x1b[K", text));
}

StandardError::int_type StandardError::overflow(int_type c) {
  if (traits_type::eq_int_type(c, traits_type::eof())) return traits_type::not_eof(c);
  const char text = traits_type::to_char_type(c);
  xsputn(&text, 1);
  return c;
}

std::streamsize StandardError::xsputn(const char* text, std::streamsize size) {
  const std::string_view all(text, static_cast<std::size_t>(size));
  const auto lock = line_.make_way(all);
  write_to_terminal(all);
  return size;
}

}  // namespace shardwright
