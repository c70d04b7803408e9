#include "shardwright/simulate/memory_curve.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <map>
#include <utility>

namespace shardwright {
namespace {

void add_to(BytesByKind& to, const BytesByKind& other, int sign = 1) {
  for (std::size_t k = 0; k < memory_kinds; ++k) to[k] += sign * other[k];
}

/// Bytes at each node; a fusion has them at its first.
class AtNodes {
 public:
  explicit AtNodes(const Program& program) : bytes_(program.graph.nodes.size() + 1) {}

  void add(const Buffer& b) {
    const auto kind = static_cast<std::size_t>(kind_of(b.kind));
    bytes_[at(std::max(b.begin.index, 0))][kind] += b.bytes;
    if (at(b.end.index) + 1 < bytes_.size()) bytes_[at(b.end.index) + 1][kind] -= b.bytes;
  }
  void finish(const std::vector<Fusion>& fusions) {
    for (std::size_t n = 1; n < bytes_.size(); ++n) add_to(bytes_[n], bytes_[n - 1]);
    for (const Fusion& f : fusions)
      bytes_[at(f.begin.index)] = *std::ranges::max_element(bytes_.begin() + f.begin.index,
                                                            bytes_.begin() + f.end.index, {}, total_of);
  }
  const BytesByKind& operator[](NodeId n) const { return bytes_[at(n.index)]; }

 private:
  std::vector<BytesByKind> bytes_;
};

/// What is alive of a stage's program: always, of each micro-batch in its slot, of the one that runs, and of the task that runs, in a
/// place that other stages use when it is over.
struct Alive {
  BytesByKind always{};
  AtNodes in_slot, running, passing;

  explicit Alive(const Program& program) : in_slot(program), running(program), passing(program) {
    for (const Buffer& b : program.buffers) {
      if (b.space == Space::host) continue;
      if (!b.begin.is_valid() && at(b.end.index) >= program.graph.nodes.size())
        always[static_cast<std::size_t>(kind_of(b.kind))] += b.slots * b.bytes;
      else
        (b.is_in_slots()                                                ? in_slot
         : program.passing_bytes == 0 || b.offset < program.own_bytes() ? running
                                                                        : passing)
            .add(b);
    }
    const std::vector<Fusion> fusions = fusions_of(program.graph);
    in_slot.finish(fusions), running.finish(fusions), passing.finish(fusions);
  }
};

/// The node that an instruction is about; invalid: of none.
NodeId node_of(const RankStep& step, const Instruction& i) {
  if (i.act == Act::compute || i.act == Act::copy || i.act == Act::keep) return {i.what};
  if (i.act == Act::finish) return step.transfer(i).node;
  return {};
}

}  // namespace

std::vector<MemoryMoment> memory_by_kind(const Pipeline& pipeline, const StepTrace& trace,
                                         const RankStep& step) {
  std::map<int, Alive> stages;
  BytesByKind bytes{};
  for (int s : pipeline.stages_of(step.rank))
    add_to(bytes, stages.try_emplace(s, pipeline.stage(s)).first->second.always);
  std::vector<MemoryMoment> out;
  const auto add = [&](std::int64_t time) {
    if (!out.empty() && out.back().time == time && total_of(out.back().bytes) < total_of(bytes))
      out.back().bytes = bytes;
    if (out.empty() || (out.back().time != time && out.back().bytes != bytes)) out.push_back({time, bytes});
  };
  const Phase last_phase =
      pipeline.pipelining.schedule.splits_backward ? Phase::weights : Phase::backward;  // of a micro-batch
  std::map<std::pair<int, int>, BytesByKind> in_slots;  // by stage and micro-batch: what it holds now
  std::map<int, BytesByKind> running, passing;          // by stage
  const auto set = [&](BytesByKind& held, const BytesByKind& now) {
    add_to(bytes, held, -1);
    add_to(bytes, held = now);
  };
  for (const TraceEvent& e : trace.ranks[at(step.rank)]) {
    const Instruction& i = e.instruction;
    if (e.activity != Activity::instruction) continue;
    BytesByKind& in_slot = in_slots[{i.stage, i.micro_batch}];
    if (const NodeId node = node_of(step, i); node.is_valid()) {
      const Alive& alive = stages.at(i.stage);
      set(in_slot, alive.in_slot[node]);
      set(running[i.stage], alive.running[node]);
      set(passing[i.stage], alive.passing[node]);
      add(e.begin);
    } else if (i.act == Act::run) {
      const bool is_update = e.phase == Phase::update;
      for (auto& [stage, held] : passing)
        if (is_update || stage == i.stage) set(held, {});
      if (is_update) {
        for (auto& [key, held] : in_slots) set(held, {});
        for (auto& [stage, held] : running) set(held, {});
      } else if (e.phase == last_phase && i.micro_batch + 1 < pipeline.micro_batches()) {
        set(in_slot, {});
      }
      add(e.end);
    }
  }
  return out;
}

std::vector<MemoryPoint> memory_over_time(const Pipeline& pipeline, const StepTrace& trace,
                                          const RankStep& step) {
  std::vector<MemoryPoint> out;
  for (const MemoryMoment& m : memory_by_kind(pipeline, trace, step))
    if (const std::int64_t bytes = total_of(m.bytes); out.empty() || out.back().bytes != bytes)
      out.push_back({m.time, bytes});
  return out;
}

}  // namespace shardwright
