// ONNX operators that are losses: models that hold theirs are trained as they are.
//
//   SoftmaxCrossEntropyLoss     of scores [n, classes, d...] and labels [n, d...]
//   NegativeLogLikelihoodLoss   the same of logarithms of probabilities
//
// Both are -log p[label] for each label, times the weight of its class where there are weights; a label that is
// `ignore_index` counts for nothing. The mean is over what counts: the sum of losses by that of weights.

#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/ops/calls.h"

namespace shardwright::onnx_operators {
namespace {

using List = std::vector<std::int64_t>;

/// [n, classes, d...] as [n, d..., classes].
ValueId classes_last(OnnxNode& n, ValueId scores) {
  const std::size_t rank = n.type_of(scores).shape.size();
  if (rank == 2) return scores;
  List dims{0};
  for (std::size_t d = 2; d < rank; ++d) dims.push_back(static_cast<std::int64_t>(d));
  dims.push_back(1);
  return n.call("transpose", {scores}, {{"dims", dims}});
}

/// The labels, all of which are classes, and what each counts; an invalid id where each counts 1.
struct Labels {
  ValueId classes, weights;
};

void check_operands(const OnnxNode& n) {
  const Type &scores = n.type(0), &labels = n.type(1);
  if (!is_floating(scores.dtype) || scores.shape.size() < 2)
    throw error("input 0 is {} but should be numbers [batch, classes, ...]", to_text(scores));
  if (labels.dtype != DType::i32 && labels.dtype != DType::i64)
    throw error("input 1 is {} but should be labels, i32 or i64", to_text(labels));
  Shape wanted = scores.shape;
  wanted.erase(wanted.begin() + 1);
  if (labels.shape != wanted)
    throw error("scores {} need labels of shape {} but they are {}", to_text(scores), to_text(wanted),
                to_text(labels));
  if (n.has(2) && n.shape(2) != Shape{scores.shape[1]})
    throw error("input 2 is {} but should be a weight for each of the {} classes", to_text(n.type(2)),
                scores.shape[1]);
}

/// A label that is `ignored` becomes class 0 and counts 0.
Labels without_ignored(OnnxNode& n, std::int64_t ignored) {
  const ValueId labels = n.in(1);
  const Type type = n.type_of(labels);
  if (type.dtype == DType::i32 && (ignored < INT32_MIN || ignored > INT32_MAX)) return {labels, {}};
  Tensor number({DType::i64, {}});
  number.as<std::int64_t>()[0] = ignored;
  const ValueId is_ignored = n.call("equal", {labels, n.constant(convert(number, type.dtype))});
  const ValueId zero = n.constant(Tensor({type.dtype, {}}));
  return {n.call("where", {is_ignored, zero, labels}),
          n.call("cast", {n.call("logical_not", {is_ignored})},
                 {{"to", std::string(name_of(n.kept_precision()))}})};
}

Labels labels_of(OnnxNode& n) {
  n.tell_classes(n.in(1), n.shape(0)[1]);
  Labels out{n.in(1), {}};
  if (n.has_attribute("ignore_index")) out = without_ignored(n, n.integer("ignore_index", 0));
  if (!n.has(2)) return out;
  const ValueId of_class =
      cast_to(n.builder(), n.call("gather", {n.untrained(2), out.classes}), n.kept_precision());
  out.weights = out.weights.is_valid() ? n.call("mul", {of_class, out.weights}) : of_class;
  return out;
}

void reduce(OnnxNode& n, ValueId losses, ValueId weights) {
  const std::string reduction = n.text("reduction", "mean");
  if (reduction != "mean" && reduction != "sum" && reduction != "none")
    throw error("attribute 'reduction={}' is not supported", printable(reduction));
  if (weights.is_valid()) {
    weights = cast_to(n.builder(), weights, n.type_of(losses).dtype);
    losses = n.call("mul", {losses, weights});
  }
  if (reduction == "none") return n.give(losses);
  if (reduction == "sum" || weights.is_valid()) n.tell_uneven_loss();
  if (reduction == "sum") return n.give(n.call("reduce_sum", {losses}));
  if (!weights.is_valid()) return n.give(n.call("reduce_mean", {losses}));
  n.give(n.call("div", {n.call("reduce_sum", {losses}), n.call("reduce_sum", {weights})}));
}

void softmax_cross_entropy(OnnxNode& n) {
  check_operands(n);
  const Labels labels = labels_of(n);
  const ValueId scores = n.in(0);
  reduce(n, cross_entropy(n.builder(), classes_last(n, scores), labels.classes, n.is_mixed(), n.name()),
         labels.weights);
  if (n.gives(1)) n.give(n.call("log_softmax", {scores}, {{"dim", std::int64_t{1}}}));
}

/// x[label] is among the terms of a cross entropy, less the largest x.
void negative_log_likelihood(OnnxNode& n) {
  check_operands(n);
  const Labels labels = labels_of(n);
  const ValueId x = classes_last(n, n.in(0));
  const ValueId largest = n.call("reduce_max", {x}, {{"dims", List{-1}}});
  const ValueId shift = n.call("stop_gradient", {largest});
  const ValueId terms = n.main("cross_entropy_terms", {x, labels.classes, shift});
  const ValueId behind = n.call("strided_slice", {terms}, {{"dims", List{0}}, {"starts", List{1}}});
  const ValueId flat = n.call("reshape", {behind}, {{"shape", n.type_of(shift).shape}});
  reduce(n, n.call("neg", {n.call("add", {flat, shift})}), labels.weights);
}

}  // namespace

std::vector<Conversion> losses() {
  return {{"NegativeLogLikelihoodLoss", negative_log_likelihood, false},
          {"SoftmaxCrossEntropyLoss", softmax_cross_entropy, false}};
}

}  // namespace shardwright::onnx_operators
