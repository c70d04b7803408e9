// Documents in buckets of lengths: the losses of the same batches, all filled up to the longest, from one memory.
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <sstream>

#include "shardwright/base/random.h"
#include "shardwright/runtime/data/length_buckets.h"
#include "shardwright/runtime/data/token_file.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/command_outcome.h"
#include "tests/support/draws.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Words = std::vector<std::string>;

const std::vector<std::int64_t> lengths{4, 8, 16};
constexpr std::int64_t batch = 4;
constexpr std::uint64_t seed = 3;
const std::string sizes = "layers=2,hidden=16,heads=4,ffn=16,vocab=64", llama = "llama:" + sizes,
                  gpt = "gpt:" + sizes;

/// 46 documents of 2 to 20 tokens, each with a 0 behind it; of one nobody sees the end.
std::string write_documents(const std::string& folder) {
  std::vector<std::uint16_t> ids;
  int state = 1;
  for (int document = 0; document < 46; ++document) {
    const int length = document == 7 ? 20 : 1 + document * 5 % 16;
    for (int i = 0; i < length; ++i) ids.push_back(static_cast<std::uint16_t>(1 + (state = state * 37 % 61)));
    ids.push_back(0);
  }
  const std::string path = folder + "/t.bin";
  write_bytes(path, {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
  return path;
}

LengthBuckets buckets_of(const std::string& path) {
  return {read_marked(path, {.bytes = 2, .vocabulary = 64, .end = 0}),
          {.lengths = lengths, .batch = batch, .seed = seed}};
}

/// The batches of `steps`, each filled up to the longest.
void write_padded(const LengthBuckets& buckets, std::int64_t steps, const std::string& path) {
  const std::int64_t longest = buckets.options().lengths.back(), rows = buckets.options().batch;
  Tensor input({DType::i32, {steps, rows, longest}}), label({DType::i32, {steps, rows, longest}});
  std::ranges::fill(input.as<std::int32_t>(), 5);
  std::ranges::fill(label.as<std::int32_t>(), -100);
  for (std::int64_t s = 0; s < steps; ++s) {
    const auto columns = buckets.at_step(s);
    const auto own = static_cast<std::size_t>(columns.at("input").shape()[1]);
    for (std::size_t row = 0; row < static_cast<std::size_t>(rows); ++row)
      for (std::size_t i = 0; i < own; ++i) {
        const std::size_t to =
            (static_cast<std::size_t>(s * rows) + row) * static_cast<std::size_t>(longest) + i;
        input.as<std::int32_t>()[to] = columns.at("input").as<std::int32_t>()[row * own + i];
        label.as<std::int32_t>()[to] = columns.at("label").as<std::int32_t>()[row * own + i];
      }
  }
  write_safetensors(path, {{"input", std::move(input)}, {"label", std::move(label)}});
}

struct Ran {
  std::vector<double> losses;
  std::int64_t arena_bytes = 0;
  std::string told = {};
};

Ran trained(const std::string& model, const Words& more) {
  const auto ran = testing::outcome_of(
      testing::with({"train", model, "--lr", "0.05", "--json", "--precision", "f64", "--seed", "3"}, more));
  EXPECT_EQ(ran.status, 0) << ran.err;
  Ran out{.told = ran.err};
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);) {
    const auto json = nlohmann::json::parse(line);
    if (json.contains("loss")) out.losses.push_back(json["loss"]);
    if (json.contains("summary")) out.arena_bytes = json["summary"]["arena_bytes_per_device"];
  }
  return out;
}

void expect_near(const std::vector<double>& found, std::span<const double> want, const std::string& what) {
  ASSERT_EQ(found.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i)
    EXPECT_NEAR(found[i], want[i], 1e-9 * want[i]) << what << " " << i;
}

class EndToEndBuckets : public ::testing::Test {
 protected:
  Words of_data(const Words& more) const {
    return testing::with({"--data", data_, "--end", "0", "--buckets", "4,8,16"}, more);
  }
  const std::string folder_ = scratch_folder(), data_ = write_documents(folder_);
  const LengthBuckets buckets_ = buckets_of(data_);
  const std::int64_t steps_ = buckets_.batches_per_epoch() + 4;
};

