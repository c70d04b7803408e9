// Checkpoints: written under one plan, read under another; damage; what hostile files say.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <sstream>
#include <thread>

#include "shardwright/base/checksum.h"
#include "shardwright/frontend/training_data.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/runtime/checkpoint/shard.h"
#include "shardwright/runtime/checkpoint/write.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/scratch.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// A way to train a network whose dims no number of devices divides.
struct Way {
  const char* name;
  int devices = 1;
  Constraints constraints = {};
  Precision precision = {DType::f64};
  Parallel parallel = Parallel::data_parallel;
  const char* search = "";
};

const Way ways[] = {
    {.name = "alone"},
    {.name = "data_2", .devices = 2},
    {.name = "data_3", .devices = 3},
    {.name = "level_1", .devices = 4, .constraints = constraints_of({.optimizer_parallel = {1, 0}})},
    {.name = "level_2_on_3", .devices = 3, .constraints = constraints_of({.optimizer_parallel = {2, 0}})},
    {.name = "level_3", .devices = 8, .constraints = constraints_of({.optimizer_parallel = {3, 0}})},
    {.name = "level_3_in_groups",
     .devices = 4,
     .constraints = constraints_of({.optimizer_parallel = {3, 0, 2}})},
    {.name = "searched", .devices = 8, .parallel = Parallel::auto_parallel, .search = "recursive"},
    {.name = "two_stages",
     .devices = 4,
     .constraints = constraints_of({.pipelining = {Schedule::gpipe(), 2, 3}})},
    {.name = "interleaved",
     .devices = 2,
     .constraints = constraints_of({.pipelining = {Schedule::interleaved(2), 2, 2}})},
    {.name = "three_stages_of_sharded",
     .devices = 6,
     .constraints = constraints_of({.optimizer_parallel = {1, 0}, .pipelining = {Schedule::gpipe(), 3, 3}})},
    {.name = "micro_batches",
     .devices = 2,
     .constraints = constraints_of({.pipelining = {Schedule::gpipe(), 1, 4}})},
};

constexpr const char* model_name = "ffn:batch=72,widths=14-11-7-9-5";

Pipeline pipeline_of(const Way& way, const std::string& model = model_name) {
  const Model step = testing::train_model(
      {.model = model, .file = "", .optimizer = {"adamw", {{"rate", 0.01}}}, .precision = way.precision},
      settings_of(way.constraints).pipelining.micro_batches);
  return compile_pipeline(
      step.graph,
      make_plan(step.graph, {.model = model,
                             .devices = way.devices,
                             .parallel = way.devices == 1 ? Parallel::stand_alone : way.parallel,
                             .search = way.devices == 1 ? "" : way.search,
                             .constraints = way.constraints}),
      {.formats = default_devices().formats});
}

std::map<std::string, Tensor> batch_of(std::int64_t step) {
  std::ostringstream notices;
  const Model whole = build_model(model_name, {.global_batch = {}, .precision = {DType::f64}, .loss = ""});
  return training_data(whole, 1, "", "", 7, notices).batch(step);
}

double loss_of(Session& session, std::int64_t step) { return to_doubles(session.step(batch_of(step))[0])[0]; }

RunState behind(std::int64_t step) { return {.model = model_name, .step = step, .seed = 1, .samples = 72}; }

Saved save(Session& session, const std::string& folder, std::int64_t step, std::int64_t keep = 0) {
  CheckpointSaver saver(session, {.folder = folder, .keep = keep, .plan = "{}"});
  saver.save(behind(step));
  return saver.wait().front();
}

