#include "shardwright/frontend/sessions_by_size.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/runtime/ports.h"

namespace shardwright {
namespace {

std::map<std::string, Shape> inputs_of(const Session& session) {
  const StepTensors tensors(session.pipeline(), true);
  std::map<std::string, Shape> out;
  for (const StepTensors::Input& input : tensors.inputs) out[input.name] = tensors.batch_type(input).shape;
  return out;
}

}  // namespace

SessionsBySize::SessionsBySize(const Session& first, const std::vector<Prepared>& others,
                               const SessionStart& start, const SessionOptions& options)
    : inputs_{inputs_of(first)} {
  SessionOptions shared = options;
  shared.memory = first.memory();
  for (const Prepared& program : others) {
    others_.push_back(start(program, shared));
    inputs_.push_back(inputs_of(others_.back()));
  }
}

std::size_t SessionsBySize::of(const std::map<std::string, Tensor>& batch) const {
  for (std::size_t i = 0; i < inputs_.size(); ++i)
    if (std::ranges::all_of(inputs_[i], [&](const auto& input) {
          const auto given = batch.find(input.first);
          return given == batch.end() || given->second.shape() == input.second;
        }))
      return i;
  if (inputs_.size() == 1) return 0;  // which says what is wrong
  std::vector<std::string> given, known;
  for (const auto& [name, tensor] : batch)
    given.push_back(fmt::format("{} {}", name, to_text(tensor.shape())));
  for (const auto& [name, shape] : inputs_.front()) {
    std::vector<std::string> shapes;
    for (const auto& inputs : inputs_) shapes.push_back(to_text(inputs.at(name)));
    known.push_back(fmt::format("{} {}", name, join(shapes, " or ")));
  }
  throw error("a batch of {}, but the step takes {}", join(given, ", "), join(known, ", "));
}

std::vector<Tensor> SessionsBySize::step(Session& first, const std::map<std::string, Tensor>& batch) {
  const std::size_t i = of(batch);
  if (i == 0) return first.step(batch);
  others_[i - 1].set_next_step(first.next_step());
  std::vector<Tensor> out = others_[i - 1].step(batch);
  first.set_next_step(first.next_step() + 1);
  return out;
}

std::vector<Prepared> SessionsBySize::prepared_again() const {
  std::vector<Prepared> out;
  for (const Session& other : others_) out.push_back(shardwright::prepared_again(other));
  return out;
}

}  // namespace shardwright
