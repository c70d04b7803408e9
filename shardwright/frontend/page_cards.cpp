// The three questions at the top of a plan's page.

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
std::string card_html(std::string_view heading, const std::string& content) {
  return fmt::format("<section class=\"card\">\n<h2>{}</h2>\n{}</section>\n", heading, content);
}

std::vector<StepShare> step_shares(const Estimate& e) {
  const bool repeats = e.recompute_seconds > 0;
  return {
      {"compute", "compute", repeats ? "" : "/compute_seconds", e.compute_seconds - e.recompute_seconds, ""},
      {"again", "computed again", "/recompute_seconds", e.recompute_seconds, "recompute"},
      {"communication", "waiting for communication", "/exposed_communication_seconds",
       e.exposed_communication_seconds, "tp"},
      {"waiting", "waiting for other stages", "/bubble_seconds", e.bubble_seconds, "micro_batches"}};
}

namespace {

/// The stage that works longest: the parts of the step are its.
std::size_t longest_stage(const Estimate& e) {
  const auto stages = stages_of(e);
  return at(
      std::ranges::max_element(
          stages, {}, [](const Estimate& s) { return s.compute_seconds + s.exposed_communication_seconds; }) -
      stages.begin());
}

std::string bounds_verdict(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<StepShare> shares = step_shares(e);
  shares[0].seconds += shares[1].seconds, shares[1].seconds = 0;  // to compute again is to compute
  std::ranges::stable_sort(shares, std::ranges::greater(), &StepShare::seconds);
  const double step = e.step_seconds();
  const StepShare& first = shares.front();
  std::string out = first.style == "compute"         ? "Compute bounds it"
                    : first.style == "communication" ? "Communication bounds it"
                                                     : "Waiting for other stages bounds it";
  out = fmt::format("<strong>{}</strong>: {} of the step", out, percent_text(first.seconds, step));
  if (first.style == "compute" && e.recompute_seconds > 0)
    out += fmt::format(" ({} to compute again)", percent_text(e.recompute_seconds, step));
  if (e.stages.size() > 1) out += fmt::format(" on {}, which works longest", stage_name(longest_stage(e)));
  const StepShare& second = shares[1];
  if (second.seconds > 0.005 * step)
    out += fmt::format("; next is {}, {}", second.name, percent_text(second.seconds, step));
  return "<p>" + out + ".</p>\n";
}

/// What each stage does in the step, so that the one that works longest is seen at once.
std::string busy_bars(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  constexpr std::size_t most = 16;
  if (e.stages.size() < 2 || e.stages.size() > most) return "";
  const auto part = [&](const char* style, double seconds) {
    return fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", style,
                       100 * seconds / e.step_seconds());
  };
  std::string out =
      "<ul class=\"stagebars\">\n<li class=\"head\">Busy in the step: computing, or waiting for "
      "communication</li>\n";
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const Estimate& stage = e.stages[s];
    const double busy = stage.compute_seconds + stage.exposed_communication_seconds;
    out += fmt::format("<li{}><span>{}</span><span class=\"track\">{}{}{}</span><b>{}</b></li>\n",
                       s == longest_stage(e) ? " class=\"most\"" : "", stage_name(s),
                       part("compute", stage.compute_seconds),
                       part("communication", stage.exposed_communication_seconds),
                       part("waiting", stage.bubble_seconds), percent_text(busy, e.step_seconds()));
  }
  return out + "</ul>\n";
}

