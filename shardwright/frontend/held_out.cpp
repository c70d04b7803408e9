#include "shardwright/frontend/held_out.h"

#include <algorithm>

#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

constexpr const char* label_name = "label";

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor out({t.dtype(), std::move(shape)});
  std::ranges::copy(t.bytes(), out.bytes().begin());
  return out;
}

/// A column of the file, one row a sample.
Tensor column_of(const DataColumns& file, const std::string& name, const Type& batch) {
  const Shape have = file.type(name).shape;
  Shape want = batch.shape;
  const bool is_steps = have.size() == want.size() + 1;
  const bool fits =
      have.size() >= want.size() && !want.empty() &&
      std::equal(want.begin() + 1, want.end(), have.end() - static_cast<std::ptrdiff_t>(want.size()) + 1);
  if (!fits || (!is_steps && have.size() != want.size()))
    throw error("{}: '{}' is {} but the model takes {} a batch; give [samples, ...] or [steps, batch, ...]",
                file.path(), name, to_text(file.type(name)), to_text(batch));
  want[0] = is_steps ? have[0] * have[1] : have[0];
  return reshaped(fitting(file.read(name), batch.dtype, fmt::format("{}: '{}'", file.path(), name)), want);
}

/// Whether the file's tensors are the model's inputs as they are; its label may be missing.
bool are_inputs(const DataColumns& file, const std::map<std::string, Type>& inputs) {
  return std::ranges::all_of(inputs, [&](const auto& input) {
    return file.has(input.first) ? file.type(input.first).shape == input.second.shape
                                 : input.first == label_name;
  });
}

HeldOut one_step_of(const DataColumns& file, const std::map<std::string, Type>& inputs) {
  std::map<std::string, Tensor> out;
  for (const auto& [name, type] : inputs)
    if (file.has(name))
      out[name] = fitting(file.read(name), type.dtype, fmt::format("{}: '{}'", file.path(), name));
  return HeldOut::of_one_step(std::move(out));
}

}  // namespace

HeldOut held_out_of(const Model& model, const SampleSource& source) {
  const std::string& path = source.path;
  std::map<std::string, Type> inputs = brought_inputs(model);
  std::map<std::string, Tensor> columns;
  if (!path.ends_with(".safetensors")) {
    columns = test_samples(model, inputs, source);
  } else {
    const DataColumns file = data_columns(model, path);
    if (!model.answers.empty() && are_inputs(file, inputs)) return one_step_of(file, inputs);
    for (const auto& [name, type] : inputs) {
      if (!file.has(name) && name == label_name) continue;
      if (!file.has(name)) throw io_error("{}: has no tensor '{}', which the model needs", path, name);
      columns[name] = column_of(file, name, type);
    }
  }
  const std::int64_t batch = columns.empty() ? 1 : inputs[columns.rbegin()->first].shape[0];
  add_label_weights(model, columns, batch);
  return HeldOut(std::move(columns), batch, path);
}

}  // namespace shardwright
