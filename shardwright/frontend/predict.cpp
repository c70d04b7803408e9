#include "shardwright/frontend/predict.h"

#include <algorithm>

#include "shardwright/annotations/patterns.h"
#include "shardwright/base/index.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/checkpoint/shard.h"
#include "shardwright/runtime/checkpoint/write.h"
#include "shardwright/runtime/start.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

ParameterLayout layout_of(const Value& value, const Mesh& mesh) {
  ParameterLayout out{
      .slice_shape = largest_local_shape(shardwright::layout_of(value), mesh, value.global_type().shape)};
  const Layout layout = shardwright::layout_of(value);
  for (const Axis& axis : mesh.axes) out.device_matrix.push_back(axis.size);
  for (const Axes& axes : layout.dims) {
    out.tensor_map.emplace_back();
    for (int a : axes) out.tensor_map.back().push_back(static_cast<int>(mesh.axes.size()) - 1 - a);
  }
  out.is_even = is_even(layout, mesh, value.global_type().shape);
  return out;
}

/// The same in our words.
Mesh mesh_of(const ParameterLayout& layout) {
  Mesh mesh;
  for (std::int64_t size : layout.device_matrix) {
    if (size < 1 || size > (1 << 20)) throw error("the device matrix has a dim of {}", size);
    mesh.axes.push_back({fmt::format("x{}", mesh.axes.size()), static_cast<int>(size)});
  }
  return mesh;
}
Layout layout_on(const ParameterLayout& layout, const Mesh& mesh) {
  Layout out;
  const int axes = static_cast<int>(mesh.axes.size());
  for (const auto& dim : layout.tensor_map) {
    out.dims.emplace_back();
    for (int number : dim) {
      if (number < 0 || number >= axes)
        throw error("the tensor map has {}, but the device matrix has {} dims", number, axes);
      out.dims.back().push_back(axes - 1 - number);
    }
  }
  return out;
}

void check_alike(const std::vector<Tensor>& slices) {
  if (slices.empty()) throw error("there are no slices to merge");
  for (const Tensor& t : slices)
    if (t.dtype() != slices[0].dtype() || t.shape().size() != slices[0].shape().size())
      throw error("slices are {} and {}; they should be of one type", to_text(slices[0].type()),
                  to_text(t.type()));
}

}  // namespace

ParameterLayouts layouts_of(const Pipeline& pipeline) {
  if (pipeline.stage_count() != 1)
    throw error("layouts are told of programs of one stage; this one has {}", pipeline.stage_count());
  const Graph& graph = pipeline.stage(0).graph;
  ParameterLayouts out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const Value& value = graph.value(node.results[0]);
    out[value.name] = layout_of(value, graph.meshes[at(shardwright::layout_of(value).mesh)]);
  }
  return out;
}

struct PredictStep::State {
  std::vector<std::string> inputs;
  Plan plan;
  std::unique_ptr<Session> session;
};

PredictStep::PredictStep(const PredictFunction& forward, const InputTypes& inputs,
                         const PredictOptions& options)
    : state_(std::make_unique<State>()) {
  Trace trace(options.precision);
  std::vector<Traced> values;
  for (const auto& [name, type] : inputs) {
    values.push_back(trace.input(name, type));
    state_->inputs.push_back(name);
  }
  Model model{.name = "traced network"};
  const std::vector<Traced> predictions = forward(values);
  if (predictions.empty()) throw error("the function returns no prediction");
  model.graph = std::move(trace.graph());
  for (const Traced& t : predictions) model.graph.outputs.push_back(t.id);
  model.graph = with_precision(std::move(model.graph), options.precision);
  const Model asked = inference_of(model, false);

  PlanRequest request{.model = model.name, .devices = options.devices, .formats = options.device.formats};
  request.parallel = options.devices == 1 ? Parallel::stand_alone : options.parallel;
  if (request.parallel == Parallel::auto_parallel) request.search = options.search;
  request.constraints = trace.constraints();
  if (!options.annotation_file.empty())
    request.constraints = merged(std::move(request.constraints),
                                 without_patterns(load_annotations(options.annotation_file), asked.graph));
  state_->plan = make_plan(asked.graph, request);
  state_->session = std::make_unique<Session>(
      start_threads(prepare(asked.graph, state_->plan, {.device = options.device})));
}
PredictStep::~PredictStep() = default;
PredictStep::PredictStep(PredictStep&&) noexcept = default;

