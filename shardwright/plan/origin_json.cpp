#include "shardwright/plan/origin_json.h"

#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/plan/json_fields.h"

namespace shardwright {
namespace {

using Kind = OptimizerSetting::Kind;

Json optimizer_json(const OptimizerChoice& optimizer) {
  Json out{{"name", optimizer.name}};
  if (optimizer.clip_norm > 0) out["clip_norm"] = optimizer.clip_norm;
  if (const LossScale& scale = optimizer.loss_scale; scale.is_on())
    out["loss_scale"] = {{"initial", scale.initial}, {"interval", scale.interval}, {"factor", scale.factor}};
  for (const auto& [name, value] : optimizer.attributes)
    std::visit([&, key = name](const auto& v) { out[key] = v; }, value);
  return out;
}

LossScale loss_scale_of(const Json& json) {
  if (!json.is_object()) throw kind_error("loss_scale", "an object with initial, interval and factor", json);
  check_keys(json, "loss_scale", {"initial", "interval", "factor"});
  LossScale out{.initial = number_or(json, "initial", 0.0), .factor = number_or(json, "factor", 2.0)};
  if (json.contains("interval")) out.interval = long_of(json.at("interval"), "interval", 0, 1LL << 40);
  if (!is_loss_scale(out.initial))
    throw kind_error("initial", "a number from 1e-30 to 1e30", member(json, "initial"));
  if (!(out.factor > 1)) throw kind_error("factor", "a number above 1", json.at("factor"));
  return out;
}

OptimizerChoice optimizer_of(const Json& json) {
  if (!json.is_object()) throw kind_error("optimizer", "an object with a name and settings", json);
  OptimizerChoice out{.name = text_or(json, "name", "sgd")};
  out.clip_norm = number_or(json, "clip_norm", 0.0);
  if (out.clip_norm < 0) throw kind_error("clip_norm", "a number from 0 on", json.at("clip_norm"));
  if (json.contains("loss_scale")) out.loss_scale = loss_scale_of(json.at("loss_scale"));
  optimizer_called(out.name);  // it exists
  for (const auto& [name, value] : json.items()) {
    if (name == "name" || name == "clip_norm" || name == "loss_scale") continue;
    const OptimizerSetting* setting = optimizer_setting(out.name, name);
    if (!setting) throw error("\"{}\" is no setting of optimizer {}", name, out.name);
    if (setting->kind == Kind::word) {
      out.attributes.set(name, member_or(json, name.c_str(), "true or false", false));
      continue;
    }
    const double number = number_or(json, name.c_str(), 0.0);
    const bool is_share = setting->kind == Kind::share;
    if (number < 0 || (is_share && number >= 1))
      throw kind_error(name, is_share ? "a number from 0 to below 1" : "a number from 0 on", value);
    out.attributes.set(name, number);
  }
  return out;
}

}  // namespace

Json origin_json(const Origin& origin) {
  Json out = Json::object();
  if (origin.global_batch) out["global_batch"] = *origin.global_batch;
  out["precision"] = to_text(origin.precision);
  if (origin.optimizer.reduces_short) out["reduce_precision"] = "short";
  if (!origin.loss.empty()) out["loss"] = origin.loss;
  if (origin.attention == Attention::in_memory) out["attention"] = "explicit";
  out["optimizer"] = optimizer_json(origin.optimizer);
  return out;
}

/// What is not said is as it is without flags.
Origin origin_of(const Json& json) {
  if (!json.is_object()) throw kind_error("made_from", "an object", json);
  check_keys(json, "made_from",
             {"global_batch", "precision", "reduce_precision", "loss", "attention", "optimizer"});
  Origin out{.loss = text_or(json, "loss", "")};
  const std::string attention = text_or(json, "attention", "flash");
  if (attention != "flash" && attention != "explicit")
    throw kind_error("attention", "flash or explicit", json.at("attention"));
  if (attention == "explicit") out.attention = Attention::in_memory;
  if (json.contains("global_batch"))
    out.global_batch = long_of(json.at("global_batch"), "global_batch", 1, most_of_all);
  std::string name = text_or(json, "precision", "f32");
  if (name == "f16")
    name = "fp16";  // as files said before it was mixed; what they are for says why they are refused
  const auto precision = precision_called(name);
  if (!precision)
    throw kind_error("precision", fmt::format("one of {}", known_precisions), json.at("precision"));
  out.precision = *precision;
  if (json.contains("optimizer")) out.optimizer = optimizer_of(json.at("optimizer"));
  const std::string reduced = text_or(json, "reduce_precision", "f32");
  if (reduced != "f32" && reduced != "short")
    throw kind_error("reduce_precision", "f32 or short", json.at("reduce_precision"));
  out.optimizer.reduces_short = reduced == "short";
  return out;
}

}  // namespace shardwright
