#include "shardwright/layout/layout.h"

#include <algorithm>

#include "shardwright/layout/uneven.h"

namespace shardwright {

bool Layout::is_replicated() const {
  return !is_partial() && std::all_of(dims.begin(), dims.end(), [](const Axes& a) { return a.empty(); });
}

Axes Layout::used() const {
  Axes out = sum.with(max);
  for (const Axes& a : dims) out = out.with(a);
  return out;
}

Layout replicated(std::size_t rank) { return {.dims = std::vector<Axes>(rank), .sum = {}, .max = {}}; }

Range cut(std::int64_t n, std::int64_t parts, std::int64_t index) {
  // floor(i * n / parts), without the product, which may not fit
  const auto at = [&](std::int64_t i) { return n / parts * i + n % parts * i / parts; };
  return {at(index), at(index + 1)};
}

namespace {

/// Of so many shares in all those that a part has: [begin, end).
struct SharedPart {
  Range shares;
  std::int64_t all = 1;
};

/// Before each place along an axis, and in all: its shares, or equal ones.
std::vector<std::int64_t> sums_along(const Axis& axis) {
  std::vector<std::int64_t> out{0};
  out.reserve(static_cast<std::size_t>(axis.size) + 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(axis.size); ++i)
    out.push_back(out.back() + (axis.shares.empty() ? 1 : axis.shares[i]));
  return out;
}

/// What `part` is of, at a place along another axis, whose sums are these: what the axes before left is cut by it.
SharedPart at_place(const SharedPart& part, const std::vector<std::int64_t>& sums, std::size_t place) {
  const std::int64_t width = part.shares.end - part.shares.begin, begin = part.shares.begin * sums.back();
  return {{begin + width * sums[place], begin + width * sums[place + 1]}, part.all * sums.back()};
}

Range of_dim(const SharedPart& part, std::int64_t n) {
  return {cut(n, part.all, part.shares.begin).begin, cut(n, part.all, part.shares.end).begin};
}

/// The sizes of all parts by shares of a dim of `n`, by position along `axes`.
std::vector<std::int64_t> shared_sizes(const Axes& axes, const Mesh& mesh, std::int64_t n) {
  std::vector<SharedPart> parts{{{0, 1}}};
  for (int a : axes) {
    const std::vector<std::int64_t> sums = sums_along(mesh.axes[static_cast<std::size_t>(a)]);
    std::vector<SharedPart> finer;
    finer.reserve(parts.size() * (sums.size() - 1));
    for (const SharedPart& part : parts)
      for (std::size_t place = 0; place + 1 < sums.size(); ++place)
        finer.push_back(at_place(part, sums, place));
    parts = std::move(finer);
  }
  const std::int64_t grain = std::max<std::int64_t>(1, axes.grain());
  std::vector<std::int64_t> out;
  for (const SharedPart& part : parts) {
    const Range runs = of_dim(part, n / grain);
    out.push_back((runs.end - runs.begin) * grain);
  }
  return out;
}

bool is_shared_out(const Axes& axes, const Mesh& mesh) {
  return axes.is_by_shares() && mesh.has_shares(axes);
}

std::int64_t runs_in(std::int64_t n, const Axes& axes) { return n / std::max<std::int64_t>(1, axes.grain()); }

}  // namespace

Range part_of(const Axes& axes, const Mesh& mesh, std::int64_t n, int rank) {
  const std::int64_t grain = std::max<std::int64_t>(1, axes.grain());
  if (!axes.is_by_shares()) {
    const Range runs = cut(n / grain, mesh.count(axes), mesh.index_along(rank, axes));
    return {runs.begin * grain, runs.end * grain};
  }
  SharedPart part{{0, 1}};
  for (int a : axes)
    part = at_place(part, sums_along(mesh.axes[static_cast<std::size_t>(a)]),
                    static_cast<std::size_t>(mesh.coordinate(rank, a)));
  const Range runs = of_dim(part, n / grain);
  return {runs.begin * grain, runs.end * grain};
}

std::int64_t largest_part(const Axes& axes, const Mesh& mesh, std::int64_t n) {
  if (is_shared_out(axes, mesh)) return std::ranges::max(shared_sizes(axes, mesh, n));
  const std::int64_t parts = mesh.count(axes);
  return (runs_in(n, axes) + parts - 1) / parts * std::max<std::int64_t>(1, axes.grain());
}

std::int64_t smallest_part(const Axes& axes, const Mesh& mesh, std::int64_t n) {
  if (is_shared_out(axes, mesh)) return std::ranges::min(shared_sizes(axes, mesh, n));
  return runs_in(n, axes) / mesh.count(axes) * std::max<std::int64_t>(1, axes.grain());
}

std::int64_t largest_part(const Axes& axes, const Mesh& mesh, std::int64_t n, int first, int count) {
  if (!is_shared_out(axes, mesh)) return largest_part(axes, mesh, n);
  const std::vector<std::int64_t> sizes = shared_sizes(axes, mesh, n);
  std::int64_t most = 0;
  for (int rank = first; rank < first + count; ++rank)
    most = std::max(most, sizes[static_cast<std::size_t>(mesh.index_along(rank, axes))]);
  return most;
}

bool are_parts_equal(const Axes& axes, const Mesh& mesh, std::int64_t n) {
  if (!is_shared_out(axes, mesh)) return runs_in(n, axes) % mesh.count(axes) == 0;
  const auto [least, most] = std::ranges::minmax(shared_sizes(axes, mesh, n));
  return least == most;
}

Axes settled(const Axes& axes, const Mesh& mesh, std::int64_t n) {
  Axes out = axes.by_shares(is_shared_out(axes, mesh));
  if (out.is_by_shares()) return out.grain() == 1 ? out.of_grain(0) : out;
  if (out.grain() == 0) return out;
  const bool is_even = n % out.grain() == 0 && are_parts_equal(out, mesh, n);
  return is_even || out.grain() == 1 ? out.of_grain(0) : out;
}

Range Window::of(std::int64_t n, std::int64_t parts, std::int64_t index) const {
  const auto floor_of = [](std::int64_t a, std::int64_t b) { return a >= 0 ? a / b : -((-a + b - 1) / b); };
  const Range part = cut(loop, parts, index);
  const std::int64_t begin = -floor_of(-(part.begin * num + low), den);
  const std::int64_t end = floor_of((part.end - 1) * num + high, den) + 1;
  if (goes_round && n > 0) {
    const std::int64_t inside = (begin % n + n) % n;
    return {inside, inside + end - begin};
  }
  const std::int64_t clipped = std::clamp<std::int64_t>(begin, 0, n);
  return {clipped, std::clamp<std::int64_t>(end, clipped, n)};
}

Range part_of(const Layout& layout, const Mesh& mesh, const Shape& shape, int rank, std::size_t d) {
  const Axes& axes = layout.dims[d];
  return layout.has_halo() && layout.windows[d].loop > 0
             ? layout.windows[d].of(shape[d], mesh.count(axes), mesh.index_along(rank, axes))
             : part_of(axes, mesh, shape[d], rank);
}

Box box(const Layout& layout, const Mesh& mesh, const Shape& shape, int rank) {
  Box out{Shape(shape.size()), Shape(shape.size())};
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const Range r = part_of(layout, mesh, shape, rank, d);
    out.offset[d] = r.begin;
    out.extent[d] = r.end - r.begin;
  }
  return out;
}

