#include "shardwright/runtime/synthetic.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

constexpr double prototype_weight = 0.6;
constexpr double label_noise = 0.1;
constexpr double broken_sequences = 0.1;  // share of the elements that do not follow from the one before
constexpr std::size_t addends = 8;        // inputs that one element of a linear label depends on

bool is_integer(DType dtype) { return !is_floating(dtype) && dtype != DType::boolean; }

/// Nearly normal, of mean 0 and deviation 1: the sum of four 16-bit uniforms (variance 1/12 each). Ten times
/// faster than Box-Muller, which would take longer than a step of a small network.
double noise(const RandomStream& stream, std::uint64_t index) {
  const std::uint64_t bits = stream.bits(index);
  const auto sum = (bits & 0xffffU) + (bits >> 16U & 0xffffU) + (bits >> 32U & 0xffffU) + (bits >> 48U);
  return (static_cast<double>(sum) / 0x1.0p16 - 2.0) * std::sqrt(3.0);
}

/// Elements of one row of the batch.
std::int64_t row_size(const Type& type) { return element_count(type.shape) / type.shape[0]; }

/// A tensor whose element `i` is `f(i)`.
template <class F>
Tensor filled(const Type& type, F f) {
  Tensor t(type);
  visit(type.dtype, [&]<class T>(std::type_identity<T>) {
    const auto out = t.as<T>();
    for (std::size_t i = 0; i < out.size(); ++i) out[i] = static_cast<T>(static_cast<Compute<T>>(f(i)));
  });
  return t;
}

/// Index of the first element of `step` in the endless sequence of elements of a tensor of this type.
std::uint64_t first_index(const Type& type, std::int64_t step) {
  return static_cast<std::uint64_t>(step) * static_cast<std::uint64_t>(element_count(type.shape));
}

void check_input(const std::string& name, const Type& type, std::int64_t batch) {
  if (type.shape.empty() || type.shape[0] != batch || element_count(type.shape) == 0)
    throw error("synthetic data: input '{}' is {}, its first dim must be the label's batch of {}", name,
                to_text(type), batch);
  if (type.dtype == DType::boolean)
    throw error("synthetic data: input '{}' is {}, must be a number", name, to_text(type));
}

}  // namespace

SyntheticData::SyntheticData(SyntheticTask task) : task_(std::move(task)) {
  const Type& label = task_.label_type;
  if (label.shape.empty() || element_count(label.shape) == 0 || label.dtype == DType::boolean)
    throw error("synthetic data: label '{}' is {}, must be numbers of shape [batch, ...]", task_.label,
                to_text(label));
  if (task_.inputs.empty()) throw error("synthetic data: there are no inputs");
  for (const auto& [name, type] : task_.inputs) check_input(name, type, label.shape[0]);
  for (const auto& [name, size] : task_.vocabulary)
    if (size < 1) throw error("synthetic data: vocabulary of '{}' is {}, must be at least 1", name, size);
  if (!is_integer(label.dtype)) return;
  if (task_.classes < 1) throw error("synthetic data: {} classes, must be at least 1", task_.classes);
  if (label.dtype == DType::u8 && task_.classes > 256)
    throw error("synthetic data: {} classes do not fit in label '{}' of {}", task_.classes, task_.label,
                to_text(label));
}

Batch SyntheticData::at_step(std::int64_t step) const {
  Batch batch;
  const Tensor classes = classes_at(step);
  for (const auto& [name, type] : task_.inputs)
    if (is_sequence(type))
      add_sequence(batch, name, type, step);
    else
      batch.columns[name] = input_of_classes(name, type, classes, step);
  if (batch.columns.contains(task_.label)) return batch;
  if (is_sequence(task_.label_type))
    add_sequence(batch, task_.label, task_.label_type, step);
  else if (is_integer(task_.label_type.dtype))
    batch.columns[task_.label] =
        filled(task_.label_type, [&](std::size_t i) { return classes.as<std::int64_t>()[i]; });
  else
    batch.columns[task_.label] = linear_label(batch, step);
  return batch;
}

/// Whether a column of this type is a sequence which the label continues, or the label's own.
bool SyntheticData::is_sequence(const Type& type) const {
  const Type& label = task_.label_type;
  return is_integer(label.dtype) && row_size(label) > 1 && is_integer(type.dtype) &&
         type.shape == label.shape;
}

std::int64_t SyntheticData::vocabulary_of(const std::string& input) const {
  const auto found = task_.vocabulary.find(input);
  return found == task_.vocabulary.end() ? task_.classes : found->second;
}

/// i64 [batch]
Tensor SyntheticData::classes_at(std::int64_t step) const {
  const RandomStream random(task_.seed, "synthetic classes");
  const Type type{DType::i64, {task_.label_type.shape[0]}};
  const std::uint64_t first = first_index(type, step);
  return filled(type, [&](std::size_t i) { return random.below(first + i, task_.classes); });
}

