#include "shardwright/runtime/initial.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/layout/transfer.h"

namespace shardwright {
namespace {

/// Calls `fill` with a function from the global element index to the value: one loop per kind of value.
template <class F>
void with_values(const Leaf& leaf, std::uint64_t seed, F fill) {
  if (const auto same = value_of_all(leaf)) return fill([value = *same](std::uint64_t) { return value; });
  const std::string init = leaf.attributes.text("init", "zeros");
  const double scale = leaf.attributes.number("scale", 1), shift = leaf.attributes.number("shift", 0);
  const RandomStream stream(seed, leaf.attributes.text("as", std::string(leaf.name)));
  if (init == "uniform")
    return fill([=](std::uint64_t i) { return shift + scale * (2 * stream.uniform(i) - 1); });
  if (init == "normal") return fill([=](std::uint64_t i) { return shift + scale * stream.normal(i); });
  if (init == "truncated_normal") {
    // Drawn again beyond two standard deviations; draws of different elements never share an index.
    const auto count = static_cast<std::uint64_t>(element_count(leaf.global_shape));
    return fill([=](std::uint64_t i) {
      double x = stream.normal(i);
      for (int draw = 1; std::abs(x) > 2 && draw < 64; ++draw) x = stream.normal(i += count);
      return shift + scale * x;
    });
  }
  require(false, "{} starts as {}", leaf.name, init);
}

}  // namespace

void check_start(std::string_view name, const Attributes& attributes) try {
  static const std::vector<std::string> known{"zeros",   "ones",   "constant",
                                              "uniform", "normal", "truncated_normal"};
  const std::string init = attributes.text("init", "zeros");
  if (std::find(known.begin(), known.end(), init) == known.end())
    throw error("init={} is unknown{}; there are {}", init, near_names(init, known), join(known, ", "));
  for (const char* number : {"value", "scale", "shift"}) attributes.number(number, 0);
  attributes.text("as", "");
} catch (const Error& e) {
  throw with_context(e, name);
}

std::optional<double> value_of_all(const Leaf& leaf) {
  check_start(leaf.name, leaf.attributes);
  const std::string init = leaf.attributes.text("init", "zeros");
  if (init == "zeros") return 0;
  if (init == "ones") return 1;
  if (init == "constant") return leaf.attributes.number("value", 0);
  return std::nullopt;
}

void initialize(const TensorView& part, const Box& where, const Leaf& leaf, std::uint64_t seed) {
  const Piece piece = piece_of(where, {Shape(where.extent.size()), leaf.global_shape}, where);
  visit(part.dtype, [&]<class T>(std::type_identity<T>) {
    T* out = part.as<T>().data();
    with_values(leaf, seed, [&](auto value) {
      for_each_run(piece, [&](std::int64_t global, std::int64_t local, std::int64_t n) {
        for (std::int64_t i = 0; i < n; ++i)
          out[local + i] =
              static_cast<T>(static_cast<Compute<T>>(value(static_cast<std::uint64_t>(global + i))));
      });
    });
  });
}

}  // namespace shardwright
