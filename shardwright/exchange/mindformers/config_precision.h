// What the keys of a configuration file say of element types, as --precision says it.
//
//   amp_level        O0 f32, O1 products-fp16, O2 fp16, O3 pure-fp16; the short type is that of compute_dtype, if given
//   compute_dtype    float32: f32; float16, bfloat16: fp16, bf16, or pure-... where param_init_type is the same
//   param_init_type  float32: what is updated is f32; the short type: everything is
//   softmax_compute_dtype and the like: what they name is computed in f32 whatever they say
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "shardwright/base/dtype.h"

namespace shardwright {

struct PrecisionKeys {
  struct Said {
    std::string key;  // with its section
    std::string value;
  };
  std::optional<Said> amp_level, compute, parameters;
  std::vector<Said> inner;  // of operators whose kernels compute in f32
};

struct ConfigPrecision {
  std::string precision;          // as --precision takes it; empty: not said
  std::string key;                // that said it
  std::vector<std::string> idle;  // what has no effect, and why: a line each
};

/// Throws: Error that names key and value if one is unknown, or two cannot both hold.
ConfigPrecision config_precision(const PrecisionKeys& keys);

}  // namespace shardwright
