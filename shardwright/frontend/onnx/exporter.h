// What PyTorch's exporter says in a file of the network that it was given: which tensors are parameters, and what its
// optimizer has made of them.
//
// The graph has a list, `graph_signature`, of every parameter and buffer by name. A tensor that it does not name was made
// by the optimizer: numbers, masks and tables, but also weights that it has transposed, which are trained. What each was
// made of stands beside it, `folded_from`.
#pragma once

#include <map>
#include <set>
#include <string>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

class ExportedNetwork {
 public:
  explicit ExportedNetwork(const onnx::ModelProto& model);

  /// Whether the floating tensor called `name` is a parameter. Without a list, what has one element is if it has dims, and
  /// no exporter's name for a number, or if the exporter writes only parameters and buffers so; constants of nodes are,
  /// unless the exporter writes no parameters so.
  bool is_parameter(const std::string& name, const Shape& shape, bool is_of_node) const;

  /// What the optimizer of the exporter has made one, folded, dropped or merged, and how to do without, in one line; empty
  /// where the file shows that nothing is.
  std::string told_losses() const;

 private:
  void read_list(const std::string& signature);
  void read_folded(const onnx::GraphProto& graph);

  bool has_list_ = false, is_of_pytorch_ = false, is_of_default_exporter_ = false;
  std::map<std::string, bool> listed_;  // tensors by name: whether they are parameters
  std::size_t parameters_ = 0;          // among them
  std::set<std::string> folded_;        // tensors without a name there that are made of parameters
  std::vector<std::string> lost_;       // parameters that no tensor of the file is, transposed or not
  int merged_norms_ = 0;                // batch norms in convolutions
};

}  // namespace shardwright
