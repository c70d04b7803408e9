// Measuring by hand: pinned threads, interleaved pairs, medians, and tables that can be pasted.
//
// Machines drift by several percent and neighbours disturb them, so a ratio is only taken between two sides
// that were measured one right after the other: ours, theirs, ours, theirs, ... The figure is the median of
// the ratios of such pairs; beside it stand the quartiles.
#pragma once

#include <algorithm>
#include <chrono>
#include <functional>
#include <string>
#include <vector>

namespace shardwright {

/// What every benchmark takes: `--smoke` only shows that it runs, with tiny sizes; its times mean nothing.
struct BenchOptions {
  bool is_smoke = false;
  std::vector<std::string> words;  // that are given beside

  int rounds(int otherwise) const { return is_smoke ? 2 : otherwise; }
};
/// The body of a benchmark's main: reads the options, runs `bench`, says an error in one line. The exit status.
/// Refuses more words beside --smoke than `most_words`.
int run_bench(int argc, char** argv, const std::function<void(const BenchOptions&)>& bench,
              std::size_t most_words = 0);

inline double seconds_now() {
  return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
}

/// Seconds that the calling thread has had a core.
double cpu_seconds_now();

/// Seconds of one of `calls` calls.
template <class F>
double seconds_per_call(int calls, F call) {
  const double start = seconds_now();
  for (int i = 0; i < calls; ++i) call();
  return (seconds_now() - start) / calls;
}

/// How many calls take about `seconds`, judged by the second call.
template <class F>
int calls_within(double seconds, F call) {
  call();
  return std::clamp(static_cast<int>(seconds / std::max(seconds_per_call(1, call), 1e-9)), 1, 100000);
}

/// Keeps the calling thread, and those that it starts, on a core: the last one is core 0, the one before is 1,
/// and so on round, because the first core has most of the system's own work. Returns the core's number.
int pin(int core = 0);
/// Lets the calling thread run everywhere again: processes that it starts may use all cores.
void unpin();

struct Spread {
  double low = 0;  // first quartile
  double median = 0;
  double high = 0;  // third quartile
};
Spread spread_of(std::vector<double> values);

struct Comparison {
  Spread ours;  // seconds
  Spread theirs;
  Spread ratio;  // ours / theirs, of pairs
};
/// `ours` and `theirs` return seconds. They are called in turns, after one pair that does not count.
Comparison interleaved(int rounds, const std::function<double()>& ours,
                       const std::function<double()>& theirs);

/// `0.43 (0.41-0.46)`
std::string ratio_text(const Spread& ratio);
/// With three digits: `1.82 ms`, `730 ns`.
std::string time_text(double seconds);

/// A table in Markdown, printed row by row while the benchmark runs.
class Table {
 public:
  explicit Table(std::vector<std::string> columns) : columns_(std::move(columns)) {}
  /// The title, what the machine is, and the names of the columns.
  void begin(const std::string& title) const;
  void row(const std::vector<std::string>& cells) const;

 private:
  std::vector<std::string> columns_;
};

}  // namespace shardwright