TEST(Checkpoint, of_any_plan_is_read_under_any_other) {
  const std::string folder = scratch_folder();
  std::vector<std::string> saved;
  std::map<std::string, Tensor> first;  // of the way that is saved first; the others begin with the same
  std::vector<double> losses;
  for (const Way& way : ways) {
    Session session(pipeline_of(way), {.seed = 3, .only_scalars = true});
    for (int step = 0; step < 2; ++step) loss_of(session, step);
    const Saved done = save(session, fmt::format("{}/{}", folder, way.name), 2);
    ASSERT_EQ(done.failure, "");
    saved.push_back(done.folder);
    losses.push_back(loss_of(session, 2));
    EXPECT_NEAR(losses.back(), losses.front(), 1e-9 * losses.front()) << way.name;
  }
  for (const Way& way : ways) {
    Session session(pipeline_of(way), {.seed = 4, .only_scalars = true});
    for (std::size_t i = 0; i < saved.size(); ++i) {
      SCOPED_TRACE(fmt::format("{} read by {}", ways[i].name, way.name));
      const CheckpointReader checkpoint = open_checkpoint(saved[i]);
      EXPECT_TRUE(load(session, source_of(checkpoint), Restored::all).empty());
      for (const SavedTensor& t : checkpoint.manifest().tensors) {
        const Tensor here = session.get(t.name), there = checkpoint.read(t.name);
        ASSERT_EQ(here.type(), there.type()) << t.name;
        ASSERT_TRUE(std::ranges::equal(here.bytes(), there.bytes())) << t.name;
      }
      EXPECT_NEAR(loss_of(session, 2), losses[i], 1e-9 * losses[i]);
      if (ways[i].name == way.name) {
        load(session, source_of(checkpoint), Restored::all);
        EXPECT_EQ(loss_of(session, 2), losses[i]) << "not bit for bit";
      }
    }
  }
}

TEST(Checkpoint, of_masters_is_read_in_other_precisions) {
  const std::string folder = scratch_folder();
  const Way mixed{.name = "mixed",
                  .devices = 4,
                  .constraints = constraints_of({.optimizer_parallel = {1, 0}}),
                  .precision = Precision::mixed(DType::bf16)};
  Session session(pipeline_of(mixed), {.seed = 3, .only_scalars = true});
  const auto batch = [](const Session& s) {
    std::ostringstream notices;
    const Model m =
        build_model(model_name, {.global_batch = {}, .precision = Precision::mixed(DType::bf16), .loss = ""});
    (void)s;
    return training_data(m, 1, "", "", 7, notices).batch(0);
  };
  session.step(batch(session));
  const CheckpointReader checkpoint = open_checkpoint(save(session, folder, 1).folder);
  EXPECT_EQ(checkpoint.manifest().tensor("dense1.weight").type.dtype, DType::f32) << "the master's";
  const double next = to_doubles(session.step(batch(session))[0])[0];

  Session same(pipeline_of(mixed), {.seed = 9, .only_scalars = true});
  load(same, source_of(checkpoint), Restored::all);
  EXPECT_EQ(to_doubles(same.step(batch(same))[0])[0], next);

  Session wide(pipeline_of({.name = "f64", .devices = 2}), {.seed = 9, .only_scalars = true});
  load(wide, source_of(checkpoint), Restored::all);
  EXPECT_EQ(to_doubles(wide.get("dense1.weight")), to_doubles(checkpoint.read("dense1.weight")));
}

TEST(Checkpoint, has_each_element_once_and_shares_the_writing) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(seed);
    SCOPED_TRACE(drawn.what);
    const KeptValues kept(drawn.pipeline);
    const auto shares = shares_of(drawn.pipeline, kept);
    for (const SavedTensor& t : saved_tensors(drawn.pipeline, kept, shares)) {
      std::int64_t elements = 0;
      for (std::size_t i = 0; i < t.shards.size(); ++i) elements += element_count(t.part(i).extent);
      EXPECT_EQ(elements, element_count(t.type.shape)) << t.name;
    }
  }
  const Pipeline replicas = pipeline_of({.name = "data", .devices = 2}, "ffn:batch=32");
  const KeptValues kept(replicas);
  std::vector<std::int64_t> bytes;
  for (const auto& share : shares_of(replicas, kept)) bytes.push_back(ShardImage(kept, share).bytes());
  EXPECT_LT(std::abs(bytes[0] - bytes[1]), bytes[0] / 10) << "one of two replicas writes most";
}

class Folder : public ::testing::Test {
 protected:
  Folder()
      : folder_(scratch_folder()),
        session_(pipeline_of({.name = "data", .devices = 2}), {.only_scalars = true}) {}

  std::string message_of_load(const std::string& folder) {
    return error_of([&] { load(session_, source_of(CheckpointReader(folder)), Restored::all); });
  }

