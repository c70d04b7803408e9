#include "tests/support/compare.h"

#include <algorithm>
#include <cmath>

namespace shardwright {
namespace {

std::string index_text(std::size_t flat, const Shape& shape) {
  Shape index;
  auto rest = static_cast<std::int64_t>(flat);
  for (std::int64_t stride : strides_of(shape)) {
    index.push_back(rest / stride);
    rest %= stride;
  }
  return to_text(index);
}

}  // namespace

testing::AssertionResult is_close(const Tensor& got, const Tensor& want, double tolerance) {
  if (got.type() != want.type())
    return testing::AssertionFailure()
           << to_text(got.type()) << " where " << to_text(want.type()) << " is wanted";
  const std::vector<double> a = to_doubles(got), b = to_doubles(want);
  double scale = 1;
  for (double x : b)
    if (std::isfinite(x)) scale = std::max(scale, std::abs(x));
  std::size_t count = 0, first = 0;
  for (std::size_t i = a.size(); i-- > 0;) {
    const bool is_equal = a[i] == b[i] || (std::isnan(a[i]) && std::isnan(b[i]));
    if (is_equal || std::abs(a[i] - b[i]) <= tolerance * scale) continue;
    ++count;
    first = i;
  }
  if (count == 0) return testing::AssertionSuccess();
  return testing::AssertionFailure() << fmt::format(
             "{} of {} elements of {} differ, first at {}: {} where {} is wanted (tolerance {})", count,
             a.size(), to_text(want.type()), index_text(first, want.shape()), a[first], b[first],
             tolerance * scale);
}

}  // namespace shardwright
