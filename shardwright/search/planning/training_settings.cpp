// What a network is made of besides its model, and how it is trained: rows of the table of settings.

#include <array>

#include "shardwright/base/unknown.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {
namespace {

/// A number that an optimizer has, as `given` says it.
double number_of(const OptimizerSetting& setting, const Given& given) {
  const double x = given.number();
  if (x < 0) throw given.wrong("should be a number from 0 on");
  if (setting.kind == OptimizerSetting::Kind::share && x >= 1) throw given.wrong("should be below 1");
  return x;
}

/// A number that an optimizer has.
SettingRow of_optimizer(std::string flag, std::string doc, std::string attribute, std::string keys) {
  return {.flag = std::move(flag),
          .value = "X",
          .doc = std::move(doc),
          .part = SettingPart::update,
          .keys = std::move(keys),
          .member = attribute,
          .parse =
              [attribute](PlanRequest& r, const Given& given) {
                OptimizerChoice& optimizer = r.origin.optimizer;
                const OptimizerSetting* setting = optimizer_setting(optimizer.name, attribute);
                if (!setting) throw error("{} is no setting of optimizer {}", given.called, optimizer.name);
                optimizer.attributes.set(attribute, number_of(*setting, given));
              },
          .print =
              [attribute](const PlanRequest& r) {
                const OptimizerChoice& optimizer = r.origin.optimizer;
                const OptimizerSetting* setting = optimizer_setting(optimizer.name, attribute);
                if (!setting) return std::string();
                return fmt::format("{}", optimizer.attributes.number(attribute, setting->otherwise));
              }};
}

/// As other tools call them.
std::string type_meant_by(std::string_view name) {
  constexpr std::array<std::pair<std::string_view, std::string_view>, 10> others{{{"bfloat16", "bf16"},
                                                                                  {"float16", "fp16"},
                                                                                  {"half", "fp16"},
                                                                                  {"f16", "fp16"},
                                                                                  {"float32", "f32"},
                                                                                  {"fp32", "f32"},
                                                                                  {"float", "f32"},
                                                                                  {"float64", "f64"},
                                                                                  {"fp64", "f64"},
                                                                                  {"double", "f64"}}};
  for (const auto& [other, ours] : others)
    if (other == lower(name)) return fmt::format(" (did you mean {}?)", ours);
  return "";
}

}  // namespace

void set_precision(Origin& origin, const Precision& precision) {
  if (precision == origin.precision) return;
  origin.precision = precision;
  origin.optimizer.loss_scale = default_loss_scale(precision);
}

std::vector<SettingRow> network_settings() {
  return {
      {.flag = "--global-batch",
       .value = "B",
       .doc = "samples per step on all devices together",
       .part = SettingPart::network,
       .alias = "--batch-size",
       .keys = "`batch_size` of `runner_config`, of the file, else of `train_dataset`; times what the "
               "table below says",
       .member = "global_batch",
       .parse = [](PlanRequest& r, const Given& given) { r.origin.global_batch = given.integer(); },
       .print =
           [](const PlanRequest& r) {
             return r.origin.global_batch ? fmt::format("{}", *r.origin.global_batch) : "";
           }},
      {.flag = "--precision",
       .value = "TYPE",
       .doc = std::string(known_precisions) + "; bf16 and fp16 update in f32",
       .part = SettingPart::network,
       .keys = "`amp_level` of the file or of `runner_config`; of `model.model_config` `compute_dtype`, "
               "`param_init_type`: by the table in [precision.md](precision.md)",
       .member = "precision",
       .parse =
           [](PlanRequest& r, const Given& given) {
             const auto precision = precision_called(given.text);
             if (!precision)
               throw given.wrong(fmt::format("there are {}{}", known_precisions, type_meant_by(given.text)));
             set_precision(r.origin, *precision);
           },
       .print = [](const PlanRequest& r) { return to_text(r.origin.precision); }},
      {.flag = "--loss",
       .value = "NAME",
       .doc = "cross_entropy, binary_cross_entropy, mean_squared_error or mean_absolute_error",
       .part = SettingPart::network,
       .member = "loss",
       .parse = [](PlanRequest& r, const Given& given) { r.origin.loss = given.text; },
       .print = [](const PlanRequest& r) { return r.origin.loss; }},
      {.flag = "--attention",
       .value = "HOW",
       .doc = "of decoders: flash (default), one operator, or explicit: products, with all scores in memory",
       .part = SettingPart::network,
       .member = "attention",
       .parse =
           [](PlanRequest& r, const Given& given) {
             constexpr std::array<std::string_view, 2> words{"flash", "explicit"};
             r.origin.attention = std::array{Attention::flash, Attention::in_memory}[given.word(words)];
           },
       .print =
           [](const PlanRequest& r) {
             return std::string(r.origin.attention == Attention::flash ? "flash" : "explicit");
           }}};
}

