// From measuring to planning with what was measured, and from a trace to a corrected cluster.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/file.h"
#include "shardwright/cli/measure_host.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/runtime/trace_samples.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

using nlohmann::json;

struct Outcome {
  int status = 0;
  std::string out;
  std::string err;
};

Outcome run(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = testing::run_verified(words, terminal);
  return {status, out.str(), err.str()};
}

/// The cluster file, measured quickly.
std::string measured(const std::string& folder) {
  const std::string file = folder + "/host.yaml";
  const Outcome o = run({"calibrate", "--quick", "--devices", "2", "--out", file, "--json"});
  EXPECT_EQ(o.status, 0) << o.err;
  const json document = json::parse(o.out);
  EXPECT_EQ(parse_cluster(document.at("cluster"), file), load_cluster(file));
  for (const json& spread : document.at("spreads")) {
    const json& quartiles = spread.at("measured_over_predicted");
    EXPECT_GT(quartiles[0], 0);
    EXPECT_LE(quartiles[0], quartiles[1]);
    EXPECT_LE(quartiles[1], quartiles[2]);
  }
  EXPECT_NE(o.err.find("measured / predicted"), o.err.npos);
  return file;
}

std::string traced(const std::string& folder, const std::string& cluster) {
  const std::string file = folder + "/step.json";
  const Outcome o =
      run({"train", "ffn:batch=32", "--devices", "2", "--cluster", cluster, "--steps", "6", "--trace", file});
  EXPECT_EQ(o.status, 0) << o.err;
  return file;
}

TEST(Calibrate, writes_a_cluster_that_plans_are_made_for) {
  const std::string folder = scratch_folder(), file = measured(folder);
  const Cluster cluster = load_cluster(file);
  EXPECT_EQ(cluster.devices(), 2);
  EXPECT_NE(cluster.links, host_cluster(2).links);
  EXPECT_NE(cluster.efficiency, host_cluster(2).efficiency);
  EXPECT_NE(read_bytes(file).find("# measured on"), std::string::npos);
  const Outcome o = run({"plan", "ffn:batch=32", "--devices", "2", "--cluster", file, "--json"});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_GT(json::parse(o.out).at("step_seconds"), 0);
}

TEST(Calibrate, measures_groups_that_divide_the_devices) {
  const std::string file = scratch_folder() + "/host.yaml";
  const Outcome o = run({"calibrate", "--quick", "--devices", "3", "--out", file});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_NE(o.err.find("all_reduce of 3 ranks"), o.err.npos) << o.err;
}

TEST(Calibrate, tells_that_devices_take_turns_on_too_few_cores) {
  const std::string file = scratch_folder() + "/host.yaml";
  const auto told = [&](int devices) {
    return run({"calibrate", "--quick", "--devices", fmt::to_string(devices), "--out", file}).err;
  };
  const int cores = usable_cores();
  EXPECT_EQ(told(cores).find(" share "), std::string::npos);
  const std::string more = told(cores + 1);
  EXPECT_TRUE(more.starts_with(fmt::format(
      "{} devices share {} cores: what is measured has their waiting for a core in it\n", cores + 1, cores)))
      << more;
}

TEST(Calibrate, reads_what_training_has_recorded) {
  const std::string folder = scratch_folder(), file = measured(folder), trace = traced(folder, file);
  const TraceSamples samples = samples_of_trace(trace);
  Cluster planned = load_cluster(file);
  planned.name = samples.cluster.name;
  EXPECT_EQ(samples.cluster, planned);
  EXPECT_GT(samples.kernels.size(), 10U);
  const std::string to = folder + "/corrected.yaml";
  const Outcome o = run({"calibrate", "--from", trace, "--cluster", file, "--out", to});
  EXPECT_EQ(o.status, 0) << o.err;
  EXPECT_EQ(load_cluster(to).caches, load_cluster(file).caches);
}

/// A trace of what a cluster is expected to do leads to the same prices: from the cluster itself, whatever runs in the
/// trace; and from one whose products are half as fast.
TEST(Calibrate, corrects_a_cluster_by_a_trace) {
  const std::string folder = scratch_folder(), trace = folder + "/step.json", to = folder + "/corrected.yaml";
  for (const std::string model :
       {"ffn:widths=16-16-10,batch=4", "ffn:batch=1024", "llama:layers=1,batch=2"}) {
    SCOPED_TRACE(model);
    ASSERT_EQ(run({"simulate", model, "--cluster", "cpu:2", "--parallel", "data_parallel", "--trace", trace})
                  .status,
              0);
    const TraceSamples samples = samples_of_trace(trace);
    Cluster slow = cluster_called("cpu:2");
    for (Efficiency& e : slow.efficiency) e.best /= 2;
    write_file(folder + "/slow.yaml", to_text(slow));
    for (const std::string& from : {std::string("cpu:2"), folder + "/slow.yaml"}) {
      const Outcome o = run({"calibrate", "--from", trace, "--cluster", from, "--out", to});
      ASSERT_EQ(o.status, 0) << o.err;
      const Cluster found = load_cluster(to);
      double predicted = 0, recorded = 0;
      for (const KernelSample& k : samples.kernels) {
        predicted += compute_seconds(k.work, found);
        recorded += k.seconds;
      }
      EXPECT_NEAR(predicted, recorded, 0.03 * recorded) << from;
      EXPECT_EQ(found.flops_per_second, slow.flops_per_second) << from;
    }
    const Cluster same = cluster_called("cpu:2");
    run({"calibrate", "--from", trace, "--out", to});
    const Work large{.kind = WorkKind::contraction, .flops = 1e12, .bytes = 1e9};
    EXPECT_NEAR(compute_seconds(large, load_cluster(to)), compute_seconds(large, same),
                0.05 * compute_seconds(large, same));
  }
}

