// With b the base, d the features that are turned and f the factor, pair i turns by b^(-2 i / d) a position and
//
//   linear     / f                         dynamic   b -> b (f n / N - (f - 1))^(d / (d - 2)), sequences of n > N places
//   llama3     by the wavelength: long ones / f, short ones stay, those between are mixed
//   yarn       by the pair: / f for those that turn seldom, a ramp, others stay; everything times 0.1 ln f + 1
//   longrope   / a number of its own for each pair
//
// Source: transformers 5, modeling_rope_utils.py.
#include "shardwright/frontend/huggingface/rotary_scaling.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"

namespace shardwright::huggingface {
namespace {

constexpr double pi = std::numbers::pi;

/// `by_1.0_0.25`: decimals without an exponent, enough of them that the same numbers are read.
std::string text_of(const std::vector<double>& rates) {
  std::string out = "by";
  for (double rate : rates) {
    const int digits = 17 - (rate > 0 ? static_cast<int>(std::floor(std::log10(rate))) : 0);
    std::string word = fmt::format("{:.{}f}", rate, std::clamp(digits, 1, 60));
    const std::size_t last = word.find_last_not_of('0');
    word.resize(std::max(last + 1, word.find('.') + 2));
    out += "_" + word;
  }
  return out;
}

std::vector<double> unscaled(double base, std::int64_t pairs) {
  std::vector<double> out;
  for (std::int64_t i = 0; i < pairs; ++i)
    out.push_back(std::pow(base, -static_cast<double>(i) / static_cast<double>(pairs)));
  return out;
}

/// Numbers of the scaling, which must be positive.
double positive(const Config& config, const std::string& key) {
  const double value = config.number(key);
  if (!(value > 0)) throw config.wrong(key, "a number above 0");
  return value;
}

std::vector<double> llama3(const Config& c, std::vector<double> rates, double usual) {
  const double factor = positive(c, "factor"), low = positive(c, "low_freq_factor"),
               high = positive(c, "high_freq_factor"),
               places = c.number_or("original_max_position_embeddings", usual);
  if (high <= low) throw c.wrong("high_freq_factor", "above low_freq_factor");
  for (double& rate : rates) {
    const double wavelength = 2 * pi / rate;
    const double share = (places / wavelength - low) / (high - low);
    if (wavelength > places / low)
      rate /= factor;
    else if (wavelength >= places / high)
      rate = (1 - share) * rate / factor + share * rate;
  }
  return rates;
}

double yarn_scale(const Config& c, double factor) {
  const auto of = [&](double m) { return factor <= 1 ? 1 : 0.1 * m * std::log(factor) + 1; };
  const double m = c.number_or("mscale", 0), all = c.number_or("mscale_all_dim", 0);
  const double inferred = m != 0 && all != 0 ? of(m) / of(all) : of(1);
  return c.number_or("attention_factor", inferred);
}

std::vector<double> yarn(const Config& c, std::vector<double> rates, double factor, double base,
                         double places) {
  const double d = 2 * static_cast<double>(rates.size());
  const auto pair_of = [&](double turns) {
    return d * std::log(places / (turns * 2 * pi)) / (2 * std::log(base));
  };
  double low = pair_of(c.number_or("beta_fast", 32)), high = pair_of(c.number_or("beta_slow", 1));
  if (c.flag_or("truncate", true)) low = std::floor(low), high = std::ceil(high);
  low = std::max(low, 0.0), high = std::min(high, d - 1);
  if (low == high) high += 0.001;
  for (std::size_t i = 0; i < rates.size(); ++i) {
    const double stays = 1 - std::clamp((static_cast<double>(i) - low) / (high - low), 0.0, 1.0);
    rates[i] = rates[i] / factor * (1 - stays) + rates[i] * stays;
  }
  return rates;
}

std::vector<double> longrope(const Config& c, std::vector<double> rates, bool is_long) {
  const std::vector<double> longs = c.numbers("long_factor"), shorts = c.numbers("short_factor");
  for (const auto& [key, list] : {std::pair("long_factor", &longs), std::pair("short_factor", &shorts)})
    if (list->size() != rates.size() || std::ranges::any_of(*list, [](double x) { return !(x > 0); }))
      throw c.wrong(key, fmt::format("{} numbers above 0, one a pair of features", rates.size()));
  for (std::size_t i = 0; i < rates.size(); ++i) rates[i] /= (is_long ? longs : shorts)[i];
  return rates;
}

/// Of a config with scaling: `said` is rope_parameters, or rope_scaling.
RotaryRates scaled(const Config& said, const std::string& kind, RotaryRates out, const RotaryAsked& asked) {
  const std::int64_t pairs = out.turned / 2;
  const auto places = static_cast<double>(asked.places),
             usual = static_cast<double>(asked.original.value_or(asked.places));
  std::vector<double> rates = unscaled(out.base, pairs);
  const auto factor_of = [&](double original) {
    return said.has("factor") ? positive(said, "factor") : places / original;
  };
  if (kind == "linear") {
    const double factor = positive(said, "factor");
    for (double& rate : rates) rate /= factor;
  } else if (kind == "dynamic") {
    const double factor = positive(said, "factor"), d = static_cast<double>(out.turned);
    const double length = static_cast<double>(std::max(asked.sequence, asked.places));
    if (d <= 2) throw said.wrong("factor", "for more than one pair of features");
    out.base *= std::pow(factor * length / places - (factor - 1), d / (d - 2));
    rates = unscaled(out.base, pairs);
    said.pass_over({"original_max_position_embeddings"});
  } else if (kind == "llama3") {
    rates = llama3(said, std::move(rates), usual);
  } else if (kind == "yarn") {
    const double original = said.number_or("original_max_position_embeddings", usual),
                 factor = factor_of(original);
    out.scale = yarn_scale(said, factor);
    rates = yarn(said, std::move(rates), factor, out.base, original);
  } else {
    const double original = said.number_or("original_max_position_embeddings", usual),
                 factor = factor_of(original);
    const double inferred = factor <= 1 ? 1 : std::sqrt(1 + std::log(factor) / std::log(original));
    out.scale = said.number_or("attention_factor", inferred);
    rates = longrope(said, std::move(rates), static_cast<double>(asked.sequence) > original);
  }
  if (std::ranges::any_of(rates, [](double x) { return !(x > 0) || !std::isfinite(x); }))
    throw said.wrong("factor", "such that every rate is a number above 0");
  out.rates = text_of(rates);
  return out;
}

}  // namespace

RotaryRates rotary_rates(const Config& config, const RotaryAsked& asked) {
  std::optional<Config> said = config.inside("rope_parameters");
  const std::optional<Config> old = config.inside("rope_scaling");
  if (!said)
    said = old;
  else if (old)
    throw config.wrong("rope_scaling", "left out beside \"rope_parameters\"");
  RotaryRates out{.base = config.number_or("rope_theta", asked.base), .rates = {}};
  double share = config.number_or("partial_rotary_factor", asked.share);
  std::string kind = "default";
  if (said) {
    out.base = said->number_or("rope_theta", out.base);
    share = said->number_or("partial_rotary_factor", share);
    kind = said->text_or("rope_type", said->text_or("type", "default"));
    said->pass_over({"type"});
  }
  if (!(out.base > 0)) throw config.wrong("rope_theta", "a number above 0");
  if (!(share > 0 && share <= 1)) throw config.wrong("partial_rotary_factor", "above 0 and at most 1");
  out.turned = static_cast<std::int64_t>(static_cast<double>(asked.features) * share);
  if (out.turned < 2 || out.turned % 2 != 0)
    throw error("{}: of {} features of a head {} would be turned; it should be an even number above 0",
                config.path(), asked.features, out.turned);
  if (kind == "su") kind = "longrope";
  const std::vector<std::string> known{"default", "linear", "dynamic", "yarn", "longrope", "llama3"};
  if (std::ranges::find(known, kind) == known.end())
    throw said->wrong(said->has("rope_type") ? "rope_type" : "type",
                      "default, linear, dynamic, yarn, longrope or llama3");
  if (kind != "default") out = scaled(*said, kind, std::move(out), asked);
  if (said) said->check_all_read();
  return out;
}

}  // namespace shardwright::huggingface
