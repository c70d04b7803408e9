#include "tests/support/folder_runs.h"

#include <gtest/gtest.h>

#include <cmath>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/command_outcome.h"

namespace shardwright::testing {
namespace {

using Json = nlohmann::ordered_json;

void flatten(const Json& value, Shape& shape, std::vector<double>& all, std::size_t depth = 0) {
  if (!value.is_array()) return all.push_back(value.get<double>());
  if (shape.size() == depth) shape.push_back(static_cast<std::int64_t>(value.size()));
  for (const Json& one : value) flatten(one, shape, all, depth + 1);
}

}  // namespace

void write_data(const std::string& path, const Json& inputs) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, value] : inputs.items()) {
    Shape shape{1};
    std::vector<double> all;
    flatten(value, shape, all, 1);
    const DType dtype = name == "pixel_values" || name == "input_features" ? DType::f64 : DType::i64;
    out[name] = make_tensor({dtype, shape}, all);
  }
  write_safetensors(path, out);
}

std::vector<double> losses(const std::string& model, const std::string& data, int steps,
                           const std::vector<std::string>& more) {
  std::vector<std::string> words{
      "train",          model,   "--data",    data,    "--precision", "f64",
      "--optimizer",    "adamw", "--lr",      "0.001", "--beta1",     "0.9",
      "--beta2",        "0.95",  "--epsilon", "1e-8",  "--steps",     std::to_string(steps),
      "--weight-decay", "0.1",   "--json"};
  words.insert(words.end(), more.begin(), more.end());
  const CommandOutcome ran = outcome_of(words);
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::vector<double> out;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);)
    if (const Json json = Json::parse(line); json.contains("loss")) out.push_back(json["loss"]);
  return out;
}

void expect_near(const std::vector<double>& have, const std::vector<double>& want) {
  ASSERT_EQ(have.size(), want.size());
  for (std::size_t i = 0; i < have.size(); ++i)
    EXPECT_NEAR(have[i], want[i], 1e-9 * std::abs(want[i])) << "step " << i;
}

}  // namespace shardwright::testing
