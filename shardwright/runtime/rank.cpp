#include "shardwright/runtime/rank.h"

#include "shardwright/runtime/communicator/staged.h"
#include "shardwright/runtime/initial.h"

namespace shardwright {
namespace {

void check_formats(const Program& program, const DeviceKind& devices) {
  if (devices.formats) return;
  for (const Value& value : program.graph.values)
    if (!value.format.is_row_major())
      throw error(
          "%{} lies in {} but these devices know row-major only; compile the program with their formats",
          value.name, to_text(value.format));
}

}  // namespace

Rank::Rank(const Pipeline& pipeline, StepTensors& tensors, std::unique_ptr<Communicator> communicator,
           RankOptions options)
    : pipeline_(pipeline),
      options_(std::move(options)),
      communicator_(std::move(communicator)),
      ports_(pipeline, communicator_->rank(), tensors, options_.keeps_outputs) {}

void Rank::prepare() {
  for (int stage : pipeline_.stages_of(number())) check_formats(pipeline_.stage(stage), options_.devices);
  backend_ = options_.devices.backend(number());
  backend_->enter_thread();
  communicator_ = staged(std::move(communicator_), *backend_);
  executor_ = std::make_unique<Executor>(
      pipeline_, *backend_, *communicator_,
      Ports{.fill = [this](int stage,
                           int micro_batch) { ports_.fill(*backend_, *executor_, stage, micro_batch); },
            .hand_out =
                [this](int stage, int micro_batch) {
                  ports_.hand_out(*backend_, *executor_, stage, micro_batch);
                }});
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
    const TensorView view = executor_->view(stage, v);
    const Leaf leaf{value.name, node.attributes, whole};
    if (const auto same = value_of_all(leaf)) {
      backend_->fill(view, *same);
      continue;
    }
    Tensor own({view.dtype, view.shape});
    shardwright::initialize(own.view(), way.box(), leaf, options_.seed);
    way.write(*backend_, view, own);
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

}  // namespace shardwright
