// Models, batches, machines and precisions that nobody has chosen: no plan that can be set by hand is faster than the one
// found, or takes less than its bound.

#include <gtest/gtest.h>

#include <random>
#include <set>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/search/automatic/structure.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"
#include "tests/support/structures.h"

namespace shardwright {
namespace {

using namespace automatic;

/// A decoder, products or images, on 4 or 8 devices of which every third case has a slow network; from one sample for several
/// devices to some for each.
class DrawnCase {
 public:
  explicit DrawnCase(std::uint64_t seed) : random_(seed) {
    const std::string name = any({"a100-80g", "h100", "v100-32g", "ascend910b"});
    cluster_ = cluster_called(name + any({":4", ":8", ":2x4"}));
    if (below(3) == 0) {
      LinkLevel& network = cluster_.links.back();
      network.bytes_per_second /= 20, network.latency_seconds *= 4;
    }
    samples_ = std::max(1, cluster_.devices() * any({1, 4, 8, 16}) / 4);
    precision_ = any({"bf16", "bf16", "fp16", "f32"});
    model_ = model();
  }

  std::string text() const {
    return fmt::format("{} of {} samples, {} on {} with {} GB/s between nodes", model_, samples_, precision_,
                       cluster_.name, cluster_.links.back().bytes_per_second * 1e-9);
  }
  Structures structures() const {
    Structures out{.devices = cluster_.devices(), .samples = samples_};
    for (int m = 1; m <= samples_; ++m)
      if (samples_ % m == 0) out.counts.push_back(m);
    return out;
  }
  Graph step(int micro_batches) const {
    Model m = build_model(model_, {.global_batch = samples_,
                                   .precision = *precision_called(precision_),
                                   .micro_batches = micro_batches});
    add_train_step(m.graph, m.loss, {.name = "adamw"});
    return std::move(m.graph);
  }
  PlanRequest request() const {
    PlanRequest out{.model = "test", .cluster = cluster_, .search = "auto"};
    out.devices = cluster_.devices();
    out.verifies = false;
    return out;
  }
  std::mt19937_64& random() { return random_; }

 private:
  std::size_t below(std::size_t n) { return random_() % n; }
  template <class T>
  T any(std::initializer_list<T> of) {
    return std::data(of)[below(of.size())];
  }

  std::string model() {
    const int width = any({128, 256, 512, 1024}), heads = width / 64;
    const int layers = any({2, 3, 4, 8});
    switch (below(4)) {
      case 0:
        return fmt::format("gpt:layers={},hidden={},heads={},vocab=2048,seq={}", layers, width, heads,
                           any({64, 256}));
      case 1: return any({"ffn", "matmul_chain:widths=1024-4096-1024-4096-1024"});
      default:
        return fmt::format("llama:layers={},hidden={},heads={},ffn={},vocab=2048,seq={}", layers, width,
                           heads, 3 * width, any({64, 256, 1024}));
    }
  }

  std::mt19937_64 random_;
  Cluster cluster_;
  int samples_ = 1;
  std::string precision_, model_;
};

/// Programs of structures that are set by hand, and the best of them.
class ByHand {
 public:
  explicit ByHand(const DrawnCase& of) : case_(of), request_(of.request()) {}

  Evaluation judged(const Plan& plan) {
    return evaluate(
        compile_pipeline(graph(plan.settings.pipelining.micro_batches), plan, {.verifies = false}),
        *request_.cluster);
  }

  const Graph& graph(int micro_batches) {
    const auto [it, is_new] = graphs_.try_emplace(micro_batches);
    if (is_new) it->second = case_.step(micro_batches);
    return it->second;
  }

  /// Returns whether it is the best so far.
  bool look_at(const Constraints& s) {
    if (!seen_.insert(to_text(s)).second) return false;
    try {
      PlanRequest asked = with_structure(request_, s);
      asked.parallel = Parallel::semi_auto_parallel;
      const Evaluation e = judged(make_plan(graph(*s.micro_batches), asked));
      if (best && !is_better(e, *best)) return false;
      best = e;
      structure = s;
      return true;
    } catch (const Error&) {
      return false;  // a dim does not divide
    }
  }

  std::optional<Evaluation> best;
  Constraints structure;

 private:
  const DrawnCase& case_;
  PlanRequest request_;
  std::map<int, Graph> graphs_;
  std::set<std::string> seen_;
};

void expect_nothing_faster(std::uint64_t seed) {
  constexpr std::size_t drawn = 40;
  DrawnCase c(seed);
  SCOPED_TRACE(fmt::format("seed {}: {}", seed, c.text()));
  const PlanRequest request = c.request();
  const Plan plan = make_plan([&](int m) { return c.step(m); }, request);
  ByHand by_hand(c);
  const Evaluation found = by_hand.judged(plan);
  const Structures space = c.structures();
  for (const Constraints& s : space.usual()) by_hand.look_at(s);
  std::vector<Constraints> some;
  const auto all = structures_of(request, {space.samples, space.counts});
  std::ranges::sample(all, std::back_inserter(some), drawn, c.random());
  for (const Constraints& s : some) by_hand.look_at(s);
  ASSERT_TRUE(by_hand.best);
  for (bool goes_on = true; std::exchange(goes_on, false);)
    for (const Constraints& s : space.neighbours(by_hand.structure))
      if (by_hand.look_at(s)) goes_on = true;
  const double best = by_hand.best->estimate.step_seconds();
  EXPECT_TRUE(found.fits());
  EXPECT_LE(found.estimate.step_seconds(), 1.01 * best) << to_text(by_hand.structure);
  if (plan.lower_bound_seconds) {
    EXPECT_GE(best, *plan.lower_bound_seconds * (1 - 1e-6)) << to_text(by_hand.structure);
  }
}

TEST(DrawnPlans, are_as_fast_as_the_best_set_by_hand) {
  for (unsigned i = 0; i < testing::draws(5); ++i) expect_nothing_faster(i);
}

TEST(SlowDrawnPlans, are_as_fast_as_the_best_set_by_hand) {
  for (std::uint64_t i = 0; i < 100; ++i) expect_nothing_faster(5 + i + testing::further_seeds());
}

}  // namespace
}  // namespace shardwright
