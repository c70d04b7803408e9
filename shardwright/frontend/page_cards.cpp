// The three questions at the top of a plan's page.

#include <fmt/format.h>

#include <algorithm>
#include <array>
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

double busy_seconds(const Estimate& stage) {
  return stage.compute_seconds + stage.exposed_communication_seconds;
}

/// The stage that is busy longest: the parts of the step are its. Another may compute longer.
std::size_t busiest_stage(const Estimate& e) {
  const auto stages = stages_of(e);
  return at(std::ranges::max_element(stages, {}, busy_seconds) - stages.begin());
}

std::string bounds_verdict(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<StepShare> shares = step_shares(e);
  shares[0].seconds += shares[1].seconds, shares[1].seconds = 0;  // to compute again is to compute
  std::ranges::stable_sort(shares, std::ranges::greater(), &StepShare::seconds);
  const double step = e.step_seconds();
  const StepShare& first = shares.front();
  std::string out = first.style == "compute"         ? "Compute"
                    : first.style == "communication" ? "Waiting for communication"
                                                     : "Waiting for other stages";
  out = fmt::format("<strong>{} bounds the step</strong>: {} of it", out, percent_text(first.seconds, step));
  if (first.style == "compute" && e.recompute_seconds > 0)
    out += fmt::format(" ({} to compute again)", percent_text(e.recompute_seconds, step));
  if (e.stages.size() > 1) {
    const std::size_t busiest = busiest_stage(e);
    out += fmt::format(" on {}, the busiest stage", stage_name(busiest));
  }
  const StepShare& second = shares[1];
  if (second.seconds > 0.005 * step)
    out += fmt::format("; next is {}, {}", second.name, percent_text(second.seconds, step));
  return "<p>" + out + ".</p>\n";
}

/// What each stage does in the step, so that the one that is busy longest is seen at once.
std::string busy_bars(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  constexpr std::size_t most = 16;
  if (e.stages.size() < 2 || e.stages.size() > most) return "";
  const auto part = [&](const char* style, double seconds) {
    return fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", style,
                       100 * seconds / e.step_seconds());
  };
  std::string out =
      "<ul class=\"stagebars\">\n<li class=\"head\">Stage by stage, in the same colours; in numbers how much "
      "of the step it is busy: computes, or waits for communication</li>\n";
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const Estimate& stage = e.stages[s];
    out += fmt::format(
        "<li{}><span>{}</span><span class=\"track\">{}{}{}</span><b>{}</b></li>\n",
        s == busiest_stage(e) ? " class=\"most\"" : "", stage_name(s), part("compute", stage.compute_seconds),
        part("communication", stage.exposed_communication_seconds), part("waiting", stage.bubble_seconds),
        percent_text(busy_seconds(stage), e.step_seconds()));
  }
  return out + "</ul>\n";
}

/// Where compute bounds the step and yet is far from the peak.
std::string kernels_text(const Estimate& e) {
  const double while_computing = e.mfu() * e.step_seconds() / (e.compute_seconds - e.recompute_seconds);
  return e.mfu() > 0 && while_computing < 0.9
             ? fmt::format("; of the compute alone {}: kernels do not reach the peak",
                           percent_text(while_computing, 1))
             : "";
}

std::string bounds_card(const PageContent& content, const Json& document) {
  if (content.run) return measured_card(content, document);
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
                  "devices’ peak (MFU){}</p>\n",
                  figure(document, "/step_seconds", seconds_text(e.step_seconds())), bounds_verdict(content),
                  bar_html(parts, e.step_seconds(), "where the time of a step goes"), busy_bars(content),
                  rate, figure(document, "/mfu", percent_text(e.mfu(), 1)), kernels_text(e)));
}

// ---- memory ----

std::string kind_style(std::size_t kind) {
  std::string out = fmt::format("kind-{}", name_of(static_cast<MemoryKind>(kind)));
  std::ranges::replace(out, '_', '-');
  return out;
}

/// The most in use at once, where it is known; at most what is reserved.
std::optional<std::int64_t> used_of(const PageContent& content, const Json& pictures, std::size_t stage) {
  const Estimate& e = stages_of(content.evaluation.estimate)[stage];
  const auto peak = peak_of(pictures, stage);
  const bool is_ours = content.evaluation.estimate.framework == own_framework;
  return peak && is_ours && *peak <= e.arena_bytes ? peak : std::nullopt;
}

/// Whether bars of the cap's length would be slivers.
bool is_cap_far(const PageContent& content) {
  return 8 * content.evaluation.estimate.arena_bytes < content.evaluation.cap_bytes;
}
/// What a bar's length stands for.
double bar_bytes(const PageContent& content) {
  const std::int64_t arena = content.evaluation.estimate.arena_bytes;
  return static_cast<double>(is_cap_far(content) ? arena : std::max(content.evaluation.cap_bytes, arena));
}

/// What the fullest stage holds: at its fullest moment, which is drawn, too; or else as the document counts what is reserved.
struct Held {
  std::array<double, memory_kinds> bytes{};
  std::vector<BarPart> parts;
  std::string note;  // below them
};

