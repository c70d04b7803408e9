#include "tests/replay/replay_text.h"

#include <nlohmann/json.hpp>

namespace shardwright {

std::string replay_text(const Plan& plan, const std::string& program, double step_seconds) {
  using Json = nlohmann::ordered_json;
  Json json = Json::parse(to_json(plan));
  std::string operators;
  for (Json& op : json["operators"]) {
    op.erase("reason");
    operators += (operators.empty() ? "" : ",\n") + op.dump();
  }
  const std::string layouts = json["layouts"].dump();
  for (const char* key : {"search_seconds", "operators", "layouts"}) json.erase(key);
  std::string head = json.dump();
  head.pop_back();  // its closing brace
  return fmt::format("{}{:.6g}\n{},\"operators\":[\n{}],\n\"layouts\":{}}}\n\n{}", prediction, step_seconds,
                     head, operators, layouts, program);
}

}  // namespace shardwright
