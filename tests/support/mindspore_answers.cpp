#include "tests/support/mindspore_answers.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "shardwright/base/file.h"
#include "shardwright/graph/text.h"

namespace shardwright {
namespace {

const std::string folder = "tests/reference/mindspore210/";

}  // namespace

Graph MindSporeAnswer::graph() const {
  return parse_graph(read_text(folder + "graphs/" + network + ".graph"));
}

std::vector<MindSporeAnswer> mindspore_answers() {
  std::vector<MindSporeAnswer> out;
  const auto all = nlohmann::json::parse(read_text(folder + "answers.json"));
  for (const nlohmann::json& entry : all) {
    MindSporeAnswer answer{.network = entry.at("network"), .devices = entry.at("devices")};
    if (entry.contains("dynamic")) answer.dynamic = entry.at("dynamic").dump();
    if (entry.contains("recursive_rows"))
      answer.recursive_rows = entry.at("recursive_rows").get<std::vector<std::vector<double>>>();
    if (entry.contains("recursive_products"))
      answer.recursive_products =
          entry.at("recursive_products").get<std::map<std::string, MindSporeAnswer::Parts>>();
    out.push_back(std::move(answer));
  }
  return out;
}

}  // namespace shardwright
