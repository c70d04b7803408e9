#include "tests/support/drawn_pipeline.h"

#include <array>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/frontend/model.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/search/planning/make_plan.h"
#include "tests/support/random_plan.h"

namespace shardwright::testing {
namespace {

class Dice {
 public:
  explicit Dice(std::uint64_t seed) : stream_(seed, "pipeline") {}
  int below(int n) { return static_cast<int>(stream_.below(next_++, n)); }
  template <class T, std::size_t N>
  const T& of(const std::array<T, N>& list) {
    return list[static_cast<std::size_t>(below(N))];
  }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
};

const std::array<std::string, 4> networks{
    "ffn:batch=32,widths=48-32-32-24-10",
    "llama:layers=4,hidden=32,heads=4,kv_heads=2,ffn=64,vocab=48,seq=8,batch=32",
    "gpt:layers=4,hidden=32,heads=4,vocab=48,seq=8,batch=32",  // its embedding is shared by two stages
    "resnet18:image=32,width=8,batch=32"};
const std::array<OptimizerChoice, 3> optimizers{
    OptimizerChoice{"sgd", {{"rate", 0.1}}}, OptimizerChoice{"momentum", {{"rate", 0.1}, {"momentum", 0.9}}},
    OptimizerChoice{"adamw", {{"rate", 0.1}}}};

}  // namespace

DrawnPipeline drawn_pipeline(std::uint64_t seed, bool verifies) {
  Dice dice(seed);
  const std::string network = networks[static_cast<std::size_t>(std::min(dice.below(10), 9) % 7 % 4)];
  PlanRequest request{.model = network, .search = "recursive"};
  const int stages = dice.of(std::array{1, 1, 2, 2, 3, 4});
  const int per_stage = dice.of(std::array{1, 2, 2, 4});
  request.devices = stages * per_stage;
  Settings settings;
  settings.pipelining = {dice.below(2) ? Schedule::gpipe() : Schedule::one_forward_one_backward(), stages,
                         dice.of(std::array{1, 2, 4, 8})};
  request.parallel = request.devices == 1 ? Parallel::stand_alone
                     : dice.below(2)      ? Parallel::data_parallel
                                          : Parallel::auto_parallel;
  settings.optimizer_parallel = {dice.below(4), 0};
  settings.recompute =
      parse_recompute(dice.of(std::array<std::string, 4>{"none", "none", "selected", "full"}));
  settings.comm_fusion =
      parse_comm_fusion(dice.of(std::array<std::string, 4>{"auto", "none", "size:1", "auto"}));
  OptimizerChoice optimizer = dice.of(optimizers);
  if (dice.below(4) == 0) optimizer.clip_norm = 1.0;
  const bool has_any_strategies = request.devices > 1 && dice.below(3) > 0;

  // Few chunks: of less than a layer, one would read past its neighbour.
  if (stages == 2 && !has_any_strategies && dice.below(2) == 0)
    settings.pipelining.schedule = Schedule::interleaved(2);
  request.constraints = constraints_of(settings);

  DrawnPipeline out{
      fmt::format("seed {}: {}, {} devices, {} stages, {} micro-batches, {}, {}, level {}{}", seed, network,
                  request.devices, stages, settings.pipelining.micro_batches,
                  name_of(settings.pipelining.schedule), name_of(request.parallel),
                  settings.optimizer_parallel.level, has_any_strategies ? ", any strategies" : ""),
      {}};
  Model model = build_model(network, {.global_batch = {},
                                      .precision = DType::f64,
                                      .loss = "",
                                      .micro_batches = settings.pipelining.micro_batches});
  add_train_step(model.graph, model.loss, optimizer);
  Plan plan;
  if (has_any_strategies) {
    plan = stages > 1 ? random_pipeline(model.graph, request.devices, settings.pipelining.micro_batches, seed)
                      : random_plan(model.graph, request.devices, seed);
    if (stages == 1) plan.settings.pipelining = settings.pipelining;
    plan.settings.comm_fusion = settings.comm_fusion;
    plan.settings.recompute = settings.recompute;
  } else {
    plan = make_plan(model.graph, request);
  }
  const bool has_formats = dice.below(2) == 0;
  Pipelining& p = plan.settings.pipelining;  // as many parts of the batch run side by side instead
  if (p.micro_batches % 2 == 0 && dice.below(3) == 0) {
    const int parts = p.micro_batches > 2 ? dice.of(std::array{2, 2, 4}) : 2;
    p.micro_batches /= parts, p.interleave = parts;
    out.what += fmt::format(", in {} parts side by side", parts);
  }
  CompileOptions options{.verifies = verifies};
  if (has_formats) options.formats = cpu_formats;
  out.pipeline = compile_pipeline(model.graph, plan, options);
  return out;
}

}  // namespace shardwright::testing
