#include "shardwright/runtime/rate_schedule.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <set>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

const std::vector<std::string> kinds{"constant", "step", "exponential", "cosine", "linear", "polynomial"};

/// `12`, `3epochs`, or `5%` of the run's steps.
std::int64_t count_in(std::string_view what, std::string_view text, const ScheduleLength& length) {
  constexpr std::string_view epochs = "epochs", epoch = "epoch";
  std::string_view number = text;
  std::int64_t each = 1;
  for (std::string_view unit : {epochs, epoch})
    if (number.ends_with(unit)) {
      number.remove_suffix(unit.size());
      each = length.steps_per_epoch;
      if (each == 0) throw error("{} {}: the data have no epochs; give steps", what, text);
      break;
    }
  if (text.ends_with("%")) {
    const auto share = to_number(text.substr(0, text.size() - 1));
    if (share && *share > 0 && *share <= 100)
      return std::max<std::int64_t>(1, std::llround(*share / 100 * static_cast<double>(length.steps)));
  }
  const auto count = to_integer(number);
  constexpr std::int64_t most = std::int64_t{1} << 40;
  if (!count || *count < 1 || *count > most / each)
    throw error("{} {}: should be a number of steps from 1 on, or as in 3epochs or 5%", what, text);
  return *count * each;
}

}  // namespace

RateSchedule::RateSchedule(std::string_view text, std::string_view warmup, double rate,
                           const ScheduleLength& length)
    : rate_(rate) {
  const std::size_t colon = text.find(':');
  const std::string_view name = text.substr(0, colon);
  const auto kind = std::ranges::find(kinds, name);
  if (kind == kinds.end())
    throw error("learning rate schedule '{}' is unknown{}; there are {}", name, near_names(name, kinds),
                join(kinds, ", "));
  kind_ = static_cast<Kind>(kind - kinds.begin());
  std::set<std::string_view> said;
  if (colon != text.npos)
    for (std::string_view word : split(text.substr(colon + 1), ',')) {
      const std::size_t equals = word.find('=');
      if (equals == word.npos || !takes(word.substr(0, equals)))
        throw error("learning rate schedule {}: does not take '{}'", name, word);
      if (!said.insert(word.substr(0, equals)).second)
        throw error("learning rate schedule {}: says {} twice", name, word.substr(0, equals));
      set(word.substr(0, equals), word.substr(equals + 1), length);
    }
  if (kind_ == Kind::step && !said.contains("every"))
    throw error("learning rate schedule step: say how often, as in step:every=100");
  if (kind_ == Kind::exponential && !said.contains("factor"))
    throw error("learning rate schedule exponential: say by what, as in exponential:factor=0.99");
  if (!warmup.empty()) warmup_ = count_in("warmup", warmup, length);
  steps_ = std::max<std::int64_t>(length.steps - warmup_, 1);
}

bool RateSchedule::takes(std::string_view key) const {
  const bool has_factor = kind_ == Kind::step || kind_ == Kind::exponential;
  const bool has_end = kind_ == Kind::cosine || kind_ == Kind::linear || kind_ == Kind::polynomial;
  if (key == "power") return kind_ == Kind::polynomial;
  return key == "end" ? has_end : has_factor && (key == "every" || key == "factor");
}

void RateSchedule::set(std::string_view key, std::string_view value, const ScheduleLength& length) {
  if (key == "every") {
    every_ = count_in("every", value, length);
    return;
  }
  const auto number = to_number(value);
  if (!number || *number < 0 || (key == "power" && *number == 0))
    throw error("learning rate schedule: {} should be a number {}, not {}", key,
                key == "power" ? "above 0" : "from 0 on", value);
  (key == "factor" ? factor_ : key == "power" ? power_ : end_) = *number;
}

double RateSchedule::at(std::int64_t step) const {
  if (step < warmup_) return rate_ * static_cast<double>(step + 1) / static_cast<double>(warmup_);
  const std::int64_t t = step - warmup_;
  const double share = static_cast<double>(std::min(t, steps_)) / static_cast<double>(steps_);
  switch (kind_) {
    case Kind::constant: return rate_;
    case Kind::step: return rate_ * std::pow(factor_, static_cast<double>(t / every_));
    case Kind::exponential:
      return rate_ * std::pow(factor_, static_cast<double>(t) / static_cast<double>(every_));
    case Kind::cosine: return end_ + (rate_ - end_) * (1 + std::cos(std::numbers::pi * share)) / 2;
    case Kind::linear: return rate_ + (end_ - rate_) * share;
    case Kind::polynomial: return end_ + (rate_ - end_) * std::pow(1 - share, power_);
  }
  return rate_;
}

bool is_constant_rate(std::string_view text, std::string_view warmup) {
  return RateSchedule(text, warmup, 1, {.steps = 1, .steps_per_epoch = 1}).is_constant();
}

}  // namespace shardwright
