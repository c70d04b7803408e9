#include "shardwright/search/dynamic/fronts.h"

#include <algorithm>
#include <limits>
#include <map>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"

namespace shardwright::dynamic {
namespace {

using space::TableSum;

/// One way to choose what was eliminated so far: `how` leads to the choices.
struct Point {
  double seconds = 0, bytes = 0;
  int how = -1;  // into Choices; -1: nothing was chosen
};
using Front = std::vector<Point>;

/// Choices that belong together, as a tree: of one variable, or of two ways at once.
class Ways {
 public:
  int chosen(int variable, int choice) { return add({variable, choice, -1, -1}); }
  int both(int a, int b) { return a < 0 ? b : b < 0 ? a : add({-1, -1, a, b}); }

  void read(int way, std::vector<int>& choices) const {
    std::vector<int> waiting{way};
    while (!waiting.empty()) {
      const int next = waiting.back();
      waiting.pop_back();
      if (next < 0) continue;
      const Way& w = ways_[at(next)];
      if (w.variable >= 0) choices[at(w.variable)] = w.choice;
      waiting.push_back(w.a);
      waiting.push_back(w.b);
    }
  }

 private:
  struct Way {
    int variable, choice;
    int a, b;
  };
  int add(Way way) {
    ways_.push_back(way);
    return static_cast<int>(ways_.size()) - 1;
  }
  std::vector<Way> ways_;
};

class Elimination {
 public:
  Elimination(const TableSum& sum, std::span<const std::vector<double>> bytes, const ParetoOptions& options)
      : sum_(sum), options_(options) {
    require(options.most_points >= 2, "a Pareto set of {} points has no ends", options.most_points);
    for (int v = 0; v < sum.size(); ++v) {
      auto& choices = choices_.emplace_back(options.choices.empty() ? all_of(v) : options.choices[at(v)]);
      auto& singles = singles_.emplace_back();
      for (int x : choices) {
        const double held = at(v) < bytes.size() ? bytes[at(v)][at(x)] : 0;
        singles.push_back({{sum.single(v)[at(x)], held, ways_.chosen(v, x)}});
      }
    }
    neighbours_.resize(at(sum.size()));
    for (const TableSum::Pair& pair : sum.pairs()) add_pair(pair);
  }

  ParetoSet run() {
    std::vector<bool> is_gone(at(sum_.size()), false);
    Front all{{}};
    for (int count = 0; count < sum_.size(); ++count) {
      int v = least_connected(is_gone);
      if (neighbours_[at(v)].size() > 2) {
        v = most_connected(is_gone);
        fix(v);
      }
      is_gone[at(v)] = true;
      eliminate(v, all);
    }
    return told(all);
  }

 private:
  std::vector<int> all_of(int v) const {
    std::vector<int> out;
    for (int x = 0; x < sum_.choices_of(v); ++x) out.push_back(x);
    return out;
  }

  using Table = std::vector<Front>;  // over two variables, [x_first][x_second]
  struct Key {
    int first, second;  // first < second
    auto operator<=>(const Key&) const = default;
  };
  static Key key(int u, int v) { return {std::min(u, v), std::max(u, v)}; }

  void add_pair(const TableSum::Pair& pair) {
    const Key k = key(pair.u, pair.v);
    Table& table = tables_[k];
    for (int x : choices_[at(k.first)])
      for (int y : choices_[at(k.second)])
        table.push_back({{k.first == pair.u ? sum_.number(pair, x, y) : sum_.number(pair, y, x), 0}});
    neighbours_[at(pair.u)].push_back(pair.v);
    neighbours_[at(pair.v)].push_back(pair.u);
  }

  std::size_t count(int v) const { return choices_[at(v)].size(); }

  /// Where v has taken its i-th choice and u its j-th.
  Front& entry(int v, std::size_t i, int u, std::size_t j) {
    return tables_.at(key(v, u))[v < u ? i * count(u) + j : j * count(v) + i];
  }

  int least_connected(const std::vector<bool>& is_gone) const {
    int out = -1;
    for (int v = 0; v < sum_.size(); ++v)
      if (!is_gone[at(v)] && (out < 0 || is_easier(v, out))) out = v;
    return out;
  }
  /// Of as many neighbours, those with few choices.
  bool is_easier(int a, int b) const {
    const auto work = [&](int v) {
      std::size_t out = count(v);
      for (int u : neighbours_[at(v)]) out *= count(u);
      return out;
    };
    const bool few_a = neighbours_[at(a)].size() <= 2, few_b = neighbours_[at(b)].size() <= 2;
    return few_a != few_b ? few_a : work(a) < work(b);
  }
  int most_connected(const std::vector<bool>& is_gone) const {
    int out = -1;
    for (int v = 0; v < sum_.size(); ++v)
      if (!is_gone[at(v)] && (out < 0 || neighbours_[at(v)].size() > neighbours_[at(out)].size())) out = v;
    return out;
  }

  // ---- fronts ----

  /// A point of a sum of fronts before it is known whether it stays: only then its ways are joined.
  struct Sum {
    Point point;
    int a, b;  // ways
  };

  static bool is_nothing(const Front& f) {
    return f.size() == 1 && f[0].how < 0 && f[0].seconds == 0 && f[0].bytes == 0;
  }

  void add_sums(std::vector<Sum>& out, const Front& a, const Front& b) {
    const bool is_late = options_.deadline.is_over();
    const auto step = [&](const Front& f) { return is_late && f.size() > 2 ? f.size() - 1 : 1; };
    is_exact_ = is_exact_ && step(a) == 1 && step(b) == 1;
    for (std::size_t i = 0; i < a.size(); i += step(a))
      for (std::size_t j = 0; j < b.size(); j += step(b))
        out.push_back({{a[i].seconds + b[j].seconds, a[i].bytes + b[j].bytes, -1}, a[i].how, b[j].how});
  }

