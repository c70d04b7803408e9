// The operators that there are, for people and for programs: what each means, what its attributes are where a call does not
// say them.
#pragma once

#include <string>

namespace shardwright {

/// A line each: `matmul(transpose_a=false, transpose_b=false)  y[..., m, n] = ...`
std::string operators_text();
/// One document.
std::string operators_json();

}  // namespace shardwright
