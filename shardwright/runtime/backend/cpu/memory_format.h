// Our memory formats and oneDNN's, which say the same.
#pragma once

#include <oneapi/dnnl/dnnl.hpp>

#include <optional>

#include "shardwright/base/format.h"
#include "shardwright/base/tensor.h"

namespace shardwright::cpu {

/// f32 and bf16, the floating types that oneDNN computes with.
dnnl::memory::data_type data_type_of(DType dtype);

/// A tensor in `format`.
dnnl::memory::desc description_of(const Shape& shape, const Format& format, DType dtype = DType::f32);
/// A tensor in whatever format a primitive likes best.
dnnl::memory::desc any_description_of(const Shape& shape, DType dtype = DType::f32);

/// The format that a primitive has chosen. Nothing if it pads, or lies in no order of dims and blocks.
std::optional<Format> format_of(const dnnl::memory::desc& description);

/// The engine of this machine; it has no state.
const dnnl::engine& engine();

}  // namespace shardwright::cpu
