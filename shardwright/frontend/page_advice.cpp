// What would make a plan faster, or fit, for the card of that name: below the best change (page_change.cpp) what else can be
// done, said whole, with what it takes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <optional>
#include <span>

#include "shardwright/base/text.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright {
namespace {

/// `2253 s a step (0.2% slower), 83.15 GB`; beside the plan's forecast, whatever was measured.
std::string price_html(const Tried& t, const PageContent& content) {
  return fmt::format("{} a step{} ({}), {}{}", seconds_text(t.seconds), content.run ? " by forecast" : "",
                     against_text(t.seconds, content.evaluation.estimate.step_seconds()),
                     bytes_text(std::llround(t.bytes)),
                     t.by == KnownBy::program ? ""
                     : content.run            ? ""
                                              : ", by forecast: it was not simulated");
}

// ---- what else there is ----

bool is_near(const Tried& t, double step) { return t.seconds <= 1.05 * step; }

/// Of those that fit the one for which `is_better`; one that was simulated before all others.
template <class IsBetter>
const Tried* best_of(const std::vector<Tried>& lost, IsBetter is_better) {
  const Tried* out = nullptr;
  for (const Tried& t : lost) {
    const bool is_known = t.by == KnownBy::program;
    if (out && (out->by == KnownBy::program) != is_known ? !is_known : out && !is_better(t, *out)) continue;
    out = &t;
  }
  return out;
}

/// What fits and promises no more than the plan, which it is not.
std::vector<Tried> others_that_fit(const PageContent& content) {
  std::vector<Tried> out = that_lost(content.bound->tried);
  std::erase_if(out, [&](const Tried& t) {
    return !fits(t, content.evaluation) || !t.words.empty() || promises_more(t, content) ||
           is_same(t, content.evaluation);
  });
  return out;
}

/// The one that takes least memory for little time.
std::optional<Tried> leanest(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<Tried> lean = others_that_fit(content);
  std::erase_if(lean, [&](const Tried& t) {
    return !is_near(t, e.step_seconds()) || t.bytes > 0.95 * static_cast<double>(e.arena_bytes);
  });
  const Tried* out = best_of(lean, [](const Tried& a, const Tried& b) { return a.bytes < b.bytes; });
  return out ? std::optional(*out) : std::nullopt;
}

std::string less_memory(const PageContent& content) {
  if (!content.bound || content.bound->tried.empty() || !content.evaluation.fits()) return "";
  const Estimate& e = content.evaluation.estimate;
  const auto least = leanest(content);
  const bool is_tight = 2 * e.arena_bytes > content.evaluation.cap_bytes;
  if (!least) return is_tight ? "<strong>Smaller</strong>: no other plan for at most 5% more time." : "";
  return fmt::format("<strong>Smaller: {} less memory</strong>: {}: {}.",
                     bytes_text(e.arena_bytes - std::llround(least->bytes)), asked_html(*least, content),
                     price_html(*least, content));
}

/// The fastest, where it was not said yet.
std::string next_best(const PageContent& content) {
  const std::vector<Tried> others = others_that_fit(content);
  const auto least = leanest(content);
  const Tried* fastest =
      best_of(others, [](const Tried& a, const Tried& b) { return a.seconds < b.seconds; });
  if (!fastest || (least && asked_text(*fastest) == asked_text(*least))) return "";
  return fmt::format(
      "<strong>Next best</strong>: {}: {}. <a href=\"#lost\">What lost</a> has all others, with the flag "
      "that "
      "asks for each.",
      asked_html(*fastest, content), price_html(*fastest, content));
}

/// Much of each device is left, and nobody has said how large the batch is.
std::string assumed_advice(const PageContent& content) {
  const Evaluation& evaluation = content.evaluation;
  const std::int64_t samples = content.batch.samples;
  if (!content.report.assumed.batch || samples == 0 ||
      3 * evaluation.estimate.arena_bytes >= evaluation.cap_bytes)
    return "";
  std::string out = fmt::format(
      "<strong>More to do at once</strong>: the batch of {} sample{} is assumed, and devices are {} full: {} "
      "says another.",
      samples, samples == 1 ? "" : "s", share_text(evaluation.estimate.arena_bytes, evaluation.cap_bytes),
      command_html("--global-batch N"));
  if (content.report.assumed.precision)
    out += fmt::format(" {} is assumed, too ({}).", escaped(to_text(content.plan.origin.precision)),
                       command_html("--precision"));
  return out;
}

/// As the summary has it: against the same plan without.
std::string recompute_advice(const PageContent& content) {
  const std::string& text = content.report.recompute.text;
  return text.empty() ? "" : "<strong>What recompute costs and saves</strong>: " + escaped(text) + ".";
}

// ---- the largest loss of time ----

/// Of a step, where stages are alike and forwards take half as long as backwards.
double shape_bubble(const Pipelining& p) {
  const automatic::Pass pass{.forward = 1, .backward = 2};
  const std::vector<automatic::Pass> stages(static_cast<std::size_t>(p.stages), pass);
  return 1 - p.micro_batches * pass.all() / automatic::pipeline_seconds(p, stages);
}

/// The plan but for its micro-batches and their order, if that was looked at and has a price.
const Tried* looked_at(const PageContent& content, const Pipelining& other) {
  if (!content.bound) return nullptr;
  const std::vector<Tried>& tried = content.bound->tried;
  const auto taken = std::ranges::find(tried, Fate::taken, &Tried::fate);
  if (taken == tried.end() || !taken->words.empty()) return nullptr;
  Constraints asked = taken->structure;
  asked.micro_batches = other.micro_batches;
  asked.schedule = other.schedule;
  const auto found = std::ranges::find_if(
      tried, [&](const Tried& t) { return t.words.empty() && is_priced(t) && t.structure == asked; });
  return found == tried.end() ? nullptr : &*found;
}

/// Where it was looked at what it takes, or else what stages would wait if their schedule alone counted.
std::string less_waiting(const PageContent& content, const Pipelining& other) {
  const Tried* known = looked_at(content, other);
  if (!known) return fmt::format("{:.1f}% by the schedule’s shape", 100 * shape_bubble(other));
  const std::string price = price_html(*known, content);
  return fits(*known, content.evaluation) ? price : "does not fit: " + price;
}

/// What would leave less bubble, where it is that of the schedule's shape.
std::string less_bubble(const PageContent& content) {
  const Pipelining& p = content.plan.settings.pipelining;
  const Estimate& e = content.evaluation.estimate;
  const double bubble = e.bubble_seconds / e.step_seconds();
  if (p.stages == 1 || std::abs(bubble - shape_bubble(p)) > 0.2 * bubble) return "";
  Pipelining more = p, chunks = p;
  more.micro_batches *= 2;
  chunks.schedule = Schedule::interleaved(2);
  std::vector<std::string> ways;
  const auto add = [&](const std::string& words, const Pipelining& other) {
    ways.push_back(fmt::format("{} ({})", code_html(words), less_waiting(content, other)));
  };
  if (content.batch.samples % (std::int64_t{more.batch_parts()} * replicas_of(content.plan)) == 0)
    add(fmt::format("micro_batches={}", more.micro_batches), more);
  if (p.schedule == Schedule{} && p.micro_batches % p.stages == 0) add("schedule=interleaved:2", chunks);
  if (ways.empty()) return "";
  return fmt::format(", as {} stages with {} micro-batches must. They would wait less with {}", p.stages,
                     p.micro_batches, join(ways, " or "));
}

/// It has a word of the plan that others can be priced of.
std::string lever(const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  std::vector<StepShare> shares = step_shares(e);
  shares.erase(shares.begin());  // compute itself
  const auto most = std::ranges::max_element(shares, {}, &StepShare::seconds);
  constexpr double worth_a_line = 0.02;
  if (content.plan.devices() == 1 || most->seconds < worth_a_line * e.step_seconds()) return "";
  if (!has_other_values(most->word)) return "";
  const std::string file = content.plan_path.empty() ? "plan.json" : shell_quoted(content.plan_path);
  const auto ask = [&](const std::string& word) {
    return command_html(fmt::format("shardwright explain {} {}", file, word));
  };
  std::string out = fmt::format(
      "<strong>{}{} takes {} of the step{}</strong>", most->style == "again" ? "Computing again" : "W",
      most->style == "again" ? "" : most->name.substr(1), percent_text(most->seconds, e.step_seconds()),
      content.run ? " by forecast" : "");
  const std::string ways = most->style == "waiting" ? less_bubble(content) : "";
  out += ways.empty() ? fmt::format(": {} prices other values of {}", ask(most->word), code_html(most->word))
                      : fmt::format("{}. Whether that fits, and what it takes in all, {} simulates, or {}",
                                    ways, ask("micro_batches"), code_html("schedule"));
  if (content.plan_path.empty()) out += fmt::format(" ({} saves the plan)", command_html("-o plan.json"));
  return out + ".";
}

/// Where the run's steps are as long as by forecast, though devices share cores: what stands first is another change.
std::string run_advice(const PageContent& content) {
  const bool is_first = is_far_from_forecast(content) && content.evaluation.fits();
  return content.run && !is_first && takes_turns(*content.run) ? slow_run_html(content) : "";
}

void add_remedies(std::vector<std::string>& items, const PageContent& content) {
  if (content.evaluation.fits()) return;
  const std::vector<Remedy>& found = content.remedies.found;
  const std::size_t first =
      fits_unfixed(content) ? 0 : std::min<std::size_t>(1, found.size());  // stands above
  for (const Remedy& r : std::span(found).subspan(first))
    items.push_back(fmt::format("Or with {}: {} a step, {}.", code_html(r.change),
                                seconds_text(r.step_seconds), bytes_text(r.memory_bytes)));
}

}  // namespace