  std::string folder_;
  Session session_;
};

TEST_F(Folder, keeps_the_last_and_the_best) {
  CheckpointSaver saver(session_, {.folder = folder_, .keep = 2, .plan = ""});
  for (std::int64_t step = 1; step <= 5; ++step) saver.save(behind(step), step == 2);
  EXPECT_EQ(saver.wait().size(), 5U);
  std::vector<std::int64_t> steps;
  for (const shardwright::Checkpoint& c : checkpoints_in(folder_)) steps.push_back(c.step);
  EXPECT_EQ(steps, (std::vector<std::int64_t>{5, 4, 2}));
  EXPECT_EQ(fs::read_symlink(folder_ + "/latest"), "step-00000005");
  EXPECT_EQ(fs::read_symlink(folder_ + "/best"), "step-00000002");
  EXPECT_EQ(open_checkpoint(folder_).manifest().run.step, 5);
  EXPECT_EQ(open_checkpoint(folder_ + "/best").manifest().run.step, 2);
}

TEST_F(Folder, an_open_checkpoint_is_read_when_it_has_been_removed) {
  const CheckpointReader open(save(session_, folder_, 1).folder);
  fs::remove_all(folder_);
  open.verify();
}

TEST_F(Folder, is_opened_while_the_last_checkpoint_is_replaced) {
  const std::string first = save(session_, folder_, 1).folder, kept = folder_ + "-kept";
  fs::copy(first, kept, fs::copy_options::recursive);
  std::atomic<bool> is_done = false;
  std::thread run([&] {
    std::string last = first;
    for (int step = 2; !is_done; ++step) {
      const std::string next = fmt::format("{}/step-{:08}", folder_, step);
      fs::copy(kept, folder_ + "-new", fs::copy_options::recursive);
      fs::rename(folder_ + "-new", next);
      fs::remove_all(last);
      last = next;
    }
  });
  for (int i = 0; i < 300; ++i) EXPECT_NO_THROW(open_checkpoint(folder_)) << i;
  is_done = true;
  run.join();
  fs::remove_all(kept);
}

TEST_F(Folder, is_of_one_run_at_a_time) {
  const CheckpointSaver saver(session_, {.folder = folder_, .plan = ""});
  EXPECT_EQ(error_of([&] { CheckpointSaver(session_, {.folder = folder_, .plan = ""}); }),
            folder_ + ": another run saves there; give another folder, or wait for it");
}

TEST_F(Folder, a_save_that_fails_leaves_the_earlier_ones) {
  CheckpointSaver saver(session_, {.folder = folder_, .plan = ""});
  saver.save(behind(1));
  EXPECT_EQ(saver.wait().front().failure, "");
  write_bytes(unfinished_folder(folder_, 2), "a file where the folder should be");
  fs::create_directories(finished_folder(folder_, 3));
  write_bytes(finished_folder(folder_, 3) + "/other", "");
  saver.save(behind(2));
  EXPECT_EQ(saver.wait().front().failure, "") << "what others left is removed";
  const Tensor before = session_.get("dense1.weight");
  loss_of(session_, 0);
  EXPECT_EQ(message_of_load(finished_folder(folder_, 1)), "no error");
  EXPECT_TRUE(std::ranges::equal(session_.get("dense1.weight").bytes(), before.bytes()));
}

TEST_F(Folder, tells_every_damage) {
  const std::string whole = save(session_, folder_ + "/run", 1).folder, broken = folder_ + "/broken";
  int checked = 0;
  for (const auto& entry : fs::directory_iterator(whole)) {
    const std::string bytes = read_bytes(entry.path().string()), name = entry.path().filename().string();
    for (std::size_t at = 0; at < bytes.size(); at += bytes.size() / 37 + 1) {
      fs::remove_all(broken);
      fs::copy(whole, broken);
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ 1);
      write_bytes(broken + "/" + name, changed);
      EXPECT_NE(error_of([&] { CheckpointReader(broken).verify(); }).find(broken), std::string::npos)
          << name << at;
      EXPECT_NE(message_of_load(broken).find(broken), std::string::npos) << name << " " << at;
      write_bytes(broken + "/" + name, bytes.substr(0, at));
      EXPECT_NE(message_of_load(broken).find(broken), std::string::npos) << name << " cut at " << at;
      checked += 2;
    }
    fs::remove_all(broken);
    fs::copy(whole, broken);
    fs::remove(broken + "/" + name);
    EXPECT_NE(message_of_load(broken).find(broken), std::string::npos) << name << " is missing";
    if (name == manifest_file) continue;
    fs::create_symlink("/dev/zero", broken + "/" + name);
    EXPECT_NE(message_of_load(broken).find("is a link, not a file"), std::string::npos);
  }
  EXPECT_GT(checked, 100);
  EXPECT_EQ(message_of_load(whole), "no error") << "the session is still of use";
}

