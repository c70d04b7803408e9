#include "shardwright/search/space/minimum.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

namespace shardwright::space {
namespace {

int least_of(std::span<const double> values) {
  return static_cast<int>(std::min_element(values.begin(), values.end()) - values.begin());
}

}  // namespace

std::size_t TableSum::new_place(std::size_t count) {
  const std::size_t place = numbers_.size();
  numbers_.resize(place + count, 0.0);
  return place;
}

double TableSum::work() const {
  double out = 0;
  for (int v = 0; v < size(); ++v) out += std::pow(choices_of(v), 3);
  return out;
}

int TableSum::add_variable(int choices) {
  variables_.push_back({choices, new_place(at(choices)), {}});
  return size() - 1;
}

int TableSum::pair_of(int u, int v) const {
  for (int p : variables_[at(u)].pairs)
    if (other(pairs_[at(p)], u) == v) return p;
  return -1;
}

int TableSum::connect(int u, int v) {
  if (const int known = pair_of(u, v); known >= 0) return known;
  pairs_.push_back({u, v, new_place(at(choices_of(u)) * at(choices_of(v)))});
  const int p = static_cast<int>(pairs_.size()) - 1;
  variables_[at(u)].pairs.push_back(p);
  variables_[at(v)].pairs.push_back(p);
  return p;
}

void TableSum::add(int u, int v, std::span<const double> table) {
  const int nu = choices_of(u), nv = choices_of(v);
  if (u == v) {
    for (int i = 0; i < nu; ++i) single(u)[at(i)] += table[at(i * nv + i)];
    return;
  }
  const Pair pair = pairs_[at(connect(u, v))];
  for (int i = 0; i < nu; ++i)
    for (int j = 0; j < nv; ++j) numbers_[entry(pair, u, i, j)] += table[at(i * nv + j)];
}

double TableSum::value(std::span<const int> choices) const {
  double sum = 0;
  for (int v = 0; v < size(); ++v) sum += single(v)[at(choices[at(v)])];
  for (const Pair& p : pairs_) sum += numbers_[entry(p, p.u, choices[at(p.u)], choices[at(p.v)])];
  return sum;
}

std::vector<double> TableSum::along(int v, std::span<const int> choices) const {
  std::vector<double> out(single(v).begin(), single(v).end());
  for (int p : variables_[at(v)].pairs)
    for (int i = 0; i < choices_of(v); ++i)
      out[at(i)] += numbers_[entry(pairs_[at(p)], v, i, choices[at(other(pairs_[at(p)], v))])];
  return out;
}

std::vector<int> TableSum::ranked(int v, std::span<const int> choices) const {
  const std::vector<double> values = along(v, choices);
  std::vector<int> out(values.size());
  std::iota(out.begin(), out.end(), 0);
  std::ranges::stable_sort(out, {}, [&](int c) { return values[at(c)]; });
  return out;
}

/// The tables while variables leave them.
class Elimination {
 public:
  Elimination(const TableSum& sum, const Deadline& deadline)
      : sum_(sum), deadline_(deadline), left_(sum), is_gone_(at(sum.size()), false) {
    for (int v = 0; v < sum.size(); ++v) waiting_.push_back(v);
    decisions_.reserve(at(sum.size()));
  }

  TableSum::Minimum run() {
    bool is_proven = true;
    for (int count = sum_.size(); count > 0; --count) {
      const int v = deadline_.is_over() ? -1 : next();
      if (v >= 0) {
        eliminate(v);
      } else {
        fix(most_connected());
        is_proven = false;
      }
    }
    return finished(is_proven);
  }

 private:
  /// What an eliminated variable takes, given its neighbours.
  struct Decision {
    int v = 0;
    int first = -1, second = -1;  // neighbours; -1: none
    int place = 0;                // in best_, [x_first][x_second]
  };

  const std::vector<int>& pairs(int v) const { return left_.variables_[at(v)].pairs; }
  const TableSum::Pair& pair(int p) const { return left_.pairs_[at(p)]; }

  /// A variable with at most two neighbours; -1: there is none.
  int next() {
    while (!waiting_.empty()) {
      const int v = waiting_.back();
      waiting_.pop_back();
      if (!is_gone_[at(v)] && pairs(v).size() <= 2) return v;
    }
    return -1;
  }

  void disconnect(int v) {
    is_gone_[at(v)] = true;
    for (int p : pairs(v)) {
      const int neighbour = left_.other(pair(p), v);
      auto& theirs = left_.variables_[at(neighbour)].pairs;
      theirs.erase(std::find(theirs.begin(), theirs.end(), p));
      if (theirs.size() <= 2) waiting_.push_back(neighbour);
    }
  }

