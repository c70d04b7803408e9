// Transforms of columns of any kind.
#include <algorithm>
#include <span>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/transform.h"

namespace shardwright {
namespace {

Tensor reshaped(const Tensor& t, Shape shape) {
  Tensor out({t.dtype(), std::move(shape)});
  require(out.bytes().size() == t.bytes().size(), "{} reshaped to {}", to_text(t.type()),
          to_text(out.type()));
  std::ranges::copy(t.bytes(), out.bytes().begin());
  return out;
}

/// Elementwise `f(x, i)` in f32, where i counts the elements.
template <class F>
Tensor each(const Tensor& t, F f) {
  Tensor out({DType::f32, t.shape()});
  float* to = out.as<float>().data();
  visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
    const std::span<const T> from = t.as<T>();
    for (std::size_t i = 0; i < from.size(); ++i) to[i] = f(static_cast<float>(from[i]), i);
  });
  return out;
}

SampleType as_f32(const Type& t) { return Type{DType::f32, t.shape}; }

}  // namespace

Transform rescale(double factor, double shift) {
  const auto f = static_cast<float>(factor);
  const auto s = static_cast<float>(shift);
  return of_column("rescale", as_f32, [f, s](const Tensor& t, Chance&) {
    return each(t, [=](float x, std::size_t) { return x * f + s; });
  });
}

Transform normalize(std::vector<double> mean, std::vector<double> deviation, Channels where) {
  if (mean.size() != deviation.size() || mean.empty())
    throw error("normalize: {} means and {} deviations, must be as many of each and at least one",
                mean.size(), deviation.size());
  for (const double d : deviation)
    if (!(d > 0)) throw error("normalize: deviation {} must be above 0", d);
  const std::size_t channels = mean.size();
  const bool is_last = where == Channels::last;
  const auto type = [channels, is_last](const Type& t) {
    const std::int64_t dim = t.shape.empty() ? 1 : is_last ? t.shape.back() : t.shape.front();
    if (channels != 1 && dim != any_size && static_cast<std::int64_t>(channels) != dim)
      throw error("normalize: {} means for samples of {}; must be 1, or {} for the {} dim", channels,
                  to_text(SampleType(t)), dim, is_last ? "last" : "first");
    return as_f32(t);
  };
  const std::vector<float> means(mean.begin(), mean.end()), deviations(deviation.begin(), deviation.end());
  const auto apply = [channels, is_last, means, deviations](const Tensor& t, Chance&) {
    const std::size_t run =
        is_last ? 1 : std::max<std::size_t>(1, t.bytes().size() / size_of(t.dtype()) / channels);
    return each(t, [&](float x, std::size_t i) {
      const std::size_t c = channels == 1 ? 0 : i / run % channels;
      return (x - means[c]) / deviations[c];
    });
  };
  return of_column("normalize", type, apply);
}

Transform hwc_to_chw() {
  const auto type = [](const Type& t) -> SampleType {
    if (t.shape.size() != 3)
      throw error("hwc_to_chw: samples are {}, must be [height, width, channels]", to_text(SampleType(t)));
    return Type{t.dtype, {t.shape[2], t.shape[0], t.shape[1]}};
  };
  const auto apply = [](const Tensor& t, Chance&) {
    const std::int64_t pixels = t.shape()[0] * t.shape()[1], channels = t.shape()[2];
    Tensor out({t.dtype(), {channels, t.shape()[0], t.shape()[1]}});
    visit(t.dtype(), [&]<class T>(std::type_identity<T>) {
      const T* from = t.as<T>().data();  // [pixels, channels]
      T* to = out.as<T>().data();        // [channels, pixels]
      for (std::int64_t c = 0; c < channels; ++c)
        for (std::int64_t p = 0; p < pixels; ++p) *to++ = from[p * channels + c];
    });
    return out;
  };
  return of_column("hwc_to_chw", type, apply);
}

Transform type_cast(DType dtype) {
  return of_column(
      "type_cast",
      [dtype](const Type& t) -> SampleType {
        return Type{dtype, t.shape};
      },
      [dtype](Tensor t, Chance&) { return t.dtype() == dtype ? t : convert(t, dtype); });
}

Transform reshape(const Shape& sample) {
  const auto type = [sample](const Type& t) -> SampleType {
    if (!has_any_size(t.shape) && element_count(t.shape) != element_count(sample))
      throw error("reshape: samples of {} have {} elements, {} has {}", to_text(t), element_count(t.shape),
                  to_text(sample), element_count(sample));
    return Type{t.dtype, sample};
  };
  return of_column("reshape", type, [sample](const Tensor& t, Chance&) { return reshaped(t, sample); });
}

Transform one_hot(std::int64_t classes) {
  if (classes < 1) throw error("one_hot: {} classes; must be at least 1", classes);
  const auto type = [classes](const Type& t) -> SampleType {
    if (is_floating(t.dtype))
      throw error("one_hot: samples are {}, must be integers", to_text(SampleType(t)));
    Type out{DType::i32, t.shape};
    out.shape.push_back(classes);
    return out;
  };
  const auto apply = [classes](const Tensor& t, Chance&) {
    const Tensor at = convert(t, DType::i64);
    Shape shape = t.shape();
    shape.push_back(classes);
    Tensor out({DType::i32, std::move(shape)});
    std::int32_t* row = out.as<std::int32_t>().data();
    for (const std::int64_t c : at.as<std::int64_t>()) {
      if (c < 0 || c >= classes) throw error("one_hot: class {} is not one of {}", c, classes);
      row[c] = 1;
      row += classes;
    }
    return out;
  };
  return of_column("one_hot", type, apply);
}

}  // namespace shardwright