std::vector<SettingRow> update_settings() {
  const auto usual = [](std::string_view optimizer, std::string_view setting) {
    return fmt::format(" (default {})", default_setting(optimizer, setting));
  };
  return {
      {.flag = "--optimizer",
       .value = "NAME",
       .doc = "sgd, momentum, adagrad, adam, adamw or lazy_adam",
       .part = SettingPart::update,
       .keys = "`optimizer.type`, as `AdamW`, `FP32StateAdamWeightDecay`, `Adam`, `SGD`",
       .member = "optimizer",
       .parse =
           [](PlanRequest& r, const Given& given) {
             optimizer_called(given.text);  // it exists
             if (given.text == r.origin.optimizer.name) return;
             r.origin.optimizer.name = given.text;  // another has settings of its own
             r.origin.optimizer.attributes = OptimizerChoice{}.attributes;
           },
       .print = [](const PlanRequest& r) { return r.origin.optimizer.name; }},
      of_optimizer("--lr", "learning rate (default 0.01)", "rate",
                   "`lr_schedule.learning_rate`, `optimizer.learning_rate`"),
      of_optimizer("--momentum", "of momentum" + usual("momentum", "momentum"), "momentum",
                   "`optimizer.momentum`"),
      of_optimizer("--weight-decay",
                   "added to the gradient; decoupled in adamw" + usual("adamw", "weight_decay"),
                   "weight_decay", "`optimizer.weight_decay`"),
      of_optimizer("--beta1", "of adam, adamw and lazy_adam" + usual("adam", "beta1"), "beta1",
                   "`optimizer.beta1`, `optimizer.betas`"),
      of_optimizer("--beta2", "of adam, adamw and lazy_adam" + usual("adam", "beta2"), "beta2",
                   "`optimizer.beta2`, `optimizer.betas`"),
      of_optimizer("--epsilon",
                   "of adam, adamw and lazy_adam" + usual("adam", "epsilon") + "; of adagrad" +
                       usual("adagrad", "epsilon"),
                   "epsilon", "`optimizer.eps`"),
      {.flag = "--clip-norm",
       .value = "X",
       .doc = "scale gradients so that their norm all together is at most X",
       .part = SettingPart::update,
       .keys = "`runner_wrapper.max_grad_norm` with `use_clip_grad`",
       .member = "clip_norm",
       .parse =
           [](PlanRequest& r, const Given& given) {
             r.origin.optimizer.clip_norm = given.number();
             if (r.origin.optimizer.clip_norm <= 0) throw given.wrong("should be a number above 0");
           },
       .print =
           [](const PlanRequest& r) {
             const double norm = r.origin.optimizer.clip_norm;
             return norm > 0 ? fmt::format("{}", norm) : "";
           }},
      {.flag = "--loss-scale",
       .value = "X",
       .doc = "dynamic, none or a number: keeps small gradients (default dynamic for fp16, products-fp16)",
       .part = SettingPart::update,
       .keys = "`runner_wrapper.scale_sense`: a number, or of a `DynamicLossScaleUpdateCell` or "
               "`FixedLossScaleUpdateCell` `loss_scale_value`, `scale_factor` (2), `scale_window` (1000)",
       .member = "loss_scale",
       .parse =
           [](PlanRequest& r, const Given& given) {
             const auto scale = parse_loss_scale(given.text);
             if (!scale) throw given.wrong(fmt::format("should be {}", known_loss_scales));
             r.origin.optimizer.loss_scale = *scale;
           },
       .print = [](const PlanRequest& r) { return to_text(r.origin.optimizer.loss_scale); }},
      {.flag = "--reduce-precision",
       .value = "TYPE",
       .doc = "of gradients in mixed precision: f32 (default), or short as they come out",
       .part = SettingPart::update,
       .keys = "`parallel.gradient_fp32_sync: False`: short",
       .member = "reduce_precision",
       .parse =
           [](PlanRequest& r, const Given& given) {
             constexpr std::array<std::string_view, 2> words{"f32", "short"};
             r.origin.optimizer.reduces_short = given.word(words) == 1;
           },
       .print =
           [](const PlanRequest& r) {
             return std::string(r.origin.optimizer.reduces_short ? "short" : "f32");
           }}};
}

}  // namespace shardwright
