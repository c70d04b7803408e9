// Networks written in C++ in stages and micro-batches. What such a network keeps from micro-batch to micro-batch (the
// count behind dropout's masks, a state that the forward moves on) must be, in the forward and the backward of each,
// what it is on one device in one batch that is cut by the network itself.

#include <gtest/gtest.h>

#include <array>
#include <filesystem>

#include "shardwright/base/random.h"
#include "shardwright/frontend/network.h"
#include "shardwright/ops/calls.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/session.h"
#include "shardwright/verify/verify.h"
#include "tests/support/draws.h"
#include "tests/support/random_plan.h"

namespace shardwright {
namespace {

constexpr std::int64_t batch = 24, width = 8, classes = 4;
const InputTypes inputs{{"x", {DType::f64, {batch, width}}}, {"label", {DType::i32, {batch}}}};

/// Dropout in two places, and between them a division by a state that follows what it divides.
struct Net {
  bool has_state = false;
  bool by_next = false;  // divides by what the state becomes, not by what it was
  Parameter w1{"w1", {width, width}, normal(0.5)}, w2{"w2", {width, width}, normal(0.5)},
      w3{"w3", {width, classes}, normal(0.5)};
  State spread{"spread", {width}, ones()};

  struct Part {
    Traced loss, next;  // of the state
  };
  /// What is done so far: steps, or so many micro-batches to a step.
  struct Count {
    Traced value;
    std::int64_t micro_batches = 1;
  };

  /// One micro-batch; operators are called `prefix` and what they are.
  Part operator()(Traced x, Traced label, const Count& count, Traced now, const std::string& prefix) const {
    Trace& t = *x.trace;
    const auto drop = [&](Traced v, const std::string& name) {
      Attributes attributes{{"name", name}, {"rate", 0.3}};
      if (count.micro_batches > 1) attributes.set("micro_batches", count.micro_batches);
      return t.call("dropout", {v, count.value}, attributes, prefix + name);
    };
    Traced h = t.call("matmul", {x, t.parameter(w1)}, {}, prefix + "first");
    const Traced factor{&t, constant(t.builder(), DType::f64, 1.5)};  // made in every stage that reads it
    Traced next = now;
    if (has_state) {
      const Traced seen =
          t.call("reduce_mean", {t.call("square", {h})}, {{"dims", std::vector<std::int64_t>{0}}});
      next = t.call("stop_gradient", {t.call("sum", {half(now), half(seen)})});
      h = t.call("div", {h, by_next ? next : now}, {}, prefix + "divided");
    }
    h = t.call("mul", {t.call("tanh", {drop(h, "drop1")}), factor});
    h = drop(t.call("matmul", {h, t.parameter(w2)}, {}, prefix + "second"), "drop2");
    const Traced y = t.call("mul", {t.call("matmul", {h, t.parameter(w3)}, {}, prefix + "third"), factor});
    const Traced each = {&t, cross_entropy(t.builder(), y.id, label.id, false, prefix + "entropy")};
    return {t.call("reduce_mean", {each}), next};
  }

