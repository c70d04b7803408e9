#include "shardwright/runtime/ports.h"

#include <algorithm>
#include <array>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/batch.h"

namespace shardwright {
namespace {

/// A part of a tensor, seen from a part of it that begins at row `rows`.
Box moved_up(Box box, std::int64_t rows) {
  if (!box.offset.empty()) box.offset[0] -= rows;
  return box;
}

/// Whether a piece goes run by run straight from where it is to where it should be. On the host that costs nothing; the
/// ways to other devices are long, and what lies in one run there goes in one.
bool is_moved_at_once(const Backend& backend, const Piece& piece) {
  return backend.is_host() || is_one_run(piece);
}

}  // namespace

namespace {

/// Of the first part of a micro-batch, which is what they are called after outside.
std::vector<ValueId> inputs_of(const Program& program) {
  std::vector<ValueId> out;
  for (const Node& node : program.graph.nodes)
    if (node.op->kind == OpKind::input && !program.is_of_further_part(node.results[0]))
      out.push_back(node.results[0]);
  return out;
}

/// Of all parts.
std::vector<ValueId> parts_of(const Program& program, ValueId v) {
  std::vector<ValueId> out;
  for (int part = 0; part < program.interleave; ++part) out.push_back(program.of_part(v, part));
  return out;
}

}  // namespace

Way::Way(const Pipeline& pipeline, int rank, int stage, ValueId v)
    : box_(box_of(pipeline.stage(stage).graph, v, rank - pipeline.first_rank(stage))),
      format_(pipeline.stage(stage).graph.value(v).format),
      owns_(shardwright::owns(pipeline, stage, v, rank)) {}

void Way::take(Backend& backend, const TensorView& local, const std::byte* from, const Box& where) const {
  const Box region = intersect(box_, where);
  if (is_empty(region)) return;
  const std::size_t element = size_of(local.dtype);
  if (!format_.is_row_major()) {
    Tensor own = region == box_ ? Tensor({local.dtype, local.shape}) : read(backend, local);
    copy_piece(piece_of(region, where, box_), from, own.bytes().data(), element);
    return write(backend, local, own);
  }
  const auto write_runs = [&](const std::byte* data, const Box& holds) {
    for_each_run(piece_of(region, holds, box_), [&](std::int64_t f, std::int64_t t, std::int64_t n) {
      backend.write(local.data + at(t) * element, {data + at(f) * element, at(n) * element});
    });
  };
  if (is_moved_at_once(backend, piece_of(region, where, box_))) return write_runs(from, where);
  Tensor packed({local.dtype, region.extent});
  copy_piece(piece_of(region, where, region), from, packed.bytes().data(), element);
  write_runs(packed.bytes().data(), region);
}

void Way::give(Backend& backend, const TensorView& local, std::byte* to, const Box& where) const {
  const Box region = intersect(box_, where);
  if (is_empty(region)) return;
  const std::size_t element = size_of(local.dtype);
  if (!format_.is_row_major())
    return copy_piece(piece_of(region, box_, where), read(backend, local).bytes().data(), to, element);
  const auto read_runs = [&](std::byte* data, const Box& holds) {
    for_each_run(piece_of(region, box_, holds), [&](std::int64_t f, std::int64_t t, std::int64_t n) {
      backend.read({data + at(t) * element, at(n) * element}, local.data + at(f) * element);
    });
  };
  if (is_moved_at_once(backend, piece_of(region, box_, where))) return read_runs(to, where);
  Tensor packed({local.dtype, region.extent});
  read_runs(packed.bytes().data(), region);
  copy_piece(piece_of(region, region, where), packed.bytes().data(), to, element);
}

Tensor Way::read(Backend& backend, const TensorView& local) const {
  Tensor lies({local.dtype, local.shape});
  backend.read(lies.bytes(), local.data);
  if (format_.is_row_major()) return lies;
  Tensor out(lies.type());
  reformat(lies.bytes().data(), format_, out.bytes().data(), {}, local.shape, size_of(local.dtype));
  return out;
}

void Way::write(Backend& backend, const TensorView& local, const Tensor& own) const {
  if (format_.is_row_major()) return backend.write(local.data, own.bytes());
  Tensor lies(own.type());
  reformat(own.bytes().data(), {}, lies.bytes().data(), format_, local.shape, size_of(local.dtype));
  backend.write(local.data, lies.bytes());
}

StepTensors::StepTensors(const Pipeline& pipeline, bool only_scalars) : batch_parts_(pipeline.batch_parts()) {
  for (const Program& program : pipeline.stages)
    for (ValueId v : inputs_of(program)) {
      const Value& value = program.graph.value(v);
      if (std::ranges::find(inputs, value.name, &Input::name) == inputs.end())
        inputs.push_back({value.name, value.global_type()});
    }
  for (const StagedGraph::Output& output : pipeline.outputs) {
    const Type type = pipeline.output_type(output);
    is_wanted.push_back(!only_scalars || type.shape.empty());
    outputs.emplace_back(is_wanted.back() ? type : Type{type.dtype, {0}});
  }
}

Type StepTensors::batch_type(const Input& input) const { return of_whole_step(input.type, batch_parts_); }

namespace {

/// How often an output that `phase` makes is handed out.
int count_of(const Pipeline& pipeline, Phase phase) {
  return phase == Phase::update ? 1 : pipeline.batch_parts();
}

/// Calls `bind` for each input with what the batch has for it.
template <class Batch, class F>
void bind_each(std::vector<StepTensors::Input>& inputs, const Batch& batch, F bind) {
  for (StepTensors::Input& input : inputs) {
    const auto it = batch.find(input.name);
    if (it == batch.end()) throw error("input '{}' is missing from the batch", input.name);
    input.sources.clear();
    bind(input, it->second);
  }
  if (batch.size() == inputs.size()) return;
  std::vector<std::string> known;
  for (const StepTensors::Input& input : inputs) known.push_back(input.name);
  for (const auto& [name, tensor] : batch)
    if (std::ranges::find(known, name) == known.end())
      throw error("there is no input '{}'{}", name, near_names(name, known));
}

}  // namespace

void StepTensors::bind(const std::map<std::string, Tensor>& batch) {
  bind_each(inputs, batch, [&](Input& input, const Tensor& tensor) {
    const Type whole = batch_type(input);
    if (tensor.type() != whole && tensor.type() != input.type)
      throw error("input '{}' is {} but the batch has {}", input.name, to_text(whole),
                  to_text(tensor.type()));
    input.goes_to_each = tensor.type() == input.type;
    input.most_rows = tensor.shape().empty() ? 0 : tensor.shape()[0];
    input.sources.push_back({whole_box(tensor.shape()), tensor.bytes().data()});
  });
}

void StepTensors::bind(const BatchParts& batch) {
  bind_each(inputs, batch, [&](Input& input, const std::vector<TensorPart>& parts) {
    input.goes_to_each = input.type.shape.empty();
    input.most_rows = 0;
    for (const TensorPart& part : parts) {
      check_part(input.name, batch_type(input), part.where, part.tensor.type());
      input.sources.push_back({part.where, part.tensor.bytes().data()});
      if (!input.goes_to_each) input.most_rows = std::max(input.most_rows, part.where.extent[0]);
    }
    if (!input.goes_to_each)
      std::ranges::sort(input.sources, {}, [](const Source& s) { return s.where.offset[0]; });
  });
}

std::vector<NamedBox> input_parts(const Pipeline& pipeline, int rank) {
  std::vector<NamedBox> out;
  for (int stage : pipeline.stages_of(rank)) {
    const Graph& graph = pipeline.stage(stage).graph;
    for (ValueId v : inputs_of(pipeline.stage(stage))) {
      const Value& value = graph.value(v);
      const Box one = box_of(graph, v, rank - pipeline.first_rank(stage));
      const bool is_scalar = one.extent.empty();
      for (int m = 0; m < (is_scalar ? 1 : pipeline.batch_parts()); ++m) {
        const NamedBox part{value.name, is_scalar ? one : moved_up(one, -m * value.global_type().shape[0])};
        if (!is_empty(part.where) && std::ranges::find(out, part) == out.end()) out.push_back(part);
      }
    }
  }
  return out;
}

RankPorts::RankPorts(const Pipeline& pipeline, int rank, StepTensors& tensors, bool keeps)
    : pipeline_(pipeline), tensors_(tensors), keeps_(keeps) {
  for (int stage : pipeline.stages_of(rank)) {
    const Program& program = pipeline.stage(stage);
    const Graph& graph = program.graph;
    for (ValueId v : inputs_of(program)) {
      const auto input = std::ranges::find(tensors.inputs, graph.value(v).name, &StepTensors::Input::name);
      inputs_.push_back({stage, parts_of(program, v),
                         static_cast<std::size_t>(input - tensors.inputs.begin()),
                         Way(pipeline, rank, stage, v)});
    }
    for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
      if (pipeline.outputs[o].stage != stage || !tensors.is_wanted[o]) continue;
      const ValueId v = graph.outputs[at(pipeline.outputs[o].index)];
      const Phase phase = handed_out_in(graph, v);
      std::vector<ValueId> values =
          phase == Phase::update ? std::vector{v} : parts_of(pipeline.stage(stage), v);
      outputs_.push_back(
          {stage, std::move(values), o, Way(pipeline, rank, stage, v), count_of(pipeline, phase), phase});
    }
  }
}

