// What a training has told, beside its plan: the card that says it first, and the part with losses and tables.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
namespace {

/// Beyond so many times the forecast other forecasts say little of this host.
constexpr double much_longer = 1.5;

/// How the page calls the terms of a comparison, and colours them.
struct Term {
  std::string_view name, style, words;
};
constexpr std::array<Term, 5> terms{{{"compute", "compute", "compute"},
                                     {"communication", "communication", "waiting for communication"},
                                     {"bubble", "waiting", "waiting for other stages"},
                                     {"recompute", "again", "computed again"},
                                     {"other", "between", "between operators"}}};

const Term& term_of(const ComparedPart& part) { return *std::ranges::find(terms, part.name, &Term::name); }

std::string pointer_of(std::size_t term, std::string_view whose) {
  return fmt::format("/run/compare_plan/terms/{}/{}_seconds", term, whose);
}

double more_of(const ComparedPart& p) { return p.measured_seconds - p.predicted_seconds; }

std::string more_text(double seconds) {
  return fmt::format("{} {}", seconds_text(std::abs(seconds)), seconds < 0 ? "less" : "more");
}

/// `A step takes 1.156 s more than by forecast, 6.11 times it: most of it compute, 656 ms more in the recorded step`. Of a step the
/// run's median, on which the card's first line is.
std::string difference_text(const PageContent& content) {
  const StepComparison& c = *content.run->comparison;
  const double more = content.run->median_step_seconds - content.evaluation.estimate.step_seconds();
  std::string out = fmt::format("A step takes {} than by forecast, {} times it", more_text(more),
                                times_forecast_text(content));
  if ((more < 0) != (more_of(c.step) < 0)) return out;  // parts of the recorded step say nothing of it
  const ComparedPart& most = most_of(c.step, c.terms);
  return fmt::format("{}: most of it {}, {} in the recorded step", out, term_of(most).words,
                     more_text(more_of(most)));
}

/// `4 devices take turns on 2 cores, and other programs had a part of these`; empty: they had as many as they need.
std::string too_few_cores(const TrainedRun& run) {
  std::string out;
  if (takes_turns(run))
    out = fmt::format("{} devices take turns on {} core{}", run.planned_bytes.size(), run.cores,
                      run.cores == 1 ? "" : "s");
  if (times_by_others(run) > 1)
    out += fmt::format("{}other programs run on the host, too: of its {} core{} the run had {:.1f}",
                       out.empty() ? "" : ", and ", run.cores, run.cores == 1 ? "" : "s", run.used_cores);
  return out;
}

std::string measured_verdict(const PageContent& content) {
  const StepComparison& c = *content.run->comparison;
  const std::string cores = too_few_cores(*content.run);
  if (is_far_from_forecast(content) && !cores.empty())
    return fmt::format("<p><strong>Too few cores bound the step</strong>: {}. {}.</p>\n", cores,
                       difference_text(content));
  const ComparedPart& most = *std::ranges::max_element(c.terms, {}, &ComparedPart::measured_seconds);
  std::string words(term_of(most).words);
  words.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.front())));
  return fmt::format("<p><strong>{} bounds the step</strong>: {} of the recorded step. {}{}.</p>\n", words,
                     percent_text(most.measured_seconds, c.step.measured_seconds), difference_text(content),
                     cores.empty() ? "" : "; " + cores);
}

/// Each with what was forecast behind it.
std::string measured_bar(const StepComparison& c, const Json& document) {
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < c.terms.size(); ++i) {
    const auto text = [&](std::string_view whose, double seconds) {
      return figure(document, pointer_of(i, whose), seconds == 0 ? "0 s" : seconds_text(seconds));
    };
    const ComparedPart& p = c.terms[i];
    parts.push_back(
        {std::string(term_of(p).style), std::string(term_of(p).words), p.measured_seconds,
         fmt::format("{} <span class=\"planned\">({})</span>", text("measured", p.measured_seconds),
                     text("predicted", p.predicted_seconds))});
  }
  return fmt::format(
             "<p class=\"fine\">Of the recorded steps the one of median length, {}, as a mean over devices; "
             "in brackets "
             "by forecast, of {}:</p>\n",
             figure(document, "/run/compare_plan/step/measured_seconds",
                    seconds_text(c.step.measured_seconds)),
             figure(document, "/run/compare_plan/step/predicted_seconds",
                    seconds_text(c.step.predicted_seconds))) +
         bar_html(parts, c.step.measured_seconds, "where the time of a measured step goes");
}

HtmlTable run_table(const PageContent& content, const Json& document) {
  const TrainedRun& run = *content.run;
  HtmlTable out{.caption = "The run beside the plan", .head = heads({"what", "planned", "measured"}, 1, 3)};
  out.rows.push_back({text_cell("a step (median)"), seconds_cell(document, "/step_seconds"),
                      seconds_cell(document, "/run/median_step_seconds")});
  const auto most = [](const std::vector<std::int64_t>& of) {
    return of.empty() ? std::int64_t{0} : *std::ranges::max_element(of);
  };
  if (!run.planned_bytes.empty())
    out.rows.push_back(
        {text_cell("memory of the fullest device"),
         number_cell(bytes_text(most(run.planned_bytes)), static_cast<double>(most(run.planned_bytes))),
         number_cell(bytes_text(most(run.measured_bytes)), static_cast<double>(most(run.measured_bytes)))});
  return out;
}

