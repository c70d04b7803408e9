#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/cli/verb.h"
#include "shardwright/frontend/model.h"

#include <fmt/format.h>

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  for (const ModelDef& model : all_models()) {
    if (arguments.is_on("--json")) {
      terminal.out << nlohmann::json{{"name", model.name}, {"doc", model.doc}, {"keys", model.keys}}.dump()
                   << "\n";
      continue;
    }
    std::string keys;
    for (const auto& [key, value] : model.keys) keys += (keys.empty() ? ":" : ",") + key + "=" + value;
    terminal.out << fmt::format("{}{}\n    {}\n", model.name, keys, model.doc);
    if (model.trained.samples > 0)
      terminal.out << fmt::format("    on accelerators batch={} unless said ({})\n", model.trained.samples,
                                  model.trained.source);
  }
  return 0;
}

}  // namespace

std::vector<Verb> models() {
  return {{.name = "models",
           .doc = "list the models and their keys",
           .positionals = {},
           .flags = {{"--json", "", "one JSON document per model", ""}},
           .example = "shardwright models",
           .run = run}};
}

}  // namespace shardwright::verbs