template <class F>
void RankPorts::for_each_source(const Port& port, int batch_part, F use) const {
  const StepTensors::Input& input = tensors_.inputs[port.outside];
  const std::int64_t first = input.goes_to_each ? 0 : batch_part * input.type.shape[0];
  auto source = input.sources.begin(), end = input.sources.end();
  if (!input.goes_to_each) {  // most are of other micro-batches
    using Source = StepTensors::Source;
    const std::int64_t begin = first + port.way.box().offset[0], rows = port.way.box().extent[0];
    source = std::partition_point(
        source, end, [&](const Source& s) { return s.where.offset[0] + input.most_rows <= begin; });
    end =
        std::partition_point(source, end, [&](const Source& s) { return s.where.offset[0] < begin + rows; });
  }
  for (; source != end; ++source) use(source->data, moved_up(source->where, first));
}

void RankPorts::check_sources() const {
  for (const Port& port : inputs_) {
    const StepTensors::Input& input = tensors_.inputs[port.outside];
    for (int m = 0; m < (input.goes_to_each ? 1 : pipeline_.batch_parts()); ++m) {
      const Box& own = port.way.box();
      std::vector<Box> missing;
      if (!is_empty(own)) missing.push_back(own);
      for_each_source(port, m, [&](const std::byte*, const Box& where) { cut_out(missing, where); });
      if (missing.empty()) continue;
      const std::int64_t first = input.goes_to_each ? 0 : m * input.type.shape[0];
      throw error("input '{}': {} of it should be in the batch's parts; {} is in none", input.name,
                  to_text(moved_up(own, -first)), to_text(moved_up(missing.front(), -first)));
    }
  }
}

