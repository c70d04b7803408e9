#include "shardwright/base/dtype.h"

#include <array>

namespace shardwright {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::size_t size;
};

constexpr std::array<Row, 8> rows{{{DType::f32, "f32", 4},
                                   {DType::f64, "f64", 8},
                                   {DType::f16, "f16", 2},
                                   {DType::bf16, "bf16", 2},
                                   {DType::i32, "i32", 4},
                                   {DType::i64, "i64", 8},
                                   {DType::u8, "u8", 1},
                                   {DType::boolean, "bool", 1}}};

}  // namespace

std::size_t size_of(DType dtype) { return rows[static_cast<std::size_t>(dtype)].size; }

std::string_view name_of(DType dtype) { return rows[static_cast<std::size_t>(dtype)].name; }

std::optional<DType> dtype_of(std::string_view name) {
  for (const Row& row : rows)
    if (row.name == name) return row.dtype;
  return std::nullopt;
}

}  // namespace shardwright
