#include "shardwright/annotations/annotations.h"

namespace shardwright {
std::string to_text(const TensorSplit& split) {
  std::string out = "(";
  const std::size_t count = split.is_by_axes ? split.axes.size() : split.parts.size();
  for (std::size_t d = 0; d < count; ++d) {
    if (d) out += ", ";
    if (!split.is_by_axes)
      out += fmt::format("{}", split.parts[d]);
    else if (split.axes[d].empty())
      out += "None";
    else if (split.axes[d].size() == 1)
      out += split.axes[d][0];
    else
      out += "(" + join(split.axes[d], ", ") + ")";
  }
  return out + (count == 1 ? ",)" : ")");
}

std::string to_text(const std::vector<TensorSplit>& splits) {
  std::string out = "(";
  for (std::size_t i = 0; i < splits.size(); ++i) out += (i ? ", " : "") + to_text(splits[i]);
  return out + (splits.size() == 1 ? ",)" : ")");
}

Annotations merged(Annotations weaker, const Annotations& stronger) {
  for (const auto& [name, annotation] : stronger.nodes) weaker.nodes[name] = annotation;
  for (const auto& [name, number] : stronger.comm_fusion) weaker.comm_fusion[name] = number;
  for (const auto& [name, stage] : stronger.stages) weaker.stages[name] = stage;
  if (stronger.dataset || !stronger.dataset_word.empty()) {
    weaker.dataset = stronger.dataset;
    weaker.dataset_word = stronger.dataset_word;
  }
  weaker.recompute = with_modules({.modules = std::move(weaker.recompute)}, stronger.recompute).modules;
  return weaker;
}

}  // namespace shardwright
