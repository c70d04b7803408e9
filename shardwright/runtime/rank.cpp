#include "shardwright/runtime/rank.h"

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/initial.h"

namespace shardwright {

Rank::Rank(const Pipeline& pipeline, StepTensors& tensors, std::unique_ptr<Communicator> communicator,
           RankOptions options)
    : pipeline_(pipeline),
      options_(options),
      communicator_(std::move(communicator)),
      ports_(pipeline, communicator_->rank(), tensors, options.keeps_outputs) {}

void Rank::prepare() {
  backend_ = cpu_backend();
  backend_->enter_thread();
  executor_ = std::make_unique<Executor>(
      pipeline_, *backend_, *communicator_,
      Ports{.fill = [this](int stage, int micro_batch) { ports_.fill(*executor_, stage, micro_batch); },
            .hand_out = [this](int stage,
                               int micro_batch) { ports_.hand_out(*executor_, stage, micro_batch); }});
  executor_->stop_when(options_.stop);
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
    way.fill(executor_->view(stage, v), [&](const TensorView& view) {
      shardwright::initialize(view, way.box(), {value.name, node.attributes, whole}, options_.seed);
    });
  }
}

void Rank::run(const std::function<void()>& behind) {
  executor_->record(nullptr);
  executor_->run();
  if (behind) behind();
}

void Rank::run_recorded(int number, const std::function<void()>& behind) {
  executor_->record(&recorder_);
  if (recorder_.events().empty()) {  // where clocks differ, all are set by this moment
    communicator_->barrier();
    first_recorded_ = Recorder::now();
  }
  recorder_.time({.instruction = {.what = number}, .activity = Activity::step}, [&] {
    executor_->run();
    if (!behind) return;
    recorder_.time(
        {.instruction = {.act = Act::hand_out}, .activity = Activity::instruction, .phase = Phase::update},
        behind);
  });
}

void Rank::take(int stage, ValueId v, const Tensor& whole) {
  way(stage, v).take(whole.bytes().data(), executor_->view(stage, v));
}

void Rank::give(int stage, ValueId v, Tensor& whole) const {
  way(stage, v).give(executor_->view(stage, v), whole.bytes().data());
}

Tensor Rank::own(int stage, ValueId v) const { return way(stage, v).row_major(executor_->view(stage, v)); }

}  // namespace shardwright