std::string bounds_card(const PageContent& content, const Json& document) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<BarPart> parts;
  for (const StepShare& s : step_shares(e)) {
    const std::string text = seconds_text(s.seconds);
    parts.push_back(
        {s.style, s.name, s.seconds, s.pointer.empty() ? text : figure(document, s.pointer, text)});
  }
  std::string rate;
  if (content.batch.count > 0)
    rate = fmt::format("{} {} a second, ",
                       figure(document, "/tokens_per_second",
                              rate_text(static_cast<double>(content.batch.count) / e.step_seconds())),
                       escaped(content.batch.unit));
  return card_html(
      "What bounds the step?",
      fmt::format("<p class=\"big\">{} <span>a step</span></p>\n{}{}{}<p class=\"fine\">{}{} of the "
                  "devices’ peak (MFU)</p>\n",
                  figure(document, "/step_seconds", seconds_text(e.step_seconds())), bounds_verdict(content),
                  bar_html(parts, e.step_seconds(), "where the time of a step goes"), busy_bars(content),
                  rate, figure(document, "/mfu", percent_text(e.mfu(), 1))));
}

// ---- memory ----

std::string kind_style(std::size_t kind) {
  std::string out = fmt::format("kind-{}", name_of(static_cast<MemoryKind>(kind)));
  std::ranges::replace(out, '_', '-');
  return out;
}

/// The most in use at once, where it is known and less than what is reserved.
std::optional<std::int64_t> used_of(const PageContent& content, const Json& pictures, std::size_t stage) {
  const Estimate& e = stages_of(content.evaluation.estimate)[stage];
  const auto peak = peak_of(pictures, stage);
  const bool is_ours = content.evaluation.estimate.framework == own_framework;
  return peak && is_ours && *peak < e.arena_bytes ? peak : std::nullopt;
}

/// What is reserved and never in use at once, told where it is worth a line.
std::string idle_text(const PageContent& content, const Json& pictures, std::size_t stage) {
  const std::int64_t arena = stages_of(content.evaluation.estimate)[stage].arena_bytes;
  const auto used = used_of(content, pictures, stage);
  if (!used || 200 * (arena - *used) < arena) return "";
  return fmt::format(
      "<p class=\"fine\">This is what is reserved, by what it is for. At most <b data-peak=\"{}\">{}</b> are "
      "in use "
      "at once; the other {} are <i class=\"key idle\"></i> reserved, not in use at once: {}</p>\n",
      *used, bytes_text(*used), bytes_text(arena - *used),
      content.pipeline.micro_batches() > 1
          ? "places of micro-batches that are not there at that moment, and gaps between tensors."
          : "gaps between tensors.");
}

/// A bar for each stage, so that the fullest is seen at once.
std::string stage_bars(const PageContent& content, const Json& document, const Json& pictures,
                       std::size_t fullest) {
  const auto stages = stages_of(content.evaluation.estimate);
  constexpr std::size_t most = 16;
  if (stages.size() < 2 || stages.size() > most) return "";
  std::string out = "<ul class=\"stagebars\">\n";
  const auto width = [&](std::int64_t bytes) {
    return std::min(100.0,
                    100.0 * static_cast<double>(bytes) / static_cast<double>(content.evaluation.cap_bytes));
  };
  for (std::size_t s = 0; s < stages.size(); ++s) {
    const std::int64_t used = used_of(content, pictures, s).value_or(stages[s].arena_bytes);
    out += fmt::format(
        "<li{}><span>{}</span><span class=\"track\"><i class=\"full\" style=\"width:{:.2f}%\"></i>"
        "<i class=\"idle\" style=\"width:{:.2f}%\"></i></span><b>{}</b></li>\n",
        s == fullest ? " class=\"most\"" : "", stage_name(s), width(used),
        width(stages[s].arena_bytes) - width(used),
        figure(document, fmt::format("/memory_bytes/stages/{}/arena", s), bytes_text(stages[s].arena_bytes)));
  }
  return out + "</ul>\n";
}

