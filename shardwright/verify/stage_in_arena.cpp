#include "shardwright/verify/stage_in_arena.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"
#include "shardwright/lower/kept_leaves.h"

namespace shardwright {

void StageInArena::begin_step() {
  if (!fits()) return;
  for (const Node& node : graph_.nodes)
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) write(node.results.front(), 0);
  for (const Instruction& i : rank_.instructions)
    if (i.act == Act::compute && i.stage == stage_) last_of_[phase_of(i)] = i.micro_batch;
}

void StageInArena::play(const Instruction& i) {
  now_ = &i;
  const bool is_transfer = i.act == Act::start || i.act == Act::finish;
  if (!(is_transfer ? is_mine(rank_.transfer(i)) : i.stage == stage_)) return;
  phase_ = phase_of(i);
  run(i);
}

std::vector<ValueId> StageInArena::given(const PreparedTransfer& t, const Part& part) const {
  std::vector<ValueId> out{from(t, part), part.ids};
  std::erase_if(out, [](ValueId v) { return !v.is_valid(); });
  return out;
}

bool StageInArena::fits() {
  for (std::size_t v = 0; v < graph_.values.size() && out_.empty(); ++v) {
    const ValueId id{static_cast<int>(v)};
    if (!in_memory(id)) continue;
    const Buffer& buffer = *program_.buffer(id);
    for (int slot = 0; slot < buffer.slots; ++slot) {
      const std::int64_t from = buffer.offset + slot * buffer.bytes, to = from + size(id);
      const bool is_on_host = space_of(graph_, id) == Space::host;
      const std::int64_t begin = is_on_host ? program_.arena_bytes : 0;
      const std::int64_t end = program_.arena_bytes + (is_on_host ? program_.host_bytes : 0);
      const std::int64_t own = program_.own_bytes();
      if (from >= begin && to <= end && (to <= own || from >= own)) continue;
      bad("%{} lies at {} to {} in {} of {} bytes{}", name(id), from, to,
          is_on_host ? "memory of the host" : "an arena", end - begin,
          program_.passing_bytes > 0 ? fmt::format(", {} of them shared", program_.passing_bytes) : "");
      break;
    }
  }
  return out_.empty();
}

void StageInArena::write(ValueId v, int micro_batch) {
  if (!in_memory(v)) return;
  const Stamp stamp = static_cast<Stamp>(memory_.writers.size());
  memory_.writers.push_back({&graph_, v, micro_batch});
  memory_.bytes.write(begin(v, micro_batch), end(v, micro_batch), stamp);
  written(v, micro_batch) = {stamp, micro_batch};
}

ValueId StageInArena::source(ValueId v) const {
  while (producer(v).op->is_alias) {
    const ValueId from = producer(v).operands.front();
    if (program_.offset(from) != program_.offset(v) || size(v) > size(from)) break;
    v = from;
  }
  return v;
}

Phase StageInArena::phase_of(const Instruction& i) const {
  switch (i.act) {
    case Act::compute:
    case Act::copy:
    case Act::keep: return graph_.node({i.what}).phase;
    case Act::hand_out:
    case Act::replace: return static_cast<Phase>(i.what);
    case Act::finish: {
      const PreparedTransfer& t = rank_.transfer(i);
      if (t.node.is_valid()) return graph_.node(t.node).phase;
      return pipeline_.crossings[at(t.crossing)].time == CrossingTime::update ? Phase::update : phase_;
    }
    default: return phase_;  // a transfer starts where others run
  }
}

void StageInArena::read(ValueId v, int place, int micro_batch) {
  v = source(v);
  if (!in_memory(v)) return bad("reads %{}, which is never in memory", name(v));
  const Written& w = written(v, place);
  if (w.stamp == 0 || w.is_on_its_way) return bad("reads %{} before it is there", name(v));
  if (w.micro_batch != made_for(v, micro_batch) && !is_kept_leaf(producer(v)))
    return bad("reads %{} of micro-batch {}", name(v), w.micro_batch);
  expect_intact(v, place, w.stamp, "reads");
}