bool fits(const Tried& t, const Evaluation& evaluation) {
  return t.fate != Fate::misfit && std::llround(t.bytes) <= evaluation.cap_bytes;
}

bool is_same(const Tried& t, const Evaluation& evaluation) {
  const Estimate& e = evaluation.estimate;
  return t.by == KnownBy::program && t.seconds == e.step_seconds() && std::llround(t.bytes) == e.arena_bytes;
}

std::string asked_html(const Tried& t, const PageContent& content) {
  const Wording asked = wording_of(t);
  if (asked.flag.empty()) return "<code>" + escaped(asked.text) + "</code>";
  const auto& tried = content.bound->tried;
  const auto taken = std::ranges::find(tried, Fate::taken, &Tried::fate);
  const std::string own =
      taken != tried.end() && taken->words.empty() ? wording_of(*taken).text : content.plan.structure;
  const auto known = split(own, ','), words = split(asked.text, ',');
  const bool needs_quotes = shell_quoted(asked.text) != asked.text;
  std::string out =
      fmt::format("<code><span class=\"flag\">{}</span> {}", asked.flag, needs_quotes ? "'" : "");
  for (std::size_t i = 0; i < words.size(); ++i) {
    const bool is_other = !own.empty() && std::ranges::find(known, words[i]) == known.end();
    const std::string word = escaped(words[i]);
    out += fmt::format("{}{}", i == 0 ? "" : ",<wbr>", is_other ? "<mark>" + word + "</mark>" : word);
  }
  out += needs_quotes ? "'</code>" : "</code>";
  // What only the plan says.
  std::vector<std::string> without;
  for (std::string_view word : known) {
    const std::string_view name = word.substr(0, word.find('=') + 1);
    if (name.ends_with('=') &&
        std::ranges::none_of(words, [&](std::string_view w) { return w.starts_with(name); }))
      without.emplace_back(word);
  }
  return without.empty() ? out : fmt::format("{} (without {})", out, code_html(join(without, ",")));
}

