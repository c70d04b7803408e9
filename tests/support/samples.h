// Samples: calls on which an operator is tested, one string each in its OpDef.
//
//   f32[4,6], i32[4]<10 (dims=[0])
//
// Types of the operands, then attributes. Behind a type stands where its values lie: `>0` positive, `!=0`
// away from zero, `<N` integers in [0, N). Dims are divisible by 2 and 3, so that they split on small meshes.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/attributes.h"
#include "shardwright/base/tensor.h"

namespace shardwright {

enum class Domain { any, positive, nonzero, below };

struct SampleOperand {
  Type type;
  Domain domain = Domain::any;
  std::int64_t bound = 0;  // of Domain::below
};

struct Sample {
  std::vector<SampleOperand> operands;
  Attributes attributes;
};

/// Throws: Error on bad grammar.
Sample parse_sample(std::string_view text);

/// The sample with `dtype` for every floating operand but the counts: those below a bound keep their type.
Sample with_floating(Sample sample, DType dtype);

/// Small integers make sums exact in any order; reals have no ties and no kinks.
enum class Values { integers, reals };

/// Operands drawn from their domains: a function of (values, seed).
std::vector<Tensor> draw(const Sample& sample, Values values, std::uint64_t seed);

/// Types of the operands.
std::vector<Type> types_of(const Sample& sample);
std::vector<Type> types_of(const std::vector<Tensor>& tensors);

}  // namespace shardwright
