// In which element types a network is computed and kept, under the names of --precision.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardwright/base/dtype.h"

namespace shardwright {

/// f32, f64: everything in that type. pure-bf16, pure-fp16: everything in the short one. bf16, fp16: mixed precision
/// (Micikevicius et al. 2018): activations, products and the weights that these read in the short type; what those
/// weights are updated as (their master), all other parameters, what modules and optimizers keep, and losses in f32.
/// products-bf16, products-fp16: operands and results of products in the short type, between them f32.
struct Precision {
  DType compute = DType::f32;  // of activations and products
  bool is_mixed = false;
  std::optional<DType> products;  // where they are computed in another type

  Precision() = default;
  Precision(DType all) : compute(all) {}
  static Precision mixed(DType compute) {
    Precision out(compute);
    out.is_mixed = true;
    return out;
  }

  static Precision products_in(DType products) {
    Precision out;
    out.products = products;
    return out;
  }

  /// Of what is kept from step to step and read by no product, and of losses.
  DType kept() const { return is_mixed ? DType::f32 : compute; }
  bool operator==(const Precision&) const = default;
};

/// `bf16`, `pure-bf16`, `f32`: as users write it.
std::string to_text(const Precision& precision);
/// Nothing if there is none of this name.
std::optional<Precision> precision_called(std::string_view name);
constexpr std::string_view known_precisions =
    "f32, f64, bf16, fp16, products-bf16, products-fp16, pure-bf16, pure-fp16";

}  // namespace shardwright