TEST(Calibrate, tells_in_one_line_what_is_no_trace) {
  const std::string folder = scratch_folder(), out = folder + "/c.yaml", in = folder + "/in.json";
  const auto told = [&](const std::string& text) {
    write_bytes(in, text);
    const Outcome o = run({"calibrate", "--from", in, "--out", out});
    EXPECT_EQ(o.status, 2);
    EXPECT_EQ(std::ranges::count(o.err, '\n'), 1) << o.err;
    EXPECT_FALSE(std::filesystem::exists(out));
    return o.err;
  };
  EXPECT_NE(told(R"({"traceEvents": []})")
                .find("in.json: is no trace of this program; write one with train --trace"),
            std::string::npos);
  EXPECT_NE(told("nothing").find("in.json: is no trace of this program"), std::string::npos);
  const std::string cluster = json(to_text(host_cluster(2))).dump();
  const std::string head =
      R"({"otherData": {"program": "shardwright", "cluster": )" + cluster + R"(}, "traceEvents": [)";
  EXPECT_NE(told(head + "]}").find("has no kernels that say what they do"), std::string::npos);
  EXPECT_NE(
      told(head + R"({"ph": "X", "cat": "compute", "pid": 0, "tid": 0, "dur": 1, "args": {"nodes": ["a"],
                 "work": {"kind": "thinking", "type": "f32"}}}]})")
          .find("'thinking' is no kind of work"),
      std::string::npos);
}

TEST(Calibrate, says_what_contradicts_itself) {
  EXPECT_EQ(run({"calibrate"}).err, "shardwright: calibrate needs --out FILE, the cluster file to write\n");
  const std::string folder = scratch_folder(), out = folder + "/c.yaml";
  EXPECT_NE(run({"calibrate", "--out", out, "--cluster", "cpu:2"}).err.find("--cluster has no effect"),
            std::string::npos);
  const std::string file = folder + "/cached.yaml", trace = folder + "/step.json";
  Cluster cached = cluster_called("cpu:2");
  cached.caches = {{1 << 20, 5e10}};
  write_file(file, to_text(cached));
  ASSERT_EQ(run({"simulate", "ffn:batch=32", "--cluster", file, "--trace", trace}).status, 0);
  const Outcome o = run({"calibrate", "--from", trace, "--cluster", "cpu:2", "--out", out});
  EXPECT_EQ(o.status, 2);
  EXPECT_NE(o.err.find("cpu:2 has other caches"), std::string::npos) << o.err;
  EXPECT_NE(run({"calibrate", "--from", trace, "--quick", "--out", out}).err.find("--quick has no effect"),
            std::string::npos);
}

TEST(ComparePlan, tells_the_step_beside_its_prediction) {
  const Outcome o =
      run({"train", "ffn:batch=32", "--devices", "2", "--steps", "8", "--compare-plan", "--json"});
  ASSERT_EQ(o.status, 0) << o.err;
  const json summary = json::parse(o.out.substr(o.out.rfind("{\"summary\""))).at("summary");
  const json& c = summary.at("compare_plan");
  double measured = 0, predicted = 0;
  const auto add = [&](const json& part) {
    measured += part.at("measured_seconds").get<double>();
    predicted += part.at("predicted_seconds").get<double>();
  };
  for (const char* parts : {"operators", "collectives"})
    for (const json& part : c.at(parts)) add(part);
  add(c.at("bubble"));
  add(c.at("others"));
  EXPECT_NEAR(measured, c.at("step").at("measured_seconds"), 1e-6 * measured);
  EXPECT_NEAR(predicted, c.at("step").at("predicted_seconds"), 1e-6 * predicted);
  const Outcome table = run({"train", "ffn:batch=32", "--devices", "2", "--steps", "8", "--compare-plan"});
  EXPECT_NE(table.err.find("predicted / measured"), std::string::npos) << table.err;
}

}  // namespace
}  // namespace shardwright