TEST_F(EndToEndBuckets, have_the_losses_of_the_longest) {
  write_padded(buckets_, steps_, folder_ + "/padded.safetensors");
  const std::string steps = std::to_string(steps_), padded = folder_ + "/padded.safetensors";
  for (const std::string& network : {llama, gpt}) {
    const Ran want = trained(network + ",batch=4,seq=16,labels=asked",
                             {"--data", padded, "--steps", steps, "--optimizer", "adamw"});
    for (const Words& split : {Words{"--devices", "1"},
                               {"--devices", "2"},
                               {"--devices", "4"},
                               {"--devices", "2", "--fix", "tp=2"},
                               {"--devices", "3", "--fix", "tp=3"},
                               {"--devices", "4", "--fix", "dp=2,tp=2", "--optimizer-parallel", "1"},
                               {"--devices", "2", "--stages", "2", "--micro-batches", "2"},
                               {"--devices", "2", "--fix", "pp=2,micro_batches=2,schedule=interleaved:2"},
                               {"--devices", "4", "--fix", "dp=4", "--optimizer-parallel", "3"}})
      expect_near(trained(network + ",batch=4",
                          testing::with(of_data({"--steps", steps, "--optimizer", "adamw"}), split))
                      .losses,
                  want.losses, fmt::format("{} {}", network, fmt::join(split, " ")));
  }
}

TEST_F(EndToEndBuckets, go_on_in_the_middle_of_an_epoch) {
  const Words data = of_data({"--optimizer", "adamw", "--steps", std::to_string(steps_)});
  const std::string model = llama + ",batch=4";
  const Ran whole = trained(model, data);
  Words first = of_data({"--optimizer", "adamw", "--steps", "5", "--save", folder_ + "/run"});
  const Ran begun = trained(model, first);
  const Ran rest = trained(model, testing::with(data, {"--resume", folder_ + "/run", "--devices", "2"}));
  const std::span all(whole.losses);
  expect_near(begun.losses, all.first(5), "begun");
  expect_near(rest.losses, all.subspan(5), "gone on");
}

TEST_F(EndToEndBuckets, go_on_with_the_lengths_that_they_began_with) {
  const std::string model = llama + ",batch=4", run = folder_ + "/run", plain = folder_ + "/plain";
  trained(model, of_data({"--steps", "2", "--save", run}));
  trained(model + ",seq=16,labels=asked", {"--data", data_, "--end", "0", "--steps", "2", "--save", plain});
  const auto told = [&](const std::string& network, const Words& more) {
    const auto ran = testing::outcome_of(testing::with(
        {"train", network, "--data", data_, "--end", "0", "--precision", "f64", "--steps", "4"}, more));
    EXPECT_EQ(ran.status, 2) << ran.err;
    return ran.err.substr(ran.err.rfind("shardwright: "));
  };
  const std::string began =
      run +
      "/step-00000002 was trained with --buckets 4,8,16, which orders its data; give these, or "
      "--init for its weights alone\n";
  EXPECT_EQ(told(model, {"--buckets", "4,16", "--resume", run}), "shardwright: --buckets 4,16: " + began);
  EXPECT_EQ(told(model + ",seq=16,labels=asked", {"--resume", run}), "shardwright: no --buckets: " + began);
  EXPECT_EQ(
      told(model, {"--buckets", "4,8,16", "--resume", plain}),
      "shardwright: --buckets 4,8,16: " + plain +
          "/step-00000002 was trained without, which orders its data; leave --buckets out, or --init for its "
          "weights alone\n");
}