std::vector<Tensor> PredictStep::operator()(const std::vector<Tensor>& batch) {
  if (batch.size() != state_->inputs.size())
    throw error("the network takes {} tensors but {} were given", state_->inputs.size(), batch.size());
  std::map<std::string, Tensor> named;
  for (std::size_t i = 0; i < batch.size(); ++i) named[state_->inputs[i]] = batch[i];
  return state_->session->step(named);
}

ParameterLayouts PredictStep::infer_predict_layout() const { return layouts_of(state_->session->pipeline()); }

void PredictStep::load_distributed_checkpoint(const std::string& path) {
  load(*state_->session, open_source(path), Restored::network);
}

void PredictStep::take_weights(const Session& trained) {
  shardwright::take_weights(*state_->session, trained);
}

const Plan& PredictStep::plan() const { return state_->plan; }

Tensor merge_sliced_parameter(const std::vector<Tensor>& slices) {
  check_alike(slices);
  ParameterLayout layout{.device_matrix = {static_cast<std::int64_t>(slices.size())}};
  layout.tensor_map.resize(slices[0].shape().size());
  if (layout.tensor_map.empty()) throw error("slices are scalars, which stand along no dim");
  layout.tensor_map[0] = {0};
  return merge_sliced_parameter(slices, layout);
}

Tensor merge_sliced_parameter(const std::vector<Tensor>& slices, const ParameterLayout& described) {
  check_alike(slices);
  const Mesh mesh = mesh_of(described);
  const Layout layout = layout_on(described, mesh);
  if (static_cast<int>(slices.size()) != mesh.size())
    throw error("there are {} slices, but the layout is of {} ranks", slices.size(), mesh.size());
  Shape shape = slices[0].shape();
  if (layout.dims.size() != shape.size())
    throw error("slices are {}, but the layout has {} dims", to_text(slices[0].type()), layout.dims.size());
  // Along each dim the slices of one line of ranks stand behind each other.
  for (std::size_t d = 0; d < shape.size(); ++d) {
    shape[d] = 0;
    std::vector<bool> seen;
    for (int r = 0; r < mesh.size(); ++r) {
      const auto part = static_cast<std::size_t>(mesh.index_along(r, layout.dims[d]));
      if (part >= seen.size()) seen.resize(part + 1);
      if (seen[part]) continue;
      seen[part] = true;
      shape[d] += slices[at(r)].shape()[d];
    }
  }
  Tensor out({slices[0].dtype(), shape});
  for (int r = 0; r < mesh.size(); ++r) {
    const Box own = box(layout, mesh, shape, r);
    const Tensor& slice = slices[at(r)];
    if (slice.shape() != own.extent)
      throw error("the slice of rank {} is {} but should be {} of {}", r, to_text(slice.type()),
                  to_text(own.extent), to_text(shape));
    copy_piece(piece_of(own, own, {Shape(shape.size()), shape}), slice.bytes().data(), out.bytes().data(),
               size_of(out.dtype()));
  }
  return out;
}

void transform_checkpoints(const std::string& source, const std::string& target,
                           const std::string& plan_file) {
  const TensorSource from = open_source(source);
  if (plan_file.empty()) return write_checkpoint(from, target);
  const PlannedModel made = planned_model(plan_file);
  write_checkpoint(from, target, compile_pipeline(made.model.graph, made.plan), to_json(made.plan));
}

std::vector<int> rank_list_for_transform(int rank, const Pipeline& source, const Pipeline& target) {
  if (rank < 0 || rank >= target.rank_count())
    throw error("rank {}: the program has {}", rank, target.rank_count());
  const KeptValues from(source);
  const std::vector<NamedBox> wanted = KeptValues(target).held_by(rank);
  const auto shares = shares_of(source, from);
  std::vector<int> out;
  for (std::size_t r = 0; r < shares.size(); ++r) {
    const bool has_some = std::ranges::any_of(shares[r], [&](const NamedBox& part) {
      return std::ranges::any_of(wanted, [&](const NamedBox& own) {
        return own.name == part.name && !is_empty(intersect(own.where, part.where));
      });
    });
    if (has_some) out.push_back(static_cast<int>(r));
  }
  return out;
}

}  // namespace shardwright
