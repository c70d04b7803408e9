// Documents that are packed into one sequence, kept apart: the losses of a sequence for each, under every split.
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Words = std::vector<std::string>;

constexpr std::int64_t steps = 3, length = 8;
const std::vector<std::int64_t> documents{3, 5};  // in a row of `length`

Tensor integers(Shape shape, const std::vector<double>& values) {
  return make_tensor({DType::i32, std::move(shape)}, values);
}

/// The same documents, packed into rows and one a row; what stands behind the latter is not asked for.
void write_both(const std::string& folder, std::int64_t rows) {
  std::vector<double> tokens, labels, places, alone, alone_labels;
  int state = 1;
  const auto draw = [&] { return static_cast<double>(state = (state * 37 + 11) % 59); };
  for (std::int64_t row = 0; row < steps * rows; ++row)
    for (const std::int64_t own : documents) {
      for (std::int64_t i = 0; i < length; ++i) {
        const bool is_last = i + 1 >= own;
        const double token = draw(), label = is_last ? -100 : draw();
        alone.push_back(token);
        alone_labels.push_back(label);
        if (i >= own) continue;
        tokens.push_back(token);
        labels.push_back(label);
        places.push_back(static_cast<double>(i));
      }
    }
  write_safetensors(folder + "/packed.safetensors",
                    {{"input", integers({steps, rows, length}, tokens)},
                     {"label", integers({steps, rows, length}, labels)},
                     {"position_ids", integers({steps, rows, length}, places)}});
  write_safetensors(folder + "/alone.safetensors",
                    {{"input", integers({steps, 2 * rows, length}, alone)},
                     {"label", integers({steps, 2 * rows, length}, alone_labels)}});
}

std::vector<double> losses(const std::string& model, const std::string& data, const Words& more = {}) {
  Words words{"train", model, "--data", data,          "--steps", std::to_string(steps),
              "--lr",  "0.1", "--json", "--precision", "f64"};
  words.insert(words.end(), more.begin(), more.end());
  const auto ran = testing::outcome_of(words);
  EXPECT_EQ(ran.status, 0) << ran.err;
  std::vector<double> out;
  std::istringstream lines(ran.out);
  for (std::string line; std::getline(lines, line);)
    if (const auto json = nlohmann::json::parse(line); json.contains("loss")) out.push_back(json["loss"]);
  EXPECT_EQ(std::ssize(out), steps);
  return out;
}

void expect_near(const std::vector<double>& found, const std::vector<double>& want, const std::string& what) {
  ASSERT_EQ(found.size(), want.size()) << what;
  for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(found[i], want[i], 1e-9 * want[i]) << what;
}

TEST(EndToEndPacking, keeps_documents_apart_under_every_split) {
  const std::string folder = scratch_folder();
  write_both(folder, 4);
  for (const std::string network : {"llama:layers=2,hidden=16,heads=4,kv_heads=2,ffn=16,vocab=64,seq=8",
                                    "gpt:layers=2,hidden=16,heads=4,vocab=64,seq=8"}) {
    const auto want = losses(network + ",batch=8,labels=asked", folder + "/alone.safetensors");
    const std::string packed = network + ",batch=4,documents=apart", data = folder + "/packed.safetensors";
    expect_near(losses(packed, data), want, network);
    for (const Words& split : {Words{"--devices", "4", "--fix", "dp=4"},
                               {"--devices", "2", "--fix", "tp=2"},
                               {"--devices", "4", "--fix", "dp=2,tp=2", "--micro-batches", "2"},
                               {"--devices", "4", "--set", "dp=1,tp=4,pp=1,sequence_parallel=1"},
                               {"--devices", "2", "--stages", "2", "--micro-batches", "2"},
                               {"--devices", "4", "--search", "recursive"},
                               {"--devices", "3", "--optimizer-parallel", "3"}})
      expect_near(losses(packed, data, split), want, fmt::format("{} {}", network, fmt::join(split, " ")));
    if (network.starts_with("llama")) {  // together they are another loss
      EXPECT_GT(std::abs(losses(network + ",batch=4,labels=asked", data)[0] - want[0]), 1e-6);
    }
  }
}

TEST(EndToEndPacking, of_tokens_needs_to_know_what_ends_a_document) {
  const std::string path = scratch_folder() + "/t.bin",
                    model =
                        "llama:layers=1,hidden=16,heads=2,ffn=16,vocab=64,"
                        "seq=8,batch=2,documents=apart";
  std::vector<std::uint16_t> ids;
  for (int i = 0; i < 200; ++i) ids.push_back(static_cast<std::uint16_t>(i * i % 61));
  write_bytes(path, {reinterpret_cast<const char*>(ids.data()), ids.size() * 2});
  const auto told = [&](const Words& more) {
    Words words{"train", model, "--data", path, "--steps", "1"};
    words.insert(words.end(), more.begin(), more.end());
    const auto ran = testing::outcome_of(words);
    return fmt::format("{} {}", ran.status, ran.err);
  };
  const std::string begin = fmt::format("2 shardwright: tokens for model '{}': ", model);
  EXPECT_EQ(
      told({}),
      begin + path + ": nothing says where documents end, which are to be kept apart; --end TOKEN does\n");
  EXPECT_EQ(told({"--end", "stop"}),
            begin + "--end stop: is no number of a token; --tokenizer knows them by text\n");
  EXPECT_EQ(told({"--end", "0"}), "0 ");
  const auto other = testing::outcome_of({"train", "pangualpha-2.6b:layers=1,documents=apart"});
  EXPECT_NE(other.err.find("documents"), std::string::npos) << other.err;
}

}  // namespace
}  // namespace shardwright
