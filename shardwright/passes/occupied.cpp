#include "shardwright/passes/occupied.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

namespace shardwright {

template <class Nodes, class F>
void Occupied::for_each(Nodes& nodes, Lifetime life, F visit) {
  struct Range {
    std::size_t node;
    int begin, end;
  };
  std::array<Range, 64> open;  // one sibling of each node above, and two
  std::size_t count = 0;
  open[count++] = {1, 0, static_cast<int>(nodes.size() / 2) - 1};
  while (count > 0) {
    const auto [n, begin, end] = open[--count];
    if (life.end < begin || end < life.begin) continue;
    const bool is_within = life.begin <= begin && end <= life.end;
    visit(nodes[n], is_within);
    if (is_within) continue;
    const int middle = begin + (end - begin) / 2;
    open[count++] = {2 * n, begin, middle};
    open[count++] = {2 * n + 1, middle + 1, end};
  }
}

Occupied::Occupied(int times)
    : nodes_(2 * std::bit_ceil(static_cast<std::size_t>(std::max(times, 1)))),
      stride_(std::max(times / 64, 1)),
      at_stride_(static_cast<std::size_t>(times / stride_) + 1) {}

void Occupied::add(Spans& spans, Span span) {
  // From the first that ends where `span` begins, or behind that, to the last that begins before its end.
  const auto first = std::lower_bound(spans.begin(), spans.end(), span.begin,
                                      [](const Span& s, std::int64_t begin) { return s.end < begin; });
  auto last = first;
  for (; last != spans.end() && last->begin <= span.end; ++last) {
    span.begin = std::min(span.begin, last->begin);
    span.end = std::max(span.end, last->end);
  }
  if (first == last) {
    spans.insert(first, span);
    return;
  }
  *first = span;
  spans.erase(first + 1, last);
}

std::int64_t Occupied::first_gap(const Spans& spans, std::int64_t bytes, std::int64_t from) {
  const auto ends_above = [](std::int64_t offset, const Span& s) { return offset < s.end; };
  auto next = std::upper_bound(spans.begin(), spans.end(), from, ends_above);
  for (; next != spans.end() && next->begin < from + bytes; ++next) from = next->end;
  return from;
}

std::int64_t Occupied::lowest_free(Lifetime life, std::int64_t bytes, std::int64_t from) {
  std::vector<const Spans*>& in_the_way = in_the_way_;
  in_the_way.clear();
  const int near_middle = (life.begin + (life.end - life.begin) / 2) / stride_;
  if (near_middle * stride_ >= life.begin)
    in_the_way.push_back(&at_stride_[static_cast<std::size_t>(near_middle)]);
  for_each(nodes_, life, [&](const Node& node, bool is_within) {
    const Spans& spans = is_within ? node.ever : node.throughout;
    if (!spans.empty()) in_the_way.push_back(&spans);
  });
  std::int64_t offset = from;
  for (bool is_free = false; !std::exchange(is_free, true);)
    for (const Spans* spans : in_the_way) {
      const std::int64_t gap = first_gap(*spans, bytes, offset);
      if (gap > offset) is_free = false;
      offset = gap;
    }
  return offset;
}

void Occupied::take(Lifetime life, std::int64_t offset, std::int64_t bytes) {
  for (int t = (life.begin + stride_ - 1) / stride_; t * stride_ <= life.end; ++t)
    add(at_stride_[static_cast<std::size_t>(t)], {offset, offset + bytes});
  for_each(nodes_, life, [&](Node& node, bool is_within) {
    if (is_within) add(node.throughout, {offset, offset + bytes});
    add(node.ever, {offset, offset + bytes});
  });
}

}  // namespace shardwright
