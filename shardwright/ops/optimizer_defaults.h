// What an optimizer's settings are where nobody says them: read by the kernels, and by who compares two choices.
#pragma once

#include <array>
#include <string_view>

namespace shardwright {

struct OptimizerDefault {
  std::string_view optimizer;
  std::string_view setting;
  double value = 0;
};

inline constexpr std::array optimizer_defaults{
    OptimizerDefault{"momentum", "momentum", 0.9}, OptimizerDefault{"adam", "beta1", 0.9},
    OptimizerDefault{"adam", "beta2", 0.999},      OptimizerDefault{"adam", "epsilon", 1e-8},
    OptimizerDefault{"adamw", "beta1", 0.9},       OptimizerDefault{"adamw", "beta2", 0.999},
    OptimizerDefault{"adamw", "epsilon", 1e-8},    OptimizerDefault{"adamw", "weight_decay", 0.01}};

/// 0 for all others.
constexpr double default_setting(std::string_view optimizer, std::string_view setting) {
  for (const OptimizerDefault& d : optimizer_defaults)
    if (d.optimizer == optimizer && d.setting == setting) return d.value;
  return 0;
}

}  // namespace shardwright
