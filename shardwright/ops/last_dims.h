// What the operators that normalise the last dims share: the names of these dims, epsilon, and how sums over rows are
// made.
#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {

inline double epsilon_of(const Attributes& attributes) { return attributes.number("epsilon", 1e-5); }

inline void check_epsilon(const Call& call) {
  if (const double e = epsilon_of(call.attributes); !(e > 0))
    throw error("epsilon is {} but must be positive; write for example (epsilon=1e-5)", e);
}

/// The names of the dims of x: leading i0 i1 ..., then the normalised n0 n1 ... with their mark.
struct LastDims {
  std::string all, leading, normalised;

  LastDims(const Type& x, const Type& gamma, std::string_view mark = "^") {
    const std::size_t count = gamma.shape.size();
    if (count == 0 || count > x.shape.size() ||
        !std::equal(gamma.shape.begin(), gamma.shape.end(),
                    x.shape.end() - static_cast<std::ptrdiff_t>(count)))
      throw error("gamma is {} but should have the last dims of x, which is {}", to_text(gamma), to_text(x));
    std::vector<std::string> dims, last;
    for (std::size_t d = 0; d + count < x.shape.size(); ++d) dims.push_back(loop_name(d));
    leading = tensor_text(dims);
    for (std::size_t d = 0; d < count; ++d) last.push_back(fmt::format("n{}{}", d, mark));
    dims.insert(dims.end(), last.begin(), last.end());
    all = tensor_text(dims);
    normalised = tensor_text(last);
  }
};

/// Sums over rows are made strip by strip of this many columns, in double and on the stack.
inline constexpr std::int64_t strip = 2048;

}  // namespace shardwright::ops
