#include "shardwright/cli/held_out.h"

#include <algorithm>
#include <cstring>
#include <filesystem>

#include "shardwright/cli/training_data.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

constexpr const char* label_name = "label";
constexpr std::int64_t most_copies = 4096;

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor out({t.dtype(), std::move(shape)});
  std::ranges::copy(t.bytes(), out.bytes().begin());
  return out;
}

/// A column of the file, one row a sample.
Tensor column_of(const SafetensorsFile& file, const std::string& name, const Type& batch) {
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

}  // namespace

HeldOut::HeldOut(const Model& model, const std::string& path) {
  std::map<std::string, Type> inputs;
  for (const Node& node : model.graph.nodes)
    if (node.op->kind == OpKind::input)
      inputs[model.graph.value(node.results[0]).name] = model.graph.value(node.results[0]).type;
  if (!path.ends_with(".safetensors")) {
    columns_ = test_samples(model, inputs, path);
  } else {
    const SafetensorsFile file = SafetensorsFile::open(path);
    for (const auto& [name, type] : inputs) {
      if (!file.has(name) && name == label_name) continue;
      if (!file.has(name)) throw io_error("{}: has no tensor '{}', which the model needs", path, name);
      columns_[name] = column_of(file, name, type);
    }
  }
  for (const auto& [name, column] : columns_) {
    if (samples_ != 0 && column.shape()[0] != samples_)
      throw error("{}: '{}' has {} samples but others have {}", path, name, column.shape()[0], samples_);
    samples_ = column.shape()[0];
    batch_ = inputs[name].shape[0];
  }
  if (samples_ == 0) throw error("{}: has no samples", path);
  // The last batch is filled up with copies of a sample: some, but not a memory full of them.
  if (batch_ > std::max(samples_, most_copies))
    throw error("{}: has {} samples, but a batch takes {}; give --batch-size {}", path, samples_, batch_,
                samples_);
}

std::int64_t HeldOut::rows(std::int64_t i) const { return std::min(batch_, samples_ - i * batch_); }

std::map<std::string, Tensor> HeldOut::get(std::int64_t i) const {
  std::map<std::string, Tensor> out;
  for (const auto& [name, column] : columns_) {
    Shape shape = column.shape();
    shape[0] = batch_;
    Tensor part({column.dtype(), std::move(shape)});
    const std::size_t row_bytes = part.bytes().size() / static_cast<std::size_t>(batch_);
    for (std::int64_t r = 0; r < batch_ && row_bytes > 0; ++r)
      std::memcpy(part.bytes().data() + static_cast<std::size_t>(r) * row_bytes,
                  column.bytes().data() +
                      static_cast<std::size_t>(std::min(i * batch_ + r, samples_ - 1)) * row_bytes,
                  row_bytes);
    out[name] = std::move(part);
  }
  return out;
}

bool are_scores(const Type& prediction, const Type& label) {
  return (label.dtype == DType::i32 || label.dtype == DType::i64) && is_floating(prediction.dtype) &&
         prediction.shape.size() == label.shape.size() + 1 &&
         std::equal(label.shape.begin(), label.shape.end(), prediction.shape.begin());
}

void Hits::add(const Tensor& prediction, const Tensor& label, std::int64_t rows) {
  const std::vector<double> scores = to_doubles(prediction), labels = to_doubles(label);
  const auto classes = static_cast<std::size_t>(prediction.shape().back());
  const auto each = static_cast<std::int64_t>(labels.size()) / std::max<std::int64_t>(label.shape()[0], 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows * each); ++i) {
    if (labels[i] < 0) continue;  // left out, as losses do
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * classes);
    hits += std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row ==
            static_cast<std::ptrdiff_t>(labels[i]);
    ++count;
  }
}

}  // namespace shardwright
