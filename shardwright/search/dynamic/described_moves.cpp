#include "shardwright/search/dynamic/described_moves.h"

#include <algorithm>
#include <numeric>
#include <optional>

#include "shardwright/base/index.h"

namespace shardwright::dynamic {
namespace {

using Spans = std::vector<RankSpan>;
using Dims = std::vector<Spans>;

Spans joined(const Spans& spans) {
  Spans out;
  for (const RankSpan& s : spans) {
    if (s.size == 1) continue;
    if (!out.empty() && out.back().stride == s.stride * s.size)
      out.back() = {s.stride, out.back().size * s.size};
    else
      out.push_back(s);
  }
  return out;
}

void sort_once(std::vector<std::int64_t>& numbers) {
  std::ranges::sort(numbers);
  const auto same = std::ranges::unique(numbers);
  numbers.erase(same.begin(), same.end());
}

/// Where one number does not divide the next, two ways of counting have no common refinement.
bool divides_on(const std::vector<std::int64_t>& numbers) {
  for (std::size_t i = 1; i < numbers.size(); ++i)
    if (numbers[i] % numbers[i - 1]) return false;
  return true;
}

Spans cut_at(const Spans& spans, const std::vector<std::int64_t>& cuts) {
  Spans out;
  for (const RankSpan& s : spans) {
    std::int64_t end = s.stride * s.size;
    for (auto c = cuts.rbegin(); c != cuts.rend(); ++c)
      if (*c<end&& * c> s.stride) {
        out.push_back({*c, end / *c});
        end = *c;
      }
    out.push_back({s.stride, end / s.stride});
  }
  return out;
}

/// A tensor's dims of more than one element, in a row of those that a span may cut as a whole, before and after.
struct Rows {
  std::vector<std::int64_t> sizes;
  std::vector<std::optional<RankSpan>> from, to;
};

/// The parts of a dim of size `n` that its spans count apart: products from the major end.
void add_products(const Spans& spans, std::vector<std::int64_t>& products) {
  std::int64_t product = 1;
  for (std::size_t i = 0; i + 1 < spans.size(); ++i) products.push_back(product *= spans[i].size);
}

/// Lays `spans` over the parts of a dim; a span that is longer than its part returns where it has to be cut.
std::optional<std::int64_t> lay(const Spans& spans, const std::vector<std::int64_t>& parts,
                                std::vector<std::optional<RankSpan>>& out) {
  std::size_t part = 0;
  for (const RankSpan& s : spans) {
    if (s.size > parts[part] && part + 1 < parts.size()) return s.stride * (s.size / parts[part]);
    out.emplace_back(s);
    ++part;
  }
  for (; part < parts.size(); ++part) out.emplace_back();
  return std::nullopt;
}

/// Nothing: the two have no common refinement. Adds to `cuts` what they lack and starts again.
std::optional<Rows> rows_of(const Spread& from, const Spread& to, const Shape& shape,
                            std::vector<std::int64_t> cuts) {
  for (;;) {
    sort_once(cuts);
    if (!divides_on(cuts)) return std::nullopt;
    Rows out;
    std::optional<std::int64_t> lacks;
    for (std::size_t d = 0; d < shape.size() && !lacks; ++d) {
      if (shape[d] == 1) continue;
      const Spans a = cut_at(from.dims[d], cuts), b = cut_at(to.dims[d], cuts);
      std::vector<std::int64_t> products{1};
      add_products(a, products);
      add_products(b, products);
      products.push_back(shape[d]);
      sort_once(products);
      if (!divides_on(products)) return std::nullopt;
      std::vector<std::int64_t> parts;
      for (std::size_t i = 1; i < products.size(); ++i) parts.push_back(products[i] / products[i - 1]);
      if (parts.empty()) parts = {1};
      out.sizes.insert(out.sizes.end(), parts.begin(), parts.end());
      lacks = lay(a, parts, out.from);
      if (!lacks) lacks = lay(b, parts, out.to);
    }
    if (!lacks) return out;
    if (std::ranges::find(cuts, *lacks) != cuts.end()) return std::nullopt;
    cuts.push_back(*lacks);
  }
}

class Moving {
 public:
  explicit Moving(Rows rows) : rows_(std::move(rows)), elements_(1) {
    for (std::size_t d = 0; d < rows_.sizes.size(); ++d)
      elements_ *=
          static_cast<double>(rows_.sizes[d]) / static_cast<double>(rows_.from[d] ? rows_.from[d]->size : 1);
  }

  MovedElements run() {
    while (rows_.from != rows_.to) {
      bool has_moved = false;
      for (bool goes_on = true; goes_on; has_moved = has_moved || goes_on) {
        goes_on = slice_free();
        while (exchange()) goes_on = true;
      }
      if (!gather_unwanted() && !has_moved) gather_first();
    }
    return out_;
  }

 private:
  /// The dim that `span` cuts as things stand; -1: none.
  int cut_by(const RankSpan& span) const {
    for (std::size_t d = 0; d < rows_.from.size(); ++d)
      if (rows_.from[d] == span) return static_cast<int>(d);
    return -1;
  }