Tensor SyntheticData::input_of_classes(const std::string& name, const Type& type, const Tensor& classes,
                                       std::int64_t step) const {
  const RandomStream random(task_.seed, "synthetic input " + name);
  const RandomStream prototype(task_.seed, "synthetic prototype " + name);
  const std::uint64_t first = first_index(type, step);
  const auto width = static_cast<std::size_t>(row_size(type));
  const auto class_of = classes.as<std::int64_t>();
  if (is_floating(type.dtype))
    return filled(type, [&](std::size_t i) {
      const auto c = static_cast<std::size_t>(class_of[i / width]);
      return prototype_weight * noise(prototype, c * width + i % width) + noise(random, first + i);
    });
  const std::int64_t vocabulary = vocabulary_of(name);
  return filled(type, [&](std::size_t i) {
    const std::int64_t any = random.below(first + i, vocabulary);
    if (i % width % 2 == 1) return any;
    const std::int64_t congruent = any - any % task_.classes + class_of[i / width];
    return congruent < vocabulary ? congruent : class_of[i / width] % vocabulary;
  });
}

/// With several sequences, the label continues the first.
void SyntheticData::add_sequence(Batch& batch, const std::string& name, const Type& type,
                                 std::int64_t step) const {
  const auto length = static_cast<std::size_t>(row_size(type));
  const RandomStream random(task_.seed, "synthetic sequence " + name);
  const std::int64_t vocabulary = std::min(task_.classes, vocabulary_of(name));
  const std::int64_t a = 5;
  const std::int64_t b = random.below(0, vocabulary);
  const auto rows = static_cast<std::size_t>(type.shape[0]);
  std::vector<std::int64_t> elements(rows * (length + 1));
  const std::uint64_t first = 1 + 2 * static_cast<std::uint64_t>(step) * elements.size();
  for (std::size_t i = 0; i < elements.size(); ++i) {
    const bool follows = i % (length + 1) > 0 && random.uniform(first + 2 * i) >= broken_sequences;
    elements[i] =
        follows ? (a * elements[i - 1] + b) % vocabulary : random.below(first + 2 * i + 1, vocabulary);
  }
  const auto shifted = [&](std::size_t by) {
    return [&elements, length, by](std::size_t i) {
      return elements[i / length * (length + 1) + i % length + by];
    };
  };
  batch.columns.try_emplace(task_.label, filled(task_.label_type, shifted(1)));
  if (name != task_.label) batch.columns[name] = filled(type, shifted(0));
}

/// [batch, elements of all inputs], as numbers. An integer is a name: what it stands for is random, but
/// always the same.
std::vector<double> SyntheticData::features_of(const Batch& inputs) const {
  const std::int64_t batch = task_.label_type.shape[0];
  std::vector<std::vector<double>> columns;
  for (const auto& [name, type] : task_.inputs) {
    const RandomStream value(task_.seed, "synthetic value " + name);
    std::vector<double>& column = columns.emplace_back(to_doubles(inputs[name]));
    if (is_integer(type.dtype))
      for (double& x : column) x = noise(value, static_cast<std::uint64_t>(x));
  }
  std::vector<double> features;
  for (std::int64_t r = 0; r < batch; ++r)
    for (const auto& column : columns) {
      const auto row = static_cast<std::int64_t>(column.size()) / batch;
      features.insert(features.end(), column.begin() + r * row, column.begin() + (r + 1) * row);
    }
  return features;
}

/// Element j of a row is a sum of a few elements of the inputs' row, the same ones in every row and step.
Tensor SyntheticData::linear_label(const Batch& inputs, std::int64_t step) const {
  const Type& type = task_.label_type;
  const RandomStream random(task_.seed, "synthetic label");
  const RandomStream map(task_.seed, "synthetic map");
  const std::vector<double> features = features_of(inputs);
  const auto batch = static_cast<std::size_t>(type.shape[0]);
  const auto width = static_cast<std::size_t>(row_size(type));
  const std::size_t row = features.size() / batch;
  const std::uint64_t first = first_index(type, step);
  std::vector<double> label(batch * width);
  for (std::size_t i = 0; i < label.size(); ++i) label[i] = label_noise * noise(random, first + i);
  for (std::size_t j = 0; j < width * addends; ++j) {
    const auto at = static_cast<std::size_t>(map.below(2 * j, static_cast<std::int64_t>(row)));
    const double factor = noise(map, 2 * j + 1) / std::sqrt(addends);
    for (std::size_t r = 0; r < batch; ++r) label[r * width + j / addends] += factor * features[r * row + at];
  }
  const bool is_share = task_.label_is_share;
  return filled(type, [&](std::size_t i) { return is_share ? double(label[i] > 0) : label[i]; });
}

}  // namespace shardwright