  /// The points that no other beats, fastest first; of more than may be, evenly many of them.
  Front pruned(const std::vector<Sum>& sums) {
    std::vector<std::size_t> order(sums.size()), kept;
    for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
    const auto place = [&](std::size_t i) { return std::pair(sums[i].point.seconds, sums[i].point.bytes); };
    std::ranges::sort(order, {}, place);
    for (std::size_t i : order)
      if (kept.empty() || sums[i].point.bytes < sums[kept.back()].point.bytes) kept.push_back(i);
    if (kept.size() > options_.most_points) {
      is_exact_ = false;
      std::vector<std::size_t> some;
      for (std::size_t i = 0; i < options_.most_points; ++i)
        some.push_back(kept[i * (kept.size() - 1) / (options_.most_points - 1)]);
      kept = std::move(some);
    }
    Front out;
    for (std::size_t i : kept)
      out.push_back({sums[i].point.seconds, sums[i].point.bytes, ways_.both(sums[i].a, sums[i].b)});
    return out;
  }

  Front sum(const Front& a, const Front& b) {
    if (is_nothing(a)) return b;
    if (is_nothing(b)) return a;
    std::vector<Sum> sums;
    add_sums(sums, a, b);
    return pruned(sums);
  }

  // ---- eliminations ----

  void disconnect(int v) {
    for (int u : neighbours_[at(v)]) std::erase(neighbours_[at(u)], v);
  }

  void eliminate(int v, Front& all) {
    const std::vector<int> neighbours = neighbours_[at(v)];
    disconnect(v);
    if (neighbours.empty()) {
      std::vector<Sum> sums;
      for (const Front& f : singles_[at(v)]) add_sums(sums, all, f);
      all = pruned(sums);
    } else if (neighbours.size() == 1) {
      fold_into(v, neighbours[0]);
    } else {
      replace_by_edge(v, neighbours[0], neighbours[1]);
    }
    for (int u : neighbours) tables_.erase(key(v, u));
    singles_[at(v)].clear();
  }

  void fold_into(int v, int u) {
    for (std::size_t j = 0; j < count(u); ++j) {
      std::vector<Sum> sums;
      for (std::size_t i = 0; i < count(v); ++i) add_sums(sums, singles_[at(v)][i], entry(v, i, u, j));
      singles_[at(u)][j] = sum(singles_[at(u)][j], pruned(sums));
    }
  }

  void replace_by_edge(int v, int u, int w) {
    std::vector<Front> with_u(count(v) * count(u));
    for (std::size_t i = 0; i < count(v); ++i)
      for (std::size_t j = 0; j < count(u); ++j)
        with_u[i * count(u) + j] = sum(singles_[at(v)][i], entry(v, i, u, j));
    const bool is_new = !tables_.contains(key(u, w));
    if (is_new) {
      tables_[key(u, w)].assign(count(u) * count(w), Front{{}});
      neighbours_[at(u)].push_back(w);
      neighbours_[at(w)].push_back(u);
    }
    for (std::size_t j = 0; j < count(u); ++j)
      for (std::size_t k = 0; k < count(w); ++k) {
        std::vector<Sum> sums;
        for (std::size_t i = 0; i < count(v); ++i)
          add_sums(sums, with_u[i * count(u) + j], entry(v, i, w, k));
        Front& edge = entry(u, j, w, k);
        edge = sum(edge, pruned(sums));
      }
  }

  /// To the choice that is fastest if each neighbour could answer for itself.
  void fix(int v) {
    is_exact_ = false;
    const auto least = [](const Front& f) { return f.front().seconds; };
    std::size_t best = 0;
    double seconds = std::numeric_limits<double>::infinity();
    for (std::size_t i = 0; i < count(v); ++i) {
      double looks = least(singles_[at(v)][i]);
      for (int u : neighbours_[at(v)]) {
        double answer = std::numeric_limits<double>::infinity();
        for (std::size_t j = 0; j < count(u); ++j)
          answer = std::min(answer, least(entry(v, i, u, j)) + least(singles_[at(u)][j]));
        looks += answer;
      }
      if (looks < seconds) best = i, seconds = looks;
    }
    for (int u : neighbours_[at(v)])
      for (std::size_t j = 0; j < count(u); ++j)
        singles_[at(u)][j] = sum(singles_[at(u)][j], entry(v, best, u, j));
    for (int u : neighbours_[at(v)]) tables_.erase(key(v, u));
    disconnect(v);
    neighbours_[at(v)].clear();
    singles_[at(v)] = {singles_[at(v)][best]};
    choices_[at(v)] = {choices_[at(v)][best]};
  }

  ParetoSet told(const Front& all) const {
    ParetoSet out{.plans = {}, .is_exact = is_exact_};
    for (const Point& p : all) {
      std::vector<int> choices(at(sum_.size()), 0);
      ways_.read(p.how, choices);
      out.plans.push_back({p.seconds, p.bytes, std::move(choices)});
    }
    return out;
  }

  const TableSum& sum_;
  const ParetoOptions& options_;
  Ways ways_;
  std::vector<std::vector<int>> choices_;    // per variable, of the sum's
  std::vector<std::vector<Front>> singles_;  // per variable and choice
  std::map<Key, Table> tables_;
  std::vector<std::vector<int>> neighbours_;
  bool is_exact_ = true;
};

}  // namespace

ParetoSet pareto_set(const TableSum& seconds, std::span<const std::vector<double>> bytes,
                     const ParetoOptions& options) {
  return Elimination(seconds, bytes, options).run();
}

}  // namespace shardwright::dynamic