void StageInArena::expect_intact(ValueId v, int micro_batch, Stamp stamp, std::string_view what) {
  const std::int64_t from = begin(v, micro_batch), to = end(v, micro_batch);
  if (memory_.bytes.holds(from, to, stamp)) return;
  const ByteWriter& other =
      memory_.writers[static_cast<std::size_t>(memory_.bytes.intruder(from, to, stamp))];
  bad("{} %{} but %{}{} has been written over it", what, name(v),
      other.graph ? other.graph->value(other.value).name : "nothing",
      other.graph && other.graph != &graph_ ? " of another stage on its devices" : "");
}

void StageInArena::run(const Instruction& i) {
  switch (i.act) {
    case Act::start: return start(i);
    case Act::finish: return finish(i);
    case Act::compute: return compute(fusions_.at(i.what), i.micro_batch);
    case Act::copy: return copy(graph_.node({i.what}), i.micro_batch);
    case Act::keep: return keep(fusions_.at(i.what), i.micro_batch);
    case Act::clear:
      for (const Node& node : graph_.nodes)
        if (node.op->kind == OpKind::accumulator) write(node.results.front(), 0);
      return;
    case Act::fill:
      for (const Node& node : graph_.nodes)
        if (node.op->kind == OpKind::input) write(node.results.front(), i.micro_batch);
      return;
    case Act::hand_out:
      for (ValueId v : graph_.outputs)
        if (handed_out_in(graph_, v) == static_cast<Phase>(i.what)) read(v, i.micro_batch);
      return;
    case Act::replace: return replace(static_cast<Phase>(i.what), i.micro_batch);
    case Act::run: return;  // steps are unrolled
  }
}

void StageInArena::start(const Instruction& i) {
  const PreparedTransfer& t = rank_.transfer(i);
  const int m = i.micro_batch;
  auto is_checked = transfers_checked_[at(i.what)][at(program_.lanes.lane(std::max(0, m)))];
  if (!is_checked) check_places(t, m), is_checked = true;
  std::vector<Stamp>& stamps = on_its_way_[{i.what, copy_of(t, m, pipeline_)}] = {};
  for (const Part& part : t.parts)
    for (const ValueId v : given(t, part)) {
      read(v, m);
      stamps.push_back(written(source(v), m).stamp);
    }
  for (const Part& part : t.parts) {
    if (!is_written_at_once(part)) continue;
    write(part.to, m);
    written(part.to, m).is_on_its_way = true;
  }
}

void StageInArena::check_places(const PreparedTransfer& t, int micro_batch) {
  for (const Part& a : t.parts)
    for (const Part& b : t.parts) {
      if (!to(t, a).is_valid()) continue;
      for (const ValueId read : given(t, b)) {
        if (!overlap(a.to, read, micro_batch)) continue;
        const bool may = &a == &b && read == b.from && same_place(a.to, read, micro_batch) &&
                         (a.transfer->kind == StepKind::all_reduce || a.transfer->kind == StepKind::mask);
        if (!may) return bad("%{} is written where %{} is read", name(a.to), name(read));
      }
      if (&a != &b && to(t, b).is_valid() && overlap(a.to, b.to, micro_batch))
        return bad("%{} and %{} are written to one place", name(a.to), name(b.to));
    }
}

void StageInArena::finish(const Instruction& i) {
  const PreparedTransfer& t = rank_.transfer(i);
  const int m = i.micro_batch;
  const auto open = on_its_way_.find({i.what, copy_of(t, m, pipeline_)});
  if (open == on_its_way_.end()) return bad("it has not been started");
  std::size_t next = 0;
  for (const Part& part : t.parts) {
    const bool makes = to(t, part).is_valid();
    for (const ValueId v : given(t, part)) {
      const Stamp stamp = open->second[next++];
      if (!makes || !overlap(v, part.to, m)) expect_intact(v, m, stamp, "gives");
    }
    if (!makes || !is_written_at_once(part)) continue;
    expect_intact(part.to, m, written(part.to, m).stamp, "makes");
    written(part.to, m).is_on_its_way = false;
  }
  for (const Part& part : t.parts)
    if (to(t, part).is_valid() && !is_written_at_once(part)) write(part.to, m);
  on_its_way_.erase(open);
}

