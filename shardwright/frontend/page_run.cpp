// What a training has told, beside its plan: the card that says it first, and the part with losses and tables.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "shardwright/base/text.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/table.h"

namespace shardwright {
namespace {

/// How the page calls the terms of a comparison, and colours them.
struct Term {
  std::string_view name, style, words;
};
constexpr std::array<Term, 5> terms{{{"compute", "compute", "compute"},
                                     {"communication", "communication", "waiting for communication"},
                                     {"bubble", "waiting", "waiting for other stages"},
                                     {"recompute", "again", "computed again"},
                                     {"other", "kind-workspace", "between operators"}}};

const Term& term_of(const ComparedPart& part) { return *std::ranges::find(terms, part.name, &Term::name); }

std::string pointer_of(std::size_t term, std::string_view whose) {
  return fmt::format("/run/compare_plan/terms/{}/{}_seconds", term, whose);
}

/// `the measured step takes 472 ms more than planned (208.8%): most of it compute, 256 ms more`
std::string difference_text(const StepComparison& c) {
  ComparedPart most = most_of(c.step, c.terms);
  most.name = term_of(most).words;
  return most_text(c.step, most);
}

std::string measured_verdict(const StepComparison& c) {
  const ComparedPart& most = *std::ranges::max_element(c.terms, {}, &ComparedPart::measured_seconds);
  std::string words(term_of(most).words);
  words.front() = static_cast<char>(std::toupper(static_cast<unsigned char>(words.front())));
  return fmt::format("<p><strong>{} bounds the step</strong>: {} of the recorded one. {}.</p>\n", words,
                     percent_text(most.measured_seconds, c.step.measured_seconds),
                     escaped("T" + difference_text(c).substr(1)));
}

/// Each with what was forecast behind it.
std::string measured_bar(const StepComparison& c, const Json& document) {
  std::vector<BarPart> parts;
  for (std::size_t i = 0; i < c.terms.size(); ++i) {
    const auto text = [&](std::string_view whose, double seconds) {
      return figure(document, pointer_of(i, whose), seconds_text(seconds));
    };
    const ComparedPart& p = c.terms[i];
    parts.push_back(
        {std::string(term_of(p).style), std::string(term_of(p).words), p.measured_seconds,
         fmt::format("{} <span class=\"planned\">({})</span>", text("measured", p.measured_seconds),
                     text("predicted", p.predicted_seconds))});
  }
  return fmt::format(
             "<p class=\"fine\">Mean over devices of a recorded step of {}, and by forecast (of {}):</p>\n",
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

}  // namespace

std::string measured_card(const PageContent& content, const Json& document) {
  const TrainedRun& run = *content.run;
  const double step = run.median_step_seconds;
  std::string out = fmt::format(
      "<p class=\"big\">{} <span>a step, measured</span></p>\n<p class=\"beside\">{} by forecast</p>\n",
      figure(document, "/run/median_step_seconds", seconds_text(step)),
      figure(document, "/step_seconds", seconds_text(content.evaluation.estimate.step_seconds())));
  if (run.comparison)
    out += measured_verdict(*run.comparison) + measured_bar(*run.comparison, document);
  else
    out += fmt::format(
        "<p>A step takes {:.3g} times what was forecast; none was recorded that could say why.</p>\n",
        step / content.evaluation.estimate.step_seconds());
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
  return out + fmt::format("<p>Measured steps take {:.3g} times what is simulated for {}.</p>\n",
                           run.median_step_seconds / content.evaluation.estimate.step_seconds(),
                           escaped(content.plan.cluster.name));
}

}  // namespace shardwright