  void eliminate(int v) {
    disconnect(v);
    Decision d{.v = v, .place = static_cast<int>(best_.size())};
    if (pairs(v).empty()) {
      best_.push_back(least_of(left_.single(v)));
    } else if (pairs(v).size() == 1) {
      const TableSum::Pair e = pair(pairs(v)[0]);
      d.first = left_.other(e, v);
      for (int i = 0; i < left_.choices_of(d.first); ++i)
        left_.single(d.first)[at(i)] += best(v, e, i, nullptr, 0);
    } else {
      const TableSum::Pair e = pair(pairs(v)[0]), f = pair(pairs(v)[1]);
      d.first = left_.other(e, v);
      d.second = left_.other(f, v);
      const TableSum::Pair joined = pair(left_.connect(d.first, d.second));
      for (int i = 0; i < left_.choices_of(d.first); ++i)
        for (int k = 0; k < left_.choices_of(d.second); ++k)
          left_.numbers_[left_.entry(joined, d.first, i, k)] += best(v, e, i, &f, k);
    }
    decisions_.push_back(d);
  }

  /// The least of the sum over v's choices when its neighbours over pairs e and f have taken i and k; notes the choice.
  double best(int v, const TableSum::Pair& e, int i, const TableSum::Pair* f, int k) {
    int choice = 0;
    double least = std::numeric_limits<double>::infinity();
    const double* const numbers = left_.numbers_.data();
    const double* const single = left_.single(v).data();
    for (int j = 0; j < left_.choices_of(v); ++j) {
      const double sum =
          single[j] + numbers[left_.entry(e, v, j, i)] + (f ? numbers[left_.entry(*f, v, j, k)] : 0);
      if (sum >= least) continue;
      least = sum;
      choice = j;
    }
    best_.push_back(choice);
    return least;
  }

  int most_connected() const {
    int out = -1;
    for (int v = 0; v < sum_.size(); ++v)
      if (!is_gone_[at(v)] && (out < 0 || pairs(v).size() > pairs(out).size())) out = v;
    return out;
  }

  /// To the choice that is best if each neighbour could answer for itself.
  void fix(int v) {
    std::vector<double> looks(left_.single(v).begin(), left_.single(v).end());
    for (int p : pairs(v)) {
      const int neighbour = left_.other(pair(p), v);
      for (int j = 0; j < left_.choices_of(v); ++j) {
        double least = std::numeric_limits<double>::infinity();
        for (int i = 0; i < left_.choices_of(neighbour); ++i)
          least =
              std::min(least, left_.numbers_[left_.entry(pair(p), v, j, i)] + left_.single(neighbour)[at(i)]);
        looks[at(j)] += least;
      }
    }
    const int choice = least_of(looks);
    for (int p : pairs(v)) {
      const int neighbour = left_.other(pair(p), v);
      for (int i = 0; i < left_.choices_of(neighbour); ++i)
        left_.single(neighbour)[at(i)] += left_.numbers_[left_.entry(pair(p), v, choice, i)];
    }
    disconnect(v);
    decisions_.push_back({.v = v, .place = static_cast<int>(best_.size())});
    best_.push_back(choice);
  }

  TableSum::Minimum finished(bool is_proven) const {
    TableSum::Minimum out{.choices = std::vector<int>(at(sum_.size()), 0), .is_proven = is_proven};
    for (auto d = decisions_.rbegin(); d != decisions_.rend(); ++d) {
      int place = d->first < 0 ? 0 : out.choices[at(d->first)];
      if (d->second >= 0) place = place * sum_.choices_of(d->second) + out.choices[at(d->second)];
      out.choices[at(d->v)] = best_[at(d->place + place)];
    }
    if (!is_proven) improve(out.choices);
    out.value = sum_.value(out.choices);
    return out;
  }

  /// Single changes, as long as one of them lowers the sum.
  void improve(std::vector<int>& choices) const {
    constexpr int most_sweeps = 20, late_sweeps = 2;
    bool has_changed = true;
    for (int sweep = 0; has_changed && sweep < (deadline_.is_over() ? late_sweeps : most_sweeps); ++sweep) {
      has_changed = false;
      for (int v = 0; v < sum_.size(); ++v) {
        const std::vector<double> values = sum_.along(v, choices);
        const int best = least_of(values);
        if (values[at(best)] >= values[at(choices[at(v)])]) continue;
        choices[at(v)] = best;
        has_changed = true;
      }
    }
  }

  const TableSum& sum_;
  const Deadline& deadline_;
  TableSum left_;  // of the variables that are left
  std::vector<bool> is_gone_;
  std::vector<int> waiting_;  // may have two neighbours or fewer
  std::vector<Decision> decisions_;
  std::vector<int> best_;  // choices of eliminated variables
};

TableSum::Minimum TableSum::minimum(const Deadline& deadline) const {
  return Elimination(*this, deadline).run();
}

}  // namespace shardwright::space
