// The three questions at the top of a plan's page.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright {
namespace {

std::string card(std::string_view heading, const std::string& content) {
  return fmt::format("<section class=\"card\">\n<h2>{}</h2>\n{}</section>\n", heading, content);
}

/// A share of a step, of which so much is lost.
struct StepShare {
  std::string style, name, pointer;
  double seconds = 0;
  std::string word;  // that `explain PLAN WORD` prices other values of
};

std::vector<StepShare> step_shares(const Estimate& e) {
  const bool repeats = e.recompute_seconds > 0;
  return {
      {"compute", "compute", repeats ? "" : "/compute_seconds", e.compute_seconds - e.recompute_seconds, ""},
      {"again", "computed again", "/recompute_seconds", e.recompute_seconds, "recompute"},
      {"communication", "waiting for communication", "/exposed_communication_seconds",
       e.exposed_communication_seconds, "tp"},
      {"waiting", "waiting for other stages", "/bubble_seconds", e.bubble_seconds, "micro_batches"}};
}

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
  if (e.stages.size() > 1)
    out += fmt::format(" on {}, which works longest", stage_name(content.pipeline, longest_stage(e)));
  const StepShare& second = shares[1];
  if (second.seconds > 0.005 * step)
    out += fmt::format("; next is {}, {}", second.name, percent_text(second.seconds, step));
  return "<p>" + out + ".</p>\n";
}

std::string rate_text(double rate) { return fmt::format("{:.{}f}", rate, rate < 100 ? 1 : 0); }

