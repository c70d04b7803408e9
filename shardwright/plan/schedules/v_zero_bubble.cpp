// Zero-bubble with two chunks per stage that lie as a V (ZB-V; Qi et al., 2024): chunk 0 goes down the stages, chunk 1 up
// again, so that the last stage turns a micro-batch round without waiting. If all three sections take 1, no stage is idle
// from 2 S - 1 micro-batches on, and no more activations are alive than with 1f1b: those of 2 S chunks.

#include <algorithm>
#include <array>

#include "shardwright/plan/schedule.h"

namespace shardwright::schedules {
namespace {

/// Writes the tasks of a stage as if there were enough micro-batches; those that there are not are left out.
class Writer {
 public:
  explicit Writer(const Pipelining& p) : p_(p) {}

  void forward(int chunk) { add(Phase::forward, chunk, forwards_[chunk]++); }
  void inputs(int chunk) { add(Phase::backward, chunk, inputs_[chunk]++); }
  void weights(int chunk) { add(Phase::weights, chunk, weights_[chunk]++); }
  void backward(int chunk) { inputs(chunk), weights(chunk); }

  int forwards(int chunk) const { return forwards_[chunk]; }
  bool owes_weights(int chunk) const { return weights_[chunk] < inputs_[chunk]; }
  std::vector<Task> tasks() && { return std::move(out_); }

 private:
  void add(Phase phase, int chunk, int m) {
    if (m < p_.micro_batches) out_.push_back({phase, m, chunk});
  }

  const Pipelining& p_;
  std::array<int, 2> forwards_{}, inputs_{}, weights_{};  // begun, by chunk
  std::vector<Task> out_;
};

std::vector<Task> tasks(const Pipelining& p, int stage) {
  const int enough = std::max(2 * p.stages - 1, p.micro_batches), behind = p.stages - stage;
  Writer out(p);
  for (int i = 0; i < 2 * behind - 1; ++i) out.forward(0);
  for (int i = 0; i < stage; ++i) out.forward(1), out.forward(0);
  for (int i = 0; i < behind; ++i) out.forward(1), out.backward(1);
  while (out.forwards(1) < out.forwards(0) || out.forwards(0) < enough) {
    if (out.forwards(0) < enough) out.forward(0);
    out.backward(0);
    out.forward(1);
    out.backward(1);
  }
  for (int i = 0; i < stage; ++i) out.inputs(0), out.inputs(1);
  for (int i = 0; i < behind; ++i) out.inputs(0), out.weights(0);
  for (int chunk : {1, 0})
    while (out.owes_weights(chunk)) out.weights(chunk);
  return std::move(out).tasks();
}

}  // namespace

std::vector<ScheduleDef> v_zero_bubble() {
  return {{.name = "zb-v",
           .doc = "two chunks per stage in a V, no stage idle",
           .chunks = 2,
           .order = ChunkOrder::v,
           .splits_backward = true,
           .searched = {0},
           .tasks = tasks}};
}

}  // namespace shardwright::schedules
