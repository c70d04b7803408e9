// softmax and log_softmax over one dim (attribute `dim`, default the last), which must stay whole.
//
//   y = e^(x - m) / s,  log y = x - m - log s,   m = max x,  s = sum e^(x - m)
//   dx = y (dy - sum dy y)          and for log_softmax     dx = dy - e^y sum dy

#include <cmath>
#include <limits>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/dims.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::string tensor_with_whole_dim(const Call& call) {
  const Shape& shape = call.operands[0].shape;
  const std::size_t whole = dim_of(call.attributes.integer("dim", -1), shape);
  std::vector<std::string> dims;
  for (std::size_t d = 0; d < shape.size(); ++d) dims.push_back(loop_name(d, d == whole ? "^" : ""));
  return tensor_text(dims);
}

std::string rule(const Call& call) { return fmt::format("{0} -> {0}", tensor_with_whole_dim(call)); }
std::string gradient_rule(const Call& call) {
  return fmt::format("{0}, {0} -> {0}", tensor_with_whole_dim(call));
}

template <std::size_t operands>
std::vector<Type> infer(const Call& call) {
  Type type = common_type(call, operands);
  dim_of(call.attributes.integer("dim", -1), type.shape);
  return {std::move(type)};
}

/// Calls `f(start)` for every line along the softmax dim; element c of it stands at start + c * step.
struct Lines {
  std::int64_t length = 1;
  std::int64_t step = 1;
  std::int64_t count = 1;

  explicit Lines(const KernelCall& call) {
    const Shape& shape = call.operands[0].shape;
    const std::size_t d = dim_of(call.attributes.integer("dim", -1), shape);
    length = shape[d];
    step = strides_of(shape)[d];
    count = length == 0 ? 0 : element_count(shape) / length;
  }
  template <class F>
  void for_each(F f) const {
    for (std::int64_t i = 0; i < count; ++i) f(i / step * step * length + i % step);
  }
};

/// x: the line's elements, y: where the result goes. The result may overwrite the operand.
template <bool is_log>
void kernel(const KernelCall& call) {
  const Lines lines(call);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto in = call.operands[0].as<T>();
    const auto out = call.results[0].as<T>();
    lines.for_each([&](std::int64_t start) {
      const T* const x = in.data() + start;
      T* const y = out.data() + start;
      C largest = -std::numeric_limits<C>::infinity();
      for (std::int64_t c = 0; c < lines.length; ++c)
        largest = std::max(largest, static_cast<C>(x[c * lines.step]));
      double sum = 0;
      for (std::int64_t c = 0; c < lines.length; ++c)
        sum += std::exp(static_cast<C>(x[c * lines.step]) - largest);
      const C log_sum = largest + static_cast<C>(std::log(sum));
      const C scale = static_cast<C>(1 / sum);
      for (std::int64_t c = 0; c < lines.length; ++c) {
        const C v = static_cast<C>(x[c * lines.step]);
        y[c * lines.step] = static_cast<T>(is_log ? v - log_sum : std::exp(v - largest) * scale);
      }
    });
  });
}

template <bool is_log>
void gradient_kernel(const KernelCall& call) {
  const Lines lines(call);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto gradients = call.operands[0].as<T>(), results = call.operands[1].as<T>();
    const auto out = call.results[0].as<T>();
    lines.for_each([&](std::int64_t start) {
      const auto dy = [&](std::int64_t c) {
        return static_cast<C>(gradients[static_cast<std::size_t>(start + c * lines.step)]);
      };
      const auto y = [&](std::int64_t c) {
        return static_cast<C>(results[static_cast<std::size_t>(start + c * lines.step)]);
      };
      double sum = 0;
      for (std::int64_t c = 0; c < lines.length; ++c) sum += is_log ? dy(c) : dy(c) * y(c);
      const C total = static_cast<C>(sum);
      for (std::int64_t c = 0; c < lines.length; ++c)
        out[static_cast<std::size_t>(start + c * lines.step)] =
            static_cast<T>(is_log ? dy(c) - std::exp(y(c)) * total : y(c) * (dy(c) - total));
    });
  });
}

template <bool is_log>
std::vector<OpDef> family(const std::string& name, std::string doc, std::string gradient_doc) {
  const auto gradient = [name](Gradient& g) {
    return std::vector{g.call(name + "_grad", {g.dy(), g.out()}, g.attributes())};
  };
  return {{
              .name = name,
              .doc = std::move(doc),
              .rule_for = rule,
              .infer = infer<1>,
              .gradient = gradient,
              .kernel = kernel<is_log>,
              .samples = {"f32[4,6]", "f32[2,6,4] (dim=1)", "f32[6,4] (dim=0)"},
              .overwrites = {0},
          },
          {
              .name = name + "_grad",
              .doc = std::move(gradient_doc),
              .rule_for = gradient_rule,
              .linear = "{0}",
              .infer = infer<2>,
              .kernel = gradient_kernel<is_log>,
              .samples = {"f32[4,6], f32[4,6]", "f32[2,6,4], f32[2,6,4] (dim=1)"},
              .overwrites = {0},
          }};
}

}  // namespace

std::vector<OpDef> softmax() {
  std::vector<OpDef> all =
      family<false>("softmax", "y = e^x / sum of e^x over `dim`", "dx = y (dy - sum of dy y)");
  for (OpDef& op :
       family<true>("log_softmax", "y = x - log of the sum of e^x over `dim`", "dx = dy - e^y sum of dy"))
    all.push_back(std::move(op));
  return all;
}

}  // namespace shardwright::ops