namespace {

std::string list_html(const std::vector<std::string>& items) {
  std::string out;
  for (const std::string& item : items)
    if (!item.empty()) out += "<li>" + item + "</li>\n";
  return out.empty() ? "" : "<ul class=\"advice\">\n" + out + "</ul>\n";
}

}  // namespace

std::string change_card(const PageContent& content) {
  std::vector<std::string> first, more;
  add_remedies(first, content);
  first.push_back(run_advice(content));
  first.push_back(forecast_change_html(content));
  first.push_back(less_memory(content));
  for (std::string& limit : limits_html(content)) first.push_back(std::move(limit));
  first.push_back(assumed_advice(content));
  if (content.bound) more.push_back(next_best(content));
  // Where nothing is known of how it was found these are all there is.
  for (std::string (*advice)(const PageContent&) : {recompute_advice, lever})
    (content.bound ? more : first).push_back(advice(content));
  more.push_back(unpriced_html(content));
  if (content.bound && !content.plan.compared.empty())
    more.push_back(fmt::format("<strong>How it was searched</strong>: {}.", escaped(content.plan.compared)));
  if (!content.plan.suggestion.empty())
    more.push_back("Suggested: " + escaped(content.plan.suggestion) + ".");
  std::string folded = list_html(more);
  if (!folded.empty())
    folded = "<details class=\"else\"><summary>What else there is</summary>\n" + folded + "</details>\n";
  return card_html(
      content.evaluation.fits() ? "What would make it faster, or smaller?" : "What would make it fit?",
      best_change_html(content) + list_html(first) + folded);
}

}  // namespace shardwright
