// Decoders that write: against the network on whole sequences, whatever the devices; what is drawn.

#include "shardwright/frontend/generate.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "shardwright/frontend/inference.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/draws.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Tokens = Generator::Tokens;

constexpr std::int64_t vocabulary = 48, places = 12;

Session network_of(const std::string& model, std::int64_t batch, std::uint64_t seed) {
  const Model asked =
      inference_of(build_model(model, {.global_batch = batch, .precision = {DType::f64}, .loss = ""}), false);
  return Session(compile_pipeline(asked.graph, make_plan(asked.graph, {.parallel = Parallel::stand_alone})),
                 {.seed = seed});
}

/// Weights large enough for scores to differ.
std::string weights_of(const std::string& model) {
  Session session = network_of(model, 1, 5);
  std::map<std::string, Tensor> out;
  for (const Kept& value : session.kept().all()) {
    Tensor t = session.get(value.name);
    if (t.shape().size() == 2)
      for (double& x : t.as<double>()) x *= 20;
    out[value.name] = std::move(t);
  }
  const std::string path = scratch_folder() + "/weights.safetensors";
  write_safetensors(path, out);
  return path;
}

/// The likeliest tokens behind a prompt, each from a look at the whole sequence.
Tokens by_whole_sequences(const std::string& model, const std::string& weights, Tokens prompt,
                          std::size_t count) {
  Session session = network_of(model, 1, 1);
  const SafetensorsFile file = SafetensorsFile::open(weights);
  for (const std::string& name : file.names()) session.set(name, file.read(name));
  const std::size_t first = prompt.size();
  while (prompt.size() < first + count) {
    Tensor input({DType::i32, {1, places}});
    std::ranges::copy(prompt, input.as<std::int32_t>().begin());
    const std::vector<double> scores = to_doubles(session.step({{"input", input}})[0]);
    const auto row = scores.begin() + static_cast<std::ptrdiff_t>((prompt.size() - 1) * vocabulary);
    prompt.push_back(static_cast<std::int32_t>(std::max_element(row, row + vocabulary) - row));
  }
  return {prompt.begin() + static_cast<std::ptrdiff_t>(first), prompt.end()};
}

std::vector<Tokens> written(const std::string& model, const std::string& weights,
                            const std::vector<Tokens>& prompts, const GenerateOptions& options,
                            const Sampling& sampling = {}) {
  Generator generator(model, static_cast<std::int64_t>(prompts.size()), places, options);
  generator.load(weights);
  return generator(prompts, 6, sampling).tokens;
}

TEST(Generate, is_the_network_on_whole_sequences_on_any_devices) {
  const std::string sizes = "layers=2,hidden=32,heads=4,ffn=24,vocab=48,seq=12";
  std::vector<std::string> models{"llama:kv_heads=2," + sizes, "gpt:" + sizes, "baichuan2-13b:" + sizes,
                                  "pangualpha-2.6b:" + sizes};
  if (std::getenv("SHARDWRIGHT_FEW_DRAWS"))
    models.resize(1);  // each takes a minute and a half under a sanitizer
  // Every model in every way; else each way is taken by every second model.
  const bool is_full = testing::is_full();
  for (int k = 0; const std::string& model : models) {
    ++k;
    SCOPED_TRACE(model);
    const std::string weights = weights_of(model);
    const std::vector<Tokens> prompts{{1, 2, 3}, {7}, {40, 41, 42, 43, 44, 45}, {0, 47}};
    std::vector<Tokens> want;
    for (const Tokens& prompt : prompts) want.push_back(by_whole_sequences(model, weights, prompt, 6));
    EXPECT_NE(want[0], want[1]);
    for (const GenerateOptions& options :
         {GenerateOptions{}, GenerateOptions{.devices = 2}, GenerateOptions{.devices = 4},
          GenerateOptions{.devices = 2, .stages = 2}, GenerateOptions{.devices = 4, .stages = 2},
          GenerateOptions{.prompt = 6}, GenerateOptions{.devices = 4, .prompt = 6},
          GenerateOptions{.devices = 2, .stages = 2, .prompt = 12}}) {
      if (++k % 2 != 0 && !is_full) continue;
      GenerateOptions in_f64 = options;
      in_f64.precision = {DType::f64};
      EXPECT_EQ(written(model, weights, prompts, in_f64), want)
          << options.devices << " devices, " << options.stages << " stages, prompts of " << options.prompt;
    }
    const Sampling drawn{.temperature = 1.5, .top_k = 20, .top_p = 0.9, .seed = 3};
    const std::vector<Tokens> once = written(model, weights, prompts, {.precision = {DType::f64}}, drawn);
    EXPECT_EQ(written(model, weights, prompts, {.devices = 4, .precision = {DType::f64}}, drawn), once);
    EXPECT_EQ(written(model, weights, prompts, {.devices = 2, .precision = {DType::f64}, .prompt = 8}, drawn),
              once);
    EXPECT_NE(once, want);
  }
}

TEST(Generate, begins_anew_each_time_and_ends_at_stops) {
  const std::string model = "llama:layers=1,hidden=32,heads=4,ffn=24,vocab=48,seq=12";
  Generator generator(model, 1, places, {.precision = {DType::f64}});
  generator.load(weights_of(model));
  const Tokens first = generator({{5, 6}}, 8).tokens[0];
  generator({{9, 8, 7, 6}}, 8);
  EXPECT_EQ(generator({{5, 6}}, 8).tokens[0], first);
  const Tokens ended = generator({{5, 6}}, 8, {}, {first[3], 1000}).tokens[0];
  const auto end = std::find(first.begin(), first.end(), first[3]) + 1;
  EXPECT_EQ(ended, Tokens(first.begin(), end));
  EXPECT_EQ(generator({{5, 6}}, 8).steps, 9);
}

