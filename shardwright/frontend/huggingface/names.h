// What parameters are called in folders: a table for each family, a row for each kind of tensor.
//
//   {"layers.#.attention.q.weight", "model.layers.#.self_attn.q_proj.weight", Lay::transposed}
//
// # is the number of a layer, @ that of an expert, of which a parameter has all. Rows with one name on their side are parts of one
// tensor there, one behind the other along the dim of features that the products make.
#pragma once

#include <string>
#include <vector>

#include "shardwright/frontend/huggingface/weight_files.h"
#include "shardwright/frontend/model_folder.h"

namespace shardwright::huggingface {

enum class Lay : std::uint8_t { same, transposed };

struct NameRow {
  std::string ours, theirs;
  Lay lay = Lay::same;
  /// Of parts of one tensor: they change places so many times, as where each head has its queries, keys and values together.
  std::int64_t groups = 1;
};

struct Names {
  std::vector<NameRow> rows;
  std::string prefix = {};  // in front of all their names but `outside`, where the folder has it
  std::vector<std::string> outside = {};
  /// Tensors that are no parameters; # is any number.
  std::vector<std::string> ignored = {};

  /// Rows of a module's weight and bias.
  void add(const std::string& ours, const std::string& theirs, Lay lay = Lay::same, std::int64_t groups = 1) {
    rows.push_back({ours + ".weight", theirs + ".weight", lay, groups});
    rows.push_back({ours + ".bias", theirs + ".bias", Lay::same, groups});
  }
  /// Of a layer's: `attention.q` and `self_attn.q_proj` of `layer`, `layers.#.` or what stands there.
  void add_of_layer(const std::string& ours, const std::string& layer, const std::string& theirs,
                    Lay lay = Lay::same, std::int64_t groups = 1) {
    add("layers.#." + ours, layer + theirs, lay, groups);
  }
};

/// Of the parameters of `graph`. `weights` null: there are none yet.
/// Throws: Error of kind io if a tensor is missing, misshapen, no numbers, or none of the network's.
ModelFolder folder_of(const Graph& graph, const Names& names, const std::string& config_path,
                      const WeightFiles* weights);

}  // namespace shardwright::huggingface
