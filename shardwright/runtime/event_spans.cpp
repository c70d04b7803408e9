#include "shardwright/runtime/event_spans.h"

#include <fmt/format.h>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// What looks for work and finds none.
constexpr std::int64_t shortest = 1000;

/// Nothing of those that take no time worth a span.
std::optional<Span> unless_short(Span span) {
  if (span.end - span.begin < shortest) return std::nullopt;
  return span;
}

/// Nodes that have only a number are called after their operator, too.
std::string label_of(const Span& span, std::size_t i) {
  const std::string name = marked_name(span.nodes[i]);
  return name == span.nodes[i] ? name : span.operators[i] + " " + name;
}

}  // namespace

std::string marked_name(const std::string& name) {
  return name.find_first_not_of("0123456789") == std::string::npos ? "%" + name : name;
}

/// `forward 2`; where a rank has several stages, of which.
Span EventSpans::run_span(const TraceEvent& e) const {
  Span out = span(e, "schedule", name_of(e.phase));
  if (out.micro_batch >= 0) out.name += fmt::format(" {}", out.micro_batch);
  if (out.micro_batch >= 0 && pipeline_.stages_of(step_.rank).size() > 1)
    out.name += fmt::format(" of stage {}", e.instruction.stage);
  return out;
}

Span EventSpans::span(const TraceEvent& e, std::string category, std::string_view verb) const {
  Span out{.begin = e.begin,
           .end = e.end,
           .category = std::move(category),
           .name = std::string(verb),
           .micro_batch = e.phase == Phase::update ? -1 : e.instruction.micro_batch,
           .phase = e.phase};
  const Instruction& i = e.instruction;
  if (is_transfer(e) || i.act == Act::compute || i.act == Act::copy) out.instruction = i;
  if (is_transfer(e) && transfer(e).crossing < 0)
    name_after_nodes(out, i.stage, transfer(e).node, transfer(e).parts.size());
  else if (is_transfer(e))
    out.name += (verb.empty() ? "" : " ") + marked_name(value_of(transfer(e)).name);
  else if (i.act == Act::compute || i.act == Act::copy)
    name_after_nodes(out, i.stage, {i.what}, size_of_fusion(i));
  return out;
}

/// What crosses, as it is called here.
const Value& EventSpans::value_of(const PreparedTransfer& t) const {
  const Part& part = t.parts.front();
  return part.to.is_valid() ? graph(t.to_stage).value(part.to) : graph(t.from_stage).value(part.from);
}

std::size_t EventSpans::size_of_fusion(const Instruction& i) const {
  const std::vector<Node>& nodes = graph(i.stage).nodes;
  std::size_t end = at(i.what) + 1;
  while (end < nodes.size() && nodes[end].is_fused) ++end;
  return end - at(i.what);
}

void EventSpans::name_after_nodes(Span& span, int stage, NodeId first, std::size_t count) const {
  for (std::size_t n = 0; n < count; ++n) {
    const NodeId id{first.index + static_cast<int>(n)};
    span.nodes.push_back(graph(stage).name_of(id));
    span.operators.push_back(graph(stage).node(id).op->name);
  }
  if (graph(stage).node(first).op->kind == OpKind::step)
    span.name += (span.name.empty() ? "" : " ") + span.operators.front() + " ";
  else if (!span.name.empty())
    span.name += " ";
  span.name += label_of(span, 0);
  if (span.nodes.size() > 1) span.name += " + " + label_of(span, 1);
  if (span.nodes.size() > 2) span.name += fmt::format(" + {} more", span.nodes.size() - 2);
}

std::optional<Span> EventSpans::compute_span(const TraceEvent& e) const {
  if (e.activity == Activity::step) {
    Span out{.begin = e.begin, .end = e.end, .category = "schedule"};
    out.name = fmt::format("step {}", e.instruction.what);
    return out;
  }
  if (e.activity == Activity::progress) {
    Span out{.begin = e.begin, .end = e.end, .category = "exposed", .name = "move transfers on"};
    out.phase = e.phase;
    return unless_short(std::move(out));
  }
  switch (e.instruction.act) {
    case Act::run: return run_span(e);
    case Act::fill: return span(e, "data", "inputs");
    case Act::hand_out: return span(e, "data", "outputs");
    case Act::clear: return unless_short(span(e, "data", "clear accumulators"));
    case Act::replace: return unless_short(span(e, "data", "replace leaves"));
    case Act::compute: return span(e, "compute");
    case Act::copy: return span(e, "data", "copy");
    case Act::finish:
      if (!crosses(e)) return span(e, "exposed", "wait for");
      return span(e, "bubble", transfer(e).takes() ? "wait for" : "wait for the taking of");
    case Act::start:
    case Act::keep: break;
  }
  return std::nullopt;
}

}  // namespace shardwright