Box intersect(const Box& a, const Box& b) {
  Box out{Shape(a.offset.size()), Shape(a.offset.size())};
  for (std::size_t d = 0; d < a.offset.size(); ++d) {
    out.offset[d] = std::max(a.offset[d], b.offset[d]);
    const std::int64_t end = std::min(a.offset[d] + a.extent[d], b.offset[d] + b.extent[d]);
    out.extent[d] = std::max<std::int64_t>(0, end - out.offset[d]);
  }
  return out;
}

bool is_even(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  if (layout.has_halo()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (is_cut_unevenly(layout, mesh, shape, d)) return false;
  return true;
}

bool is_cut_unevenly(const Layout& layout, const Mesh& mesh, const Shape& shape, std::size_t d) {
  return !are_parts_equal(layout.dims[d], mesh, shape[d]);
}

Shape local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  require(is_even(layout, mesh, shape), "{} cuts {} unevenly", to_text(layout, mesh), to_text(shape));
  Shape out = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) out[d] /= mesh.count(layout.dims[d]);
  return out;
}

Shape largest_local_shape(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  Shape out = shape;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    const int parts = mesh.count(layout.dims[d]);
    out[d] = largest_part(layout.dims[d], mesh, shape[d]);
    for (int i = 0; layout.has_halo() && layout.windows[d].loop > 0 && i < parts; ++i) {
      const Range r = layout.windows[d].of(shape[d], parts, i);
      out[d] = i == 0 ? r.end - r.begin : std::max(out[d], r.end - r.begin);
    }
  }
  return out;
}

void check(const Layout& layout, const Mesh& mesh, const Shape& shape) {
  if (layout.dims.size() != shape.size())
    throw error("layout {} has {} dims but the tensor {} has {}", to_text(layout, mesh), layout.dims.size(),
                to_text(shape), shape.size());
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (const std::int64_t grain = layout.dims[d].grain(); grain > 0 && shape[d] % grain)
      throw error("layout {}: runs of {} do not make up dim {} of {}", to_text(layout, mesh), grain, d,
                  to_text(shape));
  Axes seen;
  for (int a : layout.used()) {
    if (a >= mesh.axis_count()) throw error("a layout with axis {} of {}", a, to_text(mesh));
    if (seen.contains(a))
      throw error("axis '{}' is used twice in layout {}", mesh.axes[static_cast<std::size_t>(a)].name,
                  to_text(layout, mesh));
    seen.push_back(a);
  }
}

