#include "shardwright/frontend/onnx/exporter.h"

#include <algorithm>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/onnx/reading.h"

namespace shardwright {
namespace {

constexpr const char* remedy =
    "export it with dynamo=False, training=TrainingMode.TRAINING and do_constant_folding=False";

/// What a graph says of itself under `key`. The messages of libonnx 1.12 do not know that field, number 16, yet.
std::optional<std::string> metadata_of(const onnx::GraphProto& graph, std::string_view key) {
  constexpr int metadata_props = 16;
  const auto& fields = graph.unknown_fields();
  for (int i = 0; i < fields.field_count(); ++i) {
    const auto& field = fields.field(i);
    if (field.number() != metadata_props || field.type() != field.TYPE_LENGTH_DELIMITED) continue;
    onnx::StringStringEntryProto entry;
    if (entry.ParseFromString(field.length_delimited()) && entry.key() == key) return entry.value();
  }
  return std::nullopt;
}

/// `p_fc_weight: PARAMETER target='fc.weight'`
std::vector<std::string> parameters_in(const std::string& signature) {
  constexpr std::string_view mark = ": PARAMETER target='";
  std::vector<std::string> out;
  for (std::size_t at = signature.find(mark); at != std::string::npos; at = signature.find(mark, at)) {
    at += mark.size();
    out.push_back(signature.substr(at, signature.find('\'', at) - at));
  }
  return out;
}

/// Its nodes are called so, and are given no scopes as those of the older one.
bool is_of_default_exporter(const onnx::ModelProto& model) {
  return model.producer_name() == "pytorch" &&
         std::ranges::any_of(model.graph().node(),
                             [](const auto& node) { return node.name().starts_with("node_"); });
}

}  // namespace

std::string warning_of_exporter(const onnx::ModelProto& model) {
  const auto signature = metadata_of(model.graph(), "pkg.torch.export.ExportedProgram.graph_signature");
  if (!signature) {
    if (!is_of_default_exporter(model)) return "";
    return fmt::format(
        "it is of PyTorch's default exporter, which unless optimize=False makes parameters that start equal "
        "one, and drops or folds others: it may train to other numbers than the network; {}",
        remedy);
  }
  std::set<std::string> there;
  for (const auto& tensor : model.graph().initializer()) there.insert(tensor.name());
  std::vector<std::string> all = parameters_in(*signature), missing;
  std::ranges::copy_if(all, std::back_inserter(missing),
                       [&](const std::string& name) { return !there.contains(name); });
  if (missing.empty()) return "";
  return fmt::format(
      "PyTorch's exporter has merged, folded or dropped {} of the network's {} parameters, such as '{}': it "
      "trains "
      "to other numbers than the network; {}, or with optimize=False",
      missing.size(), all.size(), printable(missing.front()), remedy);
}

}  // namespace shardwright
