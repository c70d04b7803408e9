// What stands above a report's tables: what was asked, what was chosen, what a step takes.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/adapters.h"
#include "shardwright/frontend/report.h"
#include "shardwright/graph/op.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/decided.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

/// `; as megatron-lm takes it, which reserves 9.44 GB`
std::string framework_text(const Estimate& e) {
  if (e.framework == own_framework) return "";
  const Framework& f = framework_called(e.framework);
  return fmt::format("; as {} takes it{}", f.name,
                     f.reserve > 0 ? ", which reserves " + bytes_text(f.reserved(e.arena_bytes)) : "");
}

/// `memory: 8.82 GB of the 78.87 GB of each device: 4.90 GB parameters, ...; 6% stay free`
SummaryLine memory_line(const Evaluation& evaluation, const Cluster& cluster) {
  const Estimate& e = evaluation.estimate;
  const bool are_unlike = !cluster.kinds.empty();  // told of those with least to spare
  const bool is_capped = !are_unlike && evaluation.cap_bytes != usable_bytes(cluster);
  std::string out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    if (e.memory.bytes[k] > 0)
      out += fmt::format("{}{} {}", out.empty() ? "" : ", ", bytes_text(e.memory.bytes[k]),
                         words_of(static_cast<MemoryKind>(k)));
  const std::string free =
      is_capped || cluster.margin() == 0 ? "" : fmt::format("; {} stay free", share_text(cluster.margin()));
  return {fmt::format("memory: {} of the {} {} each device{}: {}{}{}", bytes_text(e.arena_bytes),
                      bytes_text(evaluation.cap_bytes), is_capped ? "that the cap allows" : "of",
                      are_unlike ? " of the stage with least to spare" : "", out, free, framework_text(e))};
}

SummaryLine time_line(const Estimate& e) {
  const double hidden = e.communication_seconds - e.exposed_communication_seconds;
  const auto text = [&](std::string_view of_it, std::string_view behind_compute) {
    std::string out = fmt::format("per step: {}: {} compute", seconds_text(e.step_seconds()),
                                  seconds_text(e.compute_seconds));
    if (e.recompute_seconds > 0)
      out += fmt::format(" ({}{} recompute)", seconds_text(e.recompute_seconds), of_it);
    if (e.communication_seconds > 0)
      out += fmt::format(", {} communication", seconds_text(e.exposed_communication_seconds));
    if (hidden > 1e-9) out += fmt::format(" ({} more hidden{})", seconds_text(hidden), behind_compute);
    if (e.bubble_seconds > 0) out += fmt::format(", {} bubble", seconds_text(e.bubble_seconds));
    return out;
  };
  return {text(" of it", " behind compute"), text("", "")};
}

/// What a device receives, and by how many collectives; nothing where there are none.
std::string traffic_text(const Estimate& e) {
  std::string out;
  for (const auto& [kind, count] : e.collectives)
    out += fmt::format("{}{} {}", out.empty() ? "" : ", ", count, kind);
  return out.empty()
             ? ""
             : fmt::format("traffic: {} to each device, by {}", bytes_text(e.bytes_communicated), out);
}

/// `69.0 billion`
std::string count_text(double count) {
  for (const auto& [size, word] :
       {std::pair{1e12, " trillion"}, {1e9, " billion"}, {1e6, " million"}, {1e3, " thousand"}})
    if (count >= size) return fmt::format("{:.{}f}{}", count / size, count < 10 * size ? 2 : 1, word);
  return fmt::format("{}", count);
}

/// What the step is of: `network: 69.0 billion parameters; 64 samples of 4096 tokens a step; bf16, adamw`.
SummaryLine network_line(const Graph& graph, const Plan& plan, const BatchSize& batch,
                         const Assumed& assumed) {
  const auto marked = [](std::string text, bool is_assumed) {
    return is_assumed ? text + " (assumed)" : text;
  };
  const ParameterCount parameters = parameters_of(graph);
  const auto text = [&](std::string_view a_step) {
    std::string out = fmt::format("network: {} parameters", count_text(parameters.all));
    if (parameters.trained < parameters.all)
      out += fmt::format(", {} of them trained", count_text(parameters.trained));
    if (batch.samples > 0) {
      std::string samples = fmt::format("{} sample{}", batch.samples, batch.samples == 1 ? "" : "s");
      if (batch.unit == "tokens") samples += fmt::format(" of {} tokens", batch.count / batch.samples);
      out += "; " + marked(fmt::format("{}{}", samples, a_step), assumed.batch);
    }
    return fmt::format("{}; {}, {}", out, marked(to_text(plan.origin.precision), assumed.precision),
                       marked(plan.origin.optimizer.name, assumed.optimizer));
  };
  return {text(" a step"), text("")};
}

/// Where samples of a micro-batch are shared unequally: the largest share decides how long all take, or those of the fastest.
std::string samples_of_each_text(const Plan& plan, std::int64_t samples) {
  const auto by_shares = decided_by(plan, 0).batch_shares;
  if (by_shares && by_shares->empty()) return " (by the speed of each stage's devices)";
  if (by_shares) return fmt::format(" (in shares of {})", shares_text(*by_shares));
  const auto is_uneven = [](const PlannedOperator& op) {
    return std::ranges::any_of(op.strategy, [&](const auto& split) {
      return op.cuts.contains(split.first) && std::ranges::count(split.second, "dp") > 0;
    });
  };
  const int replicas = decided_by(plan, 0).degrees.sharing(Sharing::batch);
  if (samples % replicas == 0 || std::ranges::none_of(plan.stages.front().operators, is_uneven)) return "";
  return fmt::format(" ({} or {} on each of dp={})", samples / replicas, samples / replicas + 1, replicas);
}

