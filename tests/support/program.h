// Programs from text, with every value at a place of its own: no pass is involved.
#pragma once

#include <algorithm>
#include <string_view>

#include "shardwright/graph/text.h"
#include "shardwright/lower/program.h"

namespace shardwright::testing {

inline Program program_of(std::string_view text) {
  Program p{.graph = parse_program_graph(text)};
  for (const Value& v : p.graph.values) {
    p.buffer_of.push_back(static_cast<int>(p.buffers.size()));
    std::int64_t bytes = v.type.bytes();
    if (v.layout)
      bytes = Type{v.type.dtype,
                   largest_local_shape(*v.layout, p.graph.meshes[static_cast<std::size_t>(v.layout->mesh)],
                                       v.global_type().shape)}
                  .bytes();
    p.buffers.push_back({.value = {p.buffer_of.back()},
                         .offset = p.arena_bytes,
                         .bytes = std::max<std::int64_t>(64, (bytes + 63) / 64 * 64),
                         .end = {static_cast<int>(p.graph.nodes.size())}});
    p.arena_bytes = p.buffers.back().end_offset();
  }
  return p;
}

/// Puts `value` where `other` lies.
inline void share_place(Program& p, std::string_view value, std::string_view other) {
  p.buffer_of[static_cast<std::size_t>(p.graph.find(value).index)] =
      p.buffer_of[static_cast<std::size_t>(p.graph.find(other).index)];
}

/// 0, 1, 2, ... as a tensor.
inline Tensor counting(Type type) {
  std::vector<double> values(static_cast<std::size_t>(element_count(type.shape)));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<double>(i % 50);
  return make_tensor(std::move(type), values);
}

}  // namespace shardwright::testing
