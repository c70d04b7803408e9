// The best change that is known of a plan: what its card says first, with the whole flag and what it gains.

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "shardwright/base/text.h"
#include "shardwright/explain/unpriced.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
bool fits_unfixed(const PageContent& content) {
  if (!content.bound || !content.bound->unfixed || content.evaluation.fits()) return false;
  const Unfixed& u = *content.bound->unfixed;
  const std::vector<Remedy>& others = content.remedies.found;
  return u.fits && (others.empty() || u.step_seconds < others.front().step_seconds);
}

bool promises_more(const Tried& t, const PageContent& content) {
  return t.fate != Fate::taken && is_priced(t) && fits(t, content.evaluation) &&
         t.seconds < as_long * content.evaluation.estimate.step_seconds();
}

namespace {

std::string percent_less(double to, double from) { return fmt::format("{:.1f}%", 100 * (1 - to / from)); }

/// What stands largest on the card, and below it how.
struct Change {
  std::string gain, beside, how;
};

std::string html_of(const Change& c) {
  return fmt::format("<p class=\"big\">{}</p>\n<p class=\"beside\">{}</p>\n<p>{}</p>\n", c.gain, c.beside,
                     c.how);
}

/// `shardwright plan MODEL --devices 8 --fix ..`: the page's command, with what asks for `t`.
std::string call_for(const Tried& t, const PageContent& content) {
  return content.search_call.empty() || !t.words.empty()
             ? ""
             : command_html(fmt::format("{} {}", content.search_call, asked_text(t)));
}

/// The fastest of those; one that was simulated before all others.
const Tried* best_promise(const PageContent& content) {
  const Tried* out = nullptr;
  if (content.bound)
    for (const Tried& t : content.bound->tried)
      if (promises_more(t, content) && (!out || std::tuple(t.by != KnownBy::program, t.seconds) <
                                                    std::tuple(out->by != KnownBy::program, out->seconds)))
        out = &t;
  return out;
}

/// Pre: it is known what the search finds without what was fixed.
std::string leaving_out(const PageContent& content) {
  const Unfixed& u = *content.bound->unfixed;
  return fmt::format(
      "<strong>Leave out</strong> {}{}<br>The search then finds {}: {} a step, {} (simulated).",
      code_html(content.bound->binding.fixed),
      content.search_call.empty() ? "" : ": " + command_html(content.search_call), code_html(u.plan),
      seconds_text(u.step_seconds), bytes_text(u.memory_bytes));
}

/// Without what was fixed, if that is faster than all else that was simulated.
std::optional<Change> of_unfixed(const PageContent& content) {
  if (!content.bound || !content.bound->unfixed) return {};
  const Unfixed& u = *content.bound->unfixed;
  const double step = content.evaluation.estimate.step_seconds();
  const Tried* best = best_promise(content);
  if (!u.fits || u.step_seconds >= as_long * step ||
      (best && best->by == KnownBy::program && best->seconds <= u.step_seconds))
    return {};
  return Change{against_text(u.step_seconds, step),
                content.run ? "without what was fixed, by forecast" : "without what was fixed",
                leaving_out(content)};
}

Change of_misfit(const PageContent& content) {
  const std::string excess = bytes_text(content.evaluation.excess_bytes());
  const std::string now = fmt::format("now it takes {} too much", excess);
  if (fits_unfixed(content)) return {"It would fit", now, leaving_out(content)};
  const Remedy* remedy = content.remedies.found.empty() ? nullptr : &content.remedies.found.front();
  if (!remedy) return {"It does not fit", "by " + excess, "No way to make it fit is known here."};
  return {"It would fit", now,
          fmt::format("<strong>It would fit with</strong> {}: {} a step, {}.", code_html(remedy->change),
                      seconds_text(remedy->step_seconds), bytes_text(remedy->memory_bytes))};
}

Change of_promise(const Tried& t, const PageContent& content) {
  const double step = content.evaluation.estimate.step_seconds();
  const bool is_known = t.by == KnownBy::program;
  const std::string call = call_for(t, content);
  const std::string gain = against_text(t.seconds, step);
  return {is_known ? gain : "Perhaps " + gain,
          !is_known     ? "by forecast: not simulated"
          : content.run ? "is possible, by forecast"
                        : "is possible",
          fmt::format("{}: {} a step, {}{}.{}", asked_html(t, content), seconds_text(t.seconds),
                      bytes_text(std::llround(t.bytes)),
                      is_known ? "" : ". Forecasts err: it may turn out slower, or not to fit",
                      is_known || call.empty() ? "" : fmt::format(" This simulates it: {}", call))};
}

/// `; 3 forecasts are up to 0.4% lower, not simulated`: what fits and takes as long, but that forecasts have it less.
std::string lower_forecasts(const PageContent& content) {
  const double step = content.evaluation.estimate.step_seconds();
  double least = step;
  int count = 0;
  for (const Tried& t : content.bound->tried) {
    if (t.fate == Fate::taken || !is_priced(t) || t.by == KnownBy::program || t.seconds >= step ||
        !fits(t, content.evaluation))
      continue;
    ++count;
    least = std::min(least, t.seconds);
  }
  if (count == 0) return "";
  const std::string by = least > 0.9995 * step ? "less than 0.1%" : "up to " + percent_less(least, step);
  return fmt::format("; {} forecast{} {} lower, not simulated", count, count == 1 ? " is" : "s are", by);
}

/// What there is to say where nothing is faster.
std::string looked_at_text(const PageContent& content) {
  const Bound& bound = *content.bound;
  const std::string& compared = content.plan.compared;
  if (bound.tried.empty() || (compared.empty() && that_lost(bound.tried).empty()))
    return bound.binding.fixed.empty() ? "" : "No other plan with what was fixed was looked at.";
  const auto simulated = std::ranges::count_if(
      bound.tried, [&](const Tried& t) { return t.by == KnownBy::program && fits(t, content.evaluation); });
  const auto& least = content.plan.lower_bound_seconds;
  const double step = content.evaluation.estimate.step_seconds();
  return fmt::format("Among {} that {} simulated and fit{} nothing is faster by 0.5% or more{}.{}", simulated,
                     simulated == 1 ? "was" : "were", simulated == 1 ? "s" : "", lower_forecasts(content),
                     least ? fmt::format(" No plan of this search that fits takes less than {}, {} below.",
                                         seconds_text(*least), percent_less(*least, step))
                           : "");
}

Change of_nothing(const PageContent& content) {
  if (content.plan.devices() == 1) return {"Nothing", "to split", "One device does all of it."};
  if (!content.bound)
    return {"Not known", "here",
            "How this plan was found is not known here: <code>shardwright plan</code> of the model says what "
            "else there is."};
  const std::string looked_at = looked_at_text(content);
  if (!looked_at.empty()) return {"Nothing faster", "that fits was found", looked_at};
  return {"Not known", "here",
          content.plan.search.empty()
              ? "Nothing else was looked at."
              : fmt::format("The search {} compares no whole plans: {} does.", code_html(content.plan.search),
                            command_html("--search auto"))};
}

/// What is measured comes before all that forecasts promise.
Change of_slow_run(const PageContent& content) {
  return {slow_run_remedy(*content.run),
          fmt::format("a step takes {} times as long as by forecast: {} instead of {}",
                      times_forecast_text(content), seconds_text(content.run->median_step_seconds),
                      seconds_text(content.evaluation.estimate.step_seconds())),
          slow_run_html(content)};
}

Change best_by_forecast(const PageContent& content) {
  if (auto change = of_unfixed(content)) return *std::move(change);
  if (const Tried* t = best_promise(content)) return of_promise(*t, content);
  return of_nothing(content);
}

Change best_change(const PageContent& content) {
  if (!content.evaluation.fits()) return of_misfit(content);
  return is_far_from_forecast(content) ? of_slow_run(content) : best_by_forecast(content);
}

// ---- what limits it ----

/// What is faster by forecast, where that is not the best change.
std::string other_promises(const PageContent& content) {
  const Tried* best = best_promise(content);
  if (!best) return "";
  const auto count =
      std::ranges::count_if(content.bound->tried, [&](const Tried& t) { return promises_more(t, content); });
  const std::string all =
      count > 1 ? fmt::format("{} in all are faster by forecast: <a href=\"#lost\">What lost</a>.", count)
                : "";
  if (!of_unfixed(content)) return all;
  return fmt::format(
      "<strong>With what was fixed perhaps {}</strong>: {}: {} a step, {}{}. {}",
      against_text(best->seconds, content.evaluation.estimate.step_seconds()), asked_html(*best, content),
      seconds_text(best->seconds), bytes_text(std::llround(best->bytes)),
      best->by == KnownBy::program ? ""
                                   : ", by forecast: not simulated, it may turn out slower or not to fit",
      all);
}

std::string more_memory(const PageContent& content) {
  const Binding& b = content.bound->binding;
  if (!b.misfit) return "";
  return fmt::format(
      "<strong>With more memory a step would be {} shorter</strong>: {} takes {} but {}, {} more than there "
      "is.",
      percent_less(b.misfit->seconds, content.evaluation.estimate.step_seconds()),
      asked_html(*b.misfit, content), seconds_text(b.misfit->seconds),
      bytes_text(std::llround(b.misfit->bytes)),
      bytes_text(std::llround(b.misfit->bytes) - content.evaluation.cap_bytes));
}

/// What was fixed, where leaving it out is not the best change.
std::string fixed_advice(const PageContent& content) {
  const Bound& bound = *content.bound;
  if (bound.binding.fixed.empty() || !content.evaluation.fits() || of_unfixed(content)) return "";
  const std::string fixed = code_html(bound.binding.fixed);
  if (!bound.unfixed)
    return fmt::format(
        "<strong>Only plans with {} were looked at</strong>: {} prices others.{}", fixed,
        command_html("shardwright " + command_of(bound.binding, content.plan_path.empty()
                                                                    ? "plan.json"
                                                                    : shell_quoted(content.plan_path))),
        bound.binding.other.empty() ? "" : fmt::format(" {}.", escaped(bound.binding.other)));
  const Unfixed& u = *bound.unfixed;
  const double step = content.evaluation.estimate.step_seconds();
  return fmt::format("<strong>Without {}</strong> the search finds {}: {} a step, {}{}.", fixed,
                     u.step_seconds < as_long * step ? "what is " + against_text(u.step_seconds, step)
                                                     : std::string("nothing faster"),
                     seconds_text(u.step_seconds), bytes_text(u.memory_bytes),
                     u.fits ? "" : ", which does not fit");
}

}  // namespace

std::string best_change_html(const PageContent& content) { return html_of(best_change(content)); }

std::string forecast_change_html(const PageContent& content) {
  if (!content.evaluation.fits() || !is_far_from_forecast(content)) return "";
  if (!of_unfixed(content) && !best_promise(content)) return "";
  const Change c = best_by_forecast(content);
  return fmt::format("<strong>{}, by forecast</strong> (of a step of {}): {}", c.gain,
                     seconds_text(content.evaluation.estimate.step_seconds()), c.how);
}

std::string unpriced_html(const PageContent& content) {
  if (!content.bound) return "";
  const auto count = unpriced(content.bound->tried, content.evaluation.estimate.step_seconds());
  if (count == 0) return "";
  return fmt::format("Of {} that {} not fit, by figures alone, it is not known whether {} faster.", count,
                     count == 1 ? "does" : "do", count == 1 ? "it is" : "they are");
}

std::vector<std::string> limits_html(const PageContent& content) {
  if (!content.bound) return {};
  return {fixed_advice(content), other_promises(content), more_memory(content)};
}

}  // namespace shardwright
