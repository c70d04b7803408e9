// Attributes that say something of some dims: `dims`, or all, and lists with one number for each of them.
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "shardwright/ops/dims.h"

namespace shardwright::ops {

using List = std::vector<std::int64_t>;

/// The list `name` with one entry per dim in `dims`, or `otherwise` for each.
inline List list_per_dim(const Attributes& attributes, std::string_view name, std::size_t count,
                         std::int64_t otherwise) {
  List list = attributes.integers(name);
  if (list.empty()) list.assign(count, otherwise);
  if (list.size() != count)
    throw error("{}={} has {} numbers but {} dims are meant", name, to_text(list), list.size(), count);
  return list;
}

/// The dims that the lists are about: `dims`, or all.
inline List listed_dims(const Attributes& attributes, const Shape& shape) {
  List dims = attributes.integers("dims");
  if (dims.empty())
    for (std::size_t d = 0; d < shape.size(); ++d) dims.push_back(static_cast<std::int64_t>(d));
  std::vector<bool> seen(shape.size());
  for (std::int64_t& d : dims) {
    d = static_cast<std::int64_t>(dim_of(d, shape));
    if (seen[static_cast<std::size_t>(d)]) throw error("dims={} names dim {} twice", to_text(dims), d);
    seen[static_cast<std::size_t>(d)] = true;
  }
  return dims;
}

/// Entry for dim `d` of the list `name`, where it stands.
inline std::int64_t entry(const Attributes& attributes, std::string_view name, std::size_t d,
                          std::size_t rank, std::int64_t otherwise) {
  const auto list = list_in(attributes, name), dims = dims_in(attributes);
  if (list.empty()) return otherwise;
  if (dims.empty()) return list[d];
  for (std::size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == static_cast<std::int64_t>(d) ||
        dims[i] == static_cast<std::int64_t>(d) - static_cast<std::int64_t>(rank))
      return list[i];
  return otherwise;
}

}  // namespace shardwright::ops
