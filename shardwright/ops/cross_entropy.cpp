// Cross entropy of softmax(logits) against one label per row: loss = log sum e^logits - logits[label].
//
//   dlogits = dy (softmax(logits) - one_hot(label))

#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

void check_logits_and_labels(const Call& call, std::size_t logits) {
  check_floating(call.operands[logits].dtype);
  check_integer(call.operands[logits + 1].dtype);
  const Shape& shape = call.operands[logits].shape;
  if (shape.empty()) throw error("logits need a dim of classes but are {}", to_text(call.operands[logits]));
  const Shape rows(shape.begin(), shape.end() - 1);
  if (call.operands[logits + 1].shape != rows)
    throw error("logits {} need labels of shape {} but they are {}", to_text(call.operands[logits]),
                to_text(rows), to_text(call.operands[logits + 1]));
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 2);
  check_logits_and_labels(call, 0);
  return {{call.operands[0].dtype, call.operands[1].shape}};
}

std::vector<Type> infer_gradient(const Call& call) {
  check_count(call, 3);
  check_logits_and_labels(call, 1);
  check_same_dtype(call, 0, 1);
  return {call.operands[1]};
}

/// Index of local row `row` in the whole tensor. `labels` is the operand that holds them.
std::int64_t global_row(const KernelCall& call, std::size_t labels, std::int64_t row) {
  std::int64_t global = 0, factor = 1;
  const RuleTensor& dims = call.rule.operands[labels];
  for (std::size_t d = dims.dims.size(); d-- > 0;) {
    const LoopBox::Part& part = call.box.loops[static_cast<std::size_t>(dims.dims[d][0])];
    global += (part.offset + row % part.extent) * factor;
    row /= part.extent;
    factor *= part.size;
  }
  return global;
}

/// The labels of all rows. Throws: Error on one that is no class.
Integers labels_in(const KernelCall& call, std::size_t operand, std::int64_t classes) {
  const Integers labels(call.operands[operand]);
  for (std::int64_t r = 0; r < labels.size(); ++r)
    if (labels[r] < 0 || labels[r] >= classes)
      throw error("the label of row {} is {} but there are {} classes: 0 to {}", global_row(call, operand, r),
                  labels[r], classes, classes - 1);
  return labels;
}

template <class T, class C = Compute<T>>
C largest_of(const T* x, std::int64_t classes) {
  return fold<Largest>(classes, [x](std::int64_t c) { return static_cast<C>(x[c]); });
}

void kernel(const KernelCall& call) {
  const std::int64_t classes = call.operands[0].shape.back();
  const Integers labels = labels_in(call, 1, classes);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([labels, classes, logits = call.operands[0].as<T>().data(),
                loss = call.results[0].as<T>().data()] {
      for (std::int64_t r = 0; r < labels.size(); ++r) {
        const T* const x = logits + r * classes;
        const C largest = largest_of(x, classes);
        const double sum = fold<Sum>(
            classes, [x, largest](std::int64_t c) { return math::exp(static_cast<C>(x[c]) - largest); });
        loss[r] = static_cast<T>(static_cast<C>(std::log(sum)) + (largest - static_cast<C>(x[labels[r]])));
      }
    });
  });
}

/// Where elements are stored as they are computed, e^(x - m) waits in the result for its sum.
void gradient_kernel(const KernelCall& call) {
  const std::int64_t classes = call.operands[1].shape.back();
  const Integers labels = labels_in(call, 2, classes);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    constexpr bool keeps = std::is_same_v<T, C>;
    vectorized([labels, classes, dy = call.operands[0].as<T>().data(),
                logits = call.operands[1].as<T>().data(), dx = call.results[0].as<T>().data()] {
      for (std::int64_t r = 0; r < labels.size(); ++r) {
        const T* const x = logits + r * classes;
        T* const to = dx + r * classes;
        const C largest = largest_of(x, classes), gradient = static_cast<C>(dy[r]);
        const auto power = [x, largest](std::int64_t c) { return math::exp(static_cast<C>(x[c]) - largest); };
        const std::int64_t label = labels[r];
        const C of_label = power(label);
        double sum = 0;
        if constexpr (keeps) {
#pragma GCC ivdep
          for (std::int64_t c = 0; c < classes; ++c) to[c] = power(c);
          sum = fold<Sum>(classes, [to](std::int64_t c) { return to[c]; });
        } else {
          sum = fold<Sum>(classes, power);
        }
        const C scale = static_cast<C>(1 / sum);
#pragma GCC ivdep
        for (std::int64_t c = 0; c < classes; ++c)
          to[c] = static_cast<T>(gradient * ((keeps ? static_cast<C>(to[c]) : power(c)) * scale));
        to[label] = static_cast<T>(gradient * (of_label * scale - 1));
      }
    });
  });
}

}  // namespace

std::vector<OpDef> cross_entropy() {
  return {{
              .name = "softmax_cross_entropy",
              .doc = "loss[...] = log of the sum of e^logits[..., c] - logits[..., label]",
              .rule = "... c^, ... -> ...",
              .infer = infer,
              .gradient =
                  [](Gradient& g) {
                    const ValueId d = g.call("softmax_cross_entropy_grad", {g.dy(), g.in(0), g.in(1)});
                    return std::vector{d, ValueId{}};
                  },
              .kernel = kernel,
              .samples = {"f32[6,4], i32[6]<4", "f32[2,6,4], i32[2,6]<4", "f32[4,6], i64[4]<6"},
          },
          {
              .name = "softmax_cross_entropy_grad",
              .doc = "dlogits = dy (softmax(logits) - one_hot(label))",
              .rule = "..., ... c^, ... -> ... c^",
              .linear = "{0}",
              .infer = infer_gradient,
              .kernel = gradient_kernel,
              .samples = {"f32[6], f32[6,4], i32[6]<4", "f32[2,6], f32[2,6,4], i32[2,6]<4"},
              .overwrites = {1},
          }};
}

}  // namespace shardwright::ops