TEST_F(EndToEndBuckets, have_plans_of_their_own) {
  const std::string model = "llama:layers=4,hidden=16,heads=4,ffn=32,vocab=64,batch=8";
  const Words flags{"--steps", "12", "--optimizer", "adamw"};
  const Ran want = trained(model, testing::with(of_data({"--devices", "1"}), flags));
  const Ran ran = trained(
      model, testing::with(of_data({"--devices", "4", "--fix", "dp=4", "--memory-cap", "470KB"}), flags));
  expect_near(ran.losses, want.losses, "plans of their own");
  EXPECT_NE(ran.told.find("sequences of 4: recompute=none instead of"), std::string::npos) << ran.told;
  EXPECT_LE(ran.arena_bytes, 470'000);
}

TEST_F(EndToEndBuckets, take_the_memory_of_the_longest) {
  const Words flags{"--steps", "3", "--optimizer", "adamw", "--devices", "2"};
  const std::string model = llama + ",batch=4";
  const Ran all = trained(model, testing::with(of_data({}), flags));
  const Ran longest =
      trained(model, testing::with({"--data", data_, "--end", "0", "--buckets", "16"}, flags));
  EXPECT_GT(longest.arena_bytes, 0);
  EXPECT_EQ(all.arena_bytes, longest.arena_bytes);
}

TEST_F(EndToEndBuckets, tell_what_is_wrong) {
  const auto told = [&](const std::string& model, const Words& more) {
    const auto ran = testing::outcome_of(testing::with({"train", model, "--steps", "1"}, more));
    EXPECT_EQ(ran.status, 2) << ran.err;
    return ran.err.substr(ran.err.rfind("shardwright: "));
  };
  EXPECT_EQ(told(llama, {"--data", data_, "--end", "0", "--buckets", "8,4"}),
            "shardwright: --buckets 8,4: should be lengths of sequences that ascend, as in 64,128,256\n");
  EXPECT_EQ(told(llama + ",seq=32", of_data({})),
            "shardwright: --buckets: the longest is 16, but the model says seq=32\n");
  EXPECT_EQ(told("ffn", of_data({})), "shardwright: --buckets: ffn has no sequences\n");
  EXPECT_EQ(told(llama, {"--data", data_, "--buckets", "8"}),
            "shardwright: " + data_ +
                ": nothing says where documents end, which are to be kept apart; --end TOKEN does\n");
  EXPECT_EQ(told(llama, {"--buckets", "8", "--data", "missing.safetensors"}),
            "shardwright: missing.safetensors: of documents there are texts and tokens, no tensors\n");
  EXPECT_EQ(told(llama, of_data({"--trace", folder_ + "/t.json"})),
            "shardwright: --buckets: --trace is of one program; train with one length for it\n");
  EXPECT_EQ(
      told(llama, of_data({"--offload", "optimizer", "--devices", "2", "--optimizer", "adamw"})),
      "shardwright: --buckets: sequences of 4: programs that keep something on the host cannot share memory; "
      "leave out --offload\n");
  EXPECT_EQ(
      told(gpt + ",places=8", of_data({})),
      "shardwright: gpt:ffn=16,heads=4,hidden=16,labels=asked,layers=2,places=8,seq=16,vocab=64: places=8: "
      "sequences have 16\n");
  EXPECT_EQ(told(gpt + ",batch=4", of_data({"--devices", "4", "--fix", "tp=4,sequence_parallel=1"})),
            "shardwright: --buckets: sequences of 4: 'positions.weight' lies otherwise in one program than "
            "in another; "
            "they cannot share it\n");
  EXPECT_NE(told(llama + ",documents=apart", of_data({})).find("in buckets each is a sample"),
            std::string::npos);
}

/// Drawn lengths of buckets, and a drawn way to split them: losses of one device and the longest alone.
class DrawnBuckets : public EndToEndBuckets {
 protected:
  void compare(std::uint64_t number) {
    const RandomStream random(number, "drawn buckets");
    auto draw = [&, i = std::size_t{0}](std::int64_t below) mutable { return random.below(i++, below); };
    std::set<std::int64_t> drawn{16};
    for (std::int64_t i = draw(4); i >= 0; --i) drawn.insert(1 + draw(15));
    const std::vector<std::int64_t> own(drawn.begin(), drawn.end());
    const std::vector<Words> splits{{"--devices", "1"},
                                    {"--devices", "2"},
                                    {"--devices", "4"},
                                    {"--devices", "2", "--fix", "tp=2"},
                                    {"--devices", "4", "--fix", "dp=2,tp=2,zero=1"},
                                    {"--devices", "4", "--fix", "tp=4,sequence_parallel=1"},
                                    {"--devices", "4", "--fix", "dp=4,zero=3"},
                                    {"--devices", "2", "--fix", "pp=2,micro_batches=2"},
                                    {"--devices", "4", "--fix", "pp=2,dp=2,micro_batches=4,recompute=full"},
                                    {"--devices", "2", "--search", "recursive"},
                                    {"--devices", "4", "--fix", "dp=2,micro_batches=2"}};
    const Words& split = splits[static_cast<std::size_t>(draw(std::ssize(splits)))];
    // Learned positions split by the sequence lie otherwise for each length, which is refused.
    const bool by_sequence = split.back().find("sequence_parallel") != std::string::npos;
    const std::string network = (draw(2) == 0 || by_sequence ? llama : gpt) + ",batch=8";
    const LengthBuckets buckets(read_marked(data_, {.bytes = 2, .vocabulary = 64, .end = 0}),
                                {.lengths = own, .batch = 8, .seed = 3});
    const std::int64_t steps = std::min<std::int64_t>(buckets.batches_per_epoch() + 1, 8);
    const std::string padded = folder_ + "/drawn.safetensors";
    write_padded(buckets, steps, padded);
    const Words common{"--steps", std::to_string(steps), "--optimizer", "adamw"};
    const Ran want = trained(network + ",seq=16,labels=asked", testing::with(common, {"--data", padded}));
    const std::string said = fmt::format("{}", fmt::join(own, ","));
    const Ran found = trained(
        network,
        testing::with(testing::with(common, {"--data", data_, "--end", "0", "--buckets", said}), split));
    expect_near(found.losses, want.losses,
                fmt::format("drawn {}: {} {} {}", number, network, said, fmt::join(split, " ")));
  }
};

TEST_F(DrawnBuckets, have_the_losses_of_one_device) {
  for (std::uint64_t number = 0; number < testing::draws(6); ++number) compare(number);
}

class SlowDrawnBuckets : public DrawnBuckets {};
TEST_F(SlowDrawnBuckets, have_the_losses_of_one_device) {
  for (std::uint64_t number = 100; number < 100 + testing::draws(80); ++number) compare(number);
}

TEST(LengthBuckets, give_each_document_once_an_epoch) {
  const std::string data = write_documents(scratch_folder());
  const LengthBuckets buckets = buckets_of(data);
  EXPECT_EQ(buckets.cut(), 1);
  const std::vector<std::int64_t> samples = buckets.samples();
  EXPECT_EQ(std::accumulate(samples.begin(), samples.end(), std::int64_t{0}), 46);
  std::vector<std::multiset<std::vector<std::int32_t>>> epochs(2);
  std::vector<std::int64_t> order[2];
  for (std::int64_t s = 0; s < 2 * buckets.batches_per_epoch(); ++s) {
    const auto epoch = static_cast<std::size_t>(s / buckets.batches_per_epoch());
    const auto columns = buckets.at_step(s);
    const auto input = columns.at("input").as<std::int32_t>(), label = columns.at("label").as<std::int32_t>();
    const auto length = static_cast<std::size_t>(columns.at("input").shape()[1]);
    order[epoch].push_back(columns.at("input").shape()[1]);
    EXPECT_EQ(columns.at("input").shape()[0], batch);
    for (std::size_t row = 0; row < batch; ++row) {
      std::vector<std::int32_t> asked;
      for (std::size_t i = row * length; i < (row + 1) * length; ++i) {
        if (label[i] == -100) {
          EXPECT_EQ(input[i], 0);
          continue;
        }
        asked.push_back(label[i]);
        if (i + 1 < (row + 1) * length && label[i + 1] != -100) {
          EXPECT_EQ(label[i], input[i + 1]);
        }
      }
      if (!asked.empty()) epochs[epoch].insert(asked);
      EXPECT_LE(asked.size(), length);
      EXPECT_TRUE(asked.empty() || length == 4 || asked.size() > length / 2) << asked.size();
    }
  }
  EXPECT_EQ(epochs[0].size(), 46U);
  EXPECT_EQ(epochs[0], epochs[1]);
  EXPECT_NE(order[0], order[1]);
}

}  // namespace
}  // namespace shardwright
