// A train step: forward, backward and optimizer update in one graph.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>

#include "shardwright/base/attributes.h"
#include "shardwright/base/precision.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/graph.h"

namespace shardwright {

/// Gradients are computed of the loss times a scale, so that small ones do not vanish in a short type; a step in which
/// one of them overflows changes no parameter and no state of the optimizer (ops/loss_scale.cpp).
struct LossScale {
  double initial = 0;  // 0: none
  std::int64_t interval =
      0;  // good steps behind which the scale grows by `factor`, as it shrinks by it; 0: it stays
  double factor = 2;

  bool is_on() const { return initial > 0; }
  bool operator==(const LossScale&) const = default;
};
/// As PyTorch's GradScaler and MindSpore's DynamicLossScaleManager start.
inline LossScale dynamic_loss_scale() { return {.initial = 65536, .interval = 2000}; }

/// What it is unless somebody says otherwise: dynamic where gradients are f16 and what they update is longer.
LossScale default_loss_scale(const Precision& precision);

/// Scales that f32 holds, and whose inverse it does.
constexpr double least_loss_scale = 1e-30, most_loss_scale = 1e30;
bool is_loss_scale(double scale);

/// `none`, `dynamic`, a number that stays, or with other settings than dynamic_loss_scale's `1024 by 2 every 500`.
std::string to_text(const LossScale& scale);
/// Nothing if it is none of these.
std::optional<LossScale> parse_loss_scale(std::string_view text);
constexpr std::string_view known_loss_scales = "dynamic, none or a number from 1e-30 to 1e30";

/// States of a train step with a loss scale: the scale, and how many good steps there were since it changed; f32[].
constexpr std::string_view loss_scale_state = "loss_scale", good_steps_state = "loss_scale.good_steps";

/// A rate that is set from outside. Where updates of one step have several, a dot and a number follow.
constexpr std::string_view rate_state = "optimizer.rate";

/// Which optimizer operator updates the parameters, and its attributes (rate, momentum, ...).
struct OptimizerChoice {
  std::string name = "sgd";
  Attributes attributes{{"rate", 0.01}};
  double clip_norm = 0;  // above 0: gradients are scaled so that their norm all together is at most this
  /// Gradients of parameters with a master are reduced in the type of the parameter, not of the master.
  bool reduces_short = false;
  LossScale loss_scale = {};
  /// The rate is the state `rate_name`, which starts with what the attribute says and is set from step to step.
  bool has_set_rate = false;
  std::string rate_name{rate_state};
  /// The norm of all gradients together is kept, before it is clipped, as the state `gradients.norm.last`.
  bool keeps_norm = false;
};

/// Whether `name`, f32 or short, as --reduce-precision takes it, is the latter. Throws: Error on another.
bool reduces_short_called(std::string_view name);

/// A parameter that is updated in another type than it is read in.
bool has_master(const Node& node);
/// There is one.
bool has_masters(const Graph& graph);

/// The optimizer operator called `name`. Throws: Error that lists them.
const OpDef& optimizer_called(std::string_view name);

/// f32[], what the last step has found.
constexpr std::string_view norm_state = "gradients.norm.last";
/// A state that tells updates their rate: f64[], on every rank that updates something.
bool is_rate(std::string_view name);

constexpr std::string_view steps_state = "optimizer.step";
/// The state of that name, f32[], the count of steps done; made if there is none. What differs from step to
/// step (dropout) reads it, and add_train_step lets it count.
ValueId step_count(Builder& builder);

/// That state, or an invalid id.
ValueId existing_step_count(const Graph& graph);

/// Adds backward and update nodes to `graph`. Outputs become the loss, then what the outputs were.
/// Every parameter that the loss depends on is updated; its states are leaves called `weight.momentum`. One whose
/// attribute `master` names a longer type than its own is updated in that, as `weight.master`.
/// Throws: Error if `name` is no optimizer, or as add_backward does.
void add_train_step(Graph& graph, ValueId loss, const OptimizerChoice& optimizer);

/// The second half of that: updates each parameter by its gradient. For who has made gradients on his own.
void add_updates(Graph& graph, const std::map<ValueId, ValueId>& gradients, const OptimizerChoice& optimizer);

}  // namespace shardwright
