#include "shardwright/frontend/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/random.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/start.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

/// The candidates, the likeliest first, and how likely each is beside the first.
struct Candidates {
  std::vector<std::int32_t> tokens;
  std::vector<double> weights;

  Candidates(std::span<const double> scores, const Sampling& sampling) : tokens(scores.size()) {
    std::iota(tokens.begin(), tokens.end(), 0);
    const auto kept = sampling.top_k > 0 ? std::min(at(sampling.top_k), tokens.size()) : tokens.size();
    const auto is_before = [&](std::int32_t a, std::int32_t b) {
      return scores[at(a)] != scores[at(b)] ? scores[at(a)] > scores[at(b)] : a < b;
    };
    std::partial_sort(tokens.begin(), tokens.begin() + static_cast<std::ptrdiff_t>(kept), tokens.end(),
                      is_before);
    tokens.resize(kept);
    double total = 0;
    for (std::int32_t t : tokens) {
      weights.push_back(std::exp((scores[at(t)] - scores[at(tokens[0])]) / sampling.temperature));
      total += weights.back();
    }
    double sum = 0;
    for (std::size_t i = 0; i < weights.size(); ++i) {
      sum += weights[i];
      if (sum < sampling.top_p * total) continue;
      weights.resize(i + 1);
      return;
    }
  }
};

}  // namespace

void check(const Sampling& s) {
  if (!(s.temperature >= 0) || std::isinf(s.temperature))
    throw error("temperature {}: should be a number from 0 on", s.temperature);
  if (s.top_k < 0) throw error("top_k {}: should be a number from 1 on", s.top_k);
  if (!(s.top_p > 0 && s.top_p <= 1)) throw error("top_p {}: should be above 0 and at most 1", s.top_p);
  if (s.is_greedy() && (s.top_k > 0 || s.top_p < 1))
    throw error("top_k and top_p need a temperature above 0; at 0 the likeliest token is taken");
}

std::int32_t draw(std::span<const double> scores, const Sampling& sampling, double chance) {
  for (double score : scores)
    if (std::isnan(score)) throw error("a score is NaN: these are not the weights of a trained network");
  if (sampling.is_greedy())
    return static_cast<std::int32_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
  const Candidates candidates(scores, sampling);
  double left = chance * std::accumulate(candidates.weights.begin(), candidates.weights.end(), 0.0);
  std::size_t i = 0;
  while (i + 1 < candidates.weights.size() && left >= candidates.weights[i]) left -= candidates.weights[i++];
  return candidates.tokens[i];
}

struct Generator::State {
  std::int64_t sequences = 0, room = 0, vocabulary = 0;
  Plan plan;
  std::unique_ptr<Session> session;
  Progress* progress = nullptr;
};

Generator::Generator(const std::string& spec, std::int64_t sequences, std::int64_t room,
                     const GenerateOptions& options)
    : state_(std::make_unique<State>()) {
  const Model model = build_model(
      spec, {.global_batch = sequences, .precision = options.precision, .loss = "", .cached = room});
  if (model.places == 0) throw error("{}: cannot generate: it is no decoder that runs token by token", spec);
  if (room > model.places)
    throw error("{} tokens are more than the sequence length {} of {}; set seq= higher", room, model.places,
                spec);
  PlanRequest request{.model = spec, .devices = options.devices, .formats = options.device.formats};
  request.cluster = options.cluster;
  request.parallel = options.devices == 1 ? Parallel::stand_alone : options.parallel;
  if (request.parallel == Parallel::auto_parallel) request.search = options.search;
  request.constraints = constraints_of({.pipelining = {.stages = options.stages}});
  state_->sequences = sequences;
  state_->progress = options.progress;
  state_->room = room;
  state_->vocabulary = model.labels.classes;
  state_->plan = make_plan(model.graph, request);
  state_->session = std::make_unique<Session>(start_threads(
      prepare(model.graph, state_->plan, {.device = options.device, .progress = options.progress})));
}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

void Generator::load(const std::string& path) {
  shardwright::load(*state_->session, open_source(path), Restored::network);
}

Generated Generator::operator()(const std::vector<Tokens>& prompts, std::int64_t count,
                                const Sampling& sampling, const Tokens& stops) {
  check(sampling);
  const auto sequences = prompts.size();
  if (sequences != at(state_->sequences))
    throw error("there are {} prompts, but this is for {}", sequences, state_->sequences);
  for (const Tokens& prompt : prompts) {
    if (prompt.empty()) throw error("a prompt is empty; give at least one token");
    if (static_cast<std::int64_t>(prompt.size()) + count > state_->room)
      throw error("a prompt of {} tokens and {} more are more than the {} there is room for", prompt.size(),
                  count, state_->room);
    for (std::int32_t token : prompt)
      if (token < 0 || token >= state_->vocabulary)
        throw error("token {} is none of the decoder's {} tokens", token, state_->vocabulary);
  }
  const auto start = std::chrono::steady_clock::now();
  const RandomStream random(sampling.seed, "generate");
  Generated out{.tokens = std::vector<Tokens>(sequences)};
  Tensor tokens({DType::i32, {state_->sequences, 1}}), place({DType::i32, {1}});
  std::vector<bool> has_ended(sequences, count == 0);
  Doing doing(state_->progress, "token", state_->room);
  for (std::int64_t p = 0; std::ranges::count(has_ended, false) > 0; ++p, ++out.steps) {
    doing.tell(p);
    place.as<std::int32_t>()[0] = static_cast<std::int32_t>(p);
    for (std::size_t i = 0; i < sequences; ++i) {
      const std::int64_t behind = p - static_cast<std::int64_t>(prompts[i].size());
      const Tokens& written = out.tokens[i];
      // A sequence that has ended goes on with its last token, and nobody looks at what comes of it.
      tokens.as<std::int32_t>()[i] = behind < 0 ? prompts[i][at(p)]
                                     : behind < static_cast<std::int64_t>(written.size())
                                         ? written[at(behind)]
                                         : written.back();
    }
    const Tensor scores = state_->session->step({{"input", tokens}, {"place", place}})[0];
    const std::vector<double> all = to_doubles(scores);
    for (std::size_t i = 0; i < sequences; ++i) {
      if (has_ended[i] || p + 1 < static_cast<std::int64_t>(prompts[i].size())) continue;
      const auto own = std::span(all).subspan(i * at(state_->vocabulary), at(state_->vocabulary));
      const double chance = random.uniform(static_cast<std::uint64_t>(p) * sequences + i);
      out.tokens[i].push_back(draw(own, sampling, chance));
      has_ended[i] = static_cast<std::int64_t>(out.tokens[i].size()) == count ||
                     std::ranges::count(stops, out.tokens[i].back()) > 0;
    }
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

std::int64_t Generator::vocabulary() const { return state_->vocabulary; }
const Plan& Generator::plan() const { return state_->plan; }
std::int64_t Generator::arena_bytes() const { return state_->session->statistics().arena_bytes; }

}  // namespace shardwright
