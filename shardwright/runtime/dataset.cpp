#include "shardwright/runtime/dataset.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// The rows `rows` of a tensor [n, ...], in that order.
Tensor gather_rows(const Tensor& from, std::span<const std::int64_t> rows) {
  Shape shape = from.shape();
  shape[0] = static_cast<std::int64_t>(rows.size());
  Tensor out({from.dtype(), std::move(shape)});
  const std::size_t row_bytes = rows.empty() ? 0 : out.bytes().size() / rows.size();
  if (row_bytes == 0) return out;
  for (std::size_t i = 0; i < rows.size(); ++i)
    std::memcpy(out.bytes().data() + i * row_bytes,
                from.bytes().data() + static_cast<std::size_t>(rows[i]) * row_bytes, row_bytes);
  return out;
}

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor out({t.dtype(), std::move(shape)});
  require(out.bytes().size() == t.bytes().size(), "{} reshaped to {}", to_text(t.type()),
          to_text(out.type()));
  std::ranges::copy(t.bytes(), out.bytes().begin());
  return out;
}

Shape with_batch(std::int64_t batch, const Shape& sample) {
  Shape shape{batch};
  shape.insert(shape.end(), sample.begin(), sample.end());
  return shape;
}

/// Elementwise `f(x, i)` in f32, where i counts the elements.
template <class F>
Tensor mapped(const Tensor& t, F f) {
  Tensor out = convert(t, DType::f32);
  const auto values = out.as<float>();
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = f(values[i], i);
  return out;
}

}  // namespace

const Tensor& Batch::operator[](std::string_view column) const {
  const auto found = columns.find(column);
  if (found != columns.end()) return found->second;
  std::vector<std::string> names;
  for (const auto& [name, tensor] : columns) names.push_back(name);
  throw error("batch has no column '{}'{}; it has {}", column, near_names(column, names), join(names, ", "));
}

Transform rescale(double factor, double shift) {
  const auto f = static_cast<float>(factor);
  const auto s = static_cast<float>(shift);
  return {.name = "rescale",
          .type =
              [](const Type& t) {
                return Type{DType::f32, t.shape};
              },
          .apply =
              [f, s](const Tensor& t) { return mapped(t, [=](float x, std::size_t) { return x * f + s; }); }};
}

Transform normalize(std::vector<double> mean, std::vector<double> deviation) {
  if (mean.size() != deviation.size() || mean.empty())
    throw error("normalize: {} means and {} deviations, must be as many of each and at least one",
                mean.size(), deviation.size());
  for (const double d : deviation)
    if (!(d > 0)) throw error("normalize: deviation {} must be above 0", d);
  const std::size_t channels = mean.size();
  const auto type = [channels](const Type& t) {
    const auto last = t.shape.empty() ? std::int64_t{1} : t.shape.back();
    if (channels != 1 && static_cast<std::int64_t>(channels) != last)
      throw error("normalize: {} means for samples of {}; must be 1, or {} for the last dim", channels,
                  to_text(t), last);
    return Type{DType::f32, t.shape};
  };
  const auto apply = [channels, mean, deviation](const Tensor& t) {
    return mapped(t, [&](float x, std::size_t i) {
      const std::size_t c = channels == 1 ? 0 : i % channels;
      return (x - static_cast<float>(mean[c])) / static_cast<float>(deviation[c]);
    });
  };
  return {.name = "normalize", .type = type, .apply = apply};
}

Transform hwc_to_chw() {
  const auto type = [](const Type& t) {
    if (t.shape.size() != 3)
      throw error("hwc_to_chw: samples are {}, must be [height, width, channels]", to_text(t));
    return Type{t.dtype, {t.shape[2], t.shape[0], t.shape[1]}};
  };
  const auto apply = [](const Tensor& t) {
    const std::int64_t samples = t.shape()[0];
    const std::int64_t pixels = t.shape()[1] * t.shape()[2];
    const std::int64_t channels = t.shape()[3];
    Tensor out({t.dtype(), {samples, channels, t.shape()[1], t.shape()[2]}});
    visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
      const T* from = t.as<T>().data();  // [samples, pixels, channels]
      T* to = out.as<T>().data();        // [samples, channels, pixels]
      for (std::int64_t s = 0; s < samples; ++s)
        for (std::int64_t c = 0; c < channels; ++c)
          for (std::int64_t p = 0; p < pixels; ++p) *to++ = from[(s * pixels + p) * channels + c];
    });
    return out;
  };
  return {.name = "hwc_to_chw", .type = type, .apply = apply};
}

Transform type_cast(DType dtype) {
  return {.name = "type_cast",
          .type =
              [dtype](const Type& t) {
                return Type{dtype, t.shape};
              },
          .apply = [dtype](const Tensor& t) { return convert(t, dtype); }};
}

Transform reshape(const Shape& sample) {
  const auto type = [sample](const Type& t) {
    if (element_count(t.shape) != element_count(sample))
      throw error("reshape: samples of {} have {} elements, {} has {}", to_text(t), element_count(t.shape),
                  to_text(sample), element_count(sample));
    return Type{t.dtype, sample};
  };
  const auto apply = [sample](const Tensor& t) { return reshaped(t, with_batch(t.shape()[0], sample)); };
  return {.name = "reshape", .type = type, .apply = apply};
}

