// Which bytes of an arena are taken, and when: finds a buffer the lowest place that is free over its whole life.
//
// A tree over the times. A buffer is written down as `throughout` at the few largest nodes whose times it lives through
// (at most two on a level) and as `ever` at each of them and at those above. Then all that lies in the way of a buffer is
// `ever` at those of its own nodes, and `throughout` at those above them. Both are unions of spans, and touching spans
// are one: what layers keep for the backward lies side by side, so that a union has few however many layers there are.
//
// Where leaves lie between what layers keep, it takes many unions together to see that nothing is free. So at every 64th
// part of the times there is one of all that is taken then, and a long life is first looked up in that at its middle.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace shardwright {

/// From the first to the last time, both included.
struct Lifetime {
  int begin = 0;
  int end = 0;
};

class Occupied {
 public:
  /// For lifetimes within [0, times).
  explicit Occupied(int times);

  /// The lowest offset, from `from` on, at which `bytes` are free throughout `life`.
  /// Cost: O(log times * spans in the way).
  std::int64_t lowest_free(Lifetime life, std::int64_t bytes, std::int64_t from);
  void take(Lifetime life, std::int64_t offset, std::int64_t bytes);

 private:
  struct Span {
    std::int64_t begin, end;
  };
  using Spans = std::vector<Span>;  // apart from one another, in their order
  struct Node {
    Spans throughout, ever;
  };

  static void add(Spans& spans, Span span);
  /// The lowest offset, from `from` on, with `bytes` between `spans`.
  static std::int64_t first_gap(const Spans& spans, std::int64_t bytes, std::int64_t from);
  /// Calls `visit(node, is within life)` for the nodes that `life` touches, down to those that lie within it.
  template <class Nodes, class F>
  static void for_each(Nodes& nodes, Lifetime life, F visit);

  std::vector<Node> nodes_;  // the children of n are 2n and 2n + 1
  int stride_;
  std::vector<const Spans*> in_the_way_;  // of the last that was asked for
  std::vector<Spans> at_stride_;          // at the times 0, stride_, 2 stride_, ...
};

}  // namespace shardwright
