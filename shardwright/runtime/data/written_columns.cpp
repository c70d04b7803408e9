#include "shardwright/runtime/data/written_columns.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"
#include "shardwright/runtime/data/csv_records.h"

namespace shardwright {

std::int64_t id_of_word(std::string_view word) { return static_cast<std::int64_t>(hash_of(word) >> 1U); }

bool has_columns(const std::string& path, const std::map<std::string, Type>& inputs) {
  namespace fs = std::filesystem;
  std::error_code none;
  if (!fs::is_directory(path, none)) return is_csv(path);
  return std::ranges::any_of(
      inputs, [&](const auto& input) { return fs::exists(numpy_path(path, input.first), none); });
}

Dataset written_columns(const std::string& path, const WrittenInputs& inputs) {
  return Dataset::reading(is_csv(path) ? csv_rows(path, inputs) : numpy_rows(path, inputs));
}

Type sample_type(const std::string& input, const WrittenInput& how) {
  if (how.type.shape.empty()) throw error("input '{}' is a scalar; there is room for no sample", input);
  return {how.type.dtype, Shape(how.type.shape.begin() + 1, how.type.shape.end())};
}

void put_number(Tensor& sample, std::size_t at, double value, const WrittenInput& how) {
  if (!std::isfinite(value)) throw error("holds {}; nothing can be learnt from that", value);
  if (how.are_shares && (value < 0 || value > 1)) throw error("holds {}; it should be from 0 to 1", value);
  visit(sample.dtype(), [&]<class T>(std::type_identity<T>) {
    const auto held = static_cast<T>(value);
    if (!std::isfinite(static_cast<double>(held)))
      throw error("holds {}, which {} cannot hold", value, name_of(sample.dtype()));
    sample.as<T>()[at] = held;
  });
}

void put_integer(Tensor& sample, std::size_t at, std::int64_t value, const WrittenInput& how) {
  if (value < how.lowest || value >= how.below)
    throw error("holds {}; it should be from {} to {}{}", value, how.are_bags ? 0 : how.lowest, how.below - 1,
                how.are_bags ? ", or -1 for none" : "");
  visit(sample.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::numeric_limits<T>::is_integer) {
      const bool is_held = static_cast<std::int64_t>(static_cast<T>(value)) == value;
      if (!is_held) throw error("holds {}, which {} cannot hold", value, name_of(sample.dtype()));
      sample.as<T>()[at] = static_cast<T>(value);
    } else {
      put_number(sample, at, static_cast<double>(value), how);
    }
  });
}

}  // namespace shardwright
