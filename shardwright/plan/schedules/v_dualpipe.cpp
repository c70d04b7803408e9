// DualPipe-V (DeepSeek-AI, 2025; the V form of DualPipe by Sea AI Lab): two chunks per stage in a V, where a forward of one
// chunk runs beside a backward of the other; here one runs right behind the other, and what they send goes beside. With
// P = 2 S stages of theirs, F&B a forward and a backward together and B a whole backward, a device is idle for
// (P/2 - 1) (F&B + B - 3 W), with the activations of P + 1 chunks alive. It wants at least 2 S micro-batches.

#include <array>
#include <deque>

#include <fmt/format.h>

#include "shardwright/plan/schedule.h"

namespace shardwright::schedules {
namespace {

class Writer {
 public:
  void forward(int chunk) { out_.push_back({Phase::forward, forwards_[chunk]++, chunk}); }
  /// `waits`: its gradients of weights do.
  void backward(int chunk, bool waits = false) {
    const int m = backwards_[chunk]++;
    out_.push_back({Phase::backward, m, chunk});
    if (waits)
      waiting_.push_back({Phase::weights, m, chunk});
    else
      out_.push_back({Phase::weights, m, chunk});
  }
  void weights() {
    out_.push_back(waiting_.front());
    waiting_.pop_front();
  }
  std::vector<Task> tasks() && { return std::move(out_); }

 private:
  std::array<int, 2> forwards_{}, backwards_{};  // by chunk
  std::deque<Task> waiting_;
  std::vector<Task> out_;
};

std::vector<Task> tasks(const Pipelining& p, int stage) {
  const int behind = p.stages - 1 - stage, all = stage + 1;
  Writer out;
  for (int i = 0; i < 2 * behind; ++i) out.forward(0);
  for (int i = 0; i < all; ++i) out.forward(0), out.forward(1);
  for (int i = 0; i < behind; ++i) out.backward(1), out.forward(1);
  for (int i = 0; i < p.micro_batches - 2 * p.stages + all; ++i) {
    out.forward(0), out.backward(1);
    out.forward(1), out.backward(0);
  }
  for (int i = 0; i < behind; ++i) {
    out.backward(1);
    out.forward(1), out.backward(0);
  }
  bool waits = false;  // from half of them on
  for (int i = 0; i < all; ++i) {
    if (i == all / 2 && stage % 2 == 1) waits = true;
    out.backward(1, waits);
    if (i == all / 2 && stage % 2 == 0) waits = true;
    out.backward(0, waits);
  }
  for (int i = 0; i < behind; ++i) out.weights(), out.backward(0, true);
  for (int i = 0; i < all; ++i) out.weights();
  return std::move(out).tasks();
}

}  // namespace

std::vector<ScheduleDef> v_dualpipe() {
  return {{.name = "dualpipe-v",
           .doc = "two chunks per stage in a V, a forward beside a backward",
           .chunks = 2,
           .order = ChunkOrder::v,
           .splits_backward = true,
           .searched = {0},
           .tasks = tasks,
           .refusal = [](const Pipelining& p) {
             if (p.micro_batches >= 2 * p.stages) return std::string();
             return fmt::format(
                 "schedule dualpipe-v of {} stages wants at least {} micro-batches but there are {}",
                 p.stages, 2 * p.stages, p.micro_batches);
           }}};
}

}  // namespace shardwright::schedules
