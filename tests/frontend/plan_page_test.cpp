// Pages of plans: they say what the table says, with names as users wrote them. How they look: tests/scripts/page_test.py.
#include "shardwright/frontend/plan_page.h"

#include <gtest/gtest.h>

#include "shardwright/base/text.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/frontend/html.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/ops/calls.h"

namespace shardwright {
namespace {

PlannedStep step_of(int devices, int stages = 1) {
  Trace trace;
  const Parameter first{"<b>&\"", {64, 64}, uniform(1)}, second{"second", {64, 64}, uniform(1)};
  const Traced x = trace.input("x", {DType::f32, {32, 64}});
  const Traced h = matmul("<i>up</i>")(x, first);
  const Traced y = trace.input("y", {DType::f32, {32, 64}});
  const Traced loss = MeanSquaredError{}(matmul("down")(h, second), y);
  trace.graph().outputs = {loss.id};
  TrainOptions options{.devices = devices, .search = "recursive"};
  options.settings.pipelining = {.stages = stages, .micro_batches = 1};
  return planned_step(plan_graph({std::move(trace.graph()), trace.constraints()}, {}, options), options);
}

int count_of(std::string_view text, std::string_view what) {
  int out = 0;
  for (std::size_t at = text.find(what); at != std::string_view::npos; at = text.find(what, at + 1)) ++out;
  return out;
}

std::string page_of(PlannedStep& step) { return step.page("made by <hand>", "shardwright 1"); }

TEST(PlanPage, shows_names_as_they_are) {
  PlannedStep step = step_of(2);
  const std::string page = page_of(step);
  EXPECT_EQ(count_of(page, "<i>up"), 0);
  EXPECT_GE(count_of(page, "&lt;i&gt;up&lt;/i&gt;"), 1);
  EXPECT_GE(count_of(page, "\\u003ci>up"), 1);  // among what its script draws
  EXPECT_EQ(count_of(page, ">made</span> <span class=\"word\">by</span> <span class=\"word\">&lt;hand&gt;<"),
            1);
  EXPECT_EQ(count_of(page, "http"), 0);  // nothing from elsewhere
  EXPECT_EQ(count_of(page, "</script>"), 2);
}

TEST(PlanPage, has_a_row_for_each_of_the_report_and_all_stages) {
  for (const int stages : {1, 2}) {
    PlannedStep step = step_of(4, stages);
    const StepReport report = step.report();
    ASSERT_EQ(report.stages.size(), static_cast<std::size_t>(stages));
    const std::string page = page_of(step);
    const std::string operators = page.substr(page.find("<section id=\"operators\""));
    std::size_t rows = 0;
    for (const StageReport& stage : report.stages) rows += stage.rows.size() + !stage.beside.empty();
    EXPECT_GE(count_of(operators, "<tr><td>"), static_cast<int>(rows));
    EXPECT_EQ(count_of(page, "<summary>stage "), stages == 1 ? 0 : stages);
    EXPECT_EQ(count_of(page, "/by_stage/1/compute_seconds"), stages == 1 ? 0 : 1);
    for (const auto& [line, brief] : report.summary) {
      std::string text = line.substr(line.find(": ") + 2);
      if (line.starts_with("memory: ")) text.resize(text.find(": "));  // its kinds stand on the card
      EXPECT_EQ(count_of(page, "<dd>" + breakable(text) + "</dd>"), 1) << line;
    }
  }
}

/// What binds it, what lost with its price, and how many needed none; of how a plan was found nothing may be known.
TEST(PlanPage, says_what_binds_and_what_lost) {
  PlannedStep step = step_of(2);
  const Tried slower{
      .words = "<b>by halves", .by = KnownBy::program, .fate = Fate::slower, .seconds = 7, .bytes = 3e6},
      misfit{.words = "in one", .by = KnownBy::forecast, .fate = Fate::misfit, .seconds = 1, .bytes = 3e9},
      beyond{.words = "by thirds", .fate = Fate::beyond};
  step.evaluation.cap_bytes = 1'000'000'000;
  step.network.bound_of = [&](const Evaluation&) {
    return Bound{.binding = {.by = Limit::memory, .misfit = misfit},
                 .tried = {misfit, slower, beyond, beyond}};
  };
  const std::string page = page_of(step);
  EXPECT_EQ(count_of(page,
                     "<p>What keeps it from being faster: memory: in one takes 1 s but 3.00 GB, 2.00 GB more "
                     "than there is</p>"),
            1);
  EXPECT_EQ(count_of(page, "<strong>With more memory a step would be "), 1);
  EXPECT_GE(count_of(page, "&lt;b&gt;by halves"), 1);
  EXPECT_EQ(count_of(page, "<td>forecast</td><td>needs 2.00 GB more than there is</td>"), 1);
  const std::string lost = page.substr(page.find("<section id=\"lost\""));
  EXPECT_LT(lost.find("by halves"), lost.find("in one</code>"));
  EXPECT_EQ(count_of(page, "Looked at: 4 plans that split operators one by one"), 1);
  EXPECT_EQ(count_of(page, "<b>2</b> lost and stand above"), 1);
  EXPECT_EQ(count_of(page, "<b>2</b> cannot be faster"), 1);
  EXPECT_EQ(count_of(page, "by thirds"), 0);
  PlannedStep unknown = step_of(2);
  unknown.network.bound_of = {};
  EXPECT_EQ(count_of(page_of(unknown), "What keeps it from being faster:"), 0);
}

/// An alternative is said whole, with what differs marked; one that was simulated comes before a forecast that looks better.
TEST(PlanPage, advises_what_can_be_asked_for) {
  PlannedStep step = step_of(2);
  const double seconds = step.evaluation.estimate.step_seconds();
  const auto bytes = static_cast<double>(step.evaluation.estimate.arena_bytes);
  const auto tried = [](const std::string& set, KnownBy by, Fate fate, double s, double b) {
    Tried out{.structure = parse_constraints({"--set", set}), .by = by, .fate = fate};
    out.seconds = s, out.bytes = b;
    return out;
  };
  const std::vector<Tried> all{
      tried("dp=2,tp=1,pp=1,micro_batches=1,zero=3", KnownBy::program, Fate::taken, seconds, bytes),
      tried("dp=2,tp=1,pp=1,micro_batches=4,zero=3", KnownBy::program, Fate::slower, 1.04 * seconds,
            bytes / 2),
      tried("dp=1,tp=2,pp=1,micro_batches=2", KnownBy::forecast, Fate::slower, 1.01 * seconds, bytes / 4),
      tried("dp=1,tp=2,pp=1,micro_batches=8", KnownBy::program, Fate::slower, 1.2 * seconds, bytes / 8)};
  step.network.bound_of = [&](const Evaluation&) { return Bound{.binding = {}, .tried = all}; };
  const std::string page = page_of(step);
  const std::string card = page.substr(page.find("What would make it faster, or smaller?"));
  const std::string advice = card.substr(0, card.find("</section>"));
  const std::string whole = "dp=2,<wbr>tp=1,<wbr>pp=1,<wbr><mark>micro_batches=4</mark>,<wbr>zero=3</code>: ";
  EXPECT_EQ(count_of(advice, whole), 1) << advice;
  EXPECT_EQ(count_of(advice, "less memory</strong>"), 1);
  EXPECT_EQ(count_of(advice, "<p class=\"big\">Nothing faster</p>"), 1);
  EXPECT_EQ(count_of(advice, "(4.0% slower)"), 1);
  EXPECT_EQ(count_of(advice, "micro_batches=2"), 0);
  EXPECT_EQ(count_of(page, "<b>1</b> is the plan"), 1);
  EXPECT_EQ(count_of(page, "<b>3</b> lost and stand above"), 1);
  const std::string lost = page.substr(page.find("<section id=\"lost\""));
  EXPECT_LT(lost.find("micro_batches=4"), lost.find("micro_batches=2"));  // a forecast stands behind programs
  EXPECT_LT(lost.find("micro_batches=8"), lost.find("micro_batches=2"));
  EXPECT_EQ(count_of(lost, "(without <code>zero=3</code>)"), 2);
}

/// The best change comes first: without what was fixed, then what was simulated, then a forecast, which says that it is one.
TEST(PlanPage, says_the_best_change_first) {
  PlannedStep step = step_of(2);
  const double seconds = step.evaluation.estimate.step_seconds();
  Bound bound{.binding = {.fixed = "dp=2"}, .tried = {}};
  const auto add = [&](const std::string& set, KnownBy by, double of_it) {
    Tried t{.structure = parse_constraints({"--fix", set}), .by = by, .fate = Fate::open};
    t.seconds = of_it * seconds, t.bytes = 1000;
    bound.tried.push_back(t);
  };
  const auto card = [&] {
    PlannedStep asked = step;
    asked.network.bound_of = [&](const Evaluation&) { return bound; };
    const std::string page = page_of(asked);
    return page.substr(page.find("What would make it faster, or smaller?"));
  };
  add("dp=2,micro_batches=3", KnownBy::forecast, 0.997);  // as long
  EXPECT_EQ(count_of(card(), "<p class=\"big\">Nothing faster</p>"), 1);
  add("dp=2,micro_batches=4", KnownBy::forecast, 0.8);
  std::string said = card();
  EXPECT_EQ(count_of(said, "<p class=\"big\">Perhaps 20.0% faster</p>\n<p class=\"beside\">by forecast"), 1);
  EXPECT_LT(said.find("micro_batches=4"), said.find("</section>"));
  bound.unfixed = Unfixed{.plan = "dp=1,tp=2", .step_seconds = 0.95 * seconds, .memory_bytes = 1000};
  said = card();
  EXPECT_EQ(count_of(said, "<p class=\"big\">5.0% faster</p>\n<p class=\"beside\">without what was fixed"),
            1);
  EXPECT_EQ(count_of(said, "<strong>With what was fixed perhaps 20.0% faster</strong>"), 1);
  add("dp=2,micro_batches=8", KnownBy::program, 0.9);
  said = card();
  EXPECT_EQ(count_of(said, "<p class=\"big\">10.0% faster</p>"), 1);
  EXPECT_EQ(count_of(said, "the search finds what is 5.0% faster"), 1);
  bound.tried.clear();
  bound.unfixed->fits = false;
  said = card();
  EXPECT_EQ(count_of(said, "% faster</p>"), 0);
  EXPECT_EQ(count_of(said, "which does not fit"), 1);
}

/// Where nothing else was looked at nobody knows what binds.
TEST(PlanPage, claims_nothing_of_what_binds_where_nothing_was_tried) {
  PlannedStep step = step_of(2);
  Bound bound;
  step.network.bound_of = [&](const Evaluation&) { return bound; };
  std::string page = page_of(step);
  EXPECT_EQ(count_of(page, "What keeps it from being faster:"), 0);
  EXPECT_EQ(count_of(page, "<p>No other plan was looked at.</p>"), 1);
  PlannedStep fixed = step_of(2);
  bound.binding = {.by = Limit::fixed, .fixed = "dp=2"};
  fixed.network.bound_of = [&](const Evaluation&) { return bound; };
  page = page_of(fixed);
  EXPECT_EQ(count_of(page, "What keeps it from being faster:"), 0);
  EXPECT_EQ(count_of(page, "<p>No other plan was looked at, as this is fixed: <code>dp=2</code>.</p>"), 1);
  PlannedStep large = step_of(2);
  bound.binding = {.by = Limit::memory};
  large.evaluation.cap_bytes = 1000;
  large.network.bound_of = [&](const Evaluation&) { return bound; };
  EXPECT_EQ(count_of(page_of(large), "What keeps it from being faster: memory: it takes "), 1);
}

/// What the page's script draws.
Json drawn_data(const std::string& page) {
  const std::string_view begin = "id=\"data\">";
  const std::size_t at = page.find(begin) + begin.size();
  return Json::parse(page.substr(at, page.find("</script>", at) - at));
}

TEST(PlanPage, has_shares_of_layers_on_stages_of_one_device) {
  PlannedStep step = step_of(2, 2);
  const std::string page = page_of(step);
  EXPECT_EQ(count_of(page, "</strong> on device "), 1);
  const Json data = drawn_data(page);
  ASSERT_EQ(data.at("strip").at("stages").size(), 2U);
  for (const Json& stage : data.at("strip").at("stages")) {
    ASSERT_EQ(stage.at("count"), 1);
    double seconds = 0;
    std::int64_t bytes = 0;
    for (const Json& cell : stage.at("cells")) {
      seconds += cell.at("seconds").get<double>();
      bytes += cell.at("bytes").get<std::int64_t>();
    }
    EXPECT_GT(seconds, 0);
    EXPECT_LE(seconds, step.evaluation.estimate.step_seconds());
    EXPECT_GT(bytes, 0);
  }
}

/// Whoever shows the page: what nobody has said is in the report.
TEST(PlanPage, advises_to_say_the_batch_that_was_assumed) {
  PlannedStep step = step_of(2);
  EXPECT_EQ(count_of(page_of(step), "is assumed"), 0);
  step.network.assumed.batch = true;
  EXPECT_EQ(count_of(page_of(step), "the batch of 32 samples is assumed"), 1);
}

/// Several stand in one notebook: each in a frame, all of its text an attribute's.
TEST(PlanPage, stands_in_a_frame) {
  PlannedStep step = step_of(1);
  const std::string framed_page = framed(page_of(step), "a \"plan\"");
  EXPECT_EQ(count_of(framed_page, "\""), 6);
  EXPECT_EQ(count_of(framed_page, "<"), 2);
  EXPECT_EQ(count_of(framed_page, "title=\"a &quot;plan&quot;\""), 1);
}

/// A document's numbers, each with its place.
TEST(Html, says_where_a_number_is_from) {
  const Json document{{"a/b", {1.5, 2}}};
  EXPECT_EQ(figure(document, "/a~1b/0", "1.5 s"),
            "<span data-json=\"/a~1b/0\" data-value=\"1.5\">1.5 s</span>");
  EXPECT_EQ(script_json(Json{{"x", "</script>"}}), "{\"x\":\"\\u003c/script>\"}");
}

StepReport report_of_one_row() {
  return {.heading = "plan", .summary = {}, .stages = {{.heading = "", .meshes = {}, .rows = {{}}}}};
}

/// A summary's line is brief where the terminal would wrap it; what takes nothing is one row.
TEST(PlanReport, is_short_on_a_terminal_only) {
  StepReport report = report_of_one_row();
  report.summary = {{"this is the whole of a line", "brief"}, {"this has no other form"}, {"short", "no"}};
  report.stages[0].rows = {{.name = "a", .time = "99.9%", .memory = "0.0%"},
                           {.name = "b", .time = "0.0%", .memory = "0.0%"},
                           {.name = "c", .time = "0.0%", .memory = "-"}};
  report.stages[0].others = {.name = "others x2", .time = "0.0%", .memory = "0.0%"};
  const std::string whole = to_text(report), brief = to_text(report, {.columns = 21});
  EXPECT_TRUE(whole.starts_with("plan\nthis is the whole of a line\nthis has no other form\nshort\n"))
      << whole;
  EXPECT_EQ(count_of(whole, "\n  b "), 1);
  EXPECT_EQ(count_of(whole, "others"), 0);
  EXPECT_TRUE(brief.starts_with("plan\nbrief\nthis has no other form\nshort\n")) << brief;
  EXPECT_EQ(count_of(brief, "\n  a "), 1);
  EXPECT_EQ(count_of(brief, "\n  b "), 0);
  EXPECT_EQ(count_of(brief, "\n  others x2 "), 1);
}

/// Where all rows and the summary are more than a screen has, rows are of kinds.
TEST(PlanReport, leaves_room_for_a_summary_that_is_wrapped) {
  StepReport report = report_of_one_row();
  report.stages[0].rows.assign(20, {.name = "a", .time = "5.0%", .memory = "5.0%"});
  report.stages[0].kinds = {{.name = "kind x20", .time = "100.0%", .memory = "100.0%"}};
  report.summary.assign(11, {std::string(110, 'y')});  // two lines of the terminal each
  const auto lines = [&] { return count_of(to_text(report, {.columns = 100}), "\n"); };
  EXPECT_EQ(lines(), 1 + 11 + 1 + 20);
  report.summary.push_back({"z"});
  EXPECT_EQ(lines(), 1 + 12 + 1 + 1);
}

TEST(PlanReport, cuts_reasons_to_the_terminal_only) {
  StepReport report = report_of_one_row();
  report.stages[0].rows[0] = {.name = "a", .reason = std::string(300, 'y')};
  EXPECT_EQ(count_of(to_text(report), std::string(300, 'y')), 1);
  const std::string cut = to_text(report, {.columns = 80});
  EXPECT_EQ(count_of(cut, std::string(300, 'y')), 0);
  EXPECT_EQ(count_of(cut, "yyy..."), 1);
  for (std::string_view line : split(cut, '\n')) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace shardwright
