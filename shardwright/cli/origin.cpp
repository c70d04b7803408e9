#include "shardwright/cli/origin.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/search/planning/problem.h"

namespace shardwright {
namespace {

/// The numbers that an optimizer has, by flag; the rate of all of them is --lr.
struct SettingFlag {
  std::string flag;
  std::string attribute;
};
const std::vector<SettingFlag>& setting_flags_of_optimizers() {
  static const std::vector<SettingFlag> table{
      {"--lr", "rate"},     {"--momentum", "momentum"}, {"--weight-decay", "weight_decay"},
      {"--beta1", "beta1"}, {"--beta2", "beta2"},       {"--epsilon", "epsilon"}};
  return table;
}

bool has_setting(const std::string& optimizer, const std::string& attribute) {
  const std::vector<std::string>& settings = optimizer_called(optimizer).attributes;
  return std::find(settings.begin(), settings.end(), attribute) != settings.end();
}

Precision precision_of(const Arguments& arguments) {
  const std::string name = arguments.text("--precision");
  const auto precision = precision_called(name);
  if (!precision) throw error("{} {}: there are {}", arguments.called("--precision"), name, known_precisions);
  return *precision;
}

double number_of_setting(const Arguments& arguments, const SettingFlag& setting) {
  const double x = arguments.number(setting.flag, 0);
  if (x < 0) throw error("{} {}: should be a number from 0 on", setting.flag, arguments.text(setting.flag));
  if (setting.attribute.starts_with("beta") && x >= 1)
    throw error("{} {}: should be below 1", setting.flag, arguments.text(setting.flag));
  return x;
}

/// `choice` with what flags say. Another optimizer has settings of its own.
OptimizerChoice with_flags(const Arguments& arguments, OptimizerChoice choice) {
  if (const std::string name = arguments.text("--optimizer", choice.name); name != choice.name)
    choice = {.name = name,
              .clip_norm = choice.clip_norm,
              .reduces_short = choice.reduces_short,
              .loss_scale = choice.loss_scale};
  optimizer_called(choice.name);  // it exists
  for (const SettingFlag& setting : setting_flags_of_optimizers()) {
    if (!arguments.has(setting.flag)) continue;
    if (!has_setting(choice.name, setting.attribute))
      throw error("{} is no setting of optimizer {}", setting.flag, choice.name);
    choice.attributes.set(setting.attribute, number_of_setting(arguments, setting));
  }
  if (arguments.has("--loss-scale")) {
    const auto scale = parse_loss_scale(arguments.text("--loss-scale"));
    if (!scale)
      throw error("{} {}: should be {}", arguments.called("--loss-scale"), arguments.text("--loss-scale"),
                  known_loss_scales);
    choice.loss_scale = *scale;
  }
  if (arguments.has("--reduce-precision")) try {
      choice.reduces_short = reduces_short_called(arguments.text("--reduce-precision"));
    } catch (const Error& e) {
      throw error("{} {}", arguments.called("--reduce-precision"), e.what());
    }
  if (!arguments.has("--clip-norm")) return choice;
  choice.clip_norm = arguments.number("--clip-norm", 0);
  if (choice.clip_norm <= 0)
    throw error("--clip-norm {}: should be a number above 0", arguments.text("--clip-norm"));
  return choice;
}

/// Without a word about it, the loss is scaled where gradients are fp16.
void set_precision(Origin& origin, const Precision& precision) {
  if (precision == origin.precision) return;
  origin.precision = precision;
  origin.optimizer.loss_scale = default_loss_scale(precision);
}

/// `origin` with what flags say.
Origin with_flags(const Arguments& arguments, Origin origin) {
  if (arguments.has("--precision")) set_precision(origin, precision_of(arguments));
  if (arguments.has("--loss")) origin.loss = arguments.text("--loss");
  if (arguments.has("--global-batch")) origin.global_batch = arguments.integer("--global-batch", 0);
  origin.optimizer = with_flags(arguments, std::move(origin.optimizer));
  return origin;
}

/// All that there is to say, by flag, as a user writes it; empty: the model's own, or none.
std::vector<std::pair<std::string, std::string>> settings_of(const Origin& o) {
  std::vector<std::pair<std::string, std::string>> out{
      {"--optimizer", o.optimizer.name},
      {"--precision", to_text(o.precision)},
      {"--reduce-precision", o.optimizer.reduces_short ? "short" : "f32"},
      {"--loss", o.loss},
      {"--global-batch", o.global_batch ? fmt::format("{}", *o.global_batch) : ""},
      {"--clip-norm", o.optimizer.clip_norm > 0 ? fmt::format("{}", o.optimizer.clip_norm) : ""},
      {"--loss-scale", to_text(o.optimizer.loss_scale)}};
  for (const auto& [flag, attribute] : setting_flags_of_optimizers())
    if (has_setting(o.optimizer.name, attribute))
      out.emplace_back(flag, fmt::format("{}", o.optimizer.attributes.number(
                                                   attribute, default_setting(o.optimizer.name, attribute))));
  return out;
}

/// Throws: Error if a flag that was given makes `asked` another than `decided`. `whose` precedes the decided value:
/// `the plan p.json is for`.
void check_agrees(const Arguments& arguments, const Origin& asked, const Origin& decided,
                  const std::string& whose) {
  const auto of_decided = settings_of(decided);
  for (const auto& setting : settings_of(asked)) {
    const auto& [flag, value] = setting;
    if (!arguments.has(flag) || std::find(of_decided.begin(), of_decided.end(), setting) != of_decided.end())
      continue;
    const auto other = std::find_if(of_decided.begin(), of_decided.end(),
                                    [&](const auto& s) { return s.first == flag && !s.second.empty(); });
    throw error("{} {} but {} {}", arguments.called(flag), arguments.text(flag), whose,
                other != of_decided.end() ? other->second
                : flag == "--loss"        ? "a loss of its own"
                                          : "none");
  }
}

}  // namespace

const Plan& saved_plan(const Arguments& arguments) {
  const std::string path = arguments.text("--plan");
  if (!arguments.plan) arguments.plan = std::make_shared<const Plan>(known_plan(path));
  return *arguments.plan;
}

std::vector<Flag> optimizer_flags() {
  const auto usual = [](std::string_view optimizer, std::string_view setting) {
    return fmt::format(" (default {})", default_setting(optimizer, setting));
  };
  return {{"--optimizer", "NAME", "sgd, momentum, adam or adamw", ""},
          {"--lr", "X", "learning rate (default 0.01)", ""},
          {"--momentum", "X", "of momentum" + usual("momentum", "momentum"), ""},
          {"--weight-decay", "X",
           "added to the gradient; decoupled in adamw" + usual("adamw", "weight_decay"), ""},
          {"--beta1", "X", "of adam and adamw" + usual("adam", "beta1"), ""},
          {"--beta2", "X", "of adam and adamw" + usual("adam", "beta2"), ""},
          {"--epsilon", "X", "of adam and adamw" + usual("adam", "epsilon"), ""},
          {"--clip-norm", "X", "scale gradients so that their norm all together is at most X", ""},
          {"--loss-scale", "X",
           "dynamic, none or a number: keeps small gradients (default dynamic for fp16, products-fp16)", ""},
          {"--loss", "NAME", "cross_entropy, binary_cross_entropy, mean_squared_error or mean_absolute_error",
           ""}};
}

ModelOptions model_options(const Origin& origin, int micro_batches) {
  return {.global_batch = origin.global_batch,
          .precision = origin.precision,
          .loss = origin.loss,
          .micro_batches = micro_batches};
}

namespace {

/// `decided`, with what it leaves to the model filled in where a flag says it: a flag may repeat that, too.
Origin with_own(const Arguments& arguments, const Plan& plan, Origin decided, const Origin& asked) {
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  if (plan.model != spec)  // the fingerprint says whether it fits
    decided.global_batch = asked.global_batch;
  else if (arguments.has("--global-batch") && !decided.global_batch)
    decided.global_batch = batch_of(build_model(spec, model_options(decided)));
  if (!arguments.has("--loss") || !decided.loss.empty() || spec == "-") return decided;
  Origin with_loss = decided;
  with_loss.loss = asked.loss;
  if (fingerprint_of(build_model(spec, model_options(with_loss)).graph) ==
      fingerprint_of(build_model(spec, model_options(decided)).graph))
    decided.loss = asked.loss;
  return decided;
}

}  // namespace

Origin origin_of(const Arguments& given) {
  const Arguments arguments = given;  // reading this copy heeds nothing
  if (!arguments.has("--plan")) return with_flags(arguments, Origin{});
  const Plan& plan = saved_plan(arguments);
  if (plan.model.empty()) return with_flags(arguments, plan.origin);  // by hand, for whatever network it fits
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  Origin decided = plan.origin;
  // Of another MODEL, the batch is part of what the fingerprint compares.
  if (plan.model != spec) decided.global_batch.reset();
  const Origin asked = with_flags(arguments, decided);
  check_agrees(arguments, asked, with_own(arguments, plan, decided, asked),
               fmt::format("the plan {} is for", arguments.text("--plan")));
  return asked;
}

Origin origin_of(const Arguments& given, const Model& model) {
  Origin out = origin_of(given);
  if (!model.own) return out;
  const Arguments arguments = given;
  Origin own = out;
  own.global_batch = model.own->global_batch;
  set_precision(own, model.own->precision);
  if (arguments.has("--loss-scale")) own.optimizer.loss_scale = out.optimizer.loss_scale;
  own.loss = "";
  check_agrees(arguments, out, own, fmt::format("{}, a graph as text, has", model.name));
  own.global_batch.reset();  // as it was asked for
  return own;
}

OptimizerChoice optimizer_of(const Arguments& arguments, const Model& model) {
  for (const Flag& flag : optimizer_flags())
    if (flag.name != "--loss") arguments.heed(flag.name);
  arguments.heed("--reduce-precision");
  return origin_of(arguments, model).optimizer;
}

}  // namespace shardwright
