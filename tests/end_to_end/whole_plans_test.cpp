// What trains under plans of `--search auto` has the losses of one device, whatever network, cluster and memory are drawn,
// and whatever of the plan is fixed.

#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <initializer_list>
#include <random>

#include "shardwright/passes/compile.h"
#include "shardwright/plan/batch.h"
#include "shardwright/simulate/evaluate.h"
#include "tests/support/draws.h"
#include "tests/support/onnx_decoder.h"
#include "tests/support/scratch.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct WholeCase {
  std::string_view family;
  std::string keys;  // of the model
  OnnxDecoder import = {};
  int batch = 0;
  std::string cluster;
  std::string optimizer;
  double share = 0;  // of the memory that the plan without a limit takes; 0: no limit
  std::string fix;
};

std::string to_text(const WholeCase& c) {
  return fmt::format("{}:{},batch={} by {} on {}, fixed: {}, memory: {}", c.family, c.keys, c.batch,
                     c.optimizer, c.cluster, c.fix, c.share);
}

constexpr std::array<std::string_view, 6> families{"gpt", "llama", "import", "ffn", "resnet18", "face"};
std::string_view family_of(int number) {
  return families[static_cast<std::size_t>(number) % families.size()];
}

/// Draws whatever a case is made of, the same for the same number.
class Draw {
 public:
  explicit Draw(int number) : number_(number), random_(static_cast<std::uint64_t>(number) + 1) {}

  /// Each family as often, with a limit of memory every other time.
  WholeCase run() {
    WholeCase out;
    out.family = family_of(number_);
    out.batch = one_of({4, 8, 16});
    out.cluster =
        one_of({"cpu:8", "a100-80g:8", "h100:8", "v100-32g:4x2", "cpu:4", "ascend910b:4", "a100-80g:2x2"});
    out.optimizer = one_of({"adam", "momentum"});
    if ((number_ + number_ / std::ssize(families)) % 2) out.share = one_of({0.4, 0.6, 0.8});
    if (out.family == "resnet18" || out.family == "face")
      add_trunk(out);
    else if (out.family == "ffn")
      add_dense(out);
    else
      add_decoder(out);
    return out;
  }

 private:
  void add_dense(WholeCase& out) {
    out.keys = fmt::format("widths=784-{}-{}-64-10", one_of({512, 96}), one_of({256, 48}));
    out.fix = one_of({"", "", "pp=2", "zero=2", "tp=2"});
  }

  void add_decoder(WholeCase& out) {
    out.fix = one_of({"", "", "", "pp=2", "pp=4", "pp=2,tp=2", "pp=2,schedule=interleaved:2",
                      "pp=2,schedule=gpipe", "zero=3", "recompute=full", "tp=2,sequence_parallel=1"});
    if (out.fix.empty() && one_of({false, true})) out.cluster = "cpu:6";
    const bool is_split_both_ways = out.fix == "pp=2,tp=2";  // which takes layers that are found to repeat
    out.import = {.layers = is_split_both_ways ? 6 : one_of({2, 3, 4, 6}),
                  .heads = one_of({2, 4, 8}),
                  .vocab = one_of({48, 96})};
    const OnnxDecoder& d = out.import;
    out.keys = fmt::format("layers={},hidden={},heads={},vocab={},seq={}", d.layers, d.hidden, d.heads,
                           d.vocab, d.seq);
    if (out.family == "llama")
      out.keys += fmt::format(",kv_heads={},ffn={}", one_of({1, 2, d.heads}), one_of({48, 96}));
  }

  /// Of convolutions. Norms of few numbers, and adam, make roundings large.
  void add_trunk(WholeCase& out) {
    out.batch = 16;
    out.cluster = one_of({"cpu:4", "a100-80g:4", "v100-32g:2x2"});
    out.optimizer = "momentum";
    out.keys = out.family == "face" ? fmt::format("backbone=resnet18,image=32,width=4,features=16,classes={}",
                                                  one_of({32, 96}))
                                    : fmt::format("image=32,width=4,classes=8");
    out.fix = one_of({"", "", "", "pp=2", "tp=2"});
  }

  template <class T>
  T one_of(std::initializer_list<T> all) {
    return all.begin()[random_() % all.size()];
  }

  int number_;
  std::mt19937_64 random_;
};

class EndToEndWholePlans : public ::testing::TestWithParam<int> {};

TrainingRun run_of(const WholeCase& c) {
  TrainingRun out{.model = fmt::format("{}:{},batch={}", c.family, c.keys, c.batch),
                  .optimizer = {.name = c.optimizer},
                  .precision = DType::f64,
                  .steps = 3};
  if (c.family != "import") return out;
  out.model = onnx_decoder(scratch_folder(), c.import, c.batch);
  out.loss = "cross_entropy";
  return out;
}

/// Of a device, under the plan that is found.
std::int64_t bytes_of(const TrainingRun& run, const PlanRequest& request) {
  const auto step = [&](int micro_batches) { return testing::train_model(run, micro_batches).graph; };
  const Plan plan = make_plan(step, request);
  const Graph graph = step(plan.settings.pipelining.micro_batches);
  return evaluate(compile_pipeline(graph, plan), *request.cluster).estimate.arena_bytes;
}

TEST_P(EndToEndWholePlans, have_the_losses_of_one_device) {
  const WholeCase c = Draw(GetParam()).run();
  SCOPED_TRACE(to_text(c));
  const TrainingRun run = run_of(c);
  PlanRequest request{.cluster = cluster_called(c.cluster), .search = "auto"};
  request.devices = request.cluster->devices();
  if (!c.fix.empty()) request.constraints = parse_constraints({"--fix", c.fix});
  if (mixes_samples(testing::train_model(run).graph))
    request.kept_micro_batches = 1;  // else the loss is another
  if (c.share > 0)
    request.options.memory_cap =
        static_cast<std::int64_t>(c.share * static_cast<double>(bytes_of(run, request)));
  testing::expect_same(testing::run_planned(run, request), testing::run_alone(run),
                       {.losses = 1e-9, .weights = 1e-6});
}

INSTANTIATE_TEST_SUITE_P(drawn, EndToEndWholePlans, ::testing::Range(0, testing::is_full() ? 50 : 11),
                         [](const auto& number) {
                           return fmt::format("{}_{}", family_of(number.param), number.param);
                         });

}  // namespace
}  // namespace shardwright
