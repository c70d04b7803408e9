// The settings of each optimizer, and what they are where nobody says them: the attributes that its operator takes
// besides those that a train step sets itself. Read by the kernels, and by who reads, writes or compares choices.
#pragma once

#include <array>
#include <string_view>

namespace shardwright {

struct OptimizerSetting {
  enum class Kind { number, share, word };  // from 0 on; from 0 to below 1; true or false
  std::string_view optimizer;
  std::string_view name;
  double otherwise = 0;
  Kind kind = Kind::number;
};

/// A setting of which a parameter has its own, where its optimizer's is another, is an attribute of the parameter: this, and
/// the setting's name.
constexpr std::string_view own_setting = "own_";
/// A parameter whose rate is set from outside, but not with that of others: the number behind the dot of its rate's state.
constexpr std::string_view rate_group = "rate_group";

inline constexpr std::array optimizer_settings{
    OptimizerSetting{"sgd", "rate"},
    OptimizerSetting{"sgd", "weight_decay"},
    OptimizerSetting{"momentum", "momentum", 0.9},
    OptimizerSetting{"momentum", "nesterov", 0, OptimizerSetting::Kind::word},
    OptimizerSetting{"momentum", "rate"},
    OptimizerSetting{"momentum", "weight_decay"},
    OptimizerSetting{"adagrad", "epsilon", 1e-10},
    OptimizerSetting{"adagrad", "rate"},
    OptimizerSetting{"adagrad", "weight_decay"},
    OptimizerSetting{"lazy_adam", "beta1", 0.9, OptimizerSetting::Kind::share},
    OptimizerSetting{"lazy_adam", "beta2", 0.999, OptimizerSetting::Kind::share},
    OptimizerSetting{"lazy_adam", "epsilon", 1e-8},
    OptimizerSetting{"lazy_adam", "rate"},
    OptimizerSetting{"adam", "beta1", 0.9, OptimizerSetting::Kind::share},
    OptimizerSetting{"adam", "beta2", 0.999, OptimizerSetting::Kind::share},
    OptimizerSetting{"adam", "epsilon", 1e-8},
    OptimizerSetting{"adam", "plain_epsilon", 0, OptimizerSetting::Kind::word},
    OptimizerSetting{"adam", "rate"},
    OptimizerSetting{"adam", "weight_decay"},
    OptimizerSetting{"adamw", "beta1", 0.9, OptimizerSetting::Kind::share},
    OptimizerSetting{"adamw", "beta2", 0.999, OptimizerSetting::Kind::share},
    OptimizerSetting{"adamw", "epsilon", 1e-8},
    OptimizerSetting{"adamw", "rate"},
    OptimizerSetting{"adamw", "weight_decay", 0.01}};

/// Nothing if the optimizer has no such setting.
constexpr const OptimizerSetting* optimizer_setting(std::string_view optimizer, std::string_view name) {
  for (const OptimizerSetting& s : optimizer_settings)
    if (s.optimizer == optimizer && s.name == name) return &s;
  return nullptr;
}

constexpr double default_setting(std::string_view optimizer, std::string_view name) {
  const OptimizerSetting* setting = optimizer_setting(optimizer, name);
  return setting ? setting->otherwise : 0;
}

}  // namespace shardwright
