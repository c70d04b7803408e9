// A table of measured steps becomes a cluster that prices them (`calibrate --from runs.csv`).
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/file.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cost/cluster_file.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using nlohmann::json;

struct Outcome {
  int status = 0;
  std::string out, err;
};
Outcome run(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  return {run_command(words, terminal), out.str(), err.str()};
}

constexpr std::string_view model = "gpt:layers=4,hidden=1024,heads=16,ffn=4096,vocab=8192,seq=1024";

/// What `estimate` says on `cluster`.
json priced(const std::string& plan, const std::string& cluster) {
  const Outcome o = run(
      {"estimate", std::string(model), "--cluster", cluster, "--precision", "bf16", "--set", plan, "--json"});
  EXPECT_EQ(o.status, 0) << o.err;
  return json::parse(o.out);
}

const std::vector<std::string>& plans() {
  static const std::vector<std::string> all = [] {
    std::vector<std::string> out;
    for (const auto& [dp, tp, pp] :
         {std::tuple{16, 1, 1}, {8, 2, 1}, {4, 4, 1}, {2, 8, 1}, {4, 2, 2}, {8, 1, 2}})
      for (int micro_batch : {1, 2})
        out.push_back(
            fmt::format("dp={},tp={},pp={},micro_batch={},global_batch=64", dp, tp, pp, micro_batch));
    return out;
  }();
  return all;
}

/// As if the runs had been on a cluster whose products and network are slower than the preset's; bytes are 5 % and 1 GB more.
std::string table_of_runs(const std::string& folder) {
  Cluster truth = cluster_called("a100-80g:16");
  truth.efficiency[static_cast<std::size_t>(WorkKind::contraction)].best *= 0.75;
  truth.links.back().bytes_per_second *= 0.6;
  const std::string file = folder + "/truth.yaml";
  write_file(file, to_text(truth));
  std::string text = "model,plan,seconds,bytes,precision\n";
  for (const std::string& plan : plans()) {
    const json step = priced(plan, file);
    text += fmt::format("\"{}\",\"{}\",{},{},bf16\n", model, plan, step["step_seconds"].get<double>(),
                        step["memory_bytes"]["arena"].get<double>() + 1e9);
  }
  write_file(folder + "/runs.csv", text);
  return folder + "/runs.csv";
}

TEST(MeasuredRuns, become_a_cluster) {
  const std::string folder = scratch_folder(), table = table_of_runs(folder), out = folder + "/mine.yaml";
  const Outcome o = run({"calibrate", "--from", table, "--cluster", "a100-80g", "--out", out, "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const json document = json::parse(o.out);
  const Cluster found = load_cluster(out), said = cluster_called("a100-80g:16");
  EXPECT_EQ(parse_cluster(document.at("cluster"), out), found);
  EXPECT_EQ(found.devices(), 16);
  const auto products = [](const Cluster& c) { return c.efficiency_of(WorkKind::contraction).best; };
  EXPECT_NEAR(products(found) / products(said), 0.75, 0.05);
  EXPECT_NEAR(found.links.back().bytes_per_second / said.links.back().bytes_per_second, 0.6, 0.1);
  EXPECT_GT(document.at("mean_error_before"), 0.1);
  EXPECT_LT(document.at("mean_error"), 0.01);
  for (const json& r : document.at("runs")) EXPECT_TRUE(r.at("is_explained")) << r;
  const json& memory = document.at("memory").at(0);
  EXPECT_NEAR(memory.at("constant_bytes").get<double>(), 1e9, 1e8);
  EXPECT_LT(memory.at("mean_error"), memory.at("mean_error_before"));
  // Somebody can go on with what it says to run next.
  const json& next = document.at("next");
  EXPECT_LT(next.at("spread"), next.at("spread_before"));
  EXPECT_GT(priced(next.at("plan"), "a100-80g").at("step_seconds"), 0);
}

TEST(MeasuredRuns, one_that_is_wrong_is_named) {
  const std::string folder = scratch_folder(), table = table_of_runs(folder);
  std::string text = read_text(table);
  text += fmt::format("\"{}\",\"{}\",60,,bf16\n", model, plans().front());
  write_file(table, text);
  const Outcome o =
      run({"calibrate", "--from", table, "--cluster", "a100-80g", "--out", folder + "/mine.yaml"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.out.find(fmt::format("not explained: {}:{}: ", table, plans().size() + 2)), o.out.npos)
      << o.out;
  EXPECT_NE(o.out.find("run next: "), o.out.npos) << o.out;
}

TEST(MeasuredRuns, tables_that_are_none_are_refused_in_one_line) {
  const std::string folder = scratch_folder(), table = folder + "/runs.csv", out = folder + "/mine.yaml";
  const auto refusal = [&](const std::string& text) {
    write_file(table, text);
    const Outcome o = run({"calibrate", "--from", table, "--cluster", "a100-80g", "--out", out});
    EXPECT_EQ(o.status, 2) << text;
    EXPECT_EQ(std::count(o.err.begin(), o.err.end(), '\n'), 1) << o.err;
    EXPECT_FALSE(std::ifstream(out).good() && !read_text(out).empty()) << text;
    return o.err;
  };
  const auto says = [&](const std::string& text, std::string_view what) {
    const std::string err = refusal(text);
    EXPECT_NE(err.find(what), err.npos) << err;
  };
  const std::string head = "model,plan,seconds,bytes\n";
  says("", "is empty");
  says(head, "has no run");
  says("model,seconds\nffn,1\n", "has no column 'plan'");
  says("model,plan,seconds,colour\nffn,dp=2,1,red\n", "column 'colour'");
  says("model,plan,seconds,json\nffn,dp=2,1,1\n", "column 'json'");
  says(head + "ffn,dp=2,tp=1,1,\n", "stands in quotes");
  says(head + "ffn,dp=2,fast,\n", "seconds 'fast'");
  says(head + "ffn,dp=2,-1,\n", "seconds '-1'");
  says(head + "ffn,dp=2,,\n", "neither seconds nor bytes");
  says(head + "ffn,,1,\n", "has no plan");
  says(head + ",dp=2,1,\n", "has no model");
  says(head + "fnn,dp=2,1,\n", "runs.csv:2: ");
  says(head + "ffn,dp=2x,1,\n", "runs.csv:2: ");
  write_file(table, head + "ffn,dp=2,1,\n");
  EXPECT_NE(run({"calibrate", "--from", table, "--out", out}).err.find("--cluster"), std::string::npos);
}

}  // namespace
}  // namespace shardwright
