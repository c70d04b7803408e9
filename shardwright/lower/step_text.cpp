#include <fmt/ranges.h>

#include <algorithm>
#include <unordered_map>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
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
  std::string out(name_of(section.phase));
  if (pipeline.stage_count() > 1) out += fmt::format(" of stage {}", section.stage);
  if (section.only_last) out += " of the last micro-batch";
  return out;
}

std::string bare_act_text(const RankStep& step, const Instruction& i, const Pipeline& pipeline) {
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
    case Act::hand_out:
      return i.what == 0 ? std::string("hand out outputs")
                         : fmt::format("hand out outputs of the {}", name_of(static_cast<Phase>(i.what)));
    case Act::replace: return fmt::format("replace leaves after the {}", name_of(static_cast<Phase>(i.what)));
    case Act::run: break;
  }
  return "run " + section_text(step.section(i), pipeline);
}

/// Without its micro-batch. Where the rank runs several stages it says which it is about.
std::string act_text(const RankStep& step, const Instruction& i, const Pipeline& pipeline) {
  std::string out = bare_act_text(step, i, pipeline);
  const bool is_transfer = i.act == Act::start || i.act == Act::finish;
  const bool is_told = i.act == Act::run || (is_transfer && step.transfer(i).crossing >= 0);
  if (!is_told && pipeline.pipelining.schedule.chunks > 1) out += fmt::format(" of stage {}", i.stage);
  return out;
}

/// Every instruction that a rank of the pipeline can have, by its text.
std::unordered_map<std::string, Instruction> vocabulary(const RankStep& step, const Pipeline& pipeline) {
  std::unordered_map<std::string, Instruction> out;
  const auto add = [&](Act act, int stage, int what) {
    const Instruction i{act, stage, what, 0};
    out.emplace(act_text(step, i, pipeline), i);
  };
  for (int t = 0; t < static_cast<int>(step.transfers.size()); ++t) {
    const PreparedTransfer& transfer = step.transfers[at(t)];
    const Part& part = transfer.parts.front();
    add(Act::start, part.from.is_valid() ? transfer.from_stage : transfer.to_stage, t);
    add(Act::finish, part.to.is_valid() ? transfer.to_stage : transfer.from_stage, t);
  }
  for (int stage : pipeline.stages_of(step.rank)) {
    for (const Fusion& f : fusions_of(pipeline.stage(stage).graph))
      for (Act act : {Act::compute, Act::copy, Act::keep}) add(act, stage, f.begin.index);
    for (Act act : {Act::clear, Act::fill}) add(act, stage, 0);
    for (Phase phase : {Phase::forward, Phase::backward, Phase::weights, Phase::update})
      for (Act act : {Act::hand_out, Act::replace}) add(act, stage, static_cast<int>(phase));
  }
  for (int s = 0; s < static_cast<int>(step.sections.size()); ++s)
    add(Act::run, step.sections[at(s)].stage, s);
  return out;
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
    out += section_text(step.sections[s], pipeline) + "\n";
    for (const Instruction& i : step.sections[s].instructions)
      out += fmt::format("  {}\n", i.stage == step.sections[s].stage ? bare_act_text(step, i, pipeline)
                                                                     : act_text(step, i, pipeline));
  }
  return out;
}

RankStep parse_step(std::string_view text, const Pipeline& pipeline) {
  RankStep out;
  std::unordered_map<std::string, Instruction> known;  // from the first instruction on
  std::unordered_map<std::string, std::size_t> sections;
  std::vector<Instruction>* list = nullptr;
  std::string here;  // what instructions of a section leave out
  int number = 0;
  const auto parse = [&](std::string_view line) {
    if (list == nullptr) {
      Scanner in(line, "step");
      in.expect("rank");
      const std::int64_t rank = in.integer("a rank");
      if (rank < 0 || rank >= pipeline.rank_count())
        throw error("there is no rank {} but 0 to {}", rank, pipeline.rank_count() - 1);
      out = step_of(pipeline, static_cast<int>(rank));
      known = vocabulary(out, pipeline);
      for (std::size_t s = 0; s < out.sections.size(); ++s) {
        sections.emplace(section_text(out.sections[s], pipeline), s);
        out.sections[s].instructions.clear();
      }
      out.instructions.clear();
      list = &out.instructions;
      return;
    }
    if (!line.starts_with("  ")) {
      const auto section = sections.find(std::string(trim(line)));
      if (section == sections.end()) throw error("'{}' is no section of rank {}", trim(line), out.rank);
      list = &out.sections[section->second].instructions;
      here = fmt::format(" of stage {}", out.sections[section->second].stage);
      return;
    }
    std::string_view act = trim(line);
    std::int64_t micro_batch = 0;
    constexpr std::string_view mark = ", micro-batch ";
    if (const std::size_t behind = act.rfind(mark); behind != act.npos) {
      micro_batch = to_integer(act.substr(behind + mark.size())).value_or(-1);
      if (micro_batch < 0 || micro_batch >= pipeline.micro_batches())
        throw error("there is no micro-batch '{}' but 0 to {}", act.substr(behind + mark.size()),
                    pipeline.micro_batches() - 1);
      act = act.substr(0, behind);
    }
    auto instruction = known.find(std::string(act));
    if (instruction == known.end()) instruction = known.find(std::string(act) + here);
    if (instruction == known.end()) throw error("rank {} has nothing that is called '{}'", out.rank, act);
    list->push_back(instruction->second);
    list->back().micro_batch = static_cast<int>(micro_batch);
  };
  for (std::string_view line : split(text, '\n')) {
    ++number;
    if (trim(line).empty()) continue;
    try {
      parse(line);
    } catch (const Error& e) {
      throw with_context(e, fmt::format("line {}", number));
    }
  }
  if (list == nullptr) throw error("the text holds no step; its first line should be 'rank 0'");
  return out;
}

}  // namespace shardwright