TEST_F(Folder, of_another_model_or_optimizer_is_refused) {
  const Model other = testing::train_model({.model = model_name,
                                            .file = "",
                                            .optimizer = {"momentum", {{"rate", 0.01}}},
                                            .precision = {DType::f64}});
  Session momentum(
      compile_pipeline(other.graph, make_plan(other.graph, {.parallel = Parallel::stand_alone})));
  const std::string of_momentum = save(momentum, folder_ + "/m", 1).folder;
  EXPECT_NE(message_of_load(of_momentum).find("another optimizer"), std::string::npos)
      << message_of_load(of_momentum);
  load(session_, source_of(CheckpointReader(of_momentum)), Restored::parameters);
  EXPECT_TRUE(std::ranges::equal(session_.get("dense2.bias").bytes(), momentum.get("dense2.bias").bytes()));

  Session wider(pipeline_of({.name = "alone"}, "ffn:batch=72,widths=14-12-7-9-5"));
  const std::string of_wider = save(wider, folder_ + "/w", 1).folder;
  EXPECT_NE(message_of_load(of_wider).find("'dense1.weight' is f64[14, 12] but f64[14, 11] here"),
            std::string::npos)
      << message_of_load(of_wider);
}

TEST_F(Folder, tensors_are_written_anew) {
  loss_of(session_, 0);
  const std::string saved = save(session_, folder_ + "/run", 1).folder;
  const TensorSource source = open_source(saved);
  write_plain(source, folder_ + "/all.safetensors");
  write_checkpoint(source, folder_ + "/one");
  write_checkpoint(source, folder_ + "/eight", pipeline_of(ways[5]), "{}");
  for (const char* other : {"/all.safetensors", "/one", "/eight"}) {
    const SourceDifference d = difference_of(source, open_source(folder_ + other));
    EXPECT_TRUE(d.is_none()) << other;
    EXPECT_GT(d.compared, 20);
  }
  EXPECT_EQ(CheckpointReader(folder_ + "/eight").manifest().tensor("dense1.weight").grid(),
            (std::vector<std::int64_t>{8, 1}));
  EXPECT_EQ(message_of_load(folder_ + "/eight"), "no error");

  TensorSource renamed = source;
  rename(renamed, {{"dense1.weight", "first"}});
  EXPECT_EQ(error_of([&] {
              rename(renamed, {{"dense1.wieght", "x"}});
            }).substr(saved.size(), 30),
            ": has no tensor 'dense1.wieght");
  EXPECT_EQ(error_of([&] {
              rename(renamed, {{"first", "dense2.bias"}});
            }),
            "two tensors would be called 'dense2.bias'");
  const SourceDifference d = difference_of(source, renamed);
  EXPECT_EQ(d.only_in_first, (std::vector<std::string>{"dense1.weight"}));
  drop_states(renamed);
  EXPECT_EQ(renamed.items.size(), 8U);
  write_plain(renamed, folder_ + "/weights.safetensors");
  EXPECT_EQ(difference_of(renamed, open_source(folder_ + "/weights.safetensors")).compared, 8);
}

/// A manifest whose checksum is right, whatever it says.
std::string signed_manifest(const std::string& rest) {
  return fmt::format("{{\"checksum\": \"{}\",\n{}", checksum_text(checksum(rest)), rest);
}

