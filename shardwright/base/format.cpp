#include "shardwright/base/format.h"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>
#include <cstring>
#include <optional>
#include <set>
#include <vector>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

/// A run of a dim's indices, `step` apart, that lie `stride` elements apart.
struct Run {
  std::int64_t step = 1;
  std::int64_t stride = 1;
};

/// The runs of each dim, the finest first.
std::vector<std::vector<Run>> runs_of(const Format& format, const Shape& shape) {
  std::vector<std::vector<Run>> runs(shape.size());
  std::int64_t stride = 1;
  if (format.is_row_major()) {
    for (std::size_t d = shape.size(); d-- > 0; stride *= shape[d]) runs[d] = {{1, stride}};
    return runs;
  }
  std::vector<std::int64_t> steps(shape.size(), 1);
  for (std::size_t i = format.count; i-- > 0;) {
    const auto [dim, block] = format.parts[i];
    const auto d = static_cast<std::size_t>(dim);
    runs[d].push_back({steps[d], stride});
    const std::int64_t extent = block > 0 ? block : shape[d] / steps[d];
    steps[d] *= extent;
    stride *= extent;
  }
  return runs;
}

/// How far index `index` of a dim with these runs lies from index 0, `index` being a step or its multiple below the
/// next.
std::int64_t distance(const std::vector<Run>& runs, std::int64_t index) {
  auto run = std::find_if(runs.rbegin(), runs.rend(), [&](const Run& r) { return r.step <= index; });
  return index / run->step * run->stride;
}

struct Loop {
  std::int64_t extent, from, to;
};

/// Loops that pass every element once, as far as possible in the order of the target; none where blocks of a dim do not
/// divide each other, such as 32 and 48.
std::optional<std::vector<Loop>> loops_of(const Format& from, const Format& to, const Shape& shape) {
  const auto source = runs_of(from, shape), target = runs_of(to, shape);
  std::vector<Loop> loops;
  for (std::size_t d = 0; d < shape.size(); ++d) {
    std::set<std::int64_t> steps;
    for (const auto* runs : {&source[d], &target[d]})
      for (const Run& r : *runs) steps.insert(r.step);
    for (auto s = steps.begin(); s != steps.end(); ++s) {
      const std::int64_t end = std::next(s) == steps.end() ? shape[d] : *std::next(s);
      if (end % *s != 0) return std::nullopt;
      if (end / *s > 1) loops.push_back({end / *s, distance(source[d], *s), distance(target[d], *s)});
    }
  }
  std::sort(loops.begin(), loops.end(), [](const Loop& a, const Loop& b) { return a.to > b.to; });
  return loops;
}

template <class T>
void copy(std::span<const Loop> loops, const T* from, T* to) {
  const Loop& loop = loops.front();
  for (std::int64_t i = 0; i < loop.extent; ++i)
    if (loops.size() == 1)
      to[i * loop.to] = from[i * loop.from];
    else
      copy(loops.subspan(1), from + i * loop.from, to + i * loop.to);
}

template <class T>
void copy(std::span<const Loop> loops, const std::byte* from, std::byte* to) {
  copy(loops, reinterpret_cast<const T*>(from), reinterpret_cast<T*>(to));
}

Error bad_format(std::string_view text) {
  return error("format {}: write for example aBcd16b, each dim once and then its blocks", text);
}

}  // namespace

std::int64_t Format::block_of(std::size_t d) const {
  std::int64_t block = 1;
  for (const Part& part : all())
    if (static_cast<std::size_t>(part.dim) == d && part.block > 0) block *= part.block;
  return block;
}

bool fits(const Format& format, const Shape& shape) {
  if (format.is_row_major()) return true;
  const auto dims = std::count_if(format.all().begin(), format.all().end(),
                                  [](const Format::Part& p) { return p.block == 0; });
  if (static_cast<std::size_t>(dims) != shape.size()) return false;
  for (std::size_t d = 0; d < shape.size(); ++d)
    if (shape[d] % format.block_of(d) != 0) return false;
  return true;
}

std::string to_text(const Format& format) {
  std::string out;
  for (const auto [dim, block] : format.all()) {
    const bool is_capital = block == 0 && format.block_of(static_cast<std::size_t>(dim)) > 1;
    if (block > 0) out += fmt::format("{}", block);
    out += static_cast<char>((is_capital ? 'A' : 'a') + dim);
  }
  return out;
}

Format parse_format(std::string_view text) {
  Format format;
  int dims = 0;
  bool is_ordered = true;
  for (std::size_t i = 0; i < text.size(); ++i) {
    int block = 0;
    for (; i < text.size() && std::isdigit(static_cast<unsigned char>(text[i])); ++i)
      block = std::min(10 * block + text[i] - '0', 1000);
    if (i == text.size() || format.count == format.parts.size() || block > 255) throw bad_format(text);
    const int dim = std::tolower(static_cast<unsigned char>(text[i])) - 'a';
    if (dim < 0 || dim >= static_cast<int>(format.parts.size())) throw bad_format(text);
    is_ordered = is_ordered && block == 0 && dim == dims;
    dims += block == 0;
    format.parts[format.count++] = {static_cast<std::int8_t>(dim), static_cast<std::uint8_t>(block)};
  }
  for (const Format::Part& part : format.all())
    if (part.dim >= dims) throw bad_format(text);
  for (int d = 0; d < dims; ++d)
    if (std::count(format.all().begin(), format.all().end(), Format::Part{static_cast<std::int8_t>(d), 0}) !=
        1)
      throw bad_format(text);
  if (to_text(format) != text) throw bad_format(text);
  return is_ordered ? Format{} : format;
}

void reformat(const std::byte* from, const Format& from_format, std::byte* to, const Format& to_format,
              const Shape& shape, std::size_t element_bytes) {
  require(fits(from_format, shape) && fits(to_format, shape), "{} cannot lie as {} and {}", to_text(shape),
          to_text(from_format), to_text(to_format));
  const std::int64_t count = element_count(shape);
  if (from_format == to_format) std::memcpy(to, from, static_cast<std::size_t>(count) * element_bytes);
  if (from_format == to_format || count == 0) return;
  std::optional<std::vector<Loop>> loops = loops_of(from_format, to_format, shape);
  if (!loops) {
    std::vector<std::byte> row_major(static_cast<std::size_t>(count) * element_bytes);
    reformat(from, from_format, row_major.data(), {}, shape, element_bytes);
    return reformat(row_major.data(), {}, to, to_format, shape, element_bytes);
  }
  if (loops->empty()) loops->push_back({1, 1, 1});
  switch (element_bytes) {
    case 1: return copy<std::uint8_t>(*loops, from, to);
    case 2: return copy<std::uint16_t>(*loops, from, to);
    case 4: return copy<std::uint32_t>(*loops, from, to);
    default: return copy<std::uint64_t>(*loops, from, to);
  }
}

}  // namespace shardwright
