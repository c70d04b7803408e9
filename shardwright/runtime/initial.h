// Initial values of parameters and states.
//
// A value is a pure function of seed, name and *global* element index, so weights do not depend on how they
// are sharded, and no rank ever holds a whole tensor. Attributes of the leaf:
//
//   init=zeros | ones | constant | uniform | normal | truncated_normal      (zeros if absent)
//   value   of constant                      scale   half width of uniform, standard deviation of the normals
//   shift   is added to the random ones      (scale=1 and shift=0 if absent)
//   as      name of the leaf whose values it starts with, in its own type (its own name if absent)
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "shardwright/base/attributes.h"
#include "shardwright/base/tensor.h"
#include "shardwright/layout/layout.h"

namespace shardwright {

struct Leaf {
  std::string_view name;
  const Attributes& attributes;
  const Shape& global_shape;
};

/// Throws: Error if `attributes` say no way to start, or one that does not exist.
void check_start(std::string_view name, const Attributes& attributes);

/// The value that all elements start with, if it is one.
/// Throws: Error on an unknown `init`.
std::optional<double> value_of_all(const Leaf& leaf);

/// Fills `part`, which is the part `where` of the leaf.
/// Throws: Error on an unknown `init`.
void initialize(const TensorView& part, const Box& where, const Leaf& leaf, std::uint64_t seed);

}  // namespace shardwright
