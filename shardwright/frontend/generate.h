// Decoders that write: prompts are fed in one pass, then a token of each sequence a step, from the keys and values of what came
// before.
//
// Each sequence of a batch is at a place of its own, so that prompts may differ in length: the first pass takes all of them, the
// shorter ones filled up with what nobody looks at, and gives each its first token. It is a program of its own, with weights
// and caches of its own, whose caches are handed over; where prompts are short, or there is no memory for it, they are fed token
// by token.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "shardwright/frontend/model.h"
#include "shardwright/runtime/start.h"

namespace shardwright {

class Progress;

/// How a token is drawn from the scores of all.
struct Sampling {
  double temperature = 0;  // scores are divided by it; 0: the largest score
  std::int64_t top_k = 0;  // of so many with the largest scores; 0: of all
  double top_p = 1;        // of the fewest that have this share of the probability
  std::uint64_t seed = 1;  // what is drawn is a function of it, the place and the number of the sequence
  bool is_greedy() const { return temperature == 0; }
};
/// Throws: Error that says what would be right.
void check(const Sampling& sampling);
/// `chance` from 0 to below 1 says which. Of equal scores the first comes first.
std::int32_t draw(std::span<const double> scores, const Sampling& sampling, double chance);

/// Tokens of a prompt for which a pass of its own is worth it.
inline constexpr std::int64_t least_prompt = 16;

struct GenerateOptions {
  int devices = 1;
  int stages = 1;
  Parallel parallel = Parallel::auto_parallel;
  std::string search = {};  // as --search; empty: auto, where it can
  std::optional<Cluster> cluster = {};
  Precision precision = {};
  /// Prompts of up to so many tokens are fed in one pass, which is planned with the rest; 0: when there are some of
  /// `least_prompt` or more.
  std::int64_t prompt = 0;
  DeviceKind device = default_devices();  // that runs it
  SessionStart start = start_threads;
  SessionOptions session = {};   // how ranks wait
  bool proves = true;            // false: another process does
  Progress* progress = nullptr;  // that hears of tokens
};

/// What was written behind each prompt.
struct Generated {
  std::vector<std::vector<std::int32_t>> tokens;
  std::int64_t steps = 0;  // of the decoder
  double seconds = 0;
  std::int64_t first_steps = 0;  // until each sequence had its first token
  double first_seconds = 0;      // likewise
  std::string notice =
      {};  // what the device has no kernels for, why prompts were fed token by token; a line each
};

class Generator {
 public:
  using Tokens = std::vector<std::int32_t>;

  /// For so many sequences of at most `room` tokens each, of the decoder called `spec`.
  /// Throws: Error if it is no decoder, or has not so many places; as planning does.
  Generator(const std::string& spec, std::int64_t sequences, std::int64_t room,
            const GenerateOptions& options = {});
  ~Generator();
  Generator(Generator&&) noexcept;

  /// Whether the model brings weights of its own, and takes them.
  bool has_weights() const;
  void load_own();
  /// From a checkpoint under any plan, or a safetensors file. Throws: Error if it is of another network, or damaged.
  void load(const std::string& path);
  /// At most `count` tokens behind each prompt; a sequence ends with any of `stops`, which is its last token.
  /// Throws: Error if there are other than so many prompts, one is empty or too long, or a token is unknown.
  Generated operator()(const std::vector<Tokens>& prompts, std::int64_t count, const Sampling& sampling = {},
                       const Tokens& stops = {});

  /// Of each token there are so many scores.
  std::int64_t vocabulary() const;
  const Plan& plan() const;
  /// Of all programs, in bytes on the ranks that have most.
  std::int64_t arena_bytes() const;
  /// Of these, of the program that takes prompts in one pass; 0: there is none.
  std::int64_t prompt_bytes() const;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace shardwright