Dataset::Dataset(std::map<std::string, Tensor> columns) {
  for (auto& [name, tensor] : columns) {
    if (tensor.shape().empty())
      throw error("dataset: column '{}' is a scalar; samples must lie along its first dim", name);
    const std::int64_t count = columns.begin()->second.shape()[0];
    if (tensor.shape()[0] != count)
      throw error("dataset: column '{}' has {} samples, but '{}' has {}", name, tensor.shape()[0],
                  columns.begin()->first, count);
  }
  for (auto& [name, tensor] : columns) {
    const Type sample{tensor.dtype(), Shape(tensor.shape().begin() + 1, tensor.shape().end())};
    columns_[name] = {std::make_shared<const Tensor>(std::move(tensor)), {}, sample};
  }
  if (columns_.empty()) throw error("dataset: has no columns");
}

Dataset Dataset::map(std::string_view name, const std::vector<Transform>& transforms) const {
  column(name);
  if (batch_ > 0) throw error("dataset: map of column '{}' comes after batch; put it before", name);
  Dataset out = *this;
  Column& changed = out.columns_.find(name)->second;
  for (const Transform& t : transforms) {
    try {
      changed.sample = t.type(changed.sample);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("column '{}'", name));
    }
    changed.transforms.push_back(t);
  }
  return out;
}

Dataset Dataset::shuffle(std::uint64_t seed) const {
  if (batch_ > 0) throw error("dataset: shuffle comes after batch; put it before");
  Dataset out = *this;
  out.seed_ = seed;
  return out;
}

Dataset Dataset::batch(std::int64_t size) const {
  if (batch_ > 0) throw error("dataset: batch({}) comes after batch({}); there can be one", size, batch_);
  if (size < 1) throw error("dataset: batch({}) must be at least 1", size);
  if (size > samples())
    throw error("dataset: batch({}) is more than the {} samples there are; choose a smaller batch", size,
                samples());
  Dataset out = *this;
  out.batch_ = size;
  return out;
}

std::int64_t Dataset::samples() const { return columns_.begin()->second.samples->shape()[0]; }

std::int64_t Dataset::batches_per_epoch() const {
  if (batch_ == 0) throw error("dataset: has no batches yet; call batch first");
  return samples() / batch_;
}

std::vector<std::string> Dataset::columns() const {
  std::vector<std::string> names;
  for (const auto& [name, column] : columns_) names.push_back(name);
  return names;
}

Type Dataset::type(std::string_view name) const {
  const Type& sample = column(name).sample;
  return batch_ == 0 ? sample : Type{sample.dtype, with_batch(batch_, sample.shape)};
}

Batch Dataset::get(std::int64_t epoch, std::int64_t index) const {
  if (epoch < 0 || index < 0 || index >= batches_per_epoch())
    throw error("dataset: batch {} of epoch {} asked for; there are {} batches", index, epoch,
                batches_per_epoch());
  std::vector<std::int64_t> rows(static_cast<std::size_t>(batch_));
  for (std::int64_t i = 0; i < batch_; ++i) {
    const std::int64_t at = index * batch_ + i;
    rows[static_cast<std::size_t>(i)] = seed_ ? shuffled(at, samples(), *seed_, epoch) : at;
  }
  Batch out;
  for (const auto& [name, column] : columns_) {
    Tensor t = gather_rows(*column.samples, rows);
    for (const Transform& transform : column.transforms) t = transform.apply(std::move(t));
    out.columns.emplace(name, std::move(t));
  }
  return out;
}

Batch Dataset::at_step(std::int64_t step) const {
  return get(step / batches_per_epoch(), step % batches_per_epoch());
}

Epoch Dataset::epoch(std::int64_t number) const { return {*this, number}; }

const Dataset::Column& Dataset::column(std::string_view name) const {
  const auto found = columns_.find(name);
  if (found == columns_.end())
    throw error("dataset: has no column '{}'{}; it has {}", name, near_names(name, columns()),
                join(columns(), ", "));
  return found->second;
}

Dataset mnist_dataset(const std::string& directory, MnistPart part) {
  Mnist data = read_mnist(directory, part);
  std::map<std::string, Tensor> columns;
  columns["image"] = std::move(data.images);
  columns["label"] = std::move(data.labels);
  return Dataset(std::move(columns));
}

std::int64_t shuffled(std::int64_t index, std::int64_t count, std::uint64_t seed, std::int64_t epoch) {
  require(0 <= index && index < count, "index {} of {}", index, count);
  constexpr unsigned rounds = 6;
  const auto half_bits = static_cast<unsigned>(std::bit_width(static_cast<std::uint64_t>(count - 1)) + 1) / 2;
  const std::uint64_t half_mask = (std::uint64_t{1} << half_bits) - 1;
  const RandomStream random(seed, fmt::format("order of epoch {}", epoch));
  auto x = static_cast<std::uint64_t>(index);
  do {
    for (unsigned round = 0; round < rounds; ++round) {
      const std::uint64_t left = x >> half_bits;
      const std::uint64_t right = x & half_mask;
      x = right << half_bits | (left ^ (random.bits(right * rounds + round) & half_mask));
    }
  } while (x >= static_cast<std::uint64_t>(count));
  return static_cast<std::int64_t>(x);
}

}  // namespace shardwright