std::string memory_verdict(const PageContent& content, std::size_t fullest) {
  const Evaluation& evaluation = content.evaluation;
  const Estimate& most = stages_of(evaluation.estimate)[fullest];
  const bool has_stages = evaluation.estimate.stages.size() > 1;
  const int first = content.pipeline.first_rank(static_cast<int>(fullest));
  const int count = content.pipeline.stage(static_cast<int>(fullest)).rank_count();
  std::string out = has_stages ? fmt::format("<strong>{}</strong>{} on device{} {}", stage_name(fullest),
                                             chunks_text(content.pipeline, fullest), count > 1 ? "s" : "",
                                             range_text(first, count))
                               : std::string(count > 1 ? "<strong>All devices alike</strong>"
                                                       : "<strong>The only device</strong>");
  out += fmt::format(": {} of what a device may use", share_text(most.arena_bytes, evaluation.cap_bytes));
  if (!evaluation.fits())
    out += fmt::format("; <strong>it does not fit</strong>, by {}", bytes_text(evaluation.excess_bytes()));
  const auto kind =
      static_cast<std::size_t>(std::ranges::max_element(most.memory.bytes) - most.memory.bytes.begin());
  out += fmt::format(". Most of it: {}", page_words(static_cast<MemoryKind>(kind)));
  if (!most.memory.largest.empty())
    out += "; the largest buffer: " + consumer_html(most.memory.largest.front());
  return "<p>" + out + ".</p>\n";
}

std::string memory_card(const PageContent& content, const Json& document, const Json& pictures) {
  const Evaluation& evaluation = content.evaluation;
  const Estimate& e = evaluation.estimate;
  const auto stages = stages_of(e);
  const auto fullest = at(std::ranges::max_element(stages, {}, &Estimate::arena_bytes) - stages.begin());
  std::vector<BarPart> parts;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    parts.push_back({kind_style(k), page_words(static_cast<MemoryKind>(k)),
                     static_cast<double>(e.memory.bytes[k]),
                     figure(document, fmt::format("/memory_bytes/{}", name_of(static_cast<MemoryKind>(k))),
                            bytes_text(e.memory.bytes[k]))});
  const std::string framework =
      e.framework == own_framework
          ? ""
          : fmt::format("<p class=\"fine\">As {} takes it.</p>\n", escaped(e.framework));
  return card_html(
      e.stages.size() > 1 ? "Which stage is fullest?" : "How full is a device?",
      fmt::format("<p class=\"big\">{} <span>of {}</span></p>\n{}{}{}{}{}",
                  figure(document, "/memory_bytes/arena", bytes_text(e.arena_bytes)),
                  bytes_text(evaluation.cap_bytes), memory_verdict(content, fullest),
                  bar_html(parts, static_cast<double>(std::max(evaluation.cap_bytes, e.arena_bytes)),
                           "memory of the fullest device, by kind, of what it may use"),
                  idle_text(content, pictures, fullest), stage_bars(content, document, pictures, fullest),
                  framework));
}

}  // namespace

std::string share_text(std::int64_t bytes, std::int64_t of) {
  constexpr double seen = 5e-4;  // what rounds to a tenth of a percent
  const auto part = static_cast<double>(bytes), whole = static_cast<double>(of);
  return part < seen * whole ? "less than 0.1%" : percent_text(part, whole);
}

std::string page_words(MemoryKind kind) {
  return kind == MemoryKind::gradients ? "gradients of parameters" : words_of(kind);
}

std::optional<std::int64_t> peak_of(const Json& pictures, std::size_t stage) {
  const Json& memory = pictures.at("memory");
  if (memory.is_null() || !memory.at("stages").at(stage).contains("peak")) return {};
  return memory.at("stages").at(stage).at("peak").at("bytes").get<std::int64_t>();
}

std::string consumer_html(const MemoryConsumer& c) {
  const std::string out =
      fmt::format("{}, {} of {}", code_html(c.name), bytes_text(c.bytes), page_words(c.kind));
  if (c.copies == 1) return out;
  return fmt::format("{} ({} × {}, places of micro-batches in flight)", out, c.copies,
                     bytes_text(c.bytes / c.copies));
}

std::string verdict_cards(const PageContent& content, const Json& document, const Json& pictures) {
  return "<div class=\"cards\">\n" + bounds_card(content, document) +
         memory_card(content, document, pictures) + change_card(content) + "</div>\n";
}

}  // namespace shardwright