void RankPorts::fill(Backend& backend, const Executor& executor, int stage, int micro_batch) {
  for (const Port& port : inputs_) {
    if (port.stage != stage) continue;
    const int parts = static_cast<int>(port.values.size());
    for (int part = 0; part < parts; ++part) {
      const TensorView view = executor.view(stage, port.values[at(part)], micro_batch);
      for_each_source(port, micro_batch * parts + part, [&](const std::byte* data, const Box& where) {
        port.way.take(backend, view, data, where);
      });
    }
  }
}

void RankPorts::hand_out(Backend& backend, const Executor& executor, int stage, Phase phase,
                         int micro_batch) {
  for (Port& port : outputs_) {
    if (port.stage != stage || port.phase != phase || !(keeps_ || port.way.owns())) continue;
    const int parts = static_cast<int>(port.values.size());
    for (int part = 0; part < parts; ++part)
      give(backend, port, executor.view(stage, port.values[at(part)], micro_batch),
           port.count > 1 ? micro_batch * parts + part : 0);
  }
}

void RankPorts::give(Backend& backend, Port& port, const TensorView& view, int batch_part) {
  Tensor& whole = tensors_.outputs[port.outside];
  const int count = port.count;
  const bool is_mean = whole.shape().empty() && count > 1;
  if (!keeps_ && !is_mean) {
    const std::int64_t rows = whole.shape().empty() ? 0 : whole.shape()[0] / count;
    return port.way.give(backend, view, whole.bytes().data(),
                         moved_up(whole_box(whole.shape()), batch_part * rows));
  }
  Tensor own = port.way.read(backend, view);
  if (is_mean) {  // not in the value's place: a backward may read that
    if (port.first < 0) port.first = batch_part;
    if (batch_part == port.first) port.sum = 0, port.given = 0;
    port.sum += to_doubles(own).front();
    if (++port.given < count) return;
    own = make_tensor(whole.type(), std::array{port.sum / count});
  }
  if (!keeps_) {
    whole = std::move(own);
    return;
  }
  port.kept.resize(is_mean ? 1 : at(count));
  port.kept[is_mean ? 0 : at(batch_part)] = std::move(own);
}

void RankPorts::gather(Gather& gather) {
  for (std::size_t o = 0; o < tensors_.outputs.size(); ++o) {
    if (!tensors_.is_wanted[o]) continue;
    Tensor& whole = tensors_.outputs[o];
    const auto [stage, index] = pipeline_.outputs[o];
    const ValueId v = pipeline_.stage(stage).graph.outputs[at(index)];
    const auto port = std::ranges::find(outputs_, o, &Port::outside);
    const Phase phase = handed_out_in(pipeline_.stage(stage).graph, v);
    const std::size_t count = whole.shape().empty() ? 1 : at(count_of(pipeline_, phase));
    const Box of_one = whole_box(pipeline_.stage(stage).graph.value(v).global_type().shape);
    for (std::size_t m = 0; m < count; ++m)
      gather(stage, v, port == outputs_.end() ? nullptr : port->kept[m].bytes().data(),
             whole.bytes().data() + m * (whole.bytes().size() / count), of_one);
  }
}

}  // namespace shardwright
