// Strategy files: how operators are split and how parameters lie, as MindSpore saves and loads them; `.json` by name is
// JSON, anything else protobuf.
//
//   ParallelStrategyMap = {1: stage, 2: {1: operator, 2: {1: stage, 2: {1: parts} per input},
//                             14: turn, 15: layout per input},
//                          3: {1: parameter, 2: layout}}
//   layout = {1: {1: device matrix}, 2: {1: tensor map}, 3: slice shape, 4: offsets, 5: field, 6, 7: the optimizer's
//             shards, 15: name per axis}
//
// JSON says the same by name: current_stage, parallel_strategy_item, parallel_layout_item, and of operators' layouts
// parallel_layout_value_item. Where a dim is cut by several axes there is a tensor map for each dim; axes count from the right,
// -1 is none. Files of several stages are one in which parameters are called STAGE-NAME.
//
// Ours, which others pass over: of protobuf fields 15, as parts do not tell which rank has which, and layouts of inputs do;
// names of axes; and of operators the turn of interleaved stages, field 14, `turn`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/shape.h"
#include "shardwright/layout/mesh.h"

namespace shardwright {

/// How a tensor lies: per dim the axes of the device matrix that cut it, major to minor.
struct MatrixLayout {
  Mesh matrix;
  std::vector<Axes> dims;
  bool operator==(const MatrixLayout&) const = default;

  std::vector<std::int64_t> parts() const;
};

/// As files have it. `names` of axes: axis0, axis1, ... where there are none.
/// Throws: Error of what is no device matrix, or no tensor map over it.
MatrixLayout matrix_layout(const std::vector<std::int64_t>& sizes, std::vector<std::string> names,
                           const std::vector<std::vector<std::int64_t>>& tensor_map);
std::vector<std::vector<std::int64_t>> tensor_map_of(const MatrixLayout& layout);
/// Whether the axes are called axis0, axis1, ...
bool has_usual_names(const Mesh& matrix);

/// Dim 0 is also cut over `size` of the replicas (-1: all), which are taken from the right.
/// Throws: Error where there are not so many.
MatrixLayout with_optimizer_shards(const MatrixLayout& layout, std::int64_t size);

struct FileOperator {
  std::string name;
  int stage = 0;
  int turn = 0;                                  // of those that a stage has in an interleaved schedule
  std::vector<std::vector<std::int64_t>> parts;  // per input and dim
  std::vector<MatrixLayout> in;  // of inputs, all over one device matrix; empty: only parts are said
};

struct FileParameter {
  std::string name;
  int stage = 0;
  bool names_stage = false;           // where it was read
  MatrixLayout layout;                // without the optimizer's shards
  std::int64_t optimizer_shards = 1;  // over which dim 0 is cut further; -1: all replicas
  Shape shape = {};                   // of the whole; empty: it is not known
};

struct StrategyFile {
  int stage = 0;  // of the rank that wrote it
  std::vector<FileOperator> operators;
  std::vector<FileParameter> parameters;

  /// One more than the highest that anything is in.
  int stages() const;
  int turns() const;
};

/// Throws: Error that begins with the path.
StrategyFile load_strategies(const std::string& path);
/// `is_json`: or protobuf. Throws: Error of what is neither, or says nothing.
StrategyFile parse_strategies(std::string_view bytes, bool is_json);

/// Of several stages, names of parameters say theirs.
std::string to_bytes(const StrategyFile& file, bool is_json);
void save_strategies(const StrategyFile& file, const std::string& path);

}  // namespace shardwright