/// What each stage does in the step, so that the one that works longest is seen at once.
std::string busy_bars(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  constexpr std::size_t most = 16;
  if (e.stages.size() < 2 || e.stages.size() > most) return "";
  const auto part = [&](const char* style, double seconds) {
    return fmt::format("<i class=\"{}\" style=\"width:{:.2f}%\"></i>", style,
                       100 * seconds / e.step_seconds());
  };
  std::string out = "<ul class=\"stagebars\">\n";
  for (std::size_t s = 0; s < e.stages.size(); ++s) {
    const Estimate& stage = e.stages[s];
    const double busy = stage.compute_seconds + stage.exposed_communication_seconds;
    out += fmt::format("<li{}><span>{}</span><span class=\"track\">{}{}{}</span><b>{}</b></li>\n",
                       s == longest_stage(e) ? " class=\"most\"" : "", stage_name(content.pipeline, s),
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
  return card(
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

/// A bar for each stage, so that the fullest is seen at once.
std::string stage_bars(const PageContent& content, const Json& document, std::size_t fullest) {
  const auto stages = stages_of(content.evaluation.estimate);
  constexpr std::size_t most = 16;
  if (stages.size() < 2 || stages.size() > most) return "";
  std::string out = "<ul class=\"stagebars\">\n";
  for (std::size_t s = 0; s < stages.size(); ++s)
    out += fmt::format(
        "<li{}><span>{}</span><span class=\"track\"><i class=\"full\" style=\"width:{:.2f}%\"></i></span>"
        "<b>{}</b></li>\n",
        s == fullest ? " class=\"most\"" : "", stage_name(content.pipeline, s),
        std::min(100.0, 100.0 * static_cast<double>(stages[s].arena_bytes) /
                            static_cast<double>(content.evaluation.cap_bytes)),
        figure(document, fmt::format("/memory_bytes/stages/{}/arena", s), bytes_text(stages[s].arena_bytes)));
  return out + "</ul>\n";
}

std::string memory_verdict(const PageContent& content, std::size_t fullest) {
  const Evaluation& evaluation = content.evaluation;
  const Estimate& most = stages_of(evaluation.estimate)[fullest];
  const bool has_stages = evaluation.estimate.stages.size() > 1;
  const int first = content.pipeline.first_rank(static_cast<int>(fullest));
  const int count = content.pipeline.stage(static_cast<int>(fullest)).rank_count();
  std::string out = has_stages ? fmt::format("<strong>{}</strong> (devices {})",
                                             stage_name(content.pipeline, fullest), range_text(first, count))
                               : std::string(count > 1 ? "<strong>All devices alike</strong>"
                                                       : "<strong>The only device</strong>");
  constexpr double seen = 5e-4;  // what rounds to a tenth of a percent
  const auto bytes = static_cast<double>(most.arena_bytes), cap = static_cast<double>(evaluation.cap_bytes);
  out += fmt::format(": {} of what a device may use",
                     bytes < seen * cap ? "less than 0.1%" : percent_text(bytes, cap));
  if (!evaluation.fits())
    out += fmt::format("; <strong>it does not fit</strong>, by {}", bytes_text(evaluation.excess_bytes()));
  const auto kind =
      static_cast<std::size_t>(std::ranges::max_element(most.memory.bytes) - most.memory.bytes.begin());
  out += fmt::format(". Most of it: {}", words_of(static_cast<MemoryKind>(kind)));
  if (!most.memory.largest.empty()) {
    const MemoryConsumer& c = most.memory.largest.front();
    out += fmt::format("; the largest tensor is {}, {}", code_html(c.name), bytes_text(c.bytes));
  }
  return "<p>" + out + ".</p>\n";
}

std::string memory_card(const PageContent& content, const Json& document) {
  const Evaluation& evaluation = content.evaluation;
  const Estimate& e = evaluation.estimate;
  const auto stages = stages_of(e);
  const auto fullest = at(std::ranges::max_element(stages, {}, &Estimate::arena_bytes) - stages.begin());
  std::vector<BarPart> parts;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    parts.push_back({kind_style(k), words_of(static_cast<MemoryKind>(k)),
                     static_cast<double>(e.memory.bytes[k]),
                     figure(document, fmt::format("/memory_bytes/{}", name_of(static_cast<MemoryKind>(k))),
                            bytes_text(e.memory.bytes[k]))});
  const std::string framework =
      e.framework == own_framework
          ? ""
          : fmt::format("<p class=\"fine\">As {} takes it.</p>\n", escaped(e.framework));
  return card(e.stages.size() > 1 ? "Which stage is fullest?" : "How full is a device?",
              fmt::format("<p class=\"big\">{} <span>of {}</span></p>\n{}{}{}{}",
                          figure(document, "/memory_bytes/arena", bytes_text(e.arena_bytes)),
                          bytes_text(evaluation.cap_bytes), memory_verdict(content, fullest),
                          bar_html(parts, static_cast<double>(std::max(evaluation.cap_bytes, e.arena_bytes)),
                                   "memory of the fullest device, by kind, of what it may use"),
                          stage_bars(content, document, fullest), framework));
}

// ---- what would change it ----

std::string signed_percent(double to, double from) {
  const double percent = 100 * (to / from - 1);
  if (percent == 0) return "as fast";
  if (std::abs(percent) < 0.05) return fmt::format("less than 0.1% {}", percent > 0 ? "slower" : "faster");
  return fmt::format("{:.1f}% {}", std::abs(percent), percent > 0 ? "slower" : "faster");
}

/// The words of `text` that `from` does not have: what is otherwise. Those that only `from` has are left to the whole text.
std::string other_words(std::string_view text, std::string_view from) {
  const auto known = split(from, ',');
  std::string out;
  for (std::string_view word : split(text, ','))
    if (std::ranges::find(known, word) == known.end())
      out += fmt::format("{}{}", out.empty() ? "" : ",", word);
  return out;
}

/// A plan by what it has otherwise; the table of what lost has all of it.
std::string with_html(const Tried& t, const PageContent& content) {
  const Wording asked = wording_of(t);
  const bool is_of_words = !asked.flag.empty() && !content.plan.structure.empty() &&
                           asked.text.find_first_of("{*") == std::string::npos;
  if (!is_of_words) return "With " + code_html(asked_text(t));
  const std::string other = other_words(asked.text, content.plan.structure);
  if (!other.empty()) return "With " + code_html(other);
  const std::string less = other_words(content.plan.structure, asked.text);
  return less.empty() ? "With " + code_html(asked_text(t)) : "Without " + code_html(less);
}

std::string price_html(const Tried& t) {
  return fmt::format("{}{}, {}", t.by == KnownBy::program ? "" : "about ", seconds_text(t.seconds),
                     bytes_text(std::llround(t.bytes)));
}

std::string binding_advice(const PageContent& content) {
  const Binding& b = content.bound->binding;
  const Evaluation& evaluation = content.evaluation;
  if (b.by == Limit::memory && b.misfit)
    return fmt::format(
        "<strong>Memory keeps it from being faster.</strong> {} it is {}, but needs {} more than there "
        "is ({}).",
        with_html(*b.misfit, content), signed_percent(b.misfit->seconds, evaluation.estimate.step_seconds()),
        bytes_text(std::llround(b.misfit->bytes) - evaluation.cap_bytes), price_html(*b.misfit));
  if (b.by == Limit::memory) return "";
  if (b.by == Limit::fixed)
    return fmt::format("<strong>What was fixed keeps it as it is</strong>: {}{}. {} prices others.",
                       code_html(b.fixed), b.other.empty() ? "" : "; " + escaped(b.other),
                       code_html(command_of(b)));
  const std::string& compared = content.plan.compared;
  return "<strong>Nothing that was looked at is faster</strong>, with or without more memory" +
         (compared.empty() ? "." : fmt::format(": {}.", escaped(compared)));
}

/// The best that lost, and the one that saves most memory for little time.
void add_alternatives(std::vector<std::string>& out, const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  const double step = e.step_seconds();
  const auto arena = static_cast<double>(e.arena_bytes);
  std::vector<Tried> lost = that_lost(content.bound->tried);
  std::erase_if(lost, [&](const Tried& t) {
    return t.fate == Fate::misfit || (t.seconds == step && t.bytes == arena);
  });
  if (lost.empty()) return;
  const Tried* lean = nullptr;
  constexpr double little_time = 1.1, less = 0.9;
  for (const Tried& t : lost)
    if (t.seconds < little_time * step && t.bytes < less * arena && (!lean || t.bytes < lean->bytes))
      lean = &t;
  if (lean)
    out.push_back(fmt::format("<strong>Less memory.</strong> {} it takes {} less and is {} ({}).",
                              with_html(*lean, content), bytes_text(std::llround(arena - lean->bytes)),
                              signed_percent(lean->seconds, step), price_html(*lean)));
  if (lean != &lost.front())
    out.push_back(fmt::format("<strong>Next best.</strong> {} it is {} ({}).",
                              with_html(lost.front(), content), signed_percent(lost.front().seconds, step),
                              price_html(lost.front())));
  out.push_back("<a href=\"#lost\">What lost</a> has all that was priced, with the flag that asks for each.");
}

/// The largest loss of time has a word of the plan that others can be priced of.
std::string lever(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<StepShare> shares = step_shares(e);
  shares.erase(shares.begin());  // compute itself
  const auto most = std::ranges::max_element(shares, {}, &StepShare::seconds);
  constexpr double worth_a_line = 0.02;
  if (content.plan.devices() == 1 || most->seconds < worth_a_line * e.step_seconds()) return "";
  if (!has_other_values(most->word)) return "";
  const std::string file = content.plan_path.empty() ? "plan.json" : content.plan_path;
  std::string out = fmt::format(
      "{} {} of the step: {} prices other values of {}",
      most->style == "again" ? "Computing again takes" : fmt::format("W{} takes", most->name.substr(1)),
      percent_text(most->seconds, e.step_seconds()),
      code_html(fmt::format("shardwright explain {} {}", file, most->word)), code_html(most->word));
  if (content.plan_path.empty()) out += fmt::format(" ({} saves the plan)", code_html("-o plan.json"));
  return out + ".";
}

std::string change_card(const PageContent& content) {
  std::vector<std::string> items;
  const Evaluation& evaluation = content.evaluation;
  if (!evaluation.fits()) {
    for (const Remedy& r : content.remedies.found)
      items.push_back(fmt::format("It would fit with {}: {}, {}.", code_html(r.change),
                                  seconds_text(r.step_seconds), bytes_text(r.memory_bytes)));
    if (content.remedies.found.empty())
      items.push_back(fmt::format("It takes {} more than a device has; no way to make it fit is known here.",
                                  bytes_text(evaluation.excess_bytes())));
  }
  if (content.bound) {
    const std::string advice = binding_advice(content);
    if (!advice.empty()) items.push_back(advice);
    add_alternatives(items, content);
  }
  if (!content.plan.suggestion.empty())
    items.push_back("Suggested: " + escaped(content.plan.suggestion) + ".");
  if (const std::string more = lever(content); !more.empty()) items.push_back(more);
  if (items.empty() && content.plan.devices() == 1)
    items.push_back("One device does all of it: nothing is split.");
  if (items.empty())
    items.push_back(
        "How this plan was found is not known here: <code>shardwright plan</code> of the model says what "
        "else there is.");
  std::string list;
  for (const std::string& item : items) list += "<li>" + item + "</li>\n";
  return card("What would change it?", "<ul class=\"advice\">\n" + list + "</ul>\n");
}

}  // namespace

std::string verdict_cards(const PageContent& content, const Json& document) {
  return "<div class=\"cards\">\n" + bounds_card(content, document) + memory_card(content, document) +
         change_card(content) + "</div>\n";
}

}  // namespace shardwright
