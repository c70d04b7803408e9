#include "shardwright/simulate/memory_curve.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

namespace shardwright {
namespace {

/// Bytes at each node; a fusion has them at its first.
class AtNodes {
 public:
  explicit AtNodes(const Program& program) : bytes_(program.graph.nodes.size() + 1, 0) {}

  void add(const Buffer& b) {
    bytes_[at(std::max(b.begin.index, 0))] += b.bytes;
    if (at(b.end.index) + 1 < bytes_.size()) bytes_[at(b.end.index) + 1] -= b.bytes;
  }
  void finish(const std::vector<Fusion>& fusions) {
    std::partial_sum(bytes_.begin(), bytes_.end(), bytes_.begin());
    for (const Fusion& f : fusions)
      bytes_[at(f.begin.index)] =
          *std::max_element(bytes_.begin() + f.begin.index, bytes_.begin() + f.end.index);
  }
  std::int64_t operator[](NodeId n) const { return bytes_[at(n.index)]; }

 private:
  std::vector<std::int64_t> bytes_;
};

/// What is alive of a stage's program: always, of each micro-batch in its slot, and of the one that runs.
struct Alive {
  std::int64_t always = 0;
  AtNodes in_slot, running;

  explicit Alive(const Program& program) : in_slot(program), running(program) {
    for (const Buffer& b : program.buffers) {
      if (!b.begin.is_valid() && at(b.end.index) >= program.graph.nodes.size())
        always += b.slots * b.bytes;
      else
        (b.slots > 1 ? in_slot : running).add(b);
    }
    const std::vector<Fusion> fusions = fusions_of(program.graph);
    in_slot.finish(fusions), running.finish(fusions);
  }
};

/// The node that an instruction is about; invalid: of none.
NodeId node_of(const RankStep& step, const Instruction& i) {
  if (i.act == Act::compute || i.act == Act::copy || i.act == Act::keep) return {i.what};
  if (i.act == Act::finish) return step.transfer(i).node;
  return {};
}

}  // namespace

std::vector<MemoryPoint> memory_over_time(const Pipeline& pipeline, const StepTrace& trace,
                                          const RankStep& step) {
  std::map<int, Alive> stages;
  std::int64_t bytes = 0;
  for (int s : pipeline.stages_of(step.rank))
    bytes += stages.try_emplace(s, pipeline.stage(s)).first->second.always;
  std::vector<MemoryPoint> out;
  const auto add = [&](std::int64_t time) {
    if (!out.empty() && out.back().time == time) out.back().bytes = std::max(out.back().bytes, bytes);
    if (out.empty() || (out.back().time != time && out.back().bytes != bytes)) out.push_back({time, bytes});
  };
  std::map<std::pair<int, int>, std::int64_t> in_slots;  // by stage and micro-batch: what it holds now
  std::map<int, std::int64_t> running;                   // by stage
  const auto set = [&](std::int64_t& held, std::int64_t now) { bytes += now - std::exchange(held, now); };
  for (const TraceEvent& e : trace.ranks[at(step.rank)]) {
    const Instruction& i = e.instruction;
    if (e.activity != Activity::instruction) continue;
    std::int64_t& in_slot = in_slots[{i.stage, i.micro_batch}];
    if (const NodeId node = node_of(step, i); node.is_valid()) {
      const Alive& alive = stages.at(i.stage);
      set(in_slot, alive.in_slot[node]);
      set(running[i.stage], alive.running[node]);
      add(e.begin);
    } else if (i.act == Act::run && e.phase == Phase::update) {
      for (auto& [key, held] : in_slots) set(held, 0);
      for (auto& [stage, held] : running) set(held, 0);
      add(e.end);
    } else if (i.act == Act::run && e.phase == Phase::backward &&
               i.micro_batch + 1 < pipeline.micro_batches()) {
      set(in_slot, 0);
      add(e.end);
    }
  }
  return out;
}

}  // namespace shardwright
