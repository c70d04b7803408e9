// Runs of folders of Hugging Face as their references (tests/reference/hf, lora) are made: the same data, AdamW, all in f64.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <vector>

namespace shardwright::testing {

/// Inputs of one step, under the names of the family's forward.
void write_data(const std::string& path, const nlohmann::ordered_json& inputs);

/// Of each step of `train`; fails where it does not end well.
std::vector<double> losses(const std::string& model, const std::string& data, int steps,
                           const std::vector<std::string>& more = {});

/// Within 1e-9 of each.
void expect_near(const std::vector<double>& have, const std::vector<double>& want);

}  // namespace shardwright::testing
