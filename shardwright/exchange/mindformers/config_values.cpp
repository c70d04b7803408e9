#include "shardwright/exchange/mindformers/config_values.h"

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::vector<std::int64_t> integers_of(const YAML::Node& list, const std::string& where) {
  if (!list.IsSequence()) throw error("{} should be a list of integers", where);
  std::vector<std::int64_t> out;
  for (const YAML::Node& entry : list) {
    const auto n = entry.IsScalar() ? to_integer(entry.Scalar()) : std::nullopt;
    if (!n) throw error("{} should be a list of integers", where);
    out.push_back(*n);
  }
  return out;
}

}  // namespace

/// `[[8, 1], [8]]` as `((8, 1), (8,))`.
std::string splits_of(const YAML::Node& list, const std::string& where) {
  const auto check = [&](const YAML::Node& node) {
    if (!node.IsSequence() || node.size() == 0)
      throw error("{} should be full_batch, data_parallel or a list with a list of integers for each input",
                  where);
  };
  std::vector<TensorSplit> out;
  check(list);
  for (const YAML::Node& input : list) {
    check(input);
    TensorSplit& split = out.emplace_back();
    for (const YAML::Node& parts : input) {
      const auto n = parts.IsScalar() ? to_integer(parts.Scalar()) : std::nullopt;
      if (!n || *n < 1) throw error("{}: parts of a dim should be integers from 1 on", where);
      split.parts.push_back(*n);
    }
  }
  return to_text(out);
}

BucketLimit index_limit_of(const YAML::Node& list, const std::string& where) {
  std::vector<std::int64_t> indices = integers_of(list, where);
  try {
    return index_limit(std::move(indices));
  } catch (const Error& e) {
    throw with_context(e, where);
  }
}

namespace {

BucketLimit size_limit_of(const YamlMap& section) {
  const auto config = section.text("config");
  if (!config) throw error("{} is missing; it should be a number of megabytes", section.path_of("config"));
  try {
    return parse_bucket_limit("size:" + *config);
  } catch (const Error& e) {
    throw with_context(e, section.path_of("config"));
  }
}

}  // namespace

BucketLimit limit_of(const YamlMap& section) {
  const auto mode = section.text("mode");
  if (!mode) throw error("{} is missing; it should be auto, size or index", section.path_of("mode"));
  if (*mode == "index") return index_limit_of(section.at("config"), section.path_of("config"));
  if (*mode == "size") return size_limit_of(section);
  if (*mode != "auto") throw error("{}: '{}' should be auto, size or index", section.path_of("mode"), *mode);
  if (const auto config = section.text("config"))
    throw error("{} is {} but mode auto has none; leave it out", section.path_of("config"), *config);
  return {};
}

std::optional<LossScale> loss_scale_of(const YamlMap& section, const std::string& key) {
  const auto in_range = [](double scale, const std::string& where) {
    if (!is_loss_scale(scale)) throw error("{}: {} should be from 1e-30 to 1e30", where, scale);
    return scale;
  };
  LossScale out;
  if (!section.at(key).IsMap()) {
    const auto scale = section.positive(key);
    if (!scale) return std::nullopt;
    out.initial = in_range(*scale, section.path_of(key));
    return out;
  }
  const YamlMap cell = section.map(key, {"type", "loss_scale_value", "scale_factor", "scale_window"});
  const std::string type = cell.text("type").value_or("");
  if (type != "DynamicLossScaleUpdateCell" && type != "FixedLossScaleUpdateCell")
    throw error("{}: '{}' should be DynamicLossScaleUpdateCell or FixedLossScaleUpdateCell",
                cell.path_of("type"), type);
  const auto value = cell.positive("loss_scale_value");
  if (!value) throw error("{} is missing; write for example 65536", cell.path_of("loss_scale_value"));
  out.initial = in_range(*value, cell.path_of("loss_scale_value"));
  if (type.starts_with("Fixed")) return out;
  out.factor = cell.positive("scale_factor").value_or(2);
  if (out.factor <= 1) throw error("{}: {} should be above 1", cell.path_of("scale_factor"), out.factor);
  out.interval = cell.count("scale_window").value_or(1000);
  return out;
}

}  // namespace shardwright
