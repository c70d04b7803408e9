// What devices hold as frameworks take it (cost/framework.h): against Megatron-LM's own golden memories, and what each of a
// profile's figures does to whole plans.

#include "shardwright/cost/framework.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"

namespace shardwright {
namespace {

using Json = nlohmann::json;

Json document_of(const std::string& command) {
  std::vector<std::string> words;
  for (std::string_view word : split(command, ' ')) words.emplace_back(word);
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  if (run_command(words, terminal) != 0) throw error("{}: {}", command, err.str());
  return Json::parse(out.str());
}

/// Bytes by kind of a stage, counted from the last.
Json stage_of(const Json& document, std::size_t from_last = 0) {
  const Json& all = document["memory_bytes"];
  return all.contains("stages") ? all["stages"][all["stages"].size() - 1 - from_last] : all;
}

double bytes_of(const Json& stage, std::initializer_list<const char*> kinds) {
  double out = 0;
  for (const char* kind : kinds) out += stage[kind].get<double>();
  return out;
}

double state_of(const Json& stage) { return bytes_of(stage, {"parameters", "optimizer_state", "gradients"}); }

/// Mean of what is off by, as a share.
class MeanError {
 public:
  void add(double predicted, double measured) { sum_ += std::abs(predicted / measured - 1), ++count_; }
  double mean() const { return sum_ / count_; }

