#include "shardwright/frontend/generate.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <numeric>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/base/progress.h"
#include "shardwright/base/random.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/hand_over.h"
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

namespace {

/// A program of a decoder.
struct DecoderProgram {
  Plan plan;
  std::int64_t vocabulary = 0;
  std::int64_t rows = 1;  // tokens that it takes of each sequence
  std::shared_ptr<const ModelFolder> folder;
  Prepared program;
};

/// The same, running.
struct DecoderStep {
  Plan plan;
  std::int64_t vocabulary = 0;
  std::int64_t rows = 1;
  std::shared_ptr<const ModelFolder> folder;
  std::vector<std::string> notices;
  std::unique_ptr<Session> session;

  DecoderStep(DecoderProgram p, const SessionStart& start, const SessionOptions& waits)
      : plan(std::move(p.plan)),
        vocabulary(p.vocabulary),
        rows(p.rows),
        folder(std::move(p.folder)),
        notices(p.program.notices()),
        session(std::make_unique<Session>(start(std::move(p.program), waits))) {}
};

struct Sizes {
  std::int64_t sequences = 0, room = 0;
};

/// One token of each sequence, or with `prompt` the first so many.
DecoderProgram program_of(const std::string& spec, const Sizes& sizes, std::int64_t prompt,
                          const GenerateOptions& options) {
  const Model model = build_model(spec, {.global_batch = sizes.sequences,
                                         .precision = options.precision,
                                         .loss = "",
                                         .cached = sizes.room,
                                         .prompt = prompt});
  if (model.places == 0) throw error("{}: cannot generate: it is no decoder that runs token by token", spec);
  if (sizes.room > model.places)
    throw error("{} tokens are more than the sequence length {} of {}; set seq= higher", sizes.room,
                model.places, spec);
  PlanRequest request{.model = spec, .devices = options.devices, .formats = options.device.formats};
  request.cluster = options.cluster;
  request.parallel = options.devices == 1 ? Parallel::stand_alone : options.parallel;
  if (request.parallel == Parallel::auto_parallel) request.search = options.search;
  request.constraints = constraints_of({.pipelining = {.stages = options.stages}});
  Plan plan = make_plan(model.graph, request);
  Prepared program = prepare(
      model.graph, plan, {.device = options.device, .proves = options.proves, .progress = options.progress});
  return {std::move(plan), model.labels.classes, std::max<std::int64_t>(prompt, 1), model.folder,
          std::move(program)};
}

/// Where a sequence is: its tokens, and how many of them the decoder has seen.
struct Sequence {
  std::span<const std::int32_t> prompt;
  std::vector<std::int32_t> written = {};
  std::int64_t seen = 0;
  bool has_ended = false;

  std::int32_t token(std::int64_t place) const {
    return at(place) < prompt.size() ? prompt[at(place)] : written[at(place) - prompt.size()];
  }
  std::int64_t length() const { return static_cast<std::int64_t>(prompt.size() + written.size()); }
};

}  // namespace

struct Generator::State {
  std::string spec;
  Sizes sizes;
  GenerateOptions options;
  DecoderStep step;
  std::optional<DecoderStep> first;
  std::string notice;  // why there is none

  /// The pass that takes prompts of so many tokens; null: there is none.
  DecoderStep* first_of(std::int64_t longest) {
    if (longest < least_prompt && longest > options.prompt) return nullptr;
    constexpr std::int64_t most_waste = 4;  // a pass is as long as its program, whatever the prompts
    if (first && first->rows >= longest && first->rows <= most_waste * longest) return &*first;
    if (!notice.empty()) return nullptr;
    first.reset();
    std::optional<DecoderProgram> program;
    std::string why = "another rank has too little";
    try {
      program.emplace(program_of(spec, sizes, longest, options));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::memory) throw;
      why = e.what();
    }
    if (step.session->any(!program)) {
      notice = fmt::format("prompts are fed token by token, there is no memory for more at once: {}", why);
      return nullptr;
    }
    first.emplace(std::move(*program), options.start, options.session);
    take_weights(*first->session, *step.session);
    return &*first;
  }

  std::vector<double> feed_prompts(DecoderStep& pass, const std::vector<Sequence>& all);
  std::vector<double> feed_tokens(const std::vector<Sequence>& all);
};

