// Pages of plans: they say what the table says, with whole reasons and with names as users wrote them.
#include "shardwright/frontend/plan_page.h"

#include <gtest/gtest.h>

#include "shardwright/base/text.h"
#include "shardwright/frontend/graph_step.h"
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

TEST(PlanPage, shows_names_as_they_are) {
  const PlannedStep step = step_of(2);
  const std::string page = plan_page(step.report(), step.network.plan, step.evaluation);
  EXPECT_EQ(count_of(page, "<i>up"), 0);
  EXPECT_GE(count_of(page, "&lt;i&gt;up&lt;/i&gt;"), 1);
  EXPECT_EQ(count_of(page, "http"), 0);  // nothing from elsewhere
}

TEST(PlanPage, has_a_row_for_each_of_the_table_and_all_stages) {
  for (const int stages : {1, 2}) {
    const PlannedStep step = step_of(4, stages);
    const StepReport report = step.report();
    ASSERT_EQ(report.stages.size(), static_cast<std::size_t>(stages));
    std::size_t rows = 0;
    for (const StageReport& stage : report.stages) rows += stage.rows.size() + 1 + !stage.beside.empty();
    const std::string html = to_html(report);
    EXPECT_EQ(count_of(html, "<tr>"), static_cast<int>(rows));
    EXPECT_EQ(count_of(html, "</tr>"), static_cast<int>(rows));
    EXPECT_EQ(count_of(html, "<h3>stage "), stages == 1 ? 0 : stages);
    for (const std::string& line : report.summary) EXPECT_EQ(count_of(html, line), 1) << line;
  }
}

/// What binds it, what lost with its price, and how many needed none; of how a plan was found nothing may be known.
TEST(PlanPage, says_what_binds_and_what_lost) {
  PlannedStep step = step_of(2);
  step.evaluation.cap_bytes = 1'000'000'000;
  const Tried slower{
      .words = "<b>by halves", .by = KnownBy::program, .fate = Fate::slower, .seconds = 7, .bytes = 3e6},
      misfit{.words = "in one", .by = KnownBy::forecast, .fate = Fate::misfit, .seconds = 1, .bytes = 3e9},
      beyond{.words = "by thirds", .fate = Fate::beyond};
  const Bound bound{.binding = {.by = Limit::memory, .misfit = misfit},
                    .tried = {misfit, slower, beyond, beyond}};
  const auto page_of = [&](const std::optional<Bound>& b) {
    return plan_page(step.report(), step.network.plan, step.evaluation, b);
  };
  const std::string page = page_of(bound);
  EXPECT_EQ(count_of(page, "<p>memory: in one takes 1 s but 3.00 GB, 2.00 GB more than there is</p>"), 1)
      << page;
  EXPECT_EQ(
      count_of(page, "<td>&lt;b&gt;by halves</td><td class='number'>7 s</td><td class='number'>3.0 MB</td>"),
      1);
  EXPECT_EQ(count_of(page, "<td>forecast</td><td>2.00 GB more than there is</td>"), 1);
  EXPECT_LT(page.find("by halves"), page.find("<td>in one"));
  EXPECT_EQ(count_of(page, "not priced: 2 bound above the best"), 1);
  EXPECT_EQ(count_of(page, "by thirds"), 0);
  EXPECT_EQ(count_of(page_of({}), "What binds"), 0);
}

TEST(PlanPage, cuts_no_reason) {
  StepReport report{
      .heading = "plan", .summary = {}, .stages = {{.heading = "", .meshes = {}, .rows = {{}}}}};
  report.stages[0].rows[0] = {.name = "a", .reason = std::string(300, 'y')};
  EXPECT_EQ(count_of(to_html(report), std::string(300, 'y')), 1);
  EXPECT_EQ(count_of(to_text(report), std::string(300, 'y')), 1);
  const std::string cut = to_text(report, {.columns = 80});
  EXPECT_EQ(count_of(cut, std::string(300, 'y')), 0);
  EXPECT_EQ(count_of(cut, "yyy..."), 1);
  for (std::string_view line : split(cut, '\n')) EXPECT_LE(line.size(), 80U) << line;
}

}  // namespace
}  // namespace shardwright
