#include "shardwright/runtime/ports.h"

#include <algorithm>
#include <array>

#include "shardwright/base/text.h"
#include "shardwright/runtime/whole.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Among ranks that hold the same part of a value, the one that gives it. `rank`: of those of the stage.
bool gives(const Program& program, ValueId v, int rank) {
  const Layout layout = layout_of(program.graph.value(v));
  const Mesh& mesh = program.graph.meshes[at(layout.mesh)];
  return mesh.index_along(rank, mesh.all_axes().without(layout.used())) == 0;
}

}  // namespace

Way::Way(const Pipeline& pipeline, int rank, int stage, ValueId v) {
  const Program& program = pipeline.stage(stage);
  const Value& value = program.graph.value(v);
  const int own = rank - pipeline.first_rank(stage);
  const Shape whole = value.global_type().shape;
  box_ = box_of(program.graph, v, own);
  in_ = from_whole(whole, box_);
  out_ = to_whole(whole, box_);
  format_ = value.format;
  gives_ = gives(program, v, own);
}

void Way::take(const std::byte* whole, const TensorView& local) const {
  fill(local, [&](const TensorView& view) { copy_piece(in_, whole, view.data, size_of(view.dtype)); });
}

void Way::give(const TensorView& local, std::byte* whole) const {
  if (!gives_) return;
  const std::size_t element_bytes = size_of(local.dtype);
  if (format_.is_row_major()) return copy_piece(out_, local.data, whole, element_bytes);
  copy_piece(out_, row_major(local).bytes().data(), whole, element_bytes);
}

Tensor Way::row_major(const TensorView& local) const {
  Tensor copy({local.dtype, local.shape});
  reformat(local.data, format_, copy.bytes().data(), {}, local.shape, size_of(local.dtype));
  return copy;
}

StepTensors::StepTensors(const Pipeline& pipeline, bool only_scalars) {
  for (const Program& program : pipeline.stages)
    for (const Node& node : program.graph.nodes) {
      if (node.op->kind != OpKind::input) continue;
      const Value& value = program.graph.value(node.results[0]);
      if (std::ranges::find(inputs, value.name, &Input::name) == inputs.end())
        inputs.push_back({value.name, value.global_type()});
    }
  for (const StagedGraph::Output& output : pipeline.outputs) {
    const Type type = pipeline.output_type(output);
    is_wanted.push_back(!only_scalars || type.shape.empty());
    outputs.emplace_back(is_wanted.back() ? type : Type{type.dtype, {0}});
  }
}

void StepTensors::bind(const std::map<std::string, Tensor>& batch, int micro_batches) {
  for (Input& input : inputs) {
    const auto it = batch.find(input.name);
    if (it == batch.end()) throw error("input '{}' is missing from the batch", input.name);
    Type whole = input.type;
    if (!whole.shape.empty()) whole.shape[0] *= micro_batches;
    if (it->second.type() != whole && it->second.type() != input.type)
      throw error("input '{}' is {} but the batch has {}", input.name, to_text(whole),
                  to_text(it->second.type()));
    input.whole = &it->second;
  }
  if (batch.size() == inputs.size()) return;
  std::vector<std::string> known;
  for (const Input& input : inputs) known.push_back(input.name);
  for (const auto& [name, tensor] : batch)
    if (std::ranges::find(known, name) == known.end())
      throw error("there is no input '{}'{}", name, near_names(name, known));
}

RankPorts::RankPorts(const Pipeline& pipeline, int rank, StepTensors& tensors, bool keeps)
    : pipeline_(pipeline), tensors_(tensors), keeps_(keeps) {
  for (int stage : pipeline.stages_of(rank)) {
    const Graph& graph = pipeline.stage(stage).graph;
    for (const Node& node : graph.nodes) {
      if (node.op->kind != OpKind::input) continue;
      const ValueId v = node.results[0];
      const auto input = std::ranges::find(tensors.inputs, graph.value(v).name, &StepTensors::Input::name);
      inputs_.push_back({stage, v, static_cast<std::size_t>(input - tensors.inputs.begin()),
                         Way(pipeline, rank, stage, v)});
    }
    for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
      if (pipeline.outputs[o].stage != stage || !tensors.is_wanted[o]) continue;
      const ValueId v = graph.outputs[at(pipeline.outputs[o].index)];
      outputs_.push_back({stage, v, o, Way(pipeline, rank, stage, v)});
    }
  }
}

void RankPorts::fill(const Executor& executor, int stage, int micro_batch) {
  for (const Port& port : inputs_) {
    if (port.stage != stage) continue;
    const StepTensors::Input& input = tensors_.inputs[port.outside];
    const bool is_cut = input.whole->type() != input.type;
    port.way.take(input.whole->bytes().data() + (is_cut ? micro_batch * input.type.bytes() : 0),
                  executor.view(stage, port.value, micro_batch));
  }
}

void RankPorts::hand_out(const Executor& executor, int stage, int micro_batch) {
  for (Port& port : outputs_)
    if (port.stage == stage) give(port, executor.view(stage, port.value, micro_batch), micro_batch);
}

void RankPorts::give(Port& port, const TensorView& of_value, int micro_batch) {
  TensorView view = of_value;
  Tensor& whole = tensors_.outputs[port.outside];
  const int count = pipeline_.micro_batches();
  const bool is_scalar = whole.shape().empty();
  Tensor mean;  // not in the value's place: a backward may read that
  if (is_scalar && count > 1) {
    if (micro_batch == 0) port.sum = 0;
    port.sum += to_doubles(port.way.row_major(view)).front();
    if (micro_batch + 1 < count) return;
    mean = make_tensor(whole.type(), std::array{port.sum / count});
    view = mean.view();
  }
  const std::size_t place = is_scalar ? 0 : at(micro_batch), places = is_scalar ? 1 : at(count);
  if (keeps_) {
    port.kept.resize(places);
    port.kept[place] = port.way.row_major(view);
    return;
  }
  port.way.give(view, whole.bytes().data() + place * (whole.bytes().size() / places));
}

void RankPorts::gather(Gather& gather) {
  for (std::size_t o = 0; o < tensors_.outputs.size(); ++o) {
    if (!tensors_.is_wanted[o]) continue;
    Tensor& whole = tensors_.outputs[o];
    const auto [stage, index] = pipeline_.outputs[o];
    const ValueId v = pipeline_.stage(stage).graph.outputs[at(index)];
    const auto port = std::ranges::find(outputs_, o, &Port::outside);
    const std::size_t count = whole.shape().empty() ? 1 : at(pipeline_.micro_batches());
    const std::size_t bytes = whole.bytes().size() / count;
    for (std::size_t m = 0; m < count; ++m)
      gather(stage, v, port == outputs_.end() ? nullptr : port->kept[m].bytes().data(),
             whole.bytes().data() + m * bytes);
  }
}

}  // namespace shardwright
