// How tensors are split, in the notation of the seeds: integers per dim (`((2, 4), (4, 1))`), or axes of a named device
// matrix (`((mp, (sp, dp)))`).
#pragma once

#include <compare>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/given.h"
#include "shardwright/base/text.h"
#include "shardwright/layout/mesh.h"

namespace shardwright {

/// One tensor's split. By integers: parts per dim. By axes: per dim the axes, major to minor.
struct TensorSplit {
  TensorSplit() = default;
  TensorSplit(std::initializer_list<std::int64_t> list) : parts(list) {}

  std::vector<std::int64_t> parts;
  std::vector<std::vector<std::string>> axes;
  bool is_by_axes = false;
  auto operator<=>(const TensorSplit&) const = default;
};

/// Of an operator: how its inputs are split and, optionally, its result. Of a parameter: only `out`, how it lies. Of data:
/// only `in`, per input in the order of the graph's.
struct Annotation {
  std::optional<Mesh> device_matrix;  // for splits by axes
  std::vector<TensorSplit> in;
  std::vector<TensorSplit> out;
  std::string said_in = {};  // a file that errors name in front; empty: what is annotated says enough
  bool operator==(const Annotation&) const = default;
  std::strong_ordering operator<=>(const Annotation& other) const;
};

/// How data are split: `full_batch` or `data_parallel`, or input by input.
struct DataSplit {
  std::string word = {};
  Annotation splits = {};  // without a word
  auto operator<=>(const DataSplit&) const = default;
};

/// `(2, 4)`, `(mp, (sp, dp))`: as the seeds write it.
std::string to_text(const TensorSplit& split);
std::string to_text(const std::vector<TensorSplit>& splits);
/// `{in: ((2, 4), (4, 1)), out: ((2, 1),)}`, `{in: ((dp, mp), (None, mp)), on: [dp=2, mp=4]}`. Not where it was said.
std::string to_text(const Annotation& annotation);

/// Of all tensors, as to_text gives it; brackets may be square. Throws: Error that says what stood there instead.
std::vector<TensorSplit> parse_splits(Scanner& in);
/// Whether `text` is a split of tensors, and not one of loop dims (`{n: tp}`).
bool is_of_tensors(std::string_view text);
/// What to_text gives. Throws: Error that says what it should be.
Annotation parse_annotation(const Given& given);
/// `full_batch`, `data_parallel`, or splits such as `((4, 1), (4,))`. Throws: Error that says what it should be.
DataSplit parse_dataset(const std::string& text);

bool uses_axes(const Annotation& annotation);
/// Throws: Error if integers and axis names are mixed, or axis names have no device matrix.
void check_one_kind(const Annotation& annotation);

}  // namespace shardwright