/// How the batch runs through the devices, what is kept on each, what is computed again.
SummaryLine settings_line(const Plan& plan, const BatchSize& batch) {
  const Pipelining& p = plan.settings.pipelining;
  constexpr std::array<std::string_view, 4> kept{
      "states, gradients and weights whole (zero=0)", "optimizer states sharded over replicas (zero=1)",
      "optimizer states and gradients sharded over replicas (zero=2)",
      "states, gradients and weights sharded over replicas (zero=3)"};
  std::string out = p.stages == 1 ? "" : fmt::format("{} stages, ", p.stages);
  out += fmt::format("{} micro-batch{}", p.micro_batches, p.micro_batches == 1 ? "" : "es");
  if (batch.samples > 0)
    out += fmt::format(" of {} sample{}{}", batch.samples / p.micro_batches,
                       batch.samples == p.micro_batches ? "" : "s",
                       samples_of_each_text(plan, batch.samples / p.micro_batches / p.interleave));
  if (p.interleave > 1) out += fmt::format(" in {} parts side by side", p.interleave);
  if (p.stages > 1) out += ", " + name_of(p.schedule);
  if (plan.settings.overlap_tensor) {
    const Degrees degrees = decided_by(plan, 0).degrees;
    const bool may_wait = degrees.said("tp") != 1 || degrees.sharing(Sharing::sequence) > 1;
    out += may_wait ? ", products beside their transfers" : ", overlap_tensor with nothing to overlap (tp=1)";
  }
  const std::string again = words_of(plan.settings.recompute);
  const std::string brief = fmt::format(
      "step: {}; {}", out, kept[static_cast<std::size_t>(plan.settings.optimizer_parallel.level)]);
  if (again.empty()) return {brief + "; nothing computed again"};
  return {fmt::format("{}; recompute {}", brief, again), brief};  // another line says it, too
}

/// What another plan takes, by the same memory.
Estimate estimate_of(const Graph& graph, const Plan& plan, const Estimate& like, const FormatsOf& formats) {
  return evaluate(compile_pipeline(graph, plan, {.formats = formats, .verifies = false}), plan.cluster,
                  {.framework = like.framework})
      .estimate;
}

std::string against(const Estimate& e, const Estimate& other) {
  return fmt::format("{} in all instead of {}; {} per step instead of {}", bytes_text(e.arena_bytes),
                     bytes_text(other.arena_bytes), seconds_text(e.step_seconds()),
                     seconds_text(other.step_seconds()));
}

}  // namespace

SummaryLine offload_line(const Graph& graph, const Plan& plan, const Estimate& e, const FormatsOf& formats) {
  if (!plan.settings.offload.is_on()) return {};
  Plan other = plan;
  other.settings.offload = {};
  const bool is_unknown = plan.cluster.reserved_bytes > 0 && plan.cluster.host.memory_bytes == 0;
  const std::string brief =
      fmt::format("{}: {} of the host for each device{}", to_text(plan.settings.offload),
                  bytes_text(e.host_bytes), is_unknown ? " (nobody has said how much a host has)" : "");
  return {fmt::format("{}, {} copied in {} per step; {}", brief, bytes_text(e.host_bytes_moved),
                      seconds_text(e.host_seconds), against(e, estimate_of(graph, other, e, formats))),
          brief};
}

SummaryLine recompute_line(const Graph& graph, const Plan& plan, const Estimate& e,
                           const FormatsOf& formats) {
  if (!plan.settings.recompute.is_on()) return {};
  Plan other = plan;
  other.settings.recompute = {};
  const Estimate without = estimate_of(graph, other, e, formats);
  const std::string what = words_of(plan.settings.recompute);
  const std::string in_all = against(e, without);
  return {fmt::format("{}: {} activations instead of {}, {}", what,
                      bytes_text(e.memory.of(MemoryKind::activations)),
                      bytes_text(without.memory.of(MemoryKind::activations)), in_all),
          fmt::format("{}: {}", what, in_all)};
}

std::string rate_text(double rate) { return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0); }

std::string throughput_text(const Estimate& e, const BatchSize& batch) {
  if (e.step_seconds() <= 0) return "";
  const double rate = static_cast<double>(batch.count) / e.step_seconds();
  return fmt::format("throughput: {}{} of the devices' peak (MFU)",
                     batch.count > 0 ? fmt::format("{} {} a second, ", rate_text(rate), batch.unit) : "",
                     percent_text(e.mfu(), 1));
}

std::vector<SummaryLine> summary_of(const Graph& graph, const Plan& plan, const Evaluation& evaluation,
                                    const BatchSize& batch, const StepReport& report) {
  const Estimate& e = evaluation.estimate;
  std::vector<SummaryLine> out;
  const auto say = [&](std::string line) {
    if (!line.empty()) out.push_back({std::move(line)});
  };
  out.push_back(network_line(graph, plan, batch, report.assumed));
  if (!plan.structure.empty()) say("chosen: " + plan.structure);
  out.push_back(settings_line(plan, batch));
  out.push_back(time_line(e));
  say(throughput_text(e, batch));
  if (const auto price = plan.cluster.price_of(e.step_seconds()))
    say(fmt::format("price: {:.4g} a step", *price));
  out.push_back(memory_line(evaluation, plan.cluster));
  say(traffic_text(e));
  if (const auto& [text, brief] = report.recompute; !text.empty())
    out.push_back({"recompute " + text, "recompute " + brief});
  if (const auto& [text, brief] = report.offload; !text.empty())
    out.push_back({"offload " + text, "offload " + brief});
  say(plan.objective);
  if (!plan.suggestion.empty()) say("suggestion: " + plan.suggestion);
  if (!plan.compared.empty()) say("search: " + plan.compared);
  return out;
}

}  // namespace shardwright