Layout without_halo(Layout layout) {
  layout.windows.clear();
  return layout;
}

Layout reduced(Layout layout) {
  layout.sum = layout.max = {};
  if (layout.used().empty()) layout.mesh = 0;
  return layout;
}

Axes translate(const Axes& axes, std::span<const Axes> axes_of) {
  Axes out;
  for (int a : axes) out = out.with(axes_of[static_cast<std::size_t>(a)]);
  return out.cut_as(axes);
}

Layout translate(const Layout& layout, std::span<const Axes> axes_of, int mesh) {
  Layout out{.dims = {},
             .sum = translate(layout.sum, axes_of).sorted(),
             .max = translate(layout.max, axes_of).sorted(),
             .mesh = mesh};
  for (const Axes& a : layout.dims) out.dims.push_back(translate(a, axes_of));
  out.windows = layout.windows;
  if (out.used().empty()) out.mesh = 0;
  return out;
}

std::string to_text(const Window& w) {
  return fmt::format("~({} {} {} {} {}{})", w.loop, w.num, w.den, w.low, w.high,
                     w.goes_round ? " round" : "");
}

Window parse_window(Scanner& in) {
  Window w;
  in.expect("~");
  in.expect("(");
  for (std::int64_t* n : {&w.loop, &w.num, &w.den, &w.low, &w.high})
    *n = in.integer("a number of the window");
  w.goes_round = in.accept("round");
  in.expect(")");
  if (w.loop < 1 || w.num < 1 || w.den < 1) throw error("window {}: sizes start at 1", to_text(w));
  constexpr std::int64_t most = std::int64_t{1} << 53;  // of a dim; and of where a window ends in it
  if (w.loop > most / w.num || w.den > most || std::max(w.low, w.high) > most ||
      std::min(w.low, w.high) < -most)
    throw error("window {}: it reaches further than a tensor does", to_text(w));
  return w;
}

std::string to_text(const Layout& layout, const Mesh& mesh) {
  std::string out = "[";
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (d) out += ", ";
    out += to_text(layout.dims[d], mesh);
    if (layout.has_halo() && layout.windows[d].loop > 0) out += to_text(layout.windows[d]);
  }
  out += "]";
  const auto partial = [&](std::string_view reduction, const Axes& axes) {
    if (axes.empty()) return;
    out += fmt::format(" {}(", reduction);
    for (int i = 0; i < axes.size(); ++i)
      out += fmt::format("{}{}", i ? ", " : "", mesh.axes[static_cast<std::size_t>(axes[i])].name);
    out += ")";
  };
  partial("sum", layout.sum);
  partial("max", layout.max);
  return out;
}

Layout parse_layout(Scanner& in, const Mesh& mesh) {
  Layout out;
  in.expect("[");
  if (!in.accept("]")) {
    do {
      out.dims.push_back(parse_axes(in, mesh));
      if (!in.peek("~")) continue;
      out.windows.resize(out.dims.size());
      out.windows.back() = parse_window(in);
    } while (in.accept(","));
    in.expect("]");
    if (out.has_halo()) out.windows.resize(out.dims.size());
  }
  const auto partial = [&](std::string_view reduction, Axes& axes) {
    if (!in.accept(reduction)) return;
    in.expect("(");
    do {
      const int axis = mesh.axis(in.name("an axis"));
      if (axes.contains(axis))
        throw error("axis '{}' is used twice in '{}'", mesh.axes[static_cast<std::size_t>(axis)].name,
                    reduction);
      axes.push_back(axis);
    } while (in.accept(","));
    in.expect(")");
    axes = axes.sorted();
  };
  partial("sum", out.sum);
  partial("max", out.max);
  return out;
}

}  // namespace shardwright

std::size_t std::hash<shardwright::Layout>::operator()(const shardwright::Layout& layout) const {
  std::size_t h = static_cast<std::size_t>(layout.mesh) * 0x9e3779b97f4a7c15ULL;
  const auto mix = [&](const shardwright::Axes& axes) {
    for (int a : axes) h = (h ^ static_cast<std::size_t>(a + 1)) * 0x100000001b3ULL;
    if (axes.grain() > 0) h = (h ^ static_cast<std::size_t>(axes.grain() << 8)) * 0x100000001b3ULL;
    if (axes.is_by_shares()) h = (h ^ 0x5aU) * 0x100000001b3ULL;
    h = (h ^ 0xffU) * 0x100000001b3ULL;
  };
  for (const auto& axes : layout.dims) mix(axes);
  mix(layout.sum);
  mix(layout.max);
  for (const shardwright::Window& w : layout.windows)
    for (std::int64_t n : {w.loop, w.num, w.den, w.low, w.high, std::int64_t{w.goes_round}})
      h = (h ^ static_cast<std::size_t>(n + 1)) * 0x100000001b3ULL;
  return h;
}