TEST(Generate, feeds_prompts_of_any_lengths_in_one_pass) {
  const std::string model = "llama:layers=1,hidden=32,heads=4,ffn=24,vocab=48,seq=40";
  const std::vector<Tokens> prompts{Tokens(30, 3), {7, 8}, Tokens(17, 5)};
  Generator generator(model, 3, 36, {.precision = {DType::f64}});
  const std::int64_t without = generator.arena_bytes();
  const Generated out = generator(prompts, 6);
  EXPECT_EQ(out.first_steps, 1);
  EXPECT_EQ(out.steps, 6);
  EXPECT_EQ(out.notice, "");
  EXPECT_GT(generator.prompt_bytes(), without);
  EXPECT_EQ(generator.arena_bytes(), generator.prompt_bytes() + without);
  Generator alone(model, 1, 14, {.precision = {DType::f64}});  // token by token
  EXPECT_EQ(alone({prompts[1]}, 6).tokens[0], out.tokens[1]);
  const Generated shorter = generator({{1, 2, 3}, {4}, {5, 6}}, 3);  // not worth a pass
  EXPECT_EQ(shorter.first_steps, 3);
  EXPECT_EQ(shorter.steps, 5);
}

TEST(Generate, tells_what_is_wrong) {
  const std::string model = "llama:layers=1,hidden=32,heads=4,ffn=24,vocab=48,seq=12";
  EXPECT_EQ(error_of([&] { Generator("ffn", 1, 4); }),
            "ffn: cannot generate: it is no decoder that runs token by token");
  EXPECT_NE(error_of([&] { Generator(model, 1, 13); }).find("13 tokens are more than the sequence length 12"),
            std::string::npos);
  Generator generator(model, 1, 8);
  const auto message_of = [&](const std::vector<Tokens>& prompts, const Sampling& sampling = {}) {
    return error_of([&] { generator(prompts, 4, sampling); });
  };
  EXPECT_EQ(message_of({}), "there are 0 prompts, but this is for 1");
  EXPECT_EQ(message_of({{}}), "a prompt is empty; give at least one token");
  EXPECT_EQ(message_of({{48}}), "token 48 is none of the decoder's 48 tokens");
  EXPECT_EQ(message_of({{1, 2, 3, 4, 5}}),
            "a prompt of 5 tokens and 4 more are more than the 8 there is room for");
  EXPECT_EQ(message_of({{1}}, {.temperature = -1}), "temperature -1: should be a number from 0 on");
  EXPECT_EQ(message_of({{1}}, {.top_k = 3}),
            "top_k and top_p need a temperature above 0; at 0 the likeliest token is taken");
  EXPECT_EQ(message_of({{1}}, {.temperature = 1, .top_p = 0}), "top_p 0: should be above 0 and at most 1");
}

/// The shares of what is drawn, by token.
std::vector<double> shares_of(const std::vector<double>& scores, const Sampling& sampling) {
  constexpr int draws = 20000;
  std::vector<double> out(scores.size());
  for (int i = 0; i < draws; ++i)
    out[static_cast<std::size_t>(draw(scores, sampling, (i + 0.5) / draws))] += 1.0 / draws;
  return out;
}

TEST(Draw, follows_the_probabilities) {
  const std::vector<double> scores{0, std::log(4), std::log(2), std::log(1)};  // of 8: 1, 4, 2, 1
  const auto expect = [&](const Sampling& sampling, const std::vector<double>& want) {
    const std::vector<double> have = shares_of(scores, sampling);
    for (std::size_t i = 0; i < want.size(); ++i) EXPECT_NEAR(have[i], want[i], 1e-3) << i;
  };
  expect({.temperature = 1}, {1 / 8.0, 4 / 8.0, 2 / 8.0, 1 / 8.0});
  expect({.temperature = 0.5}, {1 / 22.0, 16 / 22.0, 4 / 22.0, 1 / 22.0});
  expect({.temperature = 1, .top_k = 2}, {0, 4 / 6.0, 2 / 6.0, 0});
  expect({.temperature = 1, .top_k = 3}, {1 / 7.0, 4 / 7.0, 2 / 7.0, 0});  // of two equal ones the first
  expect({.temperature = 1, .top_p = 0.5}, {0, 1, 0, 0});
  expect({.temperature = 1, .top_p = 0.51}, {0, 4 / 6.0, 2 / 6.0, 0});
  expect({.temperature = 1, .top_k = 99}, {1 / 8.0, 4 / 8.0, 2 / 8.0, 1 / 8.0});
  expect({}, {0, 1, 0, 0});
  EXPECT_EQ(draw(std::vector<double>{3, 3, 1}, {}, 0.9), 0);
  EXPECT_EQ(error_of([&] {
              draw(std::vector<double>{0, NAN}, {}, 0);
            }),
            "a score is NaN: these are not the weights of a trained network");
  EXPECT_EQ(draw(std::vector<double>{-INFINITY, 5, -INFINITY}, {.temperature = 1}, 0.999999), 1);
}

}  // namespace
}  // namespace shardwright
