// Annotations: how the user says how single operators and the data are split, in the notation of the seeds.
//
// Integers per tensor dim (`((2, 4), (4, 1))`) or axes of a named device matrix (`("mp", ("sp", "dp"))`).
// `fixed_choices_of` (fixed_choices.h) turns them into strategies: integers become a device matrix of the operator's own, loop
// dims in the order of its rule and unused devices as one more axis at the right; then all device matrices
// are refined to one common mesh where that exists.
#pragma once

#include <initializer_list>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/graph/graph.h"
#include "shardwright/plan/recompute.h"

namespace shardwright {

/// One tensor's split. By integers: parts per dim. By axes: per dim the axes, major to minor.
struct TensorSplit {
  TensorSplit() = default;
  TensorSplit(std::initializer_list<std::int64_t> list) : parts(list) {}

  std::vector<std::int64_t> parts;
  std::vector<std::vector<std::string>> axes;
  bool is_by_axes = false;
  bool operator==(const TensorSplit&) const = default;
};

/// Of an operator: how its inputs are split and, optionally, its result. Of a parameter: only `out`, how it lies.
struct Annotation {
  std::optional<Mesh> device_matrix;  // for splits by axes
  std::vector<TensorSplit> in;
  std::vector<TensorSplit> out;
  std::string said_in = {};  // a file that errors name in front; empty: what is annotated says enough
  bool operator==(const Annotation&) const = default;
};

struct Annotations {
  std::map<std::string, Annotation> nodes;       // by name of operator or parameter
  std::optional<Annotation> dataset;             // per input, in the order of the graph's inputs (`in`)
  std::string dataset_word;                      // `full_batch`, `data_parallel`, or empty
  std::map<std::string, int> comm_fusion = {};   // by name of parameter or module (comm_fusion.h)
  std::vector<RecomputedModule> recompute = {};  // modules of operators
  std::map<std::string, int> stages = {};        // of operators and modules (`layers.0`), by name
};

/// `(2, 4)`, `(mp, (sp, dp))`: as the seeds write it.
std::string to_text(const TensorSplit& split);
std::string to_text(const std::vector<TensorSplit>& splits);

/// Reads the JSON form of commands.md. `where` names the file in errors.
/// Throws: Error naming the node or key.
Annotations parse_annotations(std::string_view json, std::string_view where);
Annotations load_annotations(const std::string& path);

/// Both together: what `stronger` says of an operator, a parameter or the dataset replaces what `weaker` says of it.
Annotations merged(Annotations weaker, const Annotations& stronger);

/// `full_batch`, `data_parallel`, or splits such as `((4, 1), (4,))`, added to `annotations`.
void set_dataset_strategy(Annotations& annotations, const std::string& text);

/// Throws: Error with near names if what is annotated does not exist, or if `in` or `out` is missing or too much.
void check_names(const Graph& graph, const Annotations& annotations);

}  // namespace shardwright
