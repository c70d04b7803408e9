#include <fmt/ranges.h>

#include <algorithm>

#include "shardwright/graph/op.h"
#include "shardwright/lower/step.h"

namespace shardwright {
namespace {

std::string ranks_text(const std::vector<int>& ranks) {
  constexpr std::size_t most = 8;
  if (ranks.size() <= most) return fmt::format("{}", fmt::join(ranks, ","));
  return fmt::format("{},..,{} ({} ranks)", fmt::join(ranks.begin(), ranks.begin() + 3, ","), ranks.back(),
                     ranks.size());
}

/// `forward of stage 1`; of a pipeline of one stage `forward`.
std::string section_text(const Section& section, const Pipeline& pipeline) {
  if (pipeline.stage_count() == 1) return std::string(name_of(section.phase));
  return fmt::format("{} of stage {}", name_of(section.phase), section.stage);
}

/// An instruction without its micro-batch.
std::string act_text(const RankStep& step, const Instruction& i, const Pipeline& pipeline) {
  const auto node = [&](std::string_view verb) {
    const Graph& graph = pipeline.stage(i.stage).graph;
    const Node& n = graph.node({i.what});
    return fmt::format("{}%{} = {}", verb, graph.value(n.results.front()).name, n.op->name);
  };
  switch (i.act) {
    case Act::start: return "start " + to_text(step.transfer(i), pipeline);
    case Act::finish: return "finish " + to_text(step.transfer(i), pipeline);
    case Act::compute: return node("");
    case Act::copy: return node("copy ");
    case Act::keep: return node("keep ");
    case Act::clear: return "clear accumulators";
    case Act::fill: return "fill inputs";
    case Act::hand_out: return "hand out outputs";
    case Act::replace: return fmt::format("replace leaves after the {}", name_of(static_cast<Phase>(i.what)));
    case Act::run: break;
  }
  return "run " + section_text(step.section(i), pipeline);
}

}  // namespace

std::string to_text(const PreparedTransfer& t, const Pipeline& pipeline) {
  const Part& part = t.parts.front();
  const Transfer& transfer = *part.transfer;
  const bool makes = part.to.is_valid();
  const Graph& graph = pipeline.stage(makes ? t.to_stage : t.from_stage).graph;
  const Shape& shape = part.from.is_valid() ? transfer.from_shape : transfer.to_shape;
  std::string what(name_of(transfer.kind));
  if (transfer.reduces) what += transfer.reduction == Reduction::sum ? ".sum" : ".max";
  if (t.crossing >= 0) what = !part.from.is_valid() ? "receive" : makes ? "pass" : "send";
  std::string out = fmt::format("{} %{}", what, graph.value(makes ? part.to : part.from).name);
  if (!t.over.empty()) out += fmt::format(" over {}", t.over);
  out += fmt::format(" {} of ranks {}", to_text(Type{part.dtype, shape}), ranks_text(transfer.group));
  if (t.parts.size() > 1) out += fmt::format(" with {} more", t.parts.size() - 1);
  if (t.crossing >= 0) out += fmt::format(" from stage {} to {}", t.from_stage, t.to_stage);
  return out;
}

std::string to_text(const RankStep& step, const Instruction& i, const Pipeline& pipeline) {
  std::string out = act_text(step, i, pipeline);
  if (pipeline.micro_batches() > 1) out += fmt::format(", micro-batch {}", i.micro_batch);
  return out;
}

std::string to_text(const RankStep& step, const Pipeline& pipeline) {
  std::string out = fmt::format("rank {}\n", step.rank);
  for (const Instruction& i : step.instructions) out += "  " + to_text(step, i, pipeline) + "\n";
  for (std::size_t s = 0; s < step.sections.size(); ++s) {
    const bool is_run = std::any_of(step.instructions.begin(), step.instructions.end(), [&](const auto& i) {
      return i.act == Act::run && static_cast<std::size_t>(i.what) == s;
    });
    if (!is_run) continue;
    out += section_text(step.sections[s], pipeline);
    out += step.sections[s].only_last ? " of the last micro-batch\n" : "\n";
    for (const Instruction& i : step.sections[s].instructions)
      out += "  " + act_text(step, i, pipeline) + "\n";
  }
  return out;
}

}  // namespace shardwright
