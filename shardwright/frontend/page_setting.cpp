// How a page names a plan: all that was chosen of it in one line, and its stages.

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"

namespace shardwright {
namespace {

/// The size of an axis of the first stage's mesh; 1: there is none.
int size_of(const Plan& plan, std::string_view axis) {
  const auto& axes = plan.stages.front().meshes.front().axes;
  const auto it = std::ranges::find(axes, axis, &Axis::name);
  return it == axes.end() ? 1 : it->size;
}

}  // namespace

int replicas_of(const Plan& plan) { return size_of(plan, "dp"); }

std::string setting_html(const Plan& plan) {
  const Pipelining& p = plan.settings.pipelining;
  std::vector<std::string> words;
  for (std::string_view word : split(plan.structure, ','))
    if (!word.empty() && !word.starts_with("recompute=")) words.emplace_back(word);
  const auto add = [&](const std::string& name, const std::string& value) {
    if (std::ranges::none_of(words, [&](const std::string& w) { return w.starts_with(name + "="); }))
      words.push_back(fmt::format("{}={}", name, value));
  };
  add("dp", std::to_string(size_of(plan, "dp")));
  add("tp", std::to_string(size_of(plan, "tp")));
  for (const Axis& axis : plan.stages.front().meshes.front().axes) add(axis.name, std::to_string(axis.size));
  add("pp", std::to_string(p.stages));
  add("micro_batches", std::to_string(p.micro_batches));
  if (p.interleave > 1) add("micro_batch_interleave", std::to_string(p.interleave));
  add("zero", std::to_string(plan.settings.optimizer_parallel.level));
  if (plan.settings.overlap_tensor) add("overlap_tensor", "1");
  if (p.stages > 1) add("schedule", name_of(p.schedule));
  std::string out = code_html(join(words, ","));
  if (p.schedule.chunks > 1) out += fmt::format(" · {} stages × {} chunks", p.stages, p.schedule.chunks);
  const std::string again = words_of(plan.settings.recompute);
  return out + " · " + (again.empty() ? "nothing computed again" : "recompute " + escaped(again));
}

std::string setting_words_html(const PageContent& content) {
  const Plan& plan = content.plan;
  const Pipelining& p = plan.settings.pipelining;
  constexpr std::array<std::string_view, 4> sharded{
      "", ", optimizer states sharded over them (zero=1)",
      ", optimizer states and gradients sharded over them (zero=2)",
      ", weights, gradients and optimizer states sharded over them (zero=3)"};
  std::vector<std::string> out;
  if (const int dp = replicas_of(plan); dp > 1)
    out.push_back(fmt::format("{} copies of the network share the batch (dp){}", dp,
                              sharded[at(plan.settings.optimizer_parallel.level)]));
  if (const int tp = size_of(plan, "tp"); tp > 1)
    out.push_back(fmt::format("{} devices share each operator (tp)", tp));
  if (p.stages > 1)
    out.push_back(fmt::format(
        "{} stages of layers (pp){}", p.stages,
        p.schedule.chunks > 1 ? fmt::format(", each of {} chunks of layers", p.schedule.chunks) : ""));
  if (p.micro_batches > 1)
    out.push_back(fmt::format("the batch in {} parts (micro-batches)", p.micro_batches));
  std::string text = join(out, " · ");
  if (content.bound && !content.bound->binding.fixed.empty())
    text += fmt::format("{}<strong>fixed: {}</strong>; only plans that keep to it were looked at",
                        text.empty() ? "" : " · ", code_html(content.bound->binding.fixed));
  return text.empty() ? "" : fmt::format("<p class=\"words\">{}</p>\n", text);
}

std::string command_html(std::string_view command) {
  std::string out;
  for (std::string_view word : split(command, ' '))
    out += fmt::format("{}<span class=\"word\">{}</span>", out.empty() ? "" : " ", breakable(word));
  return "<code>" + out + "</code>";
}

std::string stage_name(std::size_t group) { return fmt::format("stage {}", group); }

std::string chunks_text(const Pipeline& pipeline, std::size_t group) {
  if (pipeline.group_count() == pipeline.stage_count()) return "";
  std::vector<std::string> out;
  for (int s : pipeline.pipelining.parts_of(static_cast<int>(group))) out.push_back(std::to_string(s));
  return fmt::format(" (chunks {})", join(out, ", "));
}

std::string part_name(const Pipeline& pipeline, std::size_t part) {
  const int stage = pipeline.pipelining.stage_of(static_cast<int>(part));
  const bool is_stage = pipeline.group_count() == pipeline.stage_count();
  return is_stage ? stage_name(part)
                  : fmt::format("chunk {} of {}", part, stage_name(static_cast<std::size_t>(stage)));
}

}  // namespace shardwright