TEST(Manifest, hostile_ones_are_refused_in_one_line) {
  const auto manifest = [](const std::string& tensors, const std::string& shards,
                           const std::string& more = "") {
    return signed_manifest(fmt::format(
        R"("format": 1, "run": {{"model":"m","step":1,"seed":1,"samples":1,"schedule":"","best":null}}, "plan": null, )"
        R"("block_bytes": 4096, "tensors": [{}], "shards": [{}]{}}})",
        tensors, shards, more));
  };
  const auto refuses = [](const std::string& text, const std::string& why) {
    const std::string message = error_of([&] { parse_manifest(text, "m.json"); });
    EXPECT_NE(message.find(why), std::string::npos) << message;
    EXPECT_EQ(message.find("m.json: "), 0U);
    EXPECT_EQ(message.find('\n'), std::string::npos);
  };
  const std::string shard = R"({"file":"a.safetensors","bytes":8,"checksums":"0123456789abcdef"})";
  const auto tensor = [](const std::string& type, const std::string& cuts, const std::string& shards) {
    return fmt::format(R"({{"name":"w","type":"{}","kind":"parameter","layout":"","cuts":{},"shards":{}}})",
                       type, cuts, shards);
  };
  EXPECT_EQ(parse_manifest(manifest(tensor("f32[2]", "[[0,1]]", "[0,0]"), shard), "m").tensors.size(), 1U);
  EXPECT_EQ(parse_manifest(manifest(tensor("f32[0, 4]", "[[],[0]]", "[]"), shard), "m").tensors.size(), 1U);

  refuses("", "is no manifest");
  refuses("{\"checksum\": \"0123456789abcdef\",\n}", "is damaged");
  refuses(signed_manifest("]"), "m.json: ");
  refuses(signed_manifest("\"format\": 2}"), "format 2");
  for (const char* file :
       {"../a.safetensors", "/etc/a.safetensors", ".a.safetensors", "a", "", "x/../a.safetensors"})
    refuses(manifest("", fmt::format(R"({{"file":"{}","bytes":8,"checksums":"0123456789abcdef"}})", file)),
            "safetensors file of this folder");
  refuses(manifest("", shard + "," + shard), "stands twice");
  refuses(manifest("", R"({"file":"a.safetensors","bytes":-1,"checksums":""})"), "bytes");
  refuses(manifest("", R"({"file":"a.safetensors","bytes":9223372036854775807,"checksums":""})"),
          "checksums");
  refuses(manifest("", R"({"file":"a.safetensors","bytes":8,"checksums":"0123456789ABCDEF"})"), "checksums");
  const std::string good = tensor("f32[2]", "[[0]]", "[0]");
  refuses(manifest(good + "," + good, shard), "stands twice");
  refuses(manifest(tensor("f32[2]", "[[1]]", "[0]"), shard), "cuts");
  refuses(manifest(tensor("f32[2]", "[[0,0]]", "[0,0]"), shard), "cuts");
  refuses(manifest(tensor("f32[2]", "[[0,2]]", "[0,0]"), shard), "cuts");
  refuses(manifest(tensor("f32[2]", "[[]]", "[]"), shard), "do not cover");
  refuses(manifest(tensor("f32[2]", "[[0],[0]]", "[0]"), shard), "no such dim");
  refuses(manifest(tensor("f32[2]", "[]", "[0]"), shard), "cuts");
  refuses(manifest(tensor("f32[2]", "[[0]]", "[1]"), shard), "shards");
  refuses(manifest(tensor("f32[2]", "[[0]]", "[-1]"), shard), "shards");
  refuses(manifest(tensor("f32[2]", "[[0,1]]", "[0]"), shard), "2 numbers");
  refuses(manifest(tensor("f32[9223372036854775807, 9223372036854775807]", "[[0],[0]]", "[0]"), shard),
          "m.json");
  refuses(manifest(tensor("f99[2]", "[[0]]", "[0]"), shard), "f99");
  refuses(manifest(tensor("f32[-2]", "[[0]]", "[0]"), shard), "m.json");
  refuses(manifest(tensor("f32[6, 2147483648]", "[[0],[0]]", "[0]"), shard),
          "in a.safetensors, which has 8 bytes");
}

}  // namespace
}  // namespace shardwright