void StageInArena::compute(const Fusion& fusion, int micro_batch) {
  for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
    for (ValueId v : graph_.node(id).operands)
      if (graph_.value(v).producer < fusion.begin) read(v, micro_batch);
  check_turns(fusion, micro_batch);
  for (NodeId id = fusion.begin; id < fusion.end; ++id.index)
    for (ValueId v : graph_.node(id).results) write(v, micro_batch);
}

void StageInArena::copy(const Node& node, int micro_batch) {
  const ValueId from = node.operands.front(), to = node.results.front();
  read(from, micro_batch);
  if (in_memory(to) && overlap(from, to, micro_batch))
    return bad("%{} overlaps %{}, of which it is a copy", name(to), name(from));
  write(to, micro_batch);
}

void StageInArena::keep(const Fusion& fusion, int micro_batch) {
  for (NodeId id = fusion.begin; id < fusion.end; ++id.index) {
    const Node& node = graph_.node(id);
    const ValueId to = node.results.front();
    if (node.op->kind == OpKind::receive) {
      write(to, micro_batch);
      continue;
    }
    read(node.operands.front(), micro_batch);
    if (in_memory(to))
      written(to, micro_batch) = {written(source(node.operands.front()), micro_batch).stamp, micro_batch};
  }
}

void StageInArena::check_turns(const Fusion& fusion, int micro_batch) {
  for (NodeId r = fusion.begin; r < fusion.end; ++r.index)
    for (ValueId operand : graph_.node(r).operands) {
      if (!in_memory(operand)) continue;
      const NodeId maker = graph_.value(operand).producer;
      for (NodeId w = fusion.begin; w < fusion.end; ++w.index)
        for (ValueId result : graph_.node(w).results)
          if (result != operand && overlap(operand, result, micro_batch) &&
              !may_take_turns(r, operand, maker, w, result, micro_batch))
            return bad("%{} writes where %{} still reads %{}", name(result), graph_.name_of(r),
                       name(operand));
    }
}

bool StageInArena::may_take_turns(NodeId reader, ValueId operand, NodeId maker, NodeId writer, ValueId result,
                                  int micro_batch) const {
  if (!same_place(operand, result, micro_batch)) return false;
  if (writer < maker) return true;
  if (writer < reader) return false;
  const Node& node = graph_.node(reader);
  if (node.op->block) return graph_.value(operand).type.shape == graph_.value(result).type.shape;
  const std::size_t r = at(graph_.value(result).result);
  if (writer != reader || r >= node.op->overwrites.size()) return false;
  const auto place = std::find(node.operands.begin(), node.operands.end(), operand);
  return place - node.operands.begin() == node.op->overwrites[r] &&
         std::count(node.operands.begin(), node.operands.end(), operand) == 1;
}

void StageInArena::replace(Phase phase, int micro_batch) {
  std::vector<const Update*> copies;
  for (const Update& u : graph_.updates) {
    if (replaced_in(program_, u) != phase) continue;
    const bool is_there = begin(u.value, 0) == begin(u.leaf, 0);
    // A sum that is there is not touched, and replicas may already be adding theirs to it: who reads it looks at it.
    const bool is_only_named = is_there && producer(u.leaf).op->kind == OpKind::accumulator;
    if (!is_only_named || written(u.value, 0).stamp == 0) read(u.value, 0, micro_batch);
    if (is_there)
      written(u.leaf, 0) = written(u.value, 0);
    else if (phase == Phase::update)
      copies.push_back(&u);
    else
      write(u.leaf, 0);
  }
  for (const Update* u : copies) write(u->leaf, 0);
}

}  // namespace shardwright
