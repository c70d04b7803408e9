#include "shardwright/frontend/data_columns.h"

#include <algorithm>

#include "shardwright/frontend/label_weights.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

bool has_input(const Graph& graph, std::string_view name) {
  return std::ranges::any_of(graph.nodes, [&](const Node& node) {
    return node.op->kind == OpKind::input && graph.value(node.results[0]).name == name;
  });
}

}  // namespace

const std::string& DataColumns::called(const std::string& input) const {
  const auto it = names_.find(input);
  return it != names_.end() && file_.has(it->second.name) ? it->second.name : input;
}

Tensor DataColumns::moved(const std::string& input, Tensor t) const {
  const auto it = names_.find(input);
  if (it == names_.end() || !it->second.is_of_next || called(input) == input || t.shape().empty()) return t;
  Tensor whole = convert(t, DType::i64);
  const auto length = static_cast<std::size_t>(t.shape().back());
  const auto all = whole.as<std::int64_t>();
  for (std::size_t row = 0; row + length <= all.size() && length > 0; row += length) {
    const auto own = all.subspan(row, length);
    std::copy(own.begin() + 1, own.end(), own.begin());
    own.back() = not_asked;
  }
  return whole;
}

DataColumns data_columns(const Model& model, const std::string& path) {
  SafetensorsFile file = SafetensorsFile::open(path);
  for (const char* name : {"attention_mask", places_name, "token_type_ids"})
    if (model.folder && file.has(name) && !has_input(model.graph, name))
      throw error("{}: has '{}', which {} takes only where it is said that data have it: FOLDER:inputs={}",
                  path, name, model.name, name);
  return {std::move(file), model.data_names};
}

bool takes_places(const Model& model) { return has_input(model.graph, places_name); }

std::map<std::string, Type> brought_inputs(const Model& model, int micro_batches) {
  std::map<std::string, Type> out;
  for (const Node& node : model.graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const Value& input = model.graph.value(node.results[0]);
    if (input.name != model.label_weights) out[input.name] = of_whole_step(input.type, micro_batches);
  }
  return out;
}

void add_label_weights(const Model& model, std::map<std::string, Tensor>& columns, std::int64_t batch) {
  const auto label = columns.find("label");
  if (model.label_weights.empty() || label == columns.end()) return;
  const std::int64_t samples = label->second.shape()[0];
  const DType dtype = model.graph.value(model.graph.find(model.label_weights)).type.dtype;
  columns[model.label_weights] =
      label_weights(label->second, samples < batch ? samples : samples / batch * batch, dtype);
}

}  // namespace shardwright
