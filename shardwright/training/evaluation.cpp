#include "shardwright/training/evaluation.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <set>

#include "shardwright/base/progress.h"

namespace shardwright {
namespace {

constexpr std::int64_t most_copies = 4096;

}  // namespace

HeldOut::HeldOut(std::map<std::string, Tensor> columns, std::int64_t batch, const std::string& called)
    : columns_(std::move(columns)), batch_(batch) {
  for (const auto& [name, column] : columns_) {
    if (samples_ != 0 && column.shape()[0] != samples_)
      throw error("{}: '{}' has {} samples but others have {}", called, name, column.shape()[0], samples_);
    samples_ = column.shape()[0];
  }
  if (samples_ == 0) throw error("{}: has no samples", called);
  // The last batch is filled up with copies of a sample: some, but not a memory full of them.
  if (batch_ > std::max(samples_, most_copies))
    throw error("{}: has {} samples, but a batch takes {}; give --batch-size {}", called, samples_, batch_,
                samples_);
}

HeldOut HeldOut::of_one_step(std::map<std::string, Tensor> inputs) {
  HeldOut out;
  std::set<std::int64_t> rows;
  for (const auto& [name, t] : inputs) rows.insert(t.shape().empty() ? 1 : t.shape()[0]);
  out.samples_ = out.batch_ = rows.size() == 1 ? *rows.begin() : 1;
  out.columns_ = std::move(inputs);
  out.is_one_step_ = true;
  return out;
}

std::int64_t HeldOut::rows(std::int64_t i) const { return std::min(batch_, samples_ - i * batch_); }

std::map<std::string, Tensor> HeldOut::get(std::int64_t i) const {
  if (is_one_step_) return columns_;
  std::map<std::string, Tensor> out;
  for (const auto& [name, column] : columns_) {
    Shape shape = column.shape();
    shape[0] = batch_;
    Tensor part({column.dtype(), std::move(shape)});
    const std::size_t row_bytes = part.bytes().size() / static_cast<std::size_t>(batch_);
    for (std::int64_t r = 0; r < batch_ && row_bytes > 0; ++r)
      std::memcpy(part.bytes().data() + static_cast<std::size_t>(r) * row_bytes,
                  column.bytes().data() +
                      static_cast<std::size_t>(std::min(i * batch_ + r, samples_ - 1)) * row_bytes,
                  row_bytes);
    out[name] = std::move(part);
  }
  return out;
}

bool are_scores(const Type& prediction, const Type& label) {
  return (label.dtype == DType::i32 || label.dtype == DType::i64) && is_floating(prediction.dtype) &&
         prediction.shape.size() == label.shape.size() + 1 &&
         std::equal(label.shape.begin(), label.shape.end(), prediction.shape.begin());
}

void Hits::add(const Tensor& prediction, const Tensor& label, std::int64_t rows) {
  const std::vector<double> scores = to_doubles(prediction), labels = to_doubles(label);
  const auto classes = static_cast<std::size_t>(prediction.shape().back());
  const auto each = static_cast<std::int64_t>(labels.size()) / std::max<std::int64_t>(label.shape()[0], 1);
  for (std::size_t i = 0; i < static_cast<std::size_t>(rows * each); ++i) {
    if (labels[i] < 0) continue;  // left out, as losses do
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>(i * classes);
    hits += std::max_element(row, row + static_cast<std::ptrdiff_t>(classes)) - row ==
            static_cast<std::ptrdiff_t>(labels[i]);
    ++count;
  }
}

Evaluated ask(Session& session, const HeldOut& data, const AskOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  const std::size_t first = options.has_labels ? 1 : 0;  // prediction
  Evaluated out{.samples = data.samples()};
  double losses = 0;
  std::int64_t full = 0;
  Hits hits;
  Doing doing(options.progress, "batch", data.batches());
  for (std::int64_t i = 0; i < data.batches(); ++i) {
    doing.tell(i);
    std::map<std::string, Tensor> batch = data.get(i);
    const Tensor label = options.has_labels ? batch.at("label") : Tensor();
    if (!options.has_labels) batch.erase("label");
    const std::vector<Tensor> outputs = session.step(batch);
    const std::int64_t rows = data.rows(i);
    if (options.has_labels) {
      if (rows == data.batch()) losses += to_doubles(outputs[0])[0], ++full;
      if (are_scores(outputs[first].type(), label.type())) hits.add(outputs[first], label, rows);
    }
    if (options.take)
      options.take({outputs.begin() + static_cast<std::ptrdiff_t>(first), outputs.end()}, rows);
  }
  if (full > 0) out.loss = losses / static_cast<double>(full);
  if (full == 0) out.loss = std::nan("");
  if (hits.count > 0) out.accuracy = hits.share();
  if (options.are_sequences) out.perplexity = std::exp(out.loss);
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace shardwright