double times_forecast(const PageContent& content) {
  return content.run->median_step_seconds / content.evaluation.estimate.step_seconds();
}

double turns_of(const TrainedRun& run) { return static_cast<double>(run.planned_bytes.size()) / run.cores; }

/// Other programs that run beside it, as far as they cost time.
std::string others_html(const TrainedRun& run) {
  return fmt::format(
      "<strong>Alone on this host a step would take about {}</strong>: other programs run there, too, and of "
      "its {} "
      "core{} the run had {:.1f}.",
      seconds_text(run.median_step_seconds / times_by_others(run)), run.cores, run.cores == 1 ? "" : "s",
      run.used_cores);
}

/// Ranks that share cores take turns.
std::string turns_html(const TrainedRun& run) {
  return fmt::format(
      "<strong>With a core for each of its {} devices about {}</strong>{}: they take turns on {}, which "
      "makes steps "
      "{:.2g} times as long. Here {} takes no turns, and each has more of the work.",
      run.planned_bytes.size(),
      seconds_text(run.median_step_seconds / (times_by_others(run) * turns_of(run))),
      times_by_others(run) > 1 ? ", alone" : "", run.cores, turns_of(run),
      command_html(fmt::format("--devices {}", run.cores)));
}

}  // namespace

bool is_far_from_forecast(const PageContent& content) {
  return content.run && times_forecast(content) > much_longer;
}

std::string times_forecast_text(const PageContent& content) {
  return fmt::format("{:.3g}", times_forecast(content));
}

bool takes_turns(const TrainedRun& run) {
  return run.cores > 0 && static_cast<int>(run.planned_bytes.size()) > run.cores;
}

double times_by_others(const TrainedRun& run) {
  constexpr double all = 0.9;  // of the cores: waiting takes some, too
  const bool had_less = run.cores > 0 && run.used_cores > 0 && run.used_cores < all * run.cores;
  return had_less ? run.cores / run.used_cores : 1;
}

std::string slow_run_remedy(const TrainedRun& run) {
  const double others = times_by_others(run), turns = takes_turns(run) ? turns_of(run) : 1;
  if (others > turns) return "Run it alone";
  return turns > 1 ? "A core for each device" : "Measure this host";
}

std::string slow_run_html(const PageContent& content) {
  const TrainedRun& run = *content.run;
  const double others = times_by_others(run), turns = takes_turns(run) ? turns_of(run) : 1;
  std::vector<std::string> causes;
  if (turns > 1) causes.push_back(turns_html(run));
  if (others > 1) causes.insert(others > turns ? causes.begin() : causes.end(), others_html(run));
  const double left = times_forecast(content) / (turns * others);
  if (left < much_longer) return join(causes, "<br>");
  std::string out = causes.empty() ? "" : fmt::format("What is left, {:.2g} times: ", left);
  if (run.comparison) {
    const ComparedPart& most = most_of(run.comparison->step, run.comparison->terms);
    out += fmt::format("<strong>most of it is {}</strong>, {} of the recorded step instead of {}. ",
                       term_of(most).words, seconds_text(most.measured_seconds),
                       seconds_text(most.predicted_seconds));
  }
  causes.push_back(out + fmt::format("This host is slower than {}: {} measures it, and {} then plans for it.",
                                     code_html(content.plan.cluster.name),
                                     command_html("shardwright calibrate --out here.yaml"),
                                     command_html("--cluster here.yaml")));
  return join(causes, "<br>");
}

std::string measured_card(const PageContent& content, const Json& document) {
  const TrainedRun& run = *content.run;
  const double step = run.median_step_seconds;
  std::string out = fmt::format(
      "<p class=\"big\">{} <span>a step, measured</span></p>\n<p class=\"beside\">the run’s median; {} by "
      "forecast</p>\n",
      figure(document, "/run/median_step_seconds", seconds_text(step)),
      figure(document, "/step_seconds", seconds_text(content.evaluation.estimate.step_seconds())));
  if (run.comparison)
    out += measured_verdict(content) + measured_bar(*run.comparison, document);
  else
    out +=
        fmt::format("<p>A step takes {} times what was forecast; none was recorded that could say why.</p>\n",
                    times_forecast_text(content));
  if (content.batch.count > 0)
    out +=
        fmt::format("<p class=\"fine\">{} {} a second, measured</p>\n",
                    rate_text(static_cast<double>(content.batch.count) / step), escaped(content.batch.unit));
  return card_html("What bounds the step?", out);
}

std::string run_part(const PageContent& content, const Json& document) {
  const TrainedRun& run = *content.run;
  std::string out;
  if (run.is_interrupted)
    out += fmt::format("<p>The run was interrupted after step {}.</p>\n", run.steps.back());
  if (!run.losses.empty())
    out += fmt::format("<p>The loss went from {:.5g} to {:.5g} in {} step{}.</p>\n", run.losses.front(),
                       run.losses.back(), run.losses.size(), run.losses.size() == 1 ? "" : "s");
  out += "<div id=\"losses\" class=\"chart\"></div>\n" + to_html(run_table(content, document));
  return out + fmt::format("<p>Measured steps take {} times what is simulated for {}.</p>\n",
                           times_forecast_text(content), escaped(content.plan.cluster.name));
}

}  // namespace shardwright
