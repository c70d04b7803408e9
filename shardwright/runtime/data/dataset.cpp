#include "shardwright/runtime/data/dataset.h"

#include <algorithm>
#include <cstring>
#include <memory>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

using Columns = std::vector<std::pair<std::string, Tensor>>;

/// DataRow `index` of a tensor [n, ...].
Tensor row_of(const Tensor& from, std::int64_t index) {
  Tensor out({from.dtype(), Shape(from.shape().begin() + 1, from.shape().end())});
  const std::span<std::byte> to = out.bytes();
  if (!to.empty())
    std::memcpy(to.data(), from.bytes().data() + static_cast<std::size_t>(index) * to.size(), to.size());
  return out;
}

DataRows rows_of(Columns columns) {
  if (columns.empty()) throw error("dataset: has no columns");
  DataRows rows;
  for (const auto& [name, tensor] : columns) {
    if (tensor.shape().empty())
      throw error("dataset: column '{}' is a scalar; samples must lie along its first dim", name);
    if (const std::int64_t count = columns[0].second.shape()[0]; tensor.shape()[0] != count)
      throw error("dataset: column '{}' has {} samples, but '{}' has {}", name, tensor.shape()[0],
                  columns[0].first, count);
    if (std::ranges::find(rows.columns, name, &Column::name) != rows.columns.end())
      throw error("dataset: two columns are called '{}'", name);
    rows.columns.push_back(
        {name, Type{tensor.dtype(), Shape(tensor.shape().begin() + 1, tensor.shape().end())}});
  }
  const auto held = std::make_shared<const Columns>(std::move(columns));
  const std::int64_t count = (*held)[0].second.shape()[0];
  rows.count = [count] { return count; };
  rows.row = [held, count](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= count) return std::nullopt;
    DataRow row{.values = {}, .epoch = epoch, .sample = index};
    for (const auto& [name, tensor] : *held) row.values.push_back(row_of(tensor, index));
    return row;
  };
  return rows;
}

}  // namespace

const Tensor& Batch::operator[](std::string_view column) const {
  const auto found = columns.find(column);
  if (found != columns.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : columns) names.push_back(name);
  throw error("batch has no column '{}'{}; it has {}", column, near_names(column, names), join(names, ", "));
}

Dataset::Dataset(std::map<std::string, Tensor> columns)
    : rows_(rows_of(
          Columns(std::make_move_iterator(columns.begin()), std::make_move_iterator(columns.end())))) {}

Dataset Dataset::of(Columns columns) { return reading(rows_of(std::move(columns))); }

Dataset Dataset::map(std::string_view column, const std::vector<Transform>& transforms) const {
  return map(std::vector{std::string(column)}, transforms);
}

std::int64_t Dataset::batches_per_epoch() const {
  if (rows_.batch == 0) throw error("dataset: has no batches yet; call batch first");
  return rows_.count();
}

std::vector<std::string> Dataset::columns() const {
  std::vector<std::string> names;
  for (const Column& c : rows_.columns) names.push_back(c.name);
  return names;
}

Type Dataset::type(std::string_view name) const {
  const SampleType& type = rows_.columns[place_of(rows_.columns, name)].type;
  if (!type || has_any_size(type->shape))
    throw error("dataset: rows of column '{}' are {}: not all of one type", name, to_text(type));
  return *type;
}

Batch Dataset::get(std::int64_t epoch, std::int64_t index) const {
  const std::int64_t count = batches_per_epoch();
  std::optional<DataRow> row;
  if (epoch >= 0 && index >= 0 && (index < count || rows_.is_endless)) row = rows_.row(epoch, index);
  if (!row) throw error("dataset: batch {} of epoch {} asked for; there are {} batches", index, epoch, count);
  Batch out;
  for (std::size_t c = 0; c < rows_.columns.size(); ++c)
    out.columns.emplace(rows_.columns[c].name, std::move(row->values[c]));
  return out;
}

Batch Dataset::at_step(std::int64_t step) const {
  return get(step / batches_per_epoch(), step % batches_per_epoch());
}

Epoch Dataset::epoch(std::int64_t number) const { return {*this, number}; }

Dataset mnist_dataset(const std::string& directory, MnistPart part) {
  Mnist data = read_mnist(directory, part);
  return Dataset::of({{"image", std::move(data.images)}, {"label", std::move(data.labels)}});
}

}  // namespace shardwright