 private:
  double sum_ = 0;
  int count_ = 0;
};

TEST(Frameworks, meet_the_golden_memories_of_megatron_lm) {
  const Json all = Json::parse(std::ifstream("tests/reference/megatron_memory.json"));
  ASSERT_GE(all["rows"].size(), 20U);
  const double fixed = static_cast<double>(framework_called("megatron-lm").fixed_bytes);
  MeanError of_peak, of_allocated;
  for (const Json& row : all["rows"]) {
    const Json stage = stage_of(document_of(row["command"]));
    const double peak = stage["arena"], measured = row["memory_max"], state = state_of(stage);
    const std::string id = row["id"];
    EXPECT_NEAR(state / row["derived_state_bytes"].get<double>(), 1, 0.02) << id;
    EXPECT_NEAR(peak / measured, 1, 0.10) << id;
    of_peak.add(peak, measured);
    of_allocated.add(state + fixed, row["memory_allocated"]);
  }
  EXPECT_LE(of_peak.mean(), 0.05);
  EXPECT_LE(of_allocated.mean(), 0.06);
}

constexpr const char* gpt = "gpt:layers=8,hidden=128,heads=4,ffn=512,vocab=1000,seq=64";

std::string command(const std::string& set, const std::string& framework,
                    const std::string& precision = "bf16", const std::string& cluster = "a100-80g:8") {
  return fmt::format(
      "estimate {} --cluster {} --precision {} --optimizer adamw --framework {} --set {} --json", gpt,
      cluster, precision, framework, set);
}

constexpr double layer = 12 * 128 * 128 + 13 * 128, norm = 2 * 128, embedding = 1000 * 128,
                 positions = 64 * 128;

/// Norms are in f32 here, and of 2 or 4 bytes there: few.
TEST(Frameworks, have_eighteen_bytes_of_a_parameter_or_six_and_a_share_of_twelve) {
  const double parameters = 8 * layer + norm + 1024 * 128 + positions;
  for (const auto& [set, precision, bytes] :
       {std::tuple("dp=4,micro_batch=1,global_batch=8,zero=0", "bf16", 18.0),
        {"dp=4,micro_batch=1,global_batch=8,zero=1,zero_threshold=0", "bf16", 6 + 12 / 4.0},
        {"dp=4,micro_batch=1,global_batch=8,zero=0", "fp16", 20.0},
        {"dp=4,micro_batch=1,global_batch=8,zero=1,zero_threshold=0", "fp16", 4 + 16 / 4.0},
        {"dp=4,micro_batch=1,global_batch=8,zero=0", "f32", 16.0}}) {
    const Json stage = stage_of(document_of(command(set, "megatron-lm", precision, "a100-80g:4")));
    EXPECT_NEAR(state_of(stage) / (bytes * parameters), 1, 0.02) << set << " " << precision;
  }
}

/// 1,000 classes over two devices are 500 each, and 512 there.
TEST(Frameworks, pad_the_vocabulary_of_each_device) {
  const auto parameters = [](const std::string& framework) {
    return stage_of(document_of(command("dp=1,tp=2,micro_batch=1,global_batch=4,zero=0", framework, "bf16",
                                        "a100-80g:2")))["parameters"]
        .get<double>();
  };
  EXPECT_EQ(parameters("megatron-lm") - parameters("ours"), 12 * 128 * 2);
}

/// The last stage's head is the embedding of the first.
TEST(Frameworks, copy_a_tied_head_with_its_states) {
  const std::string set = "dp=2,pp=4,micro_batch=1,global_batch=16,zero=1";
  const Json ours = stage_of(document_of(command(set, "ours"))),
             theirs = stage_of(document_of(command(set, "megatron-lm")));
  const double copy = 1024 * 128;
  EXPECT_EQ(theirs["parameters"].get<double>() - ours["parameters"].get<double>(), 2 * copy);
  EXPECT_EQ(theirs["optimizer_state"].get<double>() - ours["optimizer_state"].get<double>(), 12 * copy / 2);
  const Json between = stage_of(document_of(command(set, "megatron-lm")), 1);
  EXPECT_NEAR(state_of(theirs) - state_of(between), (6 + 12 / 2.0) * (copy + norm), 0.02 * 12 * copy);
}

/// Experts are one operator here that keeps nothing of what is between its products; there, of each row that comes to a device,
/// what goes into both of them and comes out of the first, which with a gate are two.
TEST(Frameworks, keep_what_experts_make_of_their_rows) {
  const auto activations = [](int ffn, const std::string& activation, const std::string& set,
                              const std::string& framework) {
    return stage_of(document_of(fmt::format(
        "estimate "
        "moe:layers=3,hidden=64,heads=4,kv_heads=4,ffn={},vocab=64,seq=32,experts=8,top_k=2,activation={} "
        "--cluster a100-80g:4 --precision bf16 --optimizer adamw --framework {} --set "
        "{},micro_batch=2,recompute=none --json",
        ffn, activation, framework, set)))["activations"]
        .get<double>();
  };
  const double rows = 3 * 2 * 32 * 2, bytes = 2, features = 256;  // of the rows of one replica, each twice
  for (const auto& [set, activation, wide] : {std::tuple("dp=4,global_batch=8", "gelu", 2.0),
                                              {"dp=4,global_batch=8", "swiglu", 3.0},
                                              {"dp=4,global_batch=8,ep=4", "swiglu", 3.0},
                                              {"dp=4,global_batch=8,ep=2", "swiglu", 3.0},
                                              {"dp=2,tp=2,global_batch=4,ep=2,etp=2", "swiglu", 3.0 / 2},
                                              {"dp=2,tp=2,global_batch=4,ep=4", "gelu", 2.0 / 2}}) {
    const auto more = [&](const std::string& framework) {
      return activations(512, activation, set, framework) - activations(256, activation, set, framework);
    };
    EXPECT_EQ(more("megatron-lm"), rows * wide * features * bytes) << set << " " << activation;
    EXPECT_EQ(more("fsdp2"), rows * wide * features * bytes) << set << " " << activation;
    EXPECT_EQ(more("ours"), 0) << set << " " << activation;
  }
}

/// A layer that is computed again keeps its input alone; what its experts make of rows is there for one layer at a time.
TEST(Frameworks, keep_of_rows_those_of_one_layer_where_layers_are_computed_again) {
  const auto held = [](int layers, int ffn, const std::string& recompute, const std::string& framework) {
    const Json stage = stage_of(document_of(fmt::format(
        "estimate moe:layers={},hidden=64,heads=4,kv_heads=4,ffn={},vocab=64,seq=32,experts=8,top_k=2,"
        "activation=swiglu --cluster a100-80g:4 --precision bf16 --optimizer adamw --framework {} --set "
        "dp=4,global_batch=8,micro_batch=2{} --json",
        layers, ffn, framework, recompute)));
    return bytes_of(stage, {"activations"});
  };
  const double rows = 2 * 32 * 2, bytes = 2, features = 256, products = 3;
  for (const std::string recompute : {",recompute=full", " --recompute layers.*.ffn"})
    for (const int layers : {1, 4}) {
      const auto more = [&](const std::string& framework) {
        return held(layers, 512, recompute, framework) - held(layers, 256, recompute, framework);
      };
      EXPECT_LE(more("megatron-lm"), rows * products * features * bytes) << recompute << " " << layers;
      EXPECT_EQ(more("ours"), 0) << recompute;
    }
  const auto more = [&](const std::string& recompute) {
    return held(4, 512, recompute, "megatron-lm") - held(4, 256, recompute, "megatron-lm");
  };
  EXPECT_EQ(more(",recompute=selected"), 4 * rows * products * features * bytes);
  EXPECT_GT(more(",recompute=full"), 0);
}

TEST(Frameworks, keep_masks_of_one_layer_where_layers_are_computed_again) {
  const auto masks = [](int layers, const std::string& recompute) {
    const auto workspace = [&](double dropout) {
      const Json document =
          document_of(fmt::format("estimate gpt:layers={},hidden=64,heads=4,vocab=64,seq=32,dropout={} "
                                  "--cluster a100-80g:4 --precision bf16 "
                                  "--optimizer adamw --framework megatron-lm --set "
                                  "dp=4,global_batch=8,micro_batch=2,recompute={} --json",
                                  layers, dropout, recompute));
      return bytes_of(stage_of(document), {"activations", "workspace"});
    };
    return workspace(0.1) - workspace(0);
  };
  const double mask = 2 * 32 * 64;
  EXPECT_EQ(masks(6, "none") - masks(3, "none"), 3 * 2 * mask);
  EXPECT_LE(masks(6, "full") - masks(3, "full"), 0);
}

TEST(Frameworks, keep_the_rows_of_the_busiest_device) {
  const auto activations = [](int ffn, const std::string& more) {
    return stage_of(document_of(fmt::format(
        "estimate moe:layers=1,hidden=64,heads=4,kv_heads=4,ffn={},vocab=64,seq=32,experts=8,top_k=2 "
        "--cluster a100-80g:4 --precision bf16 --optimizer adamw --framework megatron-lm "
        "--set dp=4,micro_batch=1,global_batch=4,{} --json",
        ffn, more)))["activations"]
        .get<double>();
  };
  const auto kept = [&](const std::string& more) { return activations(512, more) - activations(256, more); };
  EXPECT_EQ(kept("ep=4 --routing-imbalance 1.5"), 1.5 * kept("ep=4"));
  EXPECT_EQ(kept("ep=1 --routing-imbalance 1.5"), kept("ep=1"));  // each has them all
}

/// Of a parameter 2 bytes, 2 of its gradient, and of the update a master of 4 and two moments of 2.
TEST(Frameworks, of_bridge_have_gradients_and_moments_of_two_bytes) {
  const double parameters = 8 * layer + norm + 1024 * 128 + positions;
  const std::string set = "dp=4,micro_batch=1,global_batch=8,zero_threshold=0,zero=";
  for (const auto& [level, bytes] : {std::pair("0", 12.0), {"1", 4 + 8 / 4.0}}) {
    const Json stage = stage_of(document_of(command(set + level, "megatron-bridge", "bf16", "a100-80g:4")));
    EXPECT_NEAR(state_of(stage) / (bytes * parameters), 1, 0.02) << level;
  }
}

/// What an interleaved schedule holds is what its order says, not what each chunk would hold at its own worst moment.
TEST(Frameworks, hold_no_more_of_an_interleaved_schedule_for_more_micro_batches) {
  const auto activations = [](int batch) {
    const std::string set =
        fmt::format("dp=2,pp=4,micro_batch=1,global_batch={},schedule=interleaved:2", batch);
    const Json all = document_of(command(set, "megatron-lm"));
    std::vector<double> out;
    for (const Json& stage : all["memory_bytes"]["stages"]) out.push_back(bytes_of(stage, {"activations"}));
    return out;
  };
  const std::vector<double> few = activations(16), many = activations(64);
  EXPECT_EQ(few, many);
  EXPECT_GT(few.front(), few.back());
}

/// f32 masters are all that there is of short weights, in shards.
TEST(Frameworks, of_shards_have_no_short_weights_beside_their_masters) {
  const std::string set = "dp=4,micro_batch=1,global_batch=8,zero=3,zero_threshold=0";
  const double parameters = 8 * layer + norm + embedding + positions;
  const Json stage = stage_of(document_of(command(set, "fsdp2", "bf16", "a100-80g:4")));
  EXPECT_NEAR(state_of(stage) / (16 * parameters / 4), 1, 0.03);
}

TEST(Frameworks, reserve_more_than_they_allocate) {
  const std::string set = "dp=4,micro_batch=1,global_batch=8,zero=1";
  for (const Framework& f : frameworks()) {
    const Json memory = document_of(command(set, f.name, "bf16", "a100-80g:4"))["memory_bytes"];
    EXPECT_EQ(memory.contains("reserved"), f.reserve > 0) << f.name;
    if (f.reserve == 0) continue;
    EXPECT_NEAR(memory["reserved"].get<double>() / memory["arena"].get<double>(), 1 + f.reserve, 1e-6)
        << f.name;
  }
}

}  // namespace
}  // namespace shardwright
