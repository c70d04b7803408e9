#include "shardwright/runtime/flows.h"

#include <algorithm>

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

}  // namespace

StageRank stage_rank(const Pipeline& pipeline, int rank) {
  const int stage = pipeline.stage_of(rank);
  StageRank out{.first_rank = pipeline.first_rank(stage), .flows = {}};
  for (const PlacedCrossing& c : pipeline.crossings) {
    if (c.from != stage && c.to != stage) continue;
    Flow flow{.value = c.from == stage ? c.sent : c.received,
              .is_send = c.from == stage,
              .time = c.time,
              .phase = c.phase,
              .dtype = {},
              .transfer = pipeline.transfer_of(c, rank)};
    flow.dtype = pipeline.stage(stage).graph.value(flow.value).type.dtype;
    if (flow.transfer.group.size() > 1) out.flows.push_back(std::move(flow));
  }
  return out;
}

Flows::Flows(std::vector<Flow> flows, Communicator& communicator, int slots)
    : flows_(std::move(flows)),
      communicator_(communicator),
      slots_(slots),
      transfers_(flows_.size()),
      started_(flows_.size()),
      finished_(flows_.size()) {}

void Flows::prepare(int micro_batches, const std::function<std::byte*(ValueId, int)>& data) {
  for (std::size_t f = 0; f < flows_.size(); ++f)
    for (int m = 0; m < (flows_[f].time == CrossingTime::micro_batch ? micro_batches : 1); ++m) {
      std::byte* memory = data(flows_[f].value, m);
      const bool gives = flows_[f].is_send;
      const BoundTransfer bound{flows_[f].transfer, flows_[f].dtype, gives ? memory : nullptr,
                                gives ? nullptr : memory};
      transfers_[f].push_back(communicator_.prepare({&bound, 1}));
    }
}

void Flows::send(int f, int micro_batch) {
  communicator_.start(transfers_[at(f)][at(micro_batch)]);
  ++started_[at(f)];
}

void Flows::receive(int f, int micro_batch) { communicator_.finish(transfers_[at(f)][at(micro_batch)]); }

void Flows::expect(CrossingTime time, Phase phase, int micro_batch) {
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow& flow = flows_[f];
    if (flow.is_send || flow.time != time) continue;
    if (time == CrossingTime::micro_batch && flow.phase != phase) continue;
    run(Activity::expect, f, micro_batch);
  }
}

void Flows::run(Activity activity, std::size_t f, int micro_batch) {
  const int transfer = transfers_[f][at(micro_batch)];
  const auto run = [&] {
    activity == Activity::expect ? communicator_.start(transfer) : communicator_.finish(transfer);
  };
  if (!recorder_) [[likely]]
    return run();
  recorder_->time({.what = static_cast<int>(f),
                   .micro_batch = micro_batch,
                   .activity = activity,
                   .phase = flows_[f].phase},
                  run);
}

void Flows::finish_sends_until(std::size_t f, int micro_batch) {
  while (finished_[f] < std::min(started_[f], micro_batch + 1)) run(Activity::sent, f, finished_[f]++);
}

void Flows::make_room_for(const Task& task) {
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    const Flow& flow = flows_[f];
    if (!flow.is_send || flow.time != CrossingTime::micro_batch) continue;
    if (task.phase == Phase::forward && flow.phase == Phase::forward)
      finish_sends_until(f, task.micro_batch - slots_);
    if (task.phase == Phase::backward)
      finish_sends_until(f, flow.phase == Phase::forward ? task.micro_batch : task.micro_batch - 1);
  }
}

void Flows::finish_sends(CrossingTime time) {
  for (std::size_t f = 0; f < flows_.size(); ++f) {
    if (!flows_[f].is_send || flows_[f].time != time) continue;
    finish_sends_until(f, static_cast<int>(transfers_[f].size()));
    started_[f] = finished_[f] = 0;
  }
}

}  // namespace shardwright