  static Traced half(Traced v) { return v.trace->call("scale", {v}, {{"factor", 0.5}}); }
};

Traced count_in(Trace& t) { return {&t, step_count(t.builder())}; }

ForwardFunction forward_of(const Net& net) {
  return [&net](const std::vector<Traced>& in) {
    Trace& t = *in[0].trace;
    const Traced now = net.has_state ? t.state(net.spread) : Traced{};
    const Net::Part part = net(in[0], in[1], {count_in(t)}, now, "");
    if (net.has_state) t.update(now, part.next);
    return LossAndAux{part.loss};
  };
}

/// The same of a whole batch, whose parts the network takes one by one.
ForwardFunction forward_by_parts(const Net& net, int parts) {
  return [&net, parts](const std::vector<Traced>& in) {
    Trace& t = *in[0].trace;
    const Attributes sizes{
        {"sizes", std::vector<std::int64_t>(static_cast<std::size_t>(parts), batch / parts)}};
    const auto x = t.call_all("split", {in[0]}, sizes), label = t.call_all("split", {in[1]}, sizes);
    const Traced now = net.has_state ? t.state(net.spread) : Traced{};
    const Traced steps = t.call("scale", {count_in(t)}, {{"factor", static_cast<double>(parts)}});
    std::vector<Traced> losses;
    Traced next = now;
    for (std::size_t m = 0; m < x.size(); ++m) {
      const Traced count = t.call("shift", {steps}, {{"value", static_cast<double>(m)}});
      const Net::Part part = net(x[m], label[m], {count, parts}, next, fmt::format("part{}.", m));
      losses.push_back(part.loss);
      next = part.next;
    }
    if (net.has_state) t.update(now, next);
    return LossAndAux{t.call("scale", {t.call("sum", losses)}, {{"factor", 1.0 / parts}})};
  };
}

struct Outcome {
  std::vector<double> losses;
  std::vector<double> weight;
};

Outcome outcome_of(const Graph& graph, const Plan& plan) {
  Pipeline pipeline = compile_pipeline(graph, plan, {.formats = cpu_formats});
  prove(pipeline);
  Session session(std::move(pipeline), {.seed = 1});
  Outcome out;
  for (std::uint64_t step = 0; step < 3; ++step) {
    std::vector<double> x(batch * width), label(batch);
    for (std::size_t i = 0; i < x.size(); ++i) x[i] = RandomStream(step, "x").normal(i);
    for (std::size_t i = 0; i < label.size(); ++i)
      label[i] = static_cast<double>(RandomStream(step, "label").below(i, classes));
    const auto outputs = session.step(
        {{"x", make_tensor(inputs[0].second, x)}, {"label", make_tensor(inputs[1].second, label)}});
    out.losses.push_back(to_doubles(outputs.front()).front());
  }
  out.weight = to_doubles(session.get("w1"));
  return out;
}

PlannedNetwork planned(const ForwardFunction& forward, TrainOptions options) {
  options.precision = DType::f64;
  return plan_network(forward, inputs, adam(0.01), options);
}

Outcome outcome_of(const Net& net, const TrainOptions& options) {
  const PlannedNetwork network = planned(forward_of(net), options);
  return outcome_of(network.graph, network.plan);
}

Outcome outcome_by_parts(const Net& net, int parts) {
  const PlannedNetwork network = planned(forward_by_parts(net, parts), {});
  return outcome_of(network.graph, network.plan);
}

void expect_same(const Outcome& have, const Outcome& want, double tolerance = 1e-9) {
  for (std::size_t i = 0; i < want.losses.size(); ++i)
    EXPECT_NEAR(have.losses[i], want.losses[i], tolerance * want.losses[i]) << "step " << i;
  for (std::size_t i = 0; i < want.weight.size(); ++i)
    EXPECT_NEAR(have.weight[i], want.weight[i], 1e-8) << "element " << i;
}

const auto gpipe = Schedule::gpipe(), alternating = Schedule::one_forward_one_backward();

/// Of one device, which takes the batch as one.
TEST(EndToEndTracedPipelines, masks_do_not_depend_on_micro_batches) {
  const Net net;
  const Outcome want = outcome_of(net, {});
  EXPECT_NE(want.losses[0], want.losses[1]);
  for (int micro_batches : {1, 2, 4})
    for (const auto& [schedule, stages] : {std::pair{alternating, 1}, {alternating, 2}, {gpipe, 2}})
      for (int data : {1, 2})
        for (const char* text : {"none", "full", "selected"}) {
          if (micro_batches < stages) continue;
          SCOPED_TRACE(fmt::format("{} micro-batches, {} stages of {} devices, {}, recompute {}",
                                   micro_batches, stages, data, name_of(schedule), text));
          expect_same(outcome_of(net, {.devices = stages * data,
                                       .parallel = Parallel::data_parallel,
                                       .settings = {.recompute = parse_recompute(text),
                                                    .pipelining = {schedule, stages, micro_batches}}}),
                      want, 1e-12);
        }
}

TEST(EndToEndTracedPipelines, masks_do_not_depend_on_chunks) {
  const Net net;
  const Outcome want = outcome_of(net, {});
  const std::map<std::string, int> chunks{{"first", 0}, {"drop1", 1}, {"second", 2}, {"third", 3}};
  for (const char* text : {"none", "full"}) {
    SCOPED_TRACE(text);
    expect_same(outcome_of(net, {.devices = 2,
                                 .settings = {.recompute = parse_recompute(text),
                                              .pipelining = {Schedule::interleaved(2), 2, 4}},
                                 .stages = chunks}),
                want, 1e-12);
  }
}

/// The network that cuts the batch itself is another way to say the same.
TEST(EndToEndTracedPipelines, parts_that_know_which_they_are_have_the_masks_of_the_whole) {
  const Net net;
  for (int parts : {2, 4}) expect_same(outcome_by_parts(net, parts), outcome_of(net, {}), 1e-12);
}

TEST(EndToEndTracedPipelines, a_backward_divides_by_what_its_forward_divided_by) {
  const Net net{.has_state = true};
  const std::map<std::string, int> stages{{"first", 0}, {"second", 1}};
  const std::map<std::string, int> apart{{"first", 0}, {"divided", 1}};
  const Outcome want = outcome_by_parts(net, 4);
  for (const char* text : {"none", "full", "selected"}) {
    SCOPED_TRACE(text);
    const Recompute recompute = parse_recompute(text);
    expect_same(outcome_of(net, {.settings = {.recompute = recompute, .pipelining = {.micro_batches = 4}}}),
                want);
    for (const auto& [devices, schedule] : {std::pair{2, alternating}, {2, gpipe}, {4, alternating}}) {
      expect_same(outcome_of(net, {.devices = devices,
                                   .settings = {.recompute = recompute, .pipelining = {schedule, 2, 4}},
                                   .stages = stages}),
                  want);
      expect_same(outcome_of(net, {.devices = devices,
                                   .settings = {.recompute = recompute, .pipelining = {schedule, 2, 4}},
                                   .stages = apart}),
                  want);
    }
  }
}

/// The state may not take its next value's memory while a backward still reads that.
TEST(EndToEndTracedPipelines, a_backward_divides_by_the_next_value_of_its_forward) {
  const Net net{.has_state = true, .by_next = true};
  const Outcome want = outcome_by_parts(net, 4);
  expect_same(outcome_of(net, {.settings = {.pipelining = {.micro_batches = 4}}}), want);
  for (const Schedule& schedule : {alternating, gpipe})
    expect_same(outcome_of(net, {.devices = 2,
                                 .settings = {.pipelining = {schedule, 2, 4}},
                                 .stages = {{"first", 0}, {"second", 1}}}),
                want);
}

/// Parts of a micro-batch that run side by side count as micro-batches do, and leave a state to one another.
TEST(EndToEndTracedPipelines, parts_side_by_side_have_the_masks_and_states_of_micro_batches) {
  for (const Net& net : {Net{}, Net{.has_state = true}, Net{.has_state = true, .by_next = true}}) {
    const Outcome want = outcome_by_parts(net, 4);
    for (const auto& [stages, micro_batches, interleave] :
         {std::array{1, 2, 2}, std::array{1, 1, 4}, std::array{2, 2, 2}, std::array{2, 1, 4}})
      for (const char* text : {"none", "full"})
        for (const Schedule& schedule : {alternating, gpipe}) {
          if (stages == 1 && schedule == gpipe) continue;
          SCOPED_TRACE(fmt::format("{} stages, {} micro-batches in {} parts, {}, recompute {}", stages,
                                   micro_batches, interleave, name_of(schedule), text));
          std::map<std::string, int> cut;
          if (stages == 2) cut = {{"first", 0}, {"second", 1}};
          expect_same(
              outcome_of(net, {.devices = stages,
                               .settings = {.recompute = parse_recompute(text),
                                            .pipelining = {schedule, stages, micro_batches, interleave}},
                               .stages = cut}),
              want);
        }
  }
}

TEST(EndToEndTracedPipelines, run_from_a_file_although_stages_share_constants) {
  const Net net;
  const std::string path = ::testing::TempDir() + "traced_pipeline.json";
  const PlannedNetwork made =
      planned(forward_of(net), {.devices = 4, .settings = {.pipelining = {alternating, 2, 4}}});
  save_plan(made.plan, path);
  const PlannedNetwork loaded = planned(forward_of(net), {.devices = 4, .plan_file = path});
  std::filesystem::remove(path);
  EXPECT_EQ(to_json(loaded.plan), to_json(made.plan));
  EXPECT_EQ(outcome_of(loaded.graph, loaded.plan).losses, outcome_of(made.graph, made.plan).losses);
}

/// Any cut and any strategies, from the text of a plan file.
TEST(EndToEndTracedPipelines, random_plans_have_the_losses_of_one_device) {
  const Net net;
  const std::uint64_t begin = testing::further_seeds();
  for (std::uint64_t seed = begin; seed < begin + testing::draws(60); ++seed) {
    SCOPED_TRACE(fmt::format("seed {}", seed));
    const int devices = 1 + static_cast<int>(seed % 8), micro_batches = std::array{1, 2, 3, 4}[seed % 4];
    const Graph graph =
        planned(forward_of(net), {.settings = {.pipelining = {.micro_batches = micro_batches}}}).graph;
    Plan plan = testing::random_pipeline(graph, devices, micro_batches, seed);
    if (Pipelining& p = plan.settings.pipelining; micro_batches % 2 == 0 && seed % 3 == 0)
      p.micro_batches /= 2, p.interleave = 2;
    static const Outcome want = outcome_of(net, {});
    expect_same(outcome_of(graph, plan), want);
  }
}

}  // namespace
}  // namespace shardwright
