#include "shardwright/frontend/written_inputs.h"

#include <algorithm>

#include "shardwright/frontend/lookup_rows.h"

namespace shardwright {

WrittenInputs written_inputs(const Model& model, const std::map<std::string, Type>& inputs, SamplePart part) {
  WrittenInputs out;
  for (const auto& [name, type] : inputs) out[name] = {.type = type};
  for (const auto& [name, classes] : model.classes)
    if (const auto it = out.find(name); it != out.end()) {
      it->second.lowest = 0;
      it->second.below = classes;
    }
  for (const auto& [name, looked_up] : lookup_rows(model.graph)) {
    const auto it = out.find(name);
    if (it == out.end()) continue;
    WrittenInput& input = it->second;
    input.below = looked_up.is_hashed ? looked_up.rows : std::min(input.below, looked_up.rows);
    input.are_bags = looked_up.in_bags;
    input.are_words = looked_up.is_hashed && input.type.dtype == DType::i64;
    input.lowest = looked_up.in_bags ? -1 : -looked_up.rows;  // those of arrays may count from the end
  }
  const auto label = out.find("label");
  if (label == out.end()) return out;
  label->second.may_lack = part == SamplePart::test;
  label->second.are_shares = model.labels.are_shares;
  if (model.labels.classes > 0) {
    label->second.lowest = model.label_weights.empty() ? 0 : not_asked;
    label->second.below = model.labels.classes;
  }
  return out;
}

}  // namespace shardwright
