// What a model file may ask for. A file is not trusted: everything that costs memory or time is counted against
// these before it is spent. They lie far above any network that is trained.
#pragma once

#include <cstddef>
#include <cstdint>

namespace shardwright::limits {

constexpr std::int64_t file_bytes = (std::int64_t{1} << 31) - 1;  // protobuf's own; weights may lie outside
constexpr std::int64_t held_bytes = 1
                                    << 16;  // tensors of so many in the file are read when they are asked for
constexpr std::int64_t messages = 2'000'000;  // of the file: nodes, names, attributes, ...
constexpr std::int64_t nodes = 200'000;
constexpr std::int64_t values_of_a_node = 512;  // inputs and outputs
constexpr std::size_t rank = 12;
constexpr std::int64_t elements = std::int64_t{1} << 40;  // of a tensor
constexpr std::int64_t constant_elements = std::int64_t{1}
                                           << 22;  // of a tensor that is computed while loading
constexpr std::int64_t computed_elements = std::int64_t{1} << 25;  // by all of those together
constexpr std::size_t name_bytes = 512;
constexpr std::int64_t attribute = std::int64_t{1} << 31;  // of strides, pads and the like

}  // namespace shardwright::limits
