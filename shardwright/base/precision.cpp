#include "shardwright/base/precision.h"

#include <array>
#include <utility>

namespace shardwright {
namespace {

const std::array<std::pair<std::string_view, Precision>, 8>& table() {
  static const std::array<std::pair<std::string_view, Precision>, 8> precisions{
      {{"f32", DType::f32},
       {"f64", DType::f64},
       {"bf16", Precision::mixed(DType::bf16)},
       {"fp16", Precision::mixed(DType::f16)},
       {"products-bf16", Precision::products_in(DType::bf16)},
       {"products-fp16", Precision::products_in(DType::f16)},
       {"pure-bf16", DType::bf16},
       {"pure-fp16", DType::f16}}};
  return precisions;
}

}  // namespace

std::string to_text(const Precision& precision) {
  for (const auto& [name, known] : table())
    if (known == precision) return std::string(name);
  return std::string(name_of(precision.compute));
}

std::optional<Precision> precision_called(std::string_view name) {
  for (const auto& [known, precision] : table())
    if (known == name) return precision;
  return std::nullopt;
}

}  // namespace shardwright
