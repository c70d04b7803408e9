#include "shardwright/frontend/modules/losses.h"

#include <array>

#include "shardwright/base/unknown.h"
#include "shardwright/ops/calls.h"
#include "shardwright/runtime/data/marked_tokens.h"

namespace shardwright {

namespace {

/// In the type that losses are computed in.
Traced in_full(Traced x) { return {x.trace, cast_to(x.trace->builder(), x.id, x.trace->kept_precision())}; }

}  // namespace

Traced CrossEntropyLoss::operator()(Traced logits, Traced labels) const {
  Trace& trace = *logits.trace;
  const Traced of_rows{
      &trace, cross_entropy(trace.builder(), logits.id, labels.id, trace.is_mixed(), "cross_entropy")};
  return trace.call("reduce_mean", {of_rows}, {}, "loss");
}

Traced AskedCrossEntropyLoss::operator()(Traced logits, Traced labels, Traced weights) const {
  Trace& trace = *logits.trace;
  const Traced none{&trace, constant(trace.builder(), DType::i32, static_cast<double>(not_asked))};
  const Traced zero{&trace, constant(trace.builder(), DType::i32, 0)};
  const Traced is_asked = trace.call("not_equal", {labels, none}, {}, "label.is_asked");
  const Traced classes = trace.call("where", {is_asked, labels, zero}, {}, "label.class");
  const Traced of_labels{
      &trace, cross_entropy(trace.builder(), logits.id, classes.id, trace.is_mixed(), "cross_entropy")};
  const Traced counts =
      trace.call("cast", {is_asked}, {{"to", std::string(name_of(of_labels.type().dtype))}}, "label.counts");
  Shape by_sample(labels.type().shape.size(), 1);
  by_sample[0] = labels.type().shape[0];
  const Traced of_samples =
      trace.call("reshape", {weights}, {{"shape", std::move(by_sample)}}, "label.weights");
  const Traced own{&trace, cast_to(trace.builder(), of_samples.id, of_labels.type().dtype)};
  const Traced weighed =
      trace.call("mul", {trace.call("mul", {of_labels, counts}, {}, "loss.asked"), own}, {}, "loss.weighed");
  return trace.call("reduce_mean", {weighed}, {}, "loss");
}

CrossEntropyAndTop1::Result CrossEntropyAndTop1::operator()(Traced logits, Traced labels) const {
  using Dims = std::vector<std::int64_t>;
  Trace& trace = *logits.trace;
  const Traced terms{
      &trace, cross_entropy_terms(trace.builder(), logits.id, labels.id, trace.is_mixed(), "cross_entropy")};
  const Traced of_rows = trace.call("cross_entropy_of_terms", {terms}, {}, "cross_entropy.loss");
  // x[label] - largest x, which is 0 where the label has the largest
  const Traced behind =
      trace.call("strided_slice", {terms}, {{"dims", Dims{0}}, {"starts", Dims{1}}}, "top1.behind");
  const DType dtype = behind.type().dtype;
  const Traced zero{&trace, constant(trace.builder(), dtype, 0)};
  const Traced hits = trace.call("cast", {trace.call("equal", {behind, zero}, {}, "top1.is_label")},
                                 {{"to", std::string(name_of(dtype))}}, "top1.hits");
  return {trace.call("reduce_mean", {of_rows}, {}, "loss"), trace.call("reduce_mean", {hits}, {}, "top1")};
}

Traced MeanAbsoluteError::operator()(Traced x, Traced y) const {
  return x.trace->call("mean_absolute_error", {in_full(x), in_full(y)}, {}, "loss");
}

Traced MeanSquaredError::operator()(Traced x, Traced y) const {
  return x.trace->call("mean_squared_error", {in_full(x), in_full(y)}, {}, "loss");
}

Traced BinaryCrossEntropyLoss::operator()(Traced logits, Traced targets) const {
  Trace& trace = *logits.trace;
  const Traced of_elements =
      trace.call("sigmoid_cross_entropy", {in_full(logits), in_full(targets)}, {}, "binary_cross_entropy");
  return trace.call("reduce_mean", {of_elements}, {}, "loss");
}

Labels labels_of(std::string_view name, const Type& prediction) {
  const Shape& shape = prediction.shape;
  if (name != "cross_entropy") return {.type = prediction, .are_shares = name == "binary_cross_entropy"};
  if (shape.empty()) throw error("cross_entropy of {} has no classes", to_text(prediction));
  return {.type = {DType::i32, Shape(shape.begin(), shape.end() - 1)}, .classes = shape.back()};
}

Traced loss_called(std::string_view name, Traced prediction, Traced label) {
  if (name == "binary_cross_entropy") return BinaryCrossEntropyLoss{}(prediction, label);
  if (name == "cross_entropy") return CrossEntropyLoss{}(prediction, label);
  if (name == "mean_absolute_error") return MeanAbsoluteError{}(prediction, label);
  if (name == "mean_squared_error") return MeanSquaredError{}(prediction, label);
  throw unknown("loss", name,
                std::array<std::string, 4>{"binary_cross_entropy", "cross_entropy", "mean_absolute_error",
                                           "mean_squared_error"});
}

}  // namespace shardwright
