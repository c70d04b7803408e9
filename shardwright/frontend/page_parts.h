// The parts of a plan's page (plan_page.h): each a piece of HTML, or data for its script.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/frontend/html.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

/// A command line, or words of one: it breaks between words, where there is room for these.
std::string command_html(std::string_view command);
/// All that was chosen of a plan, in one line.
std::string setting_html(const Plan& plan);
/// The same for who does not know the words: `8 copies share the batch (dp) · ...`, and what was fixed of it.
std::string setting_words_html(const PageContent& content);
/// How many devices have the same weights for other samples.
int replicas_of(const Plan& plan);

/// The three questions that a page answers first: what bounds the step, what is fullest, what would change it. `pictures`
/// know the most that is in use.
std::string verdict_cards(const PageContent& content, const Json& document, const Json& pictures);
std::string change_card(const PageContent& content);
/// What its card says first, in large letters and in a line.
std::string best_change_html(const PageContent& content);
/// The best change by forecast, as one of several; empty: it stands first, or there is none.
std::string forecast_change_html(const PageContent& content);
/// How many do not fit and may be faster, for all that is known; empty: none.
std::string unpriced_html(const PageContent& content);
/// What keeps it from being faster: what was fixed, what nobody simulated, memory. Each may be empty.
std::vector<std::string> limits_html(const PageContent& content);
/// What does not fit would best fit without what was fixed.
bool fits_unfixed(const PageContent& content);
/// It fits and is faster than the plan, if it keeps what is known of it.
bool promises_more(const Tried& tried, const PageContent& content);
std::string card_html(std::string_view heading, const std::string& content);

/// That reserves most.
std::size_t fullest_stage(const Estimate& e);

/// A share of a step, of which so much is lost.
struct StepShare {
  std::string style, name, pointer;
  double seconds = 0;
  std::string word;  // that `explain PLAN WORD` prices other values of
};
/// Compute comes first.
std::vector<StepShare> step_shares(const Estimate& e);

std::string stages_table(const PageContent& content, const Json& document, const Json& pictures);
std::string alternatives_part(const PageContent& content, const Json& document);
std::string operators_part(const PageContent& content);
std::string collectives_part(const Json& document);
/// What a step has taken, beside what was forecast: the first question's answer where there was a run.
std::string measured_card(const PageContent& content, const Json& document);
/// The run's steps take so much longer than by forecast that forecasts of other plans say little.
bool is_far_from_forecast(const PageContent& content);
/// How many times as long; pre: there was a run.
std::string times_forecast_text(const PageContent& content);
/// Devices are threads of one process on fewer cores.
bool takes_turns(const TrainedRun& run);
/// How many times as long steps are because other programs had a part of the cores; 1: they had none, or it is not known.
double times_by_others(const TrainedRun& run);
/// What would make the run's steps as long as by forecast, in a few words. Pre: as for slow_run_html.
std::string slow_run_remedy(const TrainedRun& run);
/// Why they do, as far as is known, and what to do about it. Pre: they do, or take turns.
std::string slow_run_html(const PageContent& content);
/// Losses, and what a step has taken beside what was simulated.
std::string run_part(const PageContent& content, const Json& document);

/// Layers with how they are split, stage by stage, and the devices of each.
Json strip_json(const PageContent& content);
/// The step and its memory over time; null of steps of more events than can be drawn.
Json pictures_json(const PageContent& content);

/// Of a plan, as a user asks for it, with what differs from the page's plan marked.
/// Pre: `content.bound` is known.
std::string asked_html(const Tried& tried, const PageContent& content);

/// As far as is known.
bool fits(const Tried& tried, const Evaluation& evaluation);
/// It takes what the plan takes: other words for it.
bool is_same(const Tried& tried, const Evaluation& evaluation);

/// What a group of devices runs: `stage 0`, and of an interleaved schedule ` (chunks 0, 4, 8)`.
std::string stage_name(std::size_t group);
std::string chunks_text(const Pipeline& pipeline, std::size_t group);
/// A part of the network: `stage 3`, of several on a device `chunk 5 of stage 1`.
std::string part_name(const Pipeline& pipeline, std::size_t part);
/// `12.3%`, `less than 0.1%`
std::string share_text(std::int64_t bytes, std::int64_t of);
/// `optimizer state`, in words that say whose.
std::string page_words(MemoryKind kind);
/// The most bytes that a stage has in use at once; nothing where its memory is not drawn.
std::optional<std::int64_t> peak_of(const Json& pictures, std::size_t stage);
/// `embedding, 536.9 MB of activations (4 × 134.2 MB, places of micro-batches in flight)`
std::string consumer_html(const MemoryConsumer& c);
/// `0-15`, `3`
std::string range_text(int first, int count);
/// Which hosts of `cluster` have these devices: `0-1`.
std::string hosts_text(const Cluster& cluster, int first, int count);

/// Of the document's numbers, as they are told.
HtmlCell seconds_cell(const Json& document, const std::string& pointer);
HtmlCell bytes_cell(const Json& document, const std::string& pointer);
/// Of columns, those from `first_number` to before `end_number` of numbers.
std::vector<HtmlCell> heads(const std::vector<std::string_view>& names, std::size_t first_number,
                            std::size_t end_number);

/// What the page is made of.
std::string_view page_style();
std::string_view page_script();

}  // namespace shardwright
