// Cross entropy of softmax(logits) against one label per row: loss = log sum e^logits - logits[label].
//
//   dlogits = dy (softmax(logits) - one_hot(label))

#include <cmath>
#include <limits>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/types.h"

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
std::vector<std::int64_t> labels_in(const KernelCall& call, std::size_t operand, std::int64_t classes) {
  std::vector<std::int64_t> labels = integers_in(call.operands[operand]);
  for (std::size_t r = 0; r < labels.size(); ++r)
    if (labels[r] < 0 || labels[r] >= classes)
      throw error("softmax_cross_entropy: the label of row {} is {} but there are {} classes: 0 to {}",
                  global_row(call, operand, static_cast<std::int64_t>(r)), labels[r], classes, classes - 1);
  return labels;
}

/// Largest element and log of the sum of e^x of one row.
template <class C>
struct RowSum {
  C largest = -std::numeric_limits<C>::infinity();
  C log_sum = 0;

  template <class T>
  explicit RowSum(std::span<const T> x) {
    for (const T v : x) largest = std::max(largest, static_cast<C>(v));
    double sum = 0;
    for (const T v : x) sum += std::exp(static_cast<C>(v) - largest);
    log_sum = static_cast<C>(std::log(sum));
  }
};

void kernel(const KernelCall& call) {
  const std::int64_t classes = call.operands[0].shape.back();
  const std::vector<std::int64_t> labels = labels_in(call, 1, classes);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const std::span<const T> logits = call.operands[0].as<T>();
    const auto loss = call.results[0].as<T>();
    const auto c = static_cast<std::size_t>(classes);
    for (std::size_t r = 0; r < labels.size(); ++r) {
      const auto x = logits.subspan(r * c, c);
      const RowSum<C> sum(x);
      loss[r] = static_cast<T>(sum.log_sum +
                               (sum.largest - static_cast<C>(x[static_cast<std::size_t>(labels[r])])));
    }
  });
}

void gradient_kernel(const KernelCall& call) {
  const std::int64_t classes = call.operands[1].shape.back();
  const std::vector<std::int64_t> labels = labels_in(call, 2, classes);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto dy = call.operands[0].as<T>();
    const std::span<const T> logits = call.operands[1].as<T>();
    const auto dx = call.results[0].as<T>();
    const auto c = static_cast<std::size_t>(classes);
    for (std::size_t r = 0; r < labels.size(); ++r) {
      const auto x = logits.subspan(r * c, c);
      const RowSum<C> sum(x);
      for (std::size_t j = 0; j < c; ++j) {
        const C probability = std::exp(static_cast<C>(x[j]) - sum.largest - sum.log_sum);
        const C target = static_cast<C>(j == static_cast<std::size_t>(labels[r]));
        dx[r * c + j] = static_cast<T>(static_cast<C>(dy[r]) * (probability - target));
      }
    }
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
