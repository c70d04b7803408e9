// What events of a rank's step are about, in words: for traces and pages.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "shardwright/runtime/trace_file.h"

namespace shardwright {

/// Spans of a rank's events. Pipeline and step outlive it.
class EventSpans {
 public:
  EventSpans(const Pipeline& pipeline, const RankStep& step) : pipeline_(pipeline), step_(step) {}

  bool is_transfer(const TraceEvent& e) const {
    return e.activity == Activity::instruction &&
           (e.instruction.act == Act::start || e.instruction.act == Act::finish);
  }
  const PreparedTransfer& transfer(const TraceEvent& e) const { return step_.transfer(e.instruction); }
  bool crosses(const TraceEvent& e) const { return is_transfer(e) && transfer(e).crossing >= 0; }

  /// What the rank's thread does; nothing of what is not worth a span.
  std::optional<Span> compute_span(const TraceEvent& e) const;
  Span span(const TraceEvent& e, std::string category, std::string_view verb = "") const;

 private:
  Span run_span(const TraceEvent& e) const;
  const Graph& graph(int stage) const { return pipeline_.stage(stage).graph; }
  const Value& value_of(const PreparedTransfer& t) const;
  std::size_t size_of_fusion(const Instruction& i) const;
  void name_after_nodes(Span& span, int stage, NodeId first, std::size_t count) const;

  const Pipeline& pipeline_;
  const RankStep& step_;
};

/// Values that have only a number look like it: `%59`.
std::string marked_name(const std::string& name);

}  // namespace shardwright