  bool is_to_be_cut(std::size_t d) const { return !rows_.from[d] && rows_.to[d]; }

  /// All dims, before anything is sent: what follows is of smaller parts.
  bool slice_free() {
    bool has_moved = false;
    for (std::size_t d = 0; d < rows_.from.size(); ++d) {
      if (!is_to_be_cut(d) || cut_by(*rows_.to[d]) >= 0) continue;
      slice(d);
      has_moved = true;
    }
    return has_moved;
  }

  /// Dims whose span still cuts another one, which is gathered for it.
  bool exchange() {
    bool has_moved = false;
    for (std::size_t d = 0; d < rows_.from.size(); ++d) {
      const int other = is_to_be_cut(d) ? cut_by(*rows_.to[d]) : -1;
      if (other < 0) continue;
      gather(at(other));
      slice(d);
      has_moved = true;
    }
    return has_moved;
  }

  /// All dims along spans that the target does not have.
  bool gather_unwanted() {
    bool has_moved = false;
    for (std::size_t d = 0; d < rows_.from.size(); ++d) {
      if (!rows_.from[d] || std::ranges::find(rows_.to, rows_.from[d]) != rows_.to.end()) continue;
      gather(d);
      has_moved = true;
    }
    return has_moved;
  }

  void gather_first() {
    for (std::size_t d = 0; d < rows_.from.size(); ++d)
      if (rows_.from[d] && rows_.from[d] != rows_.to[d]) return gather(d);
  }

  void touch(double elements) { out_.computation += elements; }

  void slice(std::size_t d) {
    touch(elements_);
    rows_.from[d] = rows_.to[d];
    elements_ /= static_cast<double>(rows_.to[d]->size);
  }

  void gather(std::size_t d) {
    const auto devices = static_cast<double>(rows_.from[d]->size);
    out_.forward += elements_ * devices / 2;
    out_.backward += elements_ / 2;
    touch(elements_);  // as a slice would, which the described system adds, too
    touch(elements_);
    if (d > 0) touch(2 * elements_ * devices);  // gathered along the first dim, then cut and put together
    rows_.from[d].reset();
    elements_ *= devices;
  }

  Rows rows_;
  double elements_;  // of a device
  MovedElements out_;
};

/// All is gathered, dim by dim, and sliced anew.
MovedElements through_the_whole(const Spread& from, const Spread& to, const Shape& shape) {
  const auto move = [&](const Dims& a, const Dims& b) {
    Rows rows;
    for (std::size_t d = 0; d < shape.size(); ++d) {
      const auto one = [](const Spans& spans) -> std::optional<RankSpan> {
        std::int64_t size = 1;
        for (const RankSpan& s : spans) size *= s.size;
        return spans.empty() ? std::nullopt : std::optional(RankSpan{spans.back().stride, size});
      };
      rows.sizes.push_back(shape[d]);
      rows.from.push_back(one(a[d]));
      rows.to.push_back(one(b[d]));
    }
    return Moving(std::move(rows)).run();
  };
  const Dims whole(shape.size());
  MovedElements out = move(from.dims, whole);
  const MovedElements back = move(whole, to.dims);
  const auto all = static_cast<double>(element_count(shape));
  out.computation += back.computation + 2 * all;
  return out;
}

}  // namespace

Spread spread_of(const Layout& layout, const Mesh& mesh, const Axes& used) {
  Spread out;
  for (const Axes& axes : layout.dims) {
    Spans spans;
    for (int a : axes) spans.push_back({mesh.stride_of(a), mesh.size_of(a)});
    out.dims.push_back(joined(spans));
    for (const RankSpan& s : out.dims.back()) {
      out.cuts.push_back(s.stride);
      out.cuts.push_back(s.stride * s.size);
    }
  }
  Spans others;
  for (int a : used.without(layout.used())) others.push_back({mesh.stride_of(a), mesh.size_of(a)});
  for (const RankSpan& s : joined(others)) {
    out.cuts.push_back(s.stride);
    out.cuts.push_back(s.stride * s.size);
  }
  sort_once(out.cuts);
  return out;
}

MovedElements moved_elements(const Spread& from, const Spread& to, const Shape& shape) {
  if (from.dims == to.dims) return {};
  std::vector<std::int64_t> cuts = from.cuts;
  cuts.insert(cuts.end(), to.cuts.begin(), to.cuts.end());
  const std::optional<Rows> rows = rows_of(from, to, shape, std::move(cuts));
  if (!rows) return through_the_whole(from, to, shape);
  const bool is_reshaped = !std::ranges::equal(rows->sizes, shape);
  double local = is_reshaped ? static_cast<double>(element_count(shape)) : 0;
  for (const Spans& spans : from.dims)
    for (const RankSpan& s : spans) local /= static_cast<double>(s.size);
  MovedElements out = Moving(*rows).run();
  if (out.computation == 0) return out;  // the same parts, counted otherwise
  out.computation += 2 * local;
  return out;
}

}  // namespace shardwright::dynamic
