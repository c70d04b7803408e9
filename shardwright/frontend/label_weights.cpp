#include "shardwright/frontend/label_weights.h"

#include <algorithm>

namespace shardwright {

Tensor label_weights(const Tensor& labels, std::int64_t counted, DType dtype) {
  const std::int64_t samples = labels.shape()[0];
  const std::vector<double> all = to_doubles(labels);
  const std::size_t each = samples == 0 ? 0 : all.size() / static_cast<std::size_t>(samples);
  const std::size_t end = static_cast<std::size_t>(counted) * each;
  const auto left_out =
      std::count(all.begin(), all.begin() + static_cast<std::ptrdiff_t>(end), static_cast<double>(not_asked));
  const double asked = static_cast<double>(end) - static_cast<double>(left_out);
  const std::vector<double> weights(static_cast<std::size_t>(samples),
                                    asked > 0 ? static_cast<double>(end) / asked : 0.0);
  return make_tensor({dtype, {samples}}, weights);
}

}  // namespace shardwright
