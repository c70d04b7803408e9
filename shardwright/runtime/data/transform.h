// Functions of columns of a row: of one sample, or, behind a batch, of its batch where that has the shape they take.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "shardwright/base/random.h"
#include "shardwright/base/tensor.h"
#include "shardwright/runtime/data/rows.h"

namespace shardwright {

/// The random numbers of one transform of one sample.
class Chance {
 public:
  Chance(const RandomStream& stream, std::int64_t epoch, std::int64_t sample)
      : stream_(stream),
        start_(splitmix64(static_cast<std::uint64_t>(epoch)) + (static_cast<std::uint64_t>(sample) << 8U)) {}
  /// At most 256 of them; each call gives another.
  std::int64_t below(std::int64_t n) { return stream_.below(start_ + drawn_++, n); }
  double uniform() { return stream_.uniform(start_ + drawn_++); }

 private:
  const RandomStream& stream_;
  std::uint64_t start_;
  std::uint64_t drawn_ = 0;
};

struct Transform {
  std::string name;
  /// Types of what comes out, of those that go in; refuses what does not fit, when the pipeline is built or, where
  /// types are not known then, when there is a row.
  std::function<std::vector<SampleType>(const std::vector<SampleType>&)> types;
  std::function<std::vector<Tensor>(std::vector<Tensor>, Chance&)> apply;
  std::uint64_t seed = 0;   // of its chance
  bool is_threaded = true;  // not a function of Python's
};

/// A transform of one column.
Transform of_column(std::string name, std::function<SampleType(const Type&)> type,
                    std::function<Tensor(Tensor, Chance&)> apply, std::uint64_t seed = 0);

/// x * factor + shift, as f32.
Transform rescale(double factor, double shift);
enum class Channels { last, first };
/// (x - mean) / deviation, as f32; one of each, or one per channel.
Transform normalize(std::vector<double> mean, std::vector<double> deviation,
                    Channels channels = Channels::last);
/// [height, width, channels] -> [channels, height, width]
Transform hwc_to_chw();
Transform type_cast(DType dtype);
/// The same elements in another shape.
Transform reshape(const Shape& sample);
/// Integers -> i32 [..., classes]: 1 at the integer's place.
Transform one_hot(std::int64_t classes);

/// `transforms` one after the other on the columns `inputs`, which `outputs` replace where the first of them stood;
/// without `outputs` they keep their names.
DataRows mapped_rows(DataRows rows, const std::vector<std::string>& inputs,
                     const std::vector<Transform>& transforms, std::vector<std::string> outputs = {});

/// What `transforms` make of values outside of a pipeline.
std::vector<Tensor> transformed(const std::vector<Transform>& transforms, std::vector<Tensor> values,
                                std::int64_t sample);

}  // namespace shardwright
