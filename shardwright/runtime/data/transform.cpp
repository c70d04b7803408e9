#include "shardwright/runtime/data/transform.h"

#include <algorithm>
#include <memory>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

std::vector<SampleType> types_of(const std::vector<Tensor>& values) {
  std::vector<SampleType> types;
  for (const Tensor& t : values) types.emplace_back(t.type());
  return types;
}

/// A transform at its place in a pipeline.
struct MapStep {
  Transform transform;
  RandomStream stream;
};

std::vector<MapStep> steps_of(const std::vector<Transform>& transforms) {
  std::vector<MapStep> steps;
  for (const Transform& t : transforms)
    steps.push_back({t, RandomStream(t.seed, fmt::format("{} {}", t.name, steps.size()))});
  return steps;
}

std::vector<Tensor> applied(const std::vector<MapStep>& steps, std::vector<Tensor> values, std::int64_t epoch,
                            std::int64_t sample, bool are_checked) {
  for (const MapStep& step : steps) {
    if (!are_checked) step.transform.types(types_of(values));
    Chance chance(step.stream, epoch, sample);
    values = step.transform.apply(std::move(values), chance);
  }
  return values;
}

bool is_known(const SampleType& type) { return type && !has_any_size(type->shape); }

std::string context_of(const std::vector<std::string>& columns) {
  return fmt::format("column{} '{}'", columns.size() == 1 ? "" : "s", join(columns, "', '"));
}

/// Which columns go in, and which come out in their place.
struct Mapping {
  std::vector<std::size_t> inputs;
  std::vector<std::size_t> kept;
  std::size_t at = 0;  // so many of the kept stand before what comes out
};

Mapping mapping_of(const std::vector<Column>& columns, const std::vector<std::string>& inputs) {
  Mapping m;
  for (const std::string& name : inputs) m.inputs.push_back(place_of(columns, name));
  if (inputs.empty()) throw error("dataset: map names no columns");
  for (std::size_t c = 0; c < columns.size(); ++c)
    if (std::ranges::find(m.inputs, c) == m.inputs.end()) {
      m.kept.push_back(c);
      m.at += c < m.inputs[0];
    }
  return m;
}

template <class T>
std::vector<T> replaced(std::vector<T> old, const Mapping& m, std::vector<T> made) {
  std::vector<T> out;
  for (std::size_t k = 0; k <= m.kept.size(); ++k) {
    if (k == m.at) std::ranges::move(made, std::back_inserter(out));
    if (k < m.kept.size()) out.push_back(std::move(old[m.kept[k]]));
  }
  return out;
}

/// The columns that come out; their types as far as they are known.
std::vector<Column> columns_made(const std::vector<Column>& columns, const Mapping& m,
                                 const std::vector<Transform>& transforms,
                                 const std::vector<std::string>& outputs) {
  std::vector<SampleType> types;
  for (const std::size_t c : m.inputs) types.push_back(columns[c].type);
  for (const Transform& t : transforms) types = t.types(types);
  const bool is_counted = !types.empty();  // else a function of the user's says when it is called
  if (is_counted && types.size() != outputs.size())
    throw error("map makes {} column{}, but {} {} named: {}", types.size(), types.size() == 1 ? "" : "s",
                outputs.size(), outputs.size() == 1 ? "is" : "are", join(outputs, ", "));
  std::vector<Column> made;
  for (std::size_t i = 0; i < outputs.size(); ++i)
    made.push_back({outputs[i], is_counted ? types[i] : std::nullopt});
  return made;
}

}  // namespace

Transform of_column(std::string name, std::function<SampleType(const Type&)> type,
                    std::function<Tensor(Tensor, Chance&)> apply, std::uint64_t seed) {
  const auto types = [name, type](const std::vector<SampleType>& in) {
    if (in.empty()) return in;
    if (in.size() != 1) throw error("{}: takes one column, not {}", name, in.size());
    return std::vector<SampleType>{in[0] ? type(*in[0]) : std::nullopt};
  };
  const auto of_values = [apply = std::move(apply)](std::vector<Tensor> in, Chance& chance) {
    in[0] = apply(std::move(in[0]), chance);
    return in;
  };
  return {.name = std::move(name), .types = types, .apply = of_values, .seed = seed};
}

DataRows mapped_rows(DataRows rows, const std::vector<std::string>& inputs,
                     const std::vector<Transform>& transforms, std::vector<std::string> outputs) {
  if (outputs.empty()) outputs = inputs;
  const Mapping m = mapping_of(rows.columns, inputs);
  DataRows out = rows;
  bool are_known = true;
  std::vector<Column> made;
  try {
    made = columns_made(rows.columns, m, transforms, outputs);
  } catch (const Error& e) {
    throw with_context(e, context_of(inputs));
  }
  for (const std::size_t c : m.inputs) are_known = are_known && is_known(rows.columns[c].type);
  for (const Transform& t : transforms) {
    out.is_threaded = out.is_threaded && t.is_threaded;
    are_known = are_known && t.is_threaded;
  }
  out.columns = replaced(rows.columns, m, std::move(made));
  for (std::size_t a = 0; a < out.columns.size(); ++a)
    for (std::size_t b = 0; b < a; ++b)
      if (out.columns[a].name == out.columns[b].name)
        throw error("dataset: two columns are called '{}'", out.columns[a].name);
  const auto steps = std::make_shared<const std::vector<MapStep>>(steps_of(transforms));
  out.row = [rows = std::move(rows), m, steps, inputs, outputs, are_known](
                std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    std::optional<DataRow> row = rows.row(epoch, index);
    if (!row) return row;
    std::vector<Tensor> values;
    for (const std::size_t c : m.inputs) values.push_back(std::move(row->values[c]));
    try {
      values = applied(*steps, std::move(values), row->epoch, row->sample, are_known);
      if (values.size() != outputs.size())
        throw error("map makes {} results for {} columns: {}", values.size(), outputs.size(),
                    join(outputs, ", "));
    } catch (const Error& e) {
      throw with_context(e, context_of(inputs));
    }
    row->values = replaced(std::move(row->values), m, std::move(values));
    return row;
  };
  return out;
}

std::vector<Tensor> transformed(const std::vector<Transform>& transforms, std::vector<Tensor> values,
                                std::int64_t sample) {
  return applied(steps_of(transforms), std::move(values), 0, sample, false);
}

}  // namespace shardwright
