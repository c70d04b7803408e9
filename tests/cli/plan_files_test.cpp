// Plan files go from folder to folder, and from version to version.
#include <gtest/gtest.h>

#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/plan/plan.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

/// What a command prints; its last line is what it says on stderr.
std::string run(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  testing::run_verified(words, terminal);
  return out.str() + err.str();
}

std::string cluster_with(std::string_view bandwidth) {
  return fmt::format(
      "nodes: 2\ndevices_per_node: 2\nmemory: 1GB\nmemory_bandwidth: 10GB/s\nflops: {{f32: 1T}}\n"
      "links:\n  - {{kind: wire, devices: 2, latency: 5us, bandwidth: 10GB/s}}\n"
      "  - {{kind: ether, latency: 20us, bandwidth: {}}}\n",
      bandwidth);
}

constexpr const char* network = "matmul_chain:widths=64-64-64-64,batch=16";

/// A folder to work in; the way back is found at the end.
class Folder {
 public:
  Folder() : path_(scratch_folder()), before_(std::filesystem::current_path()) {
    std::filesystem::create_directories(path_ + "/made/clusters");
    std::filesystem::create_directories(path_ + "/elsewhere");
    enter("made");
  }
  ~Folder() { std::filesystem::current_path(before_); }
  void enter(const std::string& name) const { std::filesystem::current_path(path_ + "/" + name); }

 private:
  std::string path_;
  std::filesystem::path before_;
};

TEST(PlanFile, holds_its_cluster_so_that_neither_folders_nor_edits_change_it) {
  for (const char* stages : {"1", "2"}) {
    SCOPED_TRACE(stages);
    const Folder folder;
    write_bytes("clusters/two.yaml", cluster_with("1GB/s"));
    const std::string planned =
        run({"plan", network, "--cluster", "clusters/two.yaml", "--parallel", "data_parallel", "--stages",
             stages, "--micro-batches", "2", "--precision", "f32", "--optimizer", "sgd", "-o", "p.json"});
    EXPECT_NE(planned.find("per step: "), planned.npos) << planned;
    EXPECT_EQ(run({"estimate", "p.json"}), planned);
    write_bytes("clusters/two.yaml", cluster_with("1MB/s"));
    EXPECT_EQ(run({"estimate", "p.json"}), planned) << "edited";
    folder.enter("elsewhere");
    EXPECT_EQ(run({"estimate", "../made/p.json"}), planned) << "from another folder";
    EXPECT_EQ(to_json(load_plan("../made/p.json")) + "\n", read_bytes("../made/p.json"));
  }
}

TEST(PlanFile, is_priced_by_another_cluster_where_that_is_asked_for_and_says_so) {
  const Folder folder;
  write_bytes("two.yaml", cluster_with("1GB/s"));
  const std::string planned = run({"plan", network, "--parallel", "data_parallel", "--cluster", "two.yaml",
                                   "--precision", "f32", "--optimizer", "sgd", "-o", "p.json"});
  const std::vector<std::string> again{"plan", network, "--plan", "p.json", "--cluster", "two.yaml"};
  EXPECT_EQ(run(again), planned);
  write_bytes("two.yaml", cluster_with("1MB/s"));
  const std::string other = run(again);
  const std::string notice =
      "--cluster two.yaml: differs from the cluster two.yaml in the plan p.json; times are those of the "
      "cluster "
      "given, not of the one planned for\n";
  EXPECT_TRUE(other.ends_with(notice)) << other;
  EXPECT_NE(other.substr(0, other.size() - notice.size()), planned);
  EXPECT_EQ(run({"plan", network, "--plan", "p.json", "--cluster", "cpu:4"}).find("--cluster"),
            std::string::npos);
}

/// What trains is of our own, whoever judged the plan: what is told of it, and what recompute saves, is the arena.
TEST(PlanFile, that_a_framework_has_judged_trains_in_memory_of_our_own) {
  const Folder folder;
  const std::vector<std::string> words{"plan",          network,       "--devices", "2", "--parallel",
                                       "data_parallel", "--recompute", "full",      "-o"};
  const auto told = [&](const std::string& file, const std::vector<std::string>& more) {
    std::vector<std::string> all = words;
    all.push_back(file);
    all.insert(all.end(), more.begin(), more.end());
    run(all);
    const std::string out = run({"train", network, "--plan", file, "--steps", "1"});
    return out.substr(0, out.find("epoch: "));
  };
  const std::string ours = told("ours.json", {});
  EXPECT_NE(ours.find("recompute full: "), ours.npos) << ours;
  EXPECT_EQ(told("theirs.json", {"--framework", "megatron"}), ours);
  EXPECT_NE(run({"estimate", "theirs.json"}).find("GB in all instead of"), std::string::npos);
}

TEST(PlanFile, of_a_preset_holds_its_name_alone) {
  const Folder folder;
  run({"plan", network, "--cluster", "a100-80g:4", "-o", "p.json"});
  const std::string text = read_bytes("p.json");
  EXPECT_NE(text.find("\"cluster\": \"a100-80g:4\""), text.npos);
  EXPECT_EQ(text.find("cluster_text"), text.npos);
}

}  // namespace
}  // namespace shardwright
