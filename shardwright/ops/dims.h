// Dims by number: the attributes `dim` and `dims`, and the loop dims i0, i1, ... that stand for them in
// rules.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shardwright/base/attributes.h"
#include "shardwright/base/error.h"
#include "shardwright/base/shape.h"
#include "shardwright/base/text.h"

namespace shardwright::ops {

/// `dim` counted from the left; a negative one counts from the right.
inline std::size_t dim_of(std::int64_t dim, const Shape& shape) {
  const auto rank = static_cast<std::int64_t>(shape.size());
  if (dim < -rank || dim >= rank)
    throw error("dim {} does not exist in {}, which has {} dims", dim, to_text(shape), rank);
  return static_cast<std::size_t>(dim < 0 ? dim + rank : dim);
}

/// The list `name` where it stands; nothing if it is missing. Inference has seen that it is a list.
inline std::span<const std::int64_t> list_in(const Attributes& attributes, std::string_view name) {
  const Attribute* found = attributes.find(name);
  const auto* list = found ? std::get_if<std::vector<std::int64_t>>(found) : nullptr;
  return list ? std::span<const std::int64_t>(*list) : std::span<const std::int64_t>();
}
inline std::span<const std::int64_t> dims_in(const Attributes& attributes) {
  return list_in(attributes, "dims");
}

/// A tensor seen around one of its dims: element e of line (o, i) stands at (o * length + e) * inner + i.
struct Lines {
  std::int64_t outer = 1, length = 1, inner = 1;

  Lines(std::span<const std::int64_t> shape, std::size_t d)
      : outer(element_count(shape.first(d))), length(shape[d]), inner(element_count(shape.subspan(d + 1))) {}
};

/// The loop dim behind dim `d`, with its mark.
inline std::string loop_name(std::size_t d, std::string_view mark = "") {
  return fmt::format("i{}{}", d, mark);
}

/// One tensor of a rule: its dims, or `.` for a scalar.
inline std::string tensor_text(const std::vector<std::string>& dims) {
  return dims.empty() ? "." : join(dims, " ");
}

/// One tensor of a rule, all of whose `rank` dims bear `mark`: `i0+ i1+`.
inline std::string tensor_text(std::size_t rank, std::string_view mark = "") {
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < rank; ++d) dims.push_back(loop_name(d, mark));
  return tensor_text(dims);
}

}  // namespace shardwright::ops
