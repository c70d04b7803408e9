// Reports fit a screen and leave nothing out.
#include "shardwright/frontend/report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <numeric>

#include "shardwright/base/text.h"
#include "tests/support/command_outcome.h"

namespace shardwright {
namespace {

using testing::outcome_of;
using Words = std::vector<std::string>;

std::vector<std::string> lines_of(const std::string& text) {
  std::vector<std::string> out;
  for (std::string_view line : split(text, '\n')) out.emplace_back(line);
  out.pop_back();
  return out;
}

/// The share of `line` that is followed by `%` for the time-th time, from 0 on; nothing if there is none.
std::optional<double> percent(const std::string& line, int which) {
  for (std::size_t at = line.find('%'); at != line.npos; at = line.find('%', at + 1)) {
    const std::size_t begin = line.find_last_of(' ', at) + 1;
    if (which-- == 0) return to_number(line.substr(begin, at - begin));
  }
  return std::nullopt;
}

/// Rows of the table that is behind its heading.
std::vector<std::string> rows_of(const std::vector<std::string>& lines) {
  const auto head =
      std::ranges::find_if(lines, [](const std::string& l) { return l.starts_with("  operator"); });
  std::vector<std::string> out;
  for (auto it = head == lines.end() ? head : head + 1; it != lines.end() && it->starts_with("  "); ++it)
    out.push_back(*it);
  return out;
}

TEST(Report, fits_a_screen_whatever_the_network) {
  for (const Words& words :
       {Words{"plan", "llama2-70b", "--cluster", "a100-80g:64", "--fix", "tp=8,pp=8", "--search-time", "2"},
        {"plan", "resnet50", "--devices", "8"},
        {"plan", "face:classes=1000", "--devices", "4", "--search", "recursive"},
        {"plan", "llama2-13b", "--cluster", "a100-80g:16", "--fix", "pp=8", "--global-batch", "64"}})
    EXPECT_LE(lines_of(outcome_of(words).out).size(), words.size() < 6 ? 46U : 50U) << join(words, " ");
}

/// Rows of kinds, of operators, and of a wide report, share out the same time and memory.
TEST(Report, leaves_nothing_out) {
  EXPECT_EQ(
      rows_of(lines_of(outcome_of({"plan", "ffn", "--devices", "8", "--search", "recursive"}).out)).size(),
      19U + 1U);
  const Words words{"plan", "resnet18", "--devices", "8", "--search", "recursive"};
  const auto kinds = rows_of(lines_of(outcome_of(words).out));
  const auto all = rows_of(lines_of(outcome_of(testing::with(words, {"--wide"})).out));
  EXPECT_LT(kinds.size(), 31U);
  EXPECT_GT(all.size(), 31U);
  for (const int column : {0, 1}) {
    const auto sum = [&](const std::vector<std::string>& rows) {
      return std::accumulate(rows.begin(), rows.end(), 0.0, [&](double all_above, const std::string& row) {
        return all_above + percent(row, column).value_or(0);
      });
    };
    EXPECT_NEAR(sum(kinds), 100, 0.05 * static_cast<double>(kinds.size()));
    EXPECT_NEAR(sum(all), 100, 0.05 * static_cast<double>(all.size()));
  }
}

TEST(Report, tells_equal_stages_once) {
  const Words words{"plan",      "llama:layers=8,hidden=64,heads=4,ffn=96,vocab=64,seq=16,batch=16",
                    "--devices", "8",
                    "--set",     "dp=2,pp=4,micro_batches=4"};
  const std::string told = outcome_of(words).out, wide = outcome_of(testing::with(words, {"--wide"})).out;
  const auto count = [](std::string_view text, std::string_view part) {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != text.npos; at = text.find(part, at + 1)) ++n;
    return n;
  };
  EXPECT_EQ(count(wide, "\nstage "), 4U);
  EXPECT_EQ(count(wide, "as above\n"), 0U);
  EXPECT_EQ(count(told, "\nstages 1 to 2: as above\n"), 1U) << told;
  EXPECT_EQ(count(told, "attention.q.matmul"), 1U) << told;
  EXPECT_EQ(count(told, "  head.matmul"), 1U) << told;
  EXPECT_LT(count(told, "\n"), count(wide, "\n"));
}

TEST(Report, marks_what_nobody_said) {
  const Words words{"plan", "ffn", "--devices", "2", "--search", "recursive"};
  const std::string told = outcome_of(words).out;
  EXPECT_NE(told.find("32 samples a step (assumed); f32 (assumed), sgd (assumed)\n"), told.npos) << told;
  const Words all =
      testing::with(words, {"--global-batch", "64", "--precision", "bf16", "--optimizer", "adamw"});
  const std::string said = outcome_of(all).out;
  EXPECT_NE(said.find("64 samples a step; bf16, adamw\n"), said.npos) << said;
}

}  // namespace
}  // namespace shardwright
