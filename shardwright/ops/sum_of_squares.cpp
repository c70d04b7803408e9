// The sum of the squares of all elements: what the norm of a gradient is made of. Partial where dims are split, so that
// shards add up to the whole tensor's.

#include "shardwright/base/vectorize.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Squares of narrow types leave their range soon.
std::vector<Type> infer(const Call& call) {
  check_count(call, 1);
  const DType dtype = call.operands[0].dtype;
  check_floating(dtype);
  return {{dtype == DType::f64 ? DType::f64 : DType::f32, {}}};
}

std::string rule(const Call& call) {
  check_count(call, 1);
  return tensor_text(call.operands[0].shape.size(), "+") + " -> .";
}

template <class T, class Y>
void add_squares(std::span<const T> x, Y* y) {
  vectorized([=] {
    *y = static_cast<Y>(fold<Sum>(static_cast<std::int64_t>(x.size()), [from = x.data()](std::int64_t i) {
      const auto a = static_cast<double>(static_cast<Compute<T>>(from[i]));
      return a * a;
    }));
  });
}

void kernel(const KernelCall& call) {
  visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, double>)
      add_squares(std::span<const T>(call.operands[0].as<T>()), call.results[0].as<double>().data());
    else
      add_squares(std::span<const T>(call.operands[0].as<T>()), call.results[0].as<float>().data());
  });
}

}  // namespace

std::vector<OpDef> sum_of_squares() {
  return {{.name = "sum_of_squares",
           .doc = "y = sum of x^2 over all elements, in f32 at least",
           .rule_for = rule,
           .infer = infer,
           .kernel = kernel,
           .samples = {"f32[4,6]", "f32[2,6,4]", "f32[6]", "f32[]"},
           .torch = {.line = "(wide({0}) ** 2).sum()"}}};
}

}  // namespace shardwright::ops
