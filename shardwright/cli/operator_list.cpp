#include "shardwright/cli/operator_list.h"

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

std::string operators_text() {
  std::string out;
  for (const OpDef& op : all_ops()) {
    std::vector<std::string> attributes;
    for (const std::string& name : op.attributes) {
      const Attribute* otherwise = op.defaults.find(name);
      attributes.push_back(otherwise ? fmt::format("{}={}", name, to_text(*otherwise)) : name);
    }
    out += fmt::format("{}{}  {}\n", op.name, attributes.empty() ? "" : "(" + join(attributes, ", ") + ")",
                       op.doc);
  }
  return out;
}

/// What nobody says of an attribute is null where the types of operands decide, or where it must be said.
std::string operators_json() {
  Json out = Json::array();
  for (const OpDef& op : all_ops()) {
    Json attributes = Json::object();
    for (const std::string& name : op.attributes) {
      const Attribute* otherwise = op.defaults.find(name);
      attributes[name] = otherwise ? std::visit([](const auto& v) { return Json(v); }, *otherwise) : Json();
    }
    const bool is_written = !op.torch.line.empty() || op.torch.line_for;
    out.push_back({{"name", op.name},
                   {"doc", op.doc},
                   {"attributes", attributes},
                   {"rule", op.rule_for ? Json() : Json(op.rule)},
                   {"samples", op.samples},
                   {"torch", op.torch.line.empty() ? Json(is_written) : Json(op.torch.line)}});
  }
  return out.dump() + "\n";
}

}  // namespace shardwright
