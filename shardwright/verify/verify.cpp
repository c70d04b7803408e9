#include "shardwright/verify/verify.h"

#include <algorithm>
#include <set>

#include "shardwright/graph/op.h"
#include "shardwright/graph/verify.h"
#include "shardwright/verify/meetings.h"

namespace shardwright {
namespace {

Proof count(const Meetings& meetings) {
  const Pipeline& pipeline = meetings.pipeline;
  Proof out{.ranks = pipeline.rank_count(),
            .stages = pipeline.stage_count(),
            .micro_batches = pipeline.micro_batches()};
  for (const auto& [step, ranks] : meetings.classes) {
    out.arena_bytes = std::max(out.arena_bytes, pipeline.arena_bytes(step.rank));
    out.instructions += static_cast<std::int64_t>(step.instructions.size() * ranks.size());
  }
  for (const Gathering& gathering : meetings.gatherings) {
    if (gathering.slots.size() < 2) continue;
    const Slot& slot = meetings.slots[static_cast<std::size_t>(gathering.slots.front())];
    ++out.groups;
    out.transfers += static_cast<std::int64_t>(slot.prepared.size());
  }
  for (const Program& program : pipeline.stages)
    out.values += static_cast<std::int64_t>(program.graph.values.size());
  return out;
}

/// What the first kind of proof that fails finds.
Violations found_in(Meetings& meetings, const Tell& tell) {
  const Pipeline& pipeline = meetings.pipeline;
  tell("what transfers match");
  Violations out = mismatches(meetings);
  if (out.empty()) out = misplaced_pieces(meetings);
  tell("who waits for whom");
  if (out.empty()) out = endless_waits(meetings);
  tell("how values lie");
  if (out.empty()) out = incomplete_layouts(pipeline);
  if (out.empty()) out = broken_rules(pipeline);
  tell("what is read");
  if (out.empty()) out = overwritten_values(meetings.classes, pipeline);
  return out;
}

/// What is not proven of classes is asked of every rank: a class may wait for more than its ranks do, and what is wrong
/// is told of the rank that it is wrong on.
Violations judged(Meetings& meetings, const Tell& tell) {
  Violations out = found_in(meetings, tell);
  const Pipeline& pipeline = meetings.pipeline;
  if (out.empty() || meetings.classes.size() == static_cast<std::size_t>(pipeline.rank_count())) return out;
  tell("every rank for itself");
  std::vector<RankStep> steps = unrolled_steps(pipeline);
  for (const RankClass& c : meetings.classes) steps[static_cast<std::size_t>(c.step.rank)] = c.step;
  return violations(each_alone(std::move(steps)), pipeline);
}

/// Every value has a buffer that exists, or none.
void check_buffers(const Program& program) {
  if (program.buffer_of.size() != program.graph.values.size())
    throw error("{} of {} values have a buffer or not", program.buffer_of.size(),
                program.graph.values.size());
  for (int b : program.buffer_of)
    if (b >= static_cast<int>(program.buffers.size()))
      throw error("buffer {} of {}", b, program.buffers.size());
  for (const Buffer& b : program.buffers)
    if (const int slots = program.lanes.slots[static_cast<std::size_t>(b.life)];
        b.slots != 1 && b.slots != slots)
      throw error("a buffer of {} slots where micro-batches have {}", b.slots, slots);
}

/// What instructions are derived from: well-formed graphs, and crossings from what one stage sends to what another
/// receives.
void check_form(const Pipeline& pipeline) {
  for (int s = 0; s < pipeline.stage_count(); ++s) try {
      const Program& program = pipeline.stage(s);
      verify(program.graph);
      if (program.micro_batches != pipeline.micro_batches())
        throw error("the program is of {} micro-batches but the pipeline of {}", program.micro_batches,
                    pipeline.micro_batches());
      for (std::size_t n = 0; n < program.starts.size(); ++n)
        if (program.starts.size() != program.graph.nodes.size() || program.starts[n].index < 0 ||
            program.starts[n].index > static_cast<int>(n))
          throw error("node {} of {} starts at {}", n, program.graph.nodes.size(), program.starts[n].index);
      check_buffers(program);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("stage {}", s));
    }
  std::set<std::pair<int, ValueId>> received;
  for (const PlacedCrossing& c : pipeline.crossings) {
    const auto is_stage = [&](int s) { return s >= 0 && s < pipeline.stage_count(); };
    if (!is_stage(c.from) || !is_stage(c.to) || c.from == c.to)
      throw error("a crossing from stage {} to {} of {}", c.from, c.to, pipeline.stage_count());
    const Graph &from = pipeline.stage(c.from).graph, &to = pipeline.stage(c.to).graph;
    const auto exists = [](const Graph& graph, ValueId v) {
      return v.is_valid() && v.index < static_cast<int>(graph.values.size());
    };
    if (!exists(from, c.sent) || !exists(to, c.received))
      throw error("a crossing from stage {} to {} of a value that does not exist", c.from, c.to);
    const Value &sent = from.value(c.sent), &taken = to.value(c.received);
    if (std::find(from.sends.begin(), from.sends.end(), c.sent) == from.sends.end())
      throw error("stage {}: %{} is not sent but stage {} receives it as %{}", c.from, sent.name, c.to,
                  taken.name);
    if (to.node(taken.producer).op->kind != OpKind::receive || sent.global_type() != taken.global_type())
      throw error("stage {}: %{} {} cannot receive %{} {} of stage {}", c.to, taken.name,
                  to_text(taken.global_type()), sent.name, to_text(sent.global_type()), c.from);
    if (!received.emplace(c.to, c.received).second)
      throw error("stage {}: %{} is received twice", c.to, taken.name);
  }
}

}  // namespace

std::vector<RankStep> unrolled_steps(const Pipeline& pipeline) {
  std::vector<RankStep> out = steps_of(pipeline);
  for (RankStep& step : out) step = unrolled(std::move(step));
  return out;
}

Violations violations(const std::vector<RankClass>& classes, const Pipeline& pipeline) {
  Meetings meetings(classes, pipeline);
  return judged(meetings, [](std::string_view) {});
}

Violations violations(const std::vector<RankStep>& ranks, const Pipeline& pipeline) {
  return violations(each_alone(ranks), pipeline);
}

Proof prove(const Pipeline& pipeline, const Tell& tell) {
  check_form(pipeline);
  tell("which ranks do the same");
  const std::vector<RankClass> classes = classes_of(pipeline);
  Meetings meetings(classes, pipeline);
  Violations found = judged(meetings, tell);
  // A class waits for more than its ranks do; whether that matters, each by itself says.
  if (!found.empty() && classes.size() < static_cast<std::size_t>(pipeline.rank_count()))
    found = violations(unrolled_steps(pipeline), pipeline);
  if (!found.empty())
    throw InternalError(
        fmt::format("{}; the plan was compiled wrongly, which is no fault of yours: please report "
                    "it with the command and its model or plan file",
                    found.front().text));
  return count(meetings);
}

}  // namespace shardwright