Held held_then(const PageContent& content, const Json& pictures, std::size_t stage, std::int64_t used) {
  const Json& peak = pictures.at("memory").at("stages").at(stage).at("peak");
  const std::int64_t idle = stages_of(content.evaluation.estimate)[stage].arena_bytes - used;
  Held out;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    const auto bytes = peak.at("kinds").at(k).get<std::int64_t>();
    out.bytes[k] = static_cast<double>(bytes);
    out.parts.push_back({kind_style(k), page_words(static_cast<MemoryKind>(k)), out.bytes[k],
                         fmt::format("<span data-peak-kind=\"{}\" data-value=\"{}\">{}</span>", k, bytes,
                                     bytes_text(bytes))});
  }
  out.parts.push_back({"idle", "reserved, not in use then", static_cast<double>(idle), bytes_text(idle)});
  out.note = fmt::format(
      "<p class=\"fine\">All this is reserved; by kind as it is in use at the fullest moment of {}, at {}, "
      "when <b "
      "data-peak=\"{}\">{}</b> are.</p>\n",
      content.evaluation.estimate.stages.size() > 1 ? stage_name(stage) : "the step",
      seconds_text(peak.at("seconds").get<double>()), used, bytes_text(used));
  return out;
}

/// Where another stage has more in use than the one that reserves most: which, and when.
std::string most_used_note(const PageContent& content, const Json& pictures, std::size_t fullest) {
  const auto stages = stages_of(content.evaluation.estimate);
  const auto own = used_of(content, pictures, fullest);
  std::size_t most = fullest;
  for (std::size_t s = 0; own && s < stages.size(); ++s)
    if (used_of(content, pictures, s).value_or(0) > *used_of(content, pictures, most)) most = s;
  if (most == fullest) return "";
  const Json& peak = pictures.at("memory").at("stages").at(most).at("peak");
  return fmt::format(
      "<p class=\"fine\">Most in use at once has {}: {}, at {}; what counts is what is reserved.</p>\n",
      stage_name(most), bytes_text(peak.at("bytes").get<std::int64_t>()),
      seconds_text(peak.at("seconds").get<double>()));
}

Held held_of(const PageContent& content, const Json& document, const Json& pictures, std::size_t stage) {
  if (const auto used = used_of(content, pictures, stage)) {
    Held out = held_then(content, pictures, stage, *used);
    out.note += most_used_note(content, pictures, stage);
    return out;
  }
  Held out;
  const Estimate& e = content.evaluation.estimate;
  for (std::size_t k = 0; k < memory_kinds; ++k) {
    out.bytes[k] = static_cast<double>(e.memory.bytes[k]);
    out.parts.push_back(
        {kind_style(k), page_words(static_cast<MemoryKind>(k)), out.bytes[k],
         figure(document, fmt::format("/memory_bytes/{}", name_of(static_cast<MemoryKind>(k))),
                bytes_text(e.memory.bytes[k]))});
  }
  return out;
}

/// A bar for each stage, so that the fullest is seen at once.
std::string stage_bars(const PageContent& content, const Json& document, const Json& pictures,
                       std::size_t fullest) {
  const auto stages = stages_of(content.evaluation.estimate);
  constexpr std::size_t most = 16;
  if (stages.size() < 2 || stages.size() > most) return "";
  std::string out =
      fmt::format("<ul class=\"stagebars\">\n<li class=\"head\">What each stage reserves, of {}</li>\n",
                  is_cap_far(content) ? "what the fullest does" : "what a device may use");
  const auto width = [&](std::int64_t bytes) {
    return std::min(100.0, 100.0 * static_cast<double>(bytes) / bar_bytes(content));
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

std::string memory_verdict(const PageContent& content, std::size_t fullest, const Held& held) {
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
  out += fmt::format("{}: {} of what a device may use", has_stages ? " reserves most" : "",
                     share_text(most.arena_bytes, evaluation.cap_bytes));
  constexpr double tight = 0.97;
  if (const std::int64_t left = evaluation.cap_bytes - most.arena_bytes;
      left >= 0 && static_cast<double>(most.arena_bytes) > tight * static_cast<double>(evaluation.cap_bytes))
    out += fmt::format(", only {} left", bytes_text(left));
  if (!evaluation.fits())
    out += fmt::format("; <strong>it does not fit</strong>, by {}", bytes_text(evaluation.excess_bytes()));
  const auto kind = at(std::ranges::max_element(held.bytes) - held.bytes.begin());
  out += fmt::format(". Most of it: {}", page_words(static_cast<MemoryKind>(kind)));
  if (!most.memory.largest.empty())
    out += "; the largest buffer: " + consumer_html(most.memory.largest.front());
  return "<p>" + out + ".</p>\n";
}

std::string memory_card(const PageContent& content, const Json& document, const Json& pictures) {
  const Evaluation& evaluation = content.evaluation;
  const Estimate& e = evaluation.estimate;
  const std::size_t fullest = fullest_stage(e);
  const Held held = held_of(content, document, pictures, fullest);
  const std::string far = is_cap_far(content)
                              ? "<p class=\"fine\">Bars and their percentages are of what is "
                                "reserved, as a device may use far more.</p>\n"
                              : "<p class=\"fine\">Percentages are of what a device may use.</p>\n";
  const std::string framework =
      e.framework == own_framework
          ? ""
          : fmt::format("<p class=\"fine\">As {} takes it.</p>\n", escaped(e.framework));
  return card_html(
      e.stages.size() > 1 ? "Which stage is fullest?" : "How full is a device?",
      fmt::format("<p class=\"big\">{} <span>reserved, of {}</span></p>\n{}{}{}{}{}{}",
                  figure(document, "/memory_bytes/arena", bytes_text(e.arena_bytes)),
                  bytes_text(evaluation.cap_bytes), memory_verdict(content, fullest, held),
                  bar_html(held.parts, bar_bytes(content), "memory of the fullest device, by kind"),
                  held.note, far, stage_bars(content, document, pictures, fullest), framework));
}

}  // namespace

std::size_t fullest_stage(const Estimate& e) {
  const auto stages = stages_of(e);
  return at(std::ranges::max_element(stages, {}, &Estimate::arena_bytes) - stages.begin());
}

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
