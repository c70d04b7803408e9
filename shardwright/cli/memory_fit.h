// What runs tell of memory as a framework took it.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shardwright/cli/run_asked.h"

namespace shardwright {

/// Of the runs of one framework that say bytes: what it has beside what is predicted, a constant and a share of what comes
/// and goes in a step.
struct MemoryFit {
  std::string framework;
  std::size_t runs = 0;
  double constant = 0, constant_spread = 0;  // bytes
  double slack = 0, slack_spread = 0;
  double error_before = 0, error = 0;  // means of |predicted / measured - 1|
};
std::vector<MemoryFit> memory_fits(const std::vector<RunAsked>& runs,
                                   const std::vector<const PricedRun*>& priced);
std::string text_of(const MemoryFit& fit);
nlohmann::ordered_json json_of(const MemoryFit& fit);

}  // namespace shardwright
