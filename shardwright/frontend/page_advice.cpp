// What would change a plan, for the card of that name: what can be done, said whole, with what it takes.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/explain/other_values.h"
#include "shardwright/explain/unpriced.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"
#include "shardwright/search/automatic/pipeline_seconds.h"

namespace shardwright {
namespace {

/// `2.1% slower`
std::string against_plan(double to, double from) {
  const double percent = 100 * (to / from - 1);
  if (std::abs(percent) < 0.05) return "as fast";
  return fmt::format("{:.1f}% {}", std::abs(percent), percent > 0 ? "slower" : "faster");
}

/// `2253 s a step (0.2% slower), 83.15 GB`
std::string price_html(const Tried& t, double step) {
  return fmt::format("{} a step ({}), {}{}", seconds_text(t.seconds), against_plan(t.seconds, step),
                     bytes_text(std::llround(t.bytes)),
                     t.by == KnownBy::program ? "" : ", by forecast: it was not simulated");
}

std::string percent_less(double to, double from) { return fmt::format("{:.1f}%", 100 * (1 - to / from)); }

// ---- what binds ----

/// Where not all that was looked at has been simulated.
std::string doubts(const std::vector<Tried>& tried, double step) {
  const auto misfits = unpriced(tried, step);
  const auto open = std::ranges::count_if(tried, [&](const Tried& t) {
    return t.fate == Fate::open && is_priced(t) && t.seconds < as_long * step;
  });
  std::string out;
  if (open > 0)
    out += fmt::format(" By forecast {} may be faster; the search ended before it simulated {}.", open,
                       open == 1 ? "it" : "them");
  if (misfits > 0)
    out += fmt::format(" {} that {} not fit may be faster, and {} not simulated.", misfits,
                       misfits == 1 ? "does" : "do", misfits == 1 ? "was" : "were");
  return out;
}

std::string binding_advice(const PageContent& content) {
  const Binding& b = content.bound->binding;
  const std::vector<Tried>& tried = content.bound->tried;
  const Evaluation& evaluation = content.evaluation;
  const double step = evaluation.estimate.step_seconds();
  if (b.by == Limit::memory && !b.misfit) return "";
  if (b.by == Limit::memory)
    return fmt::format(
        "<strong>Memory binds: with more of it a step would be {} shorter.</strong> {} takes {} but {}, {} "
        "more than there is.",
        percent_less(b.misfit->seconds, step), asked_html(*b.misfit, content),
        seconds_text(b.misfit->seconds), bytes_text(std::llround(b.misfit->bytes)),
        bytes_text(std::llround(b.misfit->bytes) - evaluation.cap_bytes));
  if (b.by == Limit::fixed) {
    std::string out = tried.empty() ? "<strong>No other plan was looked at</strong>: "
                                    : "<strong>Only plans with what was fixed were looked at</strong>: ";
    out += code_html(b.fixed) + ".";
    if (!b.other.empty()) out += fmt::format(" {}.", escaped(b.other));
    if (!content.search_call.empty())
      out += fmt::format(" This looks at all others: {}.", command_html(content.search_call));
    return out + doubts(tried, step);
  }
  const std::string& compared = content.plan.compared;
  if (compared.empty() && that_lost(tried).empty()) {
    const std::string& search = content.plan.search;
    return content.plan.devices() == 1 || search.empty() || search == "auto"
               ? ""
               : fmt::format("The search {} compares no whole plans: {} does.", code_html(search),
                             command_html("--search auto"));
  }
  return "<strong>Nothing that was simulated is faster</strong>" +
         (compared.empty() ? "." : fmt::format(" by 0.5% or more: {}.", escaped(compared))) +
         doubts(tried, step);
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

/// The one that takes least memory for little time, and the fastest.
void add_alternatives(std::vector<std::string>& out, const PageContent& content) {
  const Estimate& e = content.evaluation.estimate;
  const double step = e.step_seconds();
  const auto arena = static_cast<double>(e.arena_bytes);
  std::vector<Tried> lost = that_lost(content.bound->tried);
  std::erase_if(lost, [&](const Tried& t) {
    return !fits(t, content.evaluation) || !t.words.empty() || (t.seconds == step && t.bytes == arena);
  });
  std::vector<Tried> lean = lost;
  std::erase_if(lean, [&](const Tried& t) { return !is_near(t, step) || t.bytes > 0.9 * arena; });
  const Tried* leanest = best_of(lean, [](const Tried& a, const Tried& b) { return a.bytes < b.bytes; });
  const Tried* fastest = best_of(lost, [](const Tried& a, const Tried& b) { return a.seconds < b.seconds; });
  if (leanest)
    out.push_back(fmt::format("<strong>{} less memory</strong>: {}: {}.",
                              bytes_text(std::llround(arena - leanest->bytes)), asked_html(*leanest, content),
                              price_html(*leanest, step)));
  if (fastest && (!leanest || asked_text(*fastest) != asked_text(*leanest)))
    out.push_back(fmt::format("<strong>Next best</strong>: {}: {}.", asked_html(*fastest, content),
                              price_html(*fastest, step)));
  if (leanest || fastest)
    out.push_back("<a href=\"#lost\">What lost</a> has the others, with the flag that asks for each.");
}

/// Much of each device is left, and nobody has said how large the batch is.
std::string assumed_advice(const PageContent& content) {
  const Evaluation& evaluation = content.evaluation;
  const std::int64_t samples = content.batch.samples;
  if (!content.report.assumed.batch || samples == 0 ||
      3 * evaluation.estimate.arena_bytes >= evaluation.cap_bytes)
    return "";
  std::string out = fmt::format(
      "<strong>The batch of {} sample{} is assumed</strong>, and devices are {} full: {} gives "
      "them more to do at once.",
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
  const std::string price = price_html(*known, content.evaluation.estimate.step_seconds());
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
      "<strong>{}{} takes {} of the step</strong>", most->style == "again" ? "Computing again" : "W",
      most->style == "again" ? "" : most->name.substr(1), percent_text(most->seconds, e.step_seconds()));
  const std::string ways = most->style == "waiting" ? less_bubble(content) : "";
  out += ways.empty() ? fmt::format(": {} prices other values of {}", ask(most->word), code_html(most->word))
                      : fmt::format("{}. Whether that fits, and what it takes in all, {} simulates, or {}",
                                    ways, ask("micro_batches"), code_html("schedule"));
  if (content.plan_path.empty()) out += fmt::format(" ({} saves the plan)", command_html("-o plan.json"));
  return out + ".";
}

void add_remedies(std::vector<std::string>& items, const PageContent& content) {
  if (content.evaluation.fits()) return;
  for (const Remedy& r : content.remedies.found)
    items.push_back(fmt::format("<strong>It would fit with</strong> {}: {} a step, {}.", code_html(r.change),
                                seconds_text(r.step_seconds), bytes_text(r.memory_bytes)));
  if (content.remedies.found.empty())
    items.push_back(fmt::format("It takes {} more than a device has; no way to make it fit is known here.",
                                bytes_text(content.evaluation.excess_bytes())));
}

}  // namespace

bool fits(const Tried& t, const Evaluation& evaluation) {
  return t.fate != Fate::misfit && std::llround(t.bytes) <= evaluation.cap_bytes;
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

std::string change_card(const PageContent& content) {
  std::vector<std::string> items;
  const auto add = [&](std::string item) {
    if (!item.empty()) items.push_back(std::move(item));
  };
  add_remedies(items, content);
  add(assumed_advice(content));
  if (content.bound) {
    add(binding_advice(content));
    add_alternatives(items, content);
  }
  add(recompute_advice(content));
  add(lever(content));
  if (!content.plan.suggestion.empty()) add("Suggested: " + escaped(content.plan.suggestion) + ".");
  if (items.empty() && content.plan.devices() == 1) add("One device does all of it: nothing is split.");
  if (items.empty())
    add("How this plan was found is not known here: <code>shardwright plan</code> of the model says what "
        "else there is.");
  std::string list;
  for (const std::string& item : items) list += "<li>" + item + "</li>\n";
  return card_html("What would change it?", "<ul class=\"advice\">\n" + list + "</ul>\n");
}

}  // namespace shardwright
