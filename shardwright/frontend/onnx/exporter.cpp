#include "shardwright/frontend/onnx/exporter.h"

#include <algorithm>
#include <string_view>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/onnx/fields.h"
#include "shardwright/frontend/onnx/reading.h"

namespace shardwright {
namespace {

constexpr int metadata_of_graph = 16, metadata_of_node = 9, metadata_of_value = 4;

/// Its nodes are called so, and are given no scopes as those of the older one.
bool has_nodes_of_default_exporter(const onnx::GraphProto& graph) {
  return std::ranges::any_of(graph.node(), [](const auto& node) { return node.name().starts_with("node_"); });
}

/// Numbers that an exporter has made are called so.
bool is_of_exporter(std::string_view name) {
  return name.starts_with("val_") || name.starts_with("onnx::") || name.starts_with("scalar_tensor");
}

/// The words in quotes of `['l.weight', 'val_3']`.
std::vector<std::string> words_in(const std::string& list) {
  std::vector<std::string> out;
  for (std::size_t at = list.find('\''); at != list.npos; at = list.find('\'', at)) {
    const std::size_t end = list.find('\'', ++at);
    if (end == list.npos) break;
    out.push_back(list.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

/// Whether a tensor of this name holds its parameter's elements, in another order or shape: it is called after the
/// operator that has made it, or after none.
bool only_moves(std::string_view name) {
  constexpr std::string_view movers[] = {"val",     "t",       "permute",   "transpose", "numpy_t", "view",
                                         "reshape", "squeeze", "unsqueeze", "alias",     "clone",   "detach"};
  const std::size_t number = name.find_last_not_of("0123456789");
  if (number != name.npos && number + 1 < name.size() && name[number] == '_') name = name.substr(0, number);
  return std::ranges::find(movers, name) != std::end(movers);
}

}  // namespace

ExportedNetwork::ExportedNetwork(const onnx::ModelProto& model) {
  const onnx::GraphProto& graph = model.graph();
  is_of_pytorch_ = model.producer_name() == "pytorch";
  is_of_default_exporter_ = is_of_pytorch_ && has_nodes_of_default_exporter(graph);
  const auto signature =
      metadata_of(graph, metadata_of_graph, "pkg.torch.export.ExportedProgram.graph_signature");
  if (!signature) return;
  read_list(*signature);
  read_folded(graph);
  for (const onnx::NodeProto& node : graph.node()) {
    const auto rule = metadata_of(node, metadata_of_node, "pkg.onnxscript.rewriter.rule_name");
    if (rule && rule->find("FuseBatchNorm") != rule->npos) ++merged_norms_;
  }
}

/// `p_fc_weight: PARAMETER target='fc.weight'`, a line each.
void ExportedNetwork::read_list(const std::string& signature) {
  has_list_ = true;
  constexpr std::string_view mark = " target='";
  for (std::string_view line : split(signature, '\n')) {
    const std::size_t colon = line.find(": "), at = line.find(mark);
    if (colon == line.npos || at == line.npos || at < colon + 2) continue;
    const std::string_view kind = line.substr(colon + 2, at - colon - 2);
    const bool is_parameter = kind == "PARAMETER";
    if (!is_parameter && kind != "BUFFER" && kind != "CONSTANT_TENSOR") continue;
    const std::string_view rest = line.substr(at + mark.size());
    const bool is_new = listed_.emplace(rest.substr(0, rest.find('\'')), is_parameter).second;
    if (is_new && is_parameter) ++parameters_;
  }
}

/// A file without what says so may have folded each that it lacks.
void ExportedNetwork::read_folded(const onnx::GraphProto& graph) {
  std::set<std::string> lost;
  for (const auto& [name, is_parameter] : listed_)
    if (is_parameter) lost.insert(name);
  for (const auto& tensor : graph.initializer()) lost.erase(tensor.name());
  std::map<std::string, std::vector<std::string>> made_of;
  for (const auto& value : graph.value_info())
    if (const auto from = metadata_of(value, metadata_of_value, "pkg.onnxscript.optimizer.folded_from"))
      made_of[value.name()] = words_in(*from);
  const bool is_untold = made_of.empty() && !lost.empty();
  for (const auto& tensor : graph.initializer()) {
    if (listed_.contains(tensor.name())) continue;
    std::vector<std::string> parameters;
    for (const std::string& name : made_of[tensor.name()])
      if (const auto it = listed_.find(name); it != listed_.end() && it->second) parameters.push_back(name);
    const bool is_number = element_count(Shape(tensor.dims().begin(), tensor.dims().end())) == 1;
    if ((is_untold && !is_number) || !parameters.empty()) folded_.insert(tensor.name());
    if (parameters.size() == 1 && only_moves(tensor.name())) lost.erase(parameters.front());
  }
  lost_.assign(lost.begin(), lost.end());
}

bool ExportedNetwork::is_parameter(const std::string& name, const Shape& shape, bool is_of_node) const {
  if (const auto it = listed_.find(name); it != listed_.end()) return it->second;
  if (has_list_) return folded_.contains(name);
  if (is_of_node && (is_of_pytorch_ || element_count(shape) == 1)) return false;
  if (element_count(shape) != 1) return true;
  const bool writes_only_weights = is_of_pytorch_ && !is_of_default_exporter_;
  return !is_of_exporter(name) && (!shape.empty() || writes_only_weights);
}

std::string ExportedNetwork::told_losses() const {
  constexpr const char* remedy =
      "export it with optimize=False, or with dynamo=False, training=TrainingMode.TRAINING and "
      "do_constant_folding=False";
  if (is_of_default_exporter_ && !has_list_)
    return fmt::format(
        "it is of PyTorch's default exporter, which unless optimize=False makes parameters that start equal "
        "one, drops biases of zeros and folds others, and has no list of them: it may train to other numbers "
        "than the network; {}",
        remedy);
  std::vector<std::string> parts;
  if (!lost_.empty())
    parts.push_back(fmt::format("made one, folded or dropped {} of the network's {} parameters, such as '{}'",
                                lost_.size(), parameters_, printable(lost_.front())));
  if (merged_norms_ > 0)
    parts.push_back(fmt::format("merged {} batch norm{} into convolutions", merged_norms_,
                                merged_norms_ == 1 ? "" : "s"));
  if (parts.empty()) return "";
  return fmt::format("PyTorch's exporter has {}: it trains to other numbers than the network; {}",
                     join(parts, ", and "), remedy);
}

}  // namespace shardwright