/// Scores of the last token of each prompt; the caches then lie where steps go on from them.
std::vector<double> Generator::State::feed_prompts(DecoderStep& pass, const std::vector<Sequence>& all) {
  const Type rows{DType::i32, {sizes.sequences, pass.rows}};
  Tensor tokens(rows), places(rows), last({DType::i32, {sizes.sequences}});
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::size_t begin = i * at(pass.rows);
    std::ranges::copy(all[i].prompt, tokens.as<std::int32_t>().begin() + static_cast<std::ptrdiff_t>(begin));
    // What stands behind a prompt is written over before anything sees it.
    for (std::int64_t p = 0; p < pass.rows; ++p)
      places.as<std::int32_t>()[begin + at(p)] = static_cast<std::int32_t>(p);
    last.as<std::int32_t>()[i] = static_cast<std::int32_t>(begin + all[i].prompt.size() - 1);
  }
  const Tensor scores = pass.session->step({{"input", tokens}, {"places", places}, {"last", last}})[0];
  const KeptValues& kept = step.session->kept();
  for (const Kept& value : kept.all())
    if (kept.is_cache(value)) hand_over(*step.session, *pass.session, value.name);
  return to_doubles(scores);
}

/// Scores of one more token of each sequence; one that has ended sees its last again, and nobody looks at what comes of it.
std::vector<double> Generator::State::feed_tokens(const std::vector<Sequence>& all) {
  const Type row{DType::i32, {sizes.sequences, 1}};
  Tensor tokens(row), places(row);
  for (std::size_t i = 0; i < all.size(); ++i) {
    const std::int64_t place = std::min(all[i].seen, all[i].length() - 1);
    tokens.as<std::int32_t>()[i] = all[i].token(place);
    places.as<std::int32_t>()[i] = static_cast<std::int32_t>(place);
  }
  return to_doubles(step.session->step({{"input", tokens}, {"places", places}})[0]);
}

Generator::Generator(const std::string& spec, std::int64_t sequences, std::int64_t room,
                     const GenerateOptions& options)
    : state_(new State{.spec = spec,
                       .sizes = {sequences, room},
                       .options = options,
                       .step = DecoderStep(program_of(spec, {sequences, room}, 0, options), options.start,
                                           options.session)}) {
  if (options.prompt > room)
    throw error("prompts of {} tokens, but there is room for {}", options.prompt, room);
  if (options.prompt > 0) state_->first_of(options.prompt);
}
Generator::~Generator() = default;
Generator::Generator(Generator&&) noexcept = default;

bool Generator::has_weights() const {
  const std::shared_ptr<const ModelFolder>& folder = state_->step.folder;
  return folder && folder->weights && !folder->adapters;
}

void Generator::load_own() {
  if (!has_weights()) throw error("{}: has no weights of its own; load a checkpoint", state_->spec);
  shardwright::load(*state_->step.session, *state_->step.folder->weights, Restored::network);
  if (state_->first) take_weights(*state_->first->session, *state_->step.session);
}

void Generator::load(const std::string& path) {
  const TensorSource source = open_source(path);
  // A checkpoint of adapters has nothing else.
  const auto& folder = state_->step.folder;
  const bool has_base = folder && folder->weights && folder->adapters;
  if (has_base) shardwright::load(*state_->step.session, *folder->weights, Restored::parameters);
  const KeptValues& kept = state_->step.session->kept();
  for (const Kept& value : kept.all())
    if (!has_base && kept.is_frozen(value) && !source.find(value.name))
      throw error("{}: holds what was trained beside '{}', of which {} has no weights of its own", path,
                  value.name, state_->spec);
  shardwright::load(*state_->step.session, source, Restored::network);
  if (state_->first) take_weights(*state_->first->session, *state_->step.session);
}

