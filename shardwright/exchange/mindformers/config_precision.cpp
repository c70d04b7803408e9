#include "shardwright/exchange/mindformers/config_precision.h"

#include <map>

#include "shardwright/base/error.h"
#include "shardwright/base/precision.h"

namespace shardwright {
namespace {

using Said = PrecisionKeys::Said;

DType dtype_said(const Said& said) {
  static const std::map<std::string, DType> names{{"float32", DType::f32}, {"fp32", DType::f32},
                                                  {"float16", DType::f16}, {"fp16", DType::f16},
                                                  {"bf16", DType::bf16},   {"bfloat16", DType::bf16}};
  const auto it = names.find(said.value);
  if (it == names.end()) throw error("{}: '{}' should be float32, float16 or bfloat16", said.key, said.value);
  return it->second;
}

bool is_short(const std::optional<DType>& dtype) { return dtype && *dtype != DType::f32; }

int level_said(const Said& said) {
  if (said.value.size() == 2 && (said.value[0] == 'O' || said.value[0] == 'o') && said.value[1] >= '0' &&
      said.value[1] <= '3')
    return said.value[1] - '0';
  throw error("{}: '{}' should be O0, O1, O2 or O3", said.key, said.value);
}

Error contradiction(const Said& a, const Said& b, const std::string& right) {
  return error("{} is {} but {} is {}; set {}", a.key, a.value, b.key, b.value, right);
}

Precision of_level(const PrecisionKeys& keys, std::optional<DType> compute, std::optional<DType> parameters) {
  const int level = level_said(*keys.amp_level);
  if (level == 0) {
    for (const auto& [said, dtype] : {std::pair(&keys.compute, compute), {&keys.parameters, parameters}})
      if (is_short(dtype))
        throw contradiction(*keys.amp_level, **said,
                            fmt::format("amp_level: O2, or {}: float32", (*said)->key));
    return DType::f32;
  }
  if (compute == DType::f32)
    throw contradiction(*keys.amp_level, *keys.compute,
                        fmt::format("amp_level: O0, or {}: float16 or bfloat16", keys.compute->key));
  const DType brief = compute.value_or(DType::f16);
  if (level == 3) {
    if (parameters.value_or(brief) != brief)
      throw contradiction(*keys.amp_level, *keys.parameters, "amp_level: O2, which updates in float32");
    return brief;
  }
  if (is_short(parameters))
    throw contradiction(*keys.amp_level, *keys.parameters,
                        fmt::format("{}: float32, or amp_level: O3", keys.parameters->key));
  return level == 1 ? Precision::products_in(brief) : Precision::mixed(brief);
}

Precision of_types(const PrecisionKeys& keys, std::optional<DType> compute, std::optional<DType> parameters) {
  if (!compute && is_short(parameters))
    throw error("{} is {} but there is no compute_dtype; set it to {} too, or {}: float32",
                keys.parameters->key, keys.parameters->value, keys.parameters->value, keys.parameters->key);
  if (is_short(parameters) && parameters != compute)
    throw contradiction(*keys.parameters, *keys.compute,
                        fmt::format("{}: float32 or {}", keys.parameters->key, keys.compute->value));
  if (is_short(compute)) return is_short(parameters) ? Precision(*compute) : Precision::mixed(*compute);
  return DType::f32;
}

}  // namespace

ConfigPrecision config_precision(const PrecisionKeys& keys) {
  ConfigPrecision out;
  for (const Said& said : keys.inner)
    if (is_short(dtype_said(said)))
      out.idle.push_back(
          fmt::format("{} {} has no effect: it is computed in float32 always", said.key, said.value));
  const auto dtype = [](const std::optional<Said>& said) {
    return said ? std::optional(dtype_said(*said)) : std::nullopt;
  };
  const auto compute = dtype(keys.compute), parameters = dtype(keys.parameters);
  for (const auto* said : {&keys.amp_level, &keys.compute, &keys.parameters})
    if (out.key.empty() && *said) out.key = (*said)->key;
  if (keys.amp_level)
    out.precision = to_text(of_level(keys, compute, parameters));
  else if (keys.compute || keys.parameters)
    out.precision = to_text(of_types(keys, compute, parameters));
  return out;
}

}  // namespace shardwright
