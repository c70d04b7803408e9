#include "shardwright/runtime/rank.h"

#include <algorithm>

#include "shardwright/ops/calls.h"
#include "shardwright/runtime/communicator/staged.h"
#include "shardwright/runtime/initial.h"

namespace shardwright {
namespace {

/// Whether a kernel of these `formats` takes, or makes, a value in `format`; `fixed`: what it says of this value.
bool is_liked(const Formats& formats, const std::optional<Format>& fixed, const Format& format) {
  if (fixed) return *fixed == format;
  return format.is_row_major() || formats.takes_any || std::ranges::count(formats.common, format) > 0;
}

/// What a node has in blocks should lie as kernels of `formats_of` want it. Other kernels may be as right, by way of
/// copies, and as slow.
void check_formats(const Graph& graph, NodeId id, const FormatsOf& formats_of) {
  const Node& node = graph.node(id);
  if (node.op->kind != OpKind::compute || node.op == &reformat_op()) return;
  const auto lies_in_blocks = [&](ValueId v) { return !graph.value(v).format.is_row_major(); };
  if (std::ranges::none_of(node.operands, lies_in_blocks) &&
      std::ranges::none_of(node.results, lies_in_blocks))
    return;
  const Formats formats = formats_of(*node.op, local_call(graph, node, 0).call());
  const auto check = [&](const std::vector<ValueId>& values,
                         const std::vector<std::optional<Format>>& fixed) {
    for (std::size_t i = 0; i < values.size(); ++i) {
      const Value& value = graph.value(values[i]);
      if (is_liked(formats, i < fixed.size() ? fixed[i] : Format{}, value.format)) continue;
      throw error(
          "%{} lies in {} but {} of these devices wants another format; compile the program with theirs",
          value.name, to_text(value.format), node.op->name);
    }
  };
  check(node.operands, formats.operands);
  check(node.results, formats.results);
}

void check_formats(const Graph& graph, const FormatsOf& formats_of) {
  for (const Value& value : graph.values)
    if (!formats_of && !value.format.is_row_major())
      throw error(
          "%{} lies in {} but these devices know row-major only; compile the program with their formats",
          value.name, to_text(value.format));
  for (NodeId id : graph.node_ids()) check_formats(graph, id, formats_of);
}

/// In how many elements of random values a rank's part is made on the host, so that there is never a second one.
constexpr std::int64_t most_at_once = 1 << 18;

}  // namespace

Rank::Rank(const Pipeline& pipeline, StepTensors& tensors, std::unique_ptr<Communicator> communicator,
           RankOptions options)
    : pipeline_(pipeline),
      options_(std::move(options)),
      communicator_(std::move(communicator)),
      ports_(pipeline, communicator_->rank(), tensors, options_.keeps_outputs),
      recorder_(options_.clock) {}

void Rank::prepare() {
  for (int stage : pipeline_.stages_of(number()))
    check_formats(pipeline_.stage(stage).graph, options_.devices.formats);
  backend_ = options_.devices.backend(number());
  backend_->enter_thread();
  communicator_ = staged(std::move(communicator_), *backend_);
  executor_ = std::make_unique<Executor>(
      pipeline_, *backend_, *communicator_,
      Ports{.fill = [this](int stage,
                           int micro_batch) { ports_.fill(*backend_, *executor_, stage, micro_batch); },
            .hand_out =
                [this](int stage, Phase phase, int micro_batch) {
                  ports_.hand_out(*backend_, *executor_, stage, phase, micro_batch);
                  if (!odd_) look_for_odd_values(stage, phase, micro_batch);
                }},
      options_.memory);
  executor_->stop_when(options_.stop);
  if (!options_.memory.empty()) return;
  for (int stage : pipeline_.stages_of(number())) initialize(stage);
}

void Rank::initialize(int stage) {
  const Graph& graph = pipeline_.stage(stage).graph;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
    const ValueId v = node.results[0];
    const Value& value = graph.value(v);
    const Shape whole = value.global_type().shape;
    const Way way = this->way(stage, v);
    const TensorView view = executor_->view(stage, v);
    const Leaf leaf{value.name, node.attributes, whole};
    if (const auto same = value_of_all(leaf)) {
      backend_->fill(view, *same);
      continue;
    }
    for_each_block(way.box(), value.format.is_row_major() ? most_at_once : view.size(),
                   [&](const Box& block) {
                     Tensor values({view.dtype, block.extent});
                     shardwright::initialize(values.view(), block, leaf, options_.seed);
                     way.take(*backend_, view, values.bytes().data(), block);
                   });
  }
}

/// Of a step that trains, behind a forward whose loss is handed out. A device is waited for where that is done anyway.
void Rank::look_for_odd_values(int stage, Phase phase, int micro_batch) {
  if (pipeline_.outputs.empty() || pipeline_.outputs.front().stage != stage) return;
  const Graph& graph = pipeline_.stage(stage).graph;
  const ValueId loss = graph.outputs[static_cast<std::size_t>(pipeline_.outputs.front().index)];
  if (graph.updates.empty() || phase != handed_out_in(graph, loss)) return;
  if (!backend_->is_host() && !options_.keeps_outputs && !way(stage, loss).owns()) return;
  if (!is_odd_scalar(executor_->view(stage, loss, micro_batch), *backend_)) return;
  odd_ = first_odd_value(*executor_, *backend_, pipeline_, stage, micro_batch);
}

void Rank::run(int number, const std::function<void()>& behind) {
  executor_->record(nullptr);
  executor_->run(number);
  if (behind) behind();
}

void Rank::run_recorded(int number, const std::function<void()>& behind) {
  executor_->record(&recorder_);
  if (recorder_.events().empty()) {  // where clocks differ, all are set by this moment
    communicator_->barrier();
    first_recorded_ = Recorder::now();
  }
  recorder_.time({.instruction = {.what = number}, .activity = Activity::step}, [&] {
    executor_->run(number);
    if (!behind) return;
    recorder_.time(
        {.instruction = {.act = Act::hand_out}, .activity = Activity::instruction, .phase = Phase::update},
        behind);
  });
}

}  // namespace shardwright
