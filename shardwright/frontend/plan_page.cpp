#include "shardwright/frontend/plan_page.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "shardwright/frontend/bound_json.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/frontend/page_parts.h"
#include "shardwright/frontend/plan_document.h"

namespace shardwright {
namespace {

/// Of a long run so many steps, evenly apart, and the last.
Json run_json(const TrainedRun& run) {
  constexpr std::size_t most = 1500;
  Json steps = Json::array(), losses = Json::array();
  const std::size_t stride = run.steps.size() / most + 1;
  for (std::size_t i = 0; i < run.steps.size(); ++i) {
    if (i % stride != 0 && i + 1 != run.steps.size()) continue;
    steps.push_back(run.steps[i]);
    losses.push_back(run.losses[i]);
  }
  Json out{{"median_step_seconds", run.median_step_seconds}, {"steps", steps}, {"losses", losses}};
  if (run.comparison) out["compare_plan"] = json_of(*run.comparison);
  return out;
}

/// The document that `--json` prints, with what is known of the run.
Json document_of(const PageContent& content) {
  Json out = plan_document(content.plan, content.evaluation, content.batch);
  if (content.bound) add_bound(out, *content.bound, content.evaluation);
  if (content.run) out["run"] = run_json(*content.run);
  return out;
}

std::string section(std::string_view id, std::string_view heading, std::string_view content) {
  return fmt::format(
      "<section id=\"{0}\" aria-labelledby=\"h-{0}\">\n<h2 id=\"h-{0}\">{1}</h2>\n{2}</section>\n", id,
      heading, content);
}

/// A place where the script draws; what it says without one.
std::string drawn(std::string_view id) {
  return fmt::format(
      "<div id=\"{}\" class=\"chart\"></div>\n<noscript><p>This is drawn by the page’s script.</p>"
      "</noscript>\n",
      id);
}

/// Without memory by kind: the card has it at the fullest moment, and the report as it is reserved.
std::string without_kinds(std::string_view memory) {
  return std::string(memory.substr(0, memory.find(": ", memory.find(": ") + 1)));
}

/// The report's lines, each with what it is about in front.
std::string summary_list(const PageContent& content) {
  const StepReport& report = content.report;
  std::string out = "<dl class=\"summary\">\n";
  for (const auto& [text, brief] : report.summary) {
    const std::string line = text.starts_with("memory: ") ? without_kinds(text) : text;
    const bool is_forecast =
        content.run && (text.starts_with("per step: ") || text.starts_with("throughput: "));
    const bool is_recompute = text.starts_with("recompute ");  // of such and such layers
    const auto colon = is_recompute ? line.find(' ') : line.find(": ");
    const bool has_word = colon != line.npos && colon <= 24;
    out += fmt::format("<div><dt>{}</dt><dd>{}{}</dd></div>\n",
                       has_word ? escaped(line.substr(0, colon)) : "", is_forecast ? "by forecast " : "",
                       breakable(has_word ? line.substr(colon + (is_recompute ? 1 : 2)) : line));
  }
  const std::string activations =
      report.recompute.text.empty()
          ? ""
          : fmt::format(
                " Activations beside recompute: places for them on {}; at its fullest moment fewer may be in "
                "use.",
                content.evaluation.estimate.stages.size() > 1
                    ? stage_name(fullest_stage(content.evaluation.estimate)) + ", which reserves most"
                    : "a device");
  return out +
         "</dl>\n<p class=\"fine\">Communication: what compute waits for. Bubble: waiting for other stages. "
         "MFU: "
         "the useful work as a share of what the devices could do at most." +
         activations + "</p>\n";
}

std::string made_by(const PageContent& content) {
  std::string out;
  if (!content.call.empty())
    out += fmt::format("<pre class=\"command\" tabindex=\"0\">{}</pre>\n", command_html(content.call));
  out += fmt::format("<p class=\"fine\">{}; {}</p>\n", escaped(content.version),
                     escaped(content.report.heading));
  constexpr std::size_t most_bytes = 60'000;
  const std::string file = to_json(content.plan);
  if (file.size() <= most_bytes)
    return out + fmt::format(
                     "<details class=\"file\"><summary>The plan as a file</summary><pre "
                     "tabindex=\"0\">{}</pre></details>\n",
                     escaped(file));
  return out + fmt::format("<p class=\"fine\">The plan as a file has {} KB: {}.</p>\n", file.size() / 1000,
                           content.plan_path.empty() ? command_html("-o plan.json") + " writes it"
                                                     : "it is " + escaped(content.plan_path));
}

/// What the script draws. Numbers of the document that tables show already are not there again.
Json script_data(const PageContent& content, const Json& document, Json pictures) {
  Json out = std::move(pictures);
  out["strip"] = strip_json(content);
  out["step_seconds"] = document.at("step_seconds");
  out["by_stage"] = Json::array();
  for (const Json& stage : document.at("by_stage"))
    out["by_stage"].push_back(
        {stage.at("compute_seconds"), stage.at("exposed_communication_seconds"), stage.at("bubble_seconds")});
  if (content.run) out["run"] = document.at("run");
  return out;
}

std::string body_of(const PageContent& content, const Json& document, const Json& pictures) {
  const std::string title =
      fmt::format("{} on {} × {}", content.plan.model, content.plan.devices(),
                  content.plan.cluster.name.substr(0, content.plan.cluster.name.find(':')));
  std::string sections;
  std::string links;
  const auto add = [&](std::string_view id, std::string_view heading, const std::string& part) {
    if (part.empty()) return;
    sections += section(id, heading, part);
    links += fmt::format("<li><a href=\"#{}\">{}</a></li>\n", id, heading);
  };
  if (content.run) add("run", "The run", run_part(content, document));
  add("step", content.run ? "The step over time, by forecast" : "The step over time", drawn("timeline"));
  add("memory", content.run ? "Memory over time, by forecast" : "Memory over time", drawn("curves"));
  add("layers", "Layers and devices", drawn("strip"));
  add("stages", "Stages", stages_table(content, document, pictures));
  add("summary", "Summary", summary_list(content));
  add("lost", "What lost", alternatives_part(content, document));
  add("operators", "How operators are split", operators_part(content));
  add("collectives", "Collectives", collectives_part(document));
  add("made", "Made by", made_by(content));
  return fmt::format(
      "<a class=\"skip\" href=\"#verdict\">Skip to the plan</a>\n<header>\n<p "
      "class=\"kind\">{0}</p>\n<h1>{1}</h1>\n"
      "<p class=\"chosen\">{2}</p>\n{6}</header>\n<nav aria-label=\"Parts of the "
      "page\"><ul>\n{3}</ul></nav>\n"
      "<main id=\"verdict\">\n{4}{5}</main>\n",
      content.run ? "Training run" : "Plan", escaped(title), setting_html(content.plan), links,
      verdict_cards(content, document, pictures), sections, setting_words_html(content));
}

}  // namespace

std::string plan_page(const PageContent& content) {
  const Json document = document_of(content);
  Json pictures = pictures_json(content);
  const std::string body = body_of(content, document, pictures);
  return fmt::format(
      "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n"
      "<meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n"
      "<meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n"
      "<title>{}</title>\n<style>\n{}</style>\n</head>\n<body>\n{}"
      "<script type=\"application/json\" id=\"data\">{}</script>\n<script>\n{}</script>\n</body>\n</html>\n",
      escaped(content.plan.model), page_style(), body,
      script_json(script_data(content, document, std::move(pictures))), page_script());
}

std::string framed(const std::string& page, const std::string& title) {
  return fmt::format(
      "<iframe title=\"{}\" style=\"width:100%;height:720px;border:1px solid #8886\" srcdoc=\"{}\"></iframe>",
      escaped(title), escaped(page));
}

}  // namespace shardwright