namespace {

void check_prompts(const std::vector<Generator::Tokens>& prompts, const Sizes& sizes, std::int64_t count,
                   std::int64_t vocabulary) {
  if (prompts.size() != at(sizes.sequences))
    throw error("there are {} prompts, but this is for {}", prompts.size(), sizes.sequences);
  for (const Generator::Tokens& prompt : prompts) {
    if (prompt.empty()) throw error("a prompt is empty; give at least one token");
    if (static_cast<std::int64_t>(prompt.size()) + count > sizes.room)
      throw error("a prompt of {} tokens and {} more are more than the {} there is room for", prompt.size(),
                  count, sizes.room);
    for (std::int32_t token : prompt)
      if (token < 0 || token >= vocabulary)
        throw error("token {} is none of the decoder's {} tokens", token, vocabulary);
  }
}

}  // namespace

Generated Generator::operator()(const std::vector<Tokens>& prompts, std::int64_t count,
                                const Sampling& sampling, const Tokens& stops) {
  check(sampling);
  State& s = *state_;
  check_prompts(prompts, s.sizes, count, s.step.vocabulary);
  std::vector<Sequence> all;
  for (const Tokens& prompt : prompts) all.push_back({.prompt = prompt, .has_ended = count == 0});
  const auto longest = static_cast<std::int64_t>(std::ranges::max(prompts, {}, &Tokens::size).size());
  DecoderStep* const pass = count > 0 ? s.first_of(longest) : nullptr;
  const auto start = std::chrono::steady_clock::now();
  const auto seconds = [&] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  const RandomStream random(sampling.seed, "generate");
  std::vector<std::string> notices = s.step.notices;
  if (!s.notice.empty()) notices.push_back(s.notice);
  Generated out{.notice = join(notices, "\n")};
  Doing doing(s.options.progress, "token", longest + count);
  const auto is_open = [](const Sequence& q) { return !q.has_ended; };
  for (; std::ranges::any_of(all, is_open); ++out.steps) {
    doing.tell(std::ranges::max(all, {}, &Sequence::seen).seen);
    const bool are_prompts = pass && out.steps == 0;
    const std::vector<double> scores = are_prompts ? s.feed_prompts(*pass, all) : s.feed_tokens(all);
    for (std::size_t i = 0; i < all.size(); ++i) {
      Sequence& q = all[i];
      if (q.has_ended) continue;
      q.seen += are_prompts ? static_cast<std::int64_t>(q.prompt.size()) : 1;
      if (q.seen < q.length()) continue;
      const auto own = std::span(scores).subspan(i * at(s.step.vocabulary), at(s.step.vocabulary));
      const double chance = random.uniform(static_cast<std::uint64_t>(q.seen - 1) * all.size() + i);
      q.written.push_back(draw(own, sampling, chance));
      q.has_ended = static_cast<std::int64_t>(q.written.size()) == count ||
                    std::ranges::count(stops, q.written.back()) > 0;
    }
    const bool have_begun = std::ranges::none_of(all, [](const Sequence& q) { return q.written.empty(); });
    if (have_begun && out.first_steps == 0) out.first_steps = out.steps + 1, out.first_seconds = seconds();
  }
  out.seconds = seconds();
  for (Sequence& q : all) out.tokens.push_back(std::move(q.written));
  return out;
}

std::int64_t Generator::vocabulary() const { return state_->step.vocabulary; }
const Plan& Generator::plan() const { return state_->step.plan; }
std::int64_t Generator::prompt_bytes() const {
  return state_->first ? state_->first->session->statistics().arena_bytes : 0;
}
std::int64_t Generator::arena_bytes() const {
  return state_->step.session->statistics().arena_bytes + prompt_bytes();
}

}  // namespace shardwright
