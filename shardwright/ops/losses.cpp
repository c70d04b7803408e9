// Mean absolute and mean squared error over all elements, as a scalar.
//
// The mean divides by the global count, so that the losses of shards add up.

#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

double global_count(const KernelCall& call) {
  double count = 1;
  for (const LoopBox::Part& part : call.box.loops) count *= static_cast<double>(part.size);
  return count;
}

std::string rule(const Call& call) {
  check_count(call, 2);
  return fmt::format("{0}, {0} -> .", tensor_text(call.operands[0].shape.size(), "+"));
}

std::vector<Type> infer(const Call& call) { return {{common_type(call, 2).dtype, {}}}; }

std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, 3);
  check_floating(call.operands[1].dtype);
  check_same_dtype(call, 0, 1);
  if (call.operands[1] != call.operands[2])
    throw error("operands 1 and 2 are {} and {}; they must be equal", to_text(call.operands[1]),
                to_text(call.operands[2]));
  return {call.operands[1]};
}

/// y = sum of f(a - b) / count
template <class F>
void kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    double sum = 0;
    vectorized([a = call.operands[0].as<T>().data(), b = call.operands[1].as<T>().data(),
                n = call.operands[0].size(), to = &sum] {
      *to = fold<Sum>(n, [a, b](std::int64_t i) {
        return F{}(static_cast<double>(static_cast<C>(a[i])) - static_cast<double>(static_cast<C>(b[i])));
      });
    });
    call.results[0].as<T>()[0] = static_cast<T>(static_cast<C>(sum / global_count(call)));
  });
}

/// da = dy derivative(a - b) / count
template <class D>
void gradient_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const C scale =
        static_cast<C>(static_cast<double>(static_cast<C>(call.operands[0].as<T>()[0])) / global_count(call));
    vectorized([a = call.operands[1].as<T>().data(), b = call.operands[2].as<T>().data(),
                da = call.results[0].as<T>().data(), n = call.results[0].size(), scale] {
#pragma GCC ivdep
      for (std::int64_t i = 0; i < n; ++i)
        da[i] = static_cast<T>(scale * D{}(static_cast<C>(a[i]) - static_cast<C>(b[i])));
    });
  });
}

Attributes count_number(const KernelCall& call) { return {{"count", global_count(call)}}; }

template <class F, class D>
std::vector<OpDef> error_of(const std::string& name, std::string doc, std::string gradient_doc,
                            std::string gradient_linear, F, D) {
  const auto gradient = [name](Gradient& g) {  // a and b enter as a - b, so db = -da
    const ValueId da = g.call(name + "_grad", {g.dy(), g.in(0), g.in(1)});
    return std::vector{da, g.call("neg", {da})};
  };
  return {{
              .name = name,
              .doc = std::move(doc),
              .rule_for = rule,
              .infer = infer,
              .gradient = gradient,
              .kernel = kernel<F>,
              .samples = {"f32[4,6], f32[4,6]", "f32[12], f32[12]"},
          },
          {
              .name = name + "_grad",
              .doc = std::move(gradient_doc),
              .rule = "., ..., ... -> ...",
              .linear = std::move(gradient_linear),
              .infer = infer_gradient,
              .kernel = gradient_kernel<D>,
              .samples = {"f32[], f32[4,6], f32[4,6]"},
              .overwrites = {1},
          }};
}

struct Written {
  std::string loss, gradient;
};
std::vector<OpDef> in_python(std::vector<OpDef> ops, Written torch, Written jax) {
  ops[0].torch = {.line = std::move(torch.loss), .numbers = count_number};
  ops[1].torch = {.line = std::move(torch.gradient), .numbers = count_number};
  ops[0].jax.line = std::move(jax.loss);
  ops[1].jax.line = std::move(jax.gradient);
  return ops;
}

}  // namespace

std::vector<OpDef> losses() {
  std::vector<OpDef> all =
      in_python(error_of(
                    "mean_absolute_error", "y = mean of |a - b|", "da = dy sign(a - b) / count", "{0}",
                    [](double d) { return std::abs(d); },
                    [](auto d) { return static_cast<decltype(d)>((d > 0) - (d < 0)); }),
                {"once(lambda a, b: (a - b).abs().sum() / {count}, {0}, {1})",
                 "once(lambda dy, a, b: dy / {count} * torch.sign(a - b), {0}, {1}, {2})"},
                {"once(lambda a, b: jnp.abs(a - b).sum() / {count}, {0}, {1})",
                 "once(lambda dy, a, b: dy / {count} * jnp.sign(a - b), {0}, {1}, {2})"});
  for (OpDef& op : in_python(error_of(
                                 "mean_squared_error", "y = mean of (a - b)^2", "da = 2 dy (a - b) / count",
                                 "{0} {1,2}", [](double d) { return d * d; }, [](auto d) { return 2 * d; }),
                             {"once(lambda a, b: ((a - b) ** 2).sum() / {count}, {0}, {1})",
                              "once(lambda dy, a, b: dy / {count} * (2 * (a - b)), {0}, {1}, {2})"},
                             {{}, {}}))
    all.push_back(std::move(op));
  return all;
}

}  // namespace shardwright::ops
