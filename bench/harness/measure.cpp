#include "bench/harness/measure.h"

#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sched.h>

#include <ctime>
#include <fstream>
#include <string_view>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "unknown CPU";
}

/// The cores that this process may use; found before anything is pinned.
const std::vector<int>& cores() {
  static const std::vector<int> all = [] {
    cpu_set_t set;
    sched_getaffinity(0, sizeof set, &set);
    std::vector<int> out;
    for (int c = 0; c < CPU_SETSIZE; ++c)
      if (CPU_ISSET(c, &set)) out.push_back(c);
    return out;
  }();
  return all;
}

void keep_on(const std::vector<int>& some) {
  cpu_set_t set;
  CPU_ZERO(&set);
  for (int c : some) CPU_SET(c, &set);
  sched_setaffinity(0, sizeof set, &set);
}

}  // namespace

int run_bench(int argc, char** argv, const std::function<void(const BenchOptions&)>& bench,
              std::size_t most_words) try {
  cores();
  BenchOptions options{.words = {argv + 1, argv + argc}};
  options.is_smoke = std::erase(options.words, "--smoke") > 0;
  if (options.words.size() > most_words)
    throw error("'{}' is unknown; there is only --smoke", options.words[most_words]);
  bench(options);
  return 0;
} catch (const std::exception& e) {
  fmt::print(stderr, "{}: {}\n", argv[0], e.what());
  return 1;
}

double cpu_seconds_now() {
  timespec t{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return static_cast<double>(t.tv_sec) + 1e-9 * static_cast<double>(t.tv_nsec);
}

int pin(int core) {
  const int count = static_cast<int>(cores().size());
  const int chosen = cores()[static_cast<std::size_t>(count - 1 - core % count)];
  keep_on({chosen});
  return chosen;
}

void unpin() { keep_on(cores()); }

Spread spread_of(std::vector<double> values) {
  require(!values.empty(), "there is nothing to take a median of");
  std::sort(values.begin(), values.end());
  const std::size_t last = values.size() - 1;
  return {values[last / 4], values[values.size() / 2], values[last - last / 4]};
}

Comparison interleaved(int rounds, const std::function<double()>& ours,
                       const std::function<double()>& theirs) {
  std::vector<double> a, b, ratios;
  for (int round = -1; round < rounds; ++round) {
    const double x = ours(), y = theirs();
    if (round < 0) continue;  // caches and clocks are warming up
    a.push_back(x);
    b.push_back(y);
    ratios.push_back(x / y);
  }
  return {spread_of(a), spread_of(b), spread_of(ratios)};
}

std::string ratio_text(const Spread& r) {
  return fmt::format("{:.2f} ({:.2f}-{:.2f})", r.median, r.low, r.high);
}

std::string time_text(double seconds) {
  constexpr const char* units[] = {"s", "ms", "us", "ns"};
  std::size_t u = 0;
  for (; u < 3 && seconds < 1; ++u) seconds *= 1e3;
  return fmt::format("{:.{}f} {}", seconds, seconds < 10 ? 2 : seconds < 100 ? 1 : 0, units[u]);
}

void Table::begin(const std::string& title) const {
  std::string load;
  std::ifstream("/proc/loadavg") >> load;
  fmt::print("\n{}\n({:%Y-%m-%d}; {}, {} cores, load {})\n\n", title, fmt::localtime(std::time(nullptr)),
             cpu_name(), cores().size(), load);
  row(columns_);
  std::vector<std::string> rule;
  for (const std::string& c : columns_) rule.emplace_back(std::max<std::size_t>(c.size(), 3), '-');
  row(rule);
}

void Table::row(const std::vector<std::string>& cells) const {
  require(cells.size() == columns_.size(), "{} cells in {} columns", cells.size(), columns_.size());
  std::string line = "|";
  for (std::size_t i = 0; i < cells.size(); ++i)
    line += fmt::format(" {:<{}} |", cells[i], std::max<std::size_t>(columns_[i].size(), 3));
  fmt::print("{}\n", line);
  std::fflush(stdout);
}

}  // namespace shardwright
