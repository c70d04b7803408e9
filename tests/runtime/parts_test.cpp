// Parameters, states and batches by parts: what ranks hold and own, on threads and, in mpi_tests, on processes.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <sstream>

#include "shardwright/frontend/training_data.h"
#include "shardwright/layout/sharded_tensor.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/ports.h"
#include "tests/support/message_of.h"
#include "tests/support/on_each_rank.h"
#include "tests/support/program.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

using testing::message_of;

/// A network whose dims no number of devices divides, trained in one way.
struct Case {
  const char* name;
  int devices = 1;
  Settings settings = {};
  Precision precision = {};
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const Case cases[] = {
    {"alone"},
    {"level_0", 4},
    {"level_1_on_3", 3, {.optimizer_parallel = {1, 0}}},
    {"level_2", 4, {.optimizer_parallel = {2, 0}}},
    {"level_3", 4, {.optimizer_parallel = {3, 0}}},
    {"level_3_in_groups", 4, {.optimizer_parallel = {3, 0, 2}}},
    {"masters", 4, {.optimizer_parallel = {1, 0}}, {DType::bf16}},
    {"two_stages", 4, {.optimizer_parallel = {1, 0}, .pipelining = {Schedule::gpipe(), 2, 3}}},
    {"interleaved", 4, {.pipelining = {Schedule::interleaved(2), 2, 2}}},
    {"two_stages_of_masters",
     4,
     {.optimizer_parallel = {3, 0}, .pipelining = {Schedule::gpipe(), 2, 3}},
     {DType::bf16}},
};

constexpr const char* model_name = "ffn:batch=36,widths=14-11-7-9-5";

Pipeline pipeline_of(const Case& c) {
  const Model model = testing::train_model(
      {.model = model_name, .file = "", .optimizer = {"adamw", {{"rate", 0.01}}}, .precision = c.precision},
      c.settings.pipelining.micro_batches);
  return compile_pipeline(
      model.graph,
      make_plan(model.graph, {.model = model_name,
                              .devices = c.devices,
                              .parallel = c.devices == 1 ? Parallel::stand_alone : Parallel::data_parallel,
                              .constraints = constraints_of(c.settings)}),
      {.formats = default_devices().formats});
}

std::map<std::string, Tensor> batch_of(const Case& c, int step) {
  std::ostringstream notices;
  const Model whole =
      build_model(model_name, {.global_batch = {}, .precision = c.precision, .loss = "", .micro_batches = 1});
  return training_data(whole, 1, "", "", 7, notices).batch(step);
}

/// All values under users' names.
std::map<std::string, Tensor> values_of(const Session& session) {
  std::map<std::string, Tensor> out;
  for (const Kept& k : session.kept().all()) out[k.name] = session.get(k.name);
  return out;
}

class PartsContract : public ::testing::TestWithParam<Case> {
 protected:
  void SetUp() override {
    if (GetParam().devices > most_ranks()) GTEST_SKIP() << "needs " << GetParam().devices << " ranks";
  }
  static std::map<std::string, Tensor> batch(int step) { return batch_of(GetParam(), step); }
  std::unique_ptr<Session> session(std::uint64_t seed) {
    return session_of(pipeline_of(GetParam()), {.seed = seed});
  }
};

TEST_P(PartsContract, owned_parts_are_every_element_once) {
  const Pipeline pipeline = pipeline_of(GetParam());
  const KeptValues kept(pipeline);
  std::map<std::string, Tensor> times;
  for (int rank = 0; rank < pipeline.rank_count(); ++rank)
    for (const NamedBox& part : kept.owned_by(rank)) {
      const Type type = kept.type_of(kept.named(part.name));
      Tensor& seen = times.try_emplace(part.name, Type{DType::f64, type.shape}).first->second;
      const Piece piece = piece_of(part.where, part.where, whole_box(type.shape));
      for_each_run(piece, [&](std::int64_t, std::int64_t to, std::int64_t n) {
        for (std::int64_t i = to; i < to + n; ++i) seen.as<double>()[static_cast<std::size_t>(i)] += 1;
      });
    }
  for (const Kept& k : kept.all()) {
    if (&kept.parameter_of(k) != &k) {
      EXPECT_FALSE(times.contains(k.name)) << k.name << " is told as its parameter";
      continue;
    }
    ASSERT_TRUE(times.contains(k.name)) << k.name;
    for (double n : to_doubles(times.at(k.name))) EXPECT_EQ(n, 1) << k.name;
  }
}

TEST_P(PartsContract, parts_are_read_without_others_and_set_another_session) {
  const auto trained = session(1), other = session(2);
  if (!trained) return;
  for (int step = 0; step < 2; ++step) trained->step(batch(step));
  const std::map<std::string, Tensor> want = values_of(*trained);
  for (int rank : trained->ranks()) {
    for (const NamedBox& part : trained->kept().owned_by(rank))
      EXPECT_EQ(trained->get_own(part.name, part.where), take(want.at(part.name), part.where))
          << part.name << to_text(part.where);
    for (const NamedBox& part : other->kept().held_by(rank))
      other->set(part.name, part.where, take(want.at(part.name), part.where));
  }
  EXPECT_EQ(values_of(*other), want);
  EXPECT_EQ(other->step(batch(2)), trained->step(batch(2)));
}

TEST_P(PartsContract, a_part_may_cross_ranks) {
  const auto trained = session(1);
  if (!trained) return;
  for (const auto& [name, whole] : values_of(*trained)) {
    Box where = whole_box(whole.shape());
    for (std::size_t d = 0; d < where.extent.size(); ++d)
      if (where.extent[d] > 2) where.offset[d] = 1, where.extent[d] -= 2;
    EXPECT_EQ(trained->get(name, where), take(whole, where)) << name;
    Tensor zeros({whole.dtype(), where.extent});
    trained->set(name, where, zeros);
    EXPECT_EQ(trained->get(name, where), zeros) << name;
    trained->set(name, where, take(whole, where));
    EXPECT_EQ(trained->get(name), whole) << name;
  }
}

TEST_P(PartsContract, a_step_on_own_parts_of_the_batch_is_the_step) {
  const auto on_whole = session(1), on_parts = session(1);
  if (!on_whole) return;
  for (int step = 0; step < 2; ++step) {
    const std::map<std::string, Tensor> whole = batch(step);
    BatchParts parts;
    for (const auto& [name, tensor] : whole) parts[name];
    std::vector<NamedBox> known;
    for (int rank : on_parts->ranks())
      for (const NamedBox& part : input_parts(on_parts->pipeline(), rank)) {
        if (std::ranges::find(known, part) != known.end()) continue;  // of a replica
        known.push_back(part);
        parts[part.name].push_back({part.where, take(whole.at(part.name), part.where)});
      }
    EXPECT_EQ(on_parts->step_on_parts(parts), on_whole->step(whole));
  }
  EXPECT_EQ(values_of(*on_parts), values_of(*on_whole));
}

INSTANTIATE_TEST_SUITE_P(Plans, PartsContract, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

/// More than what passes through the window of a gather at once, and not in whole windows.
TEST(PartsOfSessions, large_values_come_together) {
  if (most_ranks() < 4) GTEST_SKIP() << "needs 4 ranks";
  const auto session = session_of(testing::program_of(R"(
mesh [a=4]
%w = param f32[26, 7001] (init=normal) as [103, 7001] [a, -]
%v = param f32[103, 1751] (init=normal) as [103, 7001] [-, a]
output %w
output %v
)"),
                                  {});
  if (!session) return;
  const Tensor w = testing::counting({DType::f32, {103, 7001}});
  for (const char* name : {"w", "v"}) {
    session->set(name, w);
    EXPECT_EQ(session->get(name), w) << name;
  }
  EXPECT_EQ(session->step({}), (std::vector<Tensor>{w, w}));
}

/// On processes nobody waits for who lacks something.
TEST(PartsOfSessions, all_hear_that_a_part_is_missing) {
  const auto session = session_of(testing::program_of(R"(
mesh [dp=2]
%x = input f32[2, 3] as [4, 3] [dp, -]
%y = all_gather %x dim 0 over dp : f32[4, 3] as [4, 3] [-, -]
output %y
)"),
                                  {});
  if (!session) return;
  const TensorPart part{{{0, 0}, {2, 3}}, testing::counting({DType::f32, {2, 3}})};
  const std::string message = message_of([&] { session->step_on_parts({{"x", {part}}}); });
  EXPECT_NE(message.find("input 'x': [2:4, 0:3] of it should be"), std::string::npos) << message;
}

/// A scalar has no rows to cut: it goes to every micro-batch, like what is as large as one of them.
TEST(PartsOfSessions, a_scalar_goes_to_every_micro_batch) {
  Program p = testing::program_of(R"(
mesh [dp=2]
%x = input f32[1, 3] as [2, 3] [dp, -]
%s = input f32[] as [] []
%y = mul %x, %s {i0: dp} : f32[1, 3] as [2, 3] [dp, -]
output %y
)");
  p.micro_batches = 2;
  Pipeline pipeline = p;
  pipeline.pipelining.micro_batches = 2;
  Session session(pipeline);
  const Tensor x = testing::counting({DType::f32, {4, 3}}),
               two = make_tensor({DType::f32, {}}, std::array{2.0});
  const std::vector<Tensor> want = session.step({{"x", x}, {"s", two}});
  std::vector<double> twice = to_doubles(x);
  for (double& e : twice) e *= 2;
  EXPECT_EQ(to_doubles(want.at(0)), twice);
  BatchParts parts{{"s", {{{}, two}}}};
  for (int rank : {0, 1})
    for (const NamedBox& part : input_parts(pipeline, rank))
      if (part.name == "x") parts["x"].push_back({part.where, take(x, part.where)});
  EXPECT_EQ(session.step_on_parts(parts), want);
}

TEST(PartsOfSessions, wrong_parts_are_named) {
  Session session(testing::program_of(R"(
mesh [dp=2]
%x = input f32[2, 3] as [4, 3] [dp, -]
%w = param f32[3] as [3] [-]
%y = add %x, %w {i0: dp} : f32[2, 3] as [4, 3] [dp, -]
output %y
)"));
  const auto part = [](std::int64_t from, std::int64_t to) {
    return TensorPart{{{from, 0}, {to - from, 3}}, testing::counting({DType::f32, {to - from, 3}})};
  };
  EXPECT_EQ(message_of([&] {
              session.set("w", {{1}, {3}}, Tensor({DType::f32, {3}}));
            }),
            "'w' is f32[3]; [1:4] is no part of it");
  EXPECT_EQ(message_of([&] {
              session.set("w", {{1}, {2}}, Tensor({DType::f32, {3}}));
            }),
            "the part [1:3] of 'w' is f32[2] but is given as f32[3]");
  EXPECT_EQ(message_of([&] {
              session.get("w", {{0, 0}, {1, 1}});
            }),
            "'w' is f32[3]; [0:1, 0:1] is no part of it");
  EXPECT_EQ(message_of([&] { session.step_on_parts({}); }), "input 'x' is missing from the batch");
  EXPECT_EQ(message_of([&] {
              session.step_on_parts({{"x", {part(0, 3)}}});
            }),
            "input 'x': [2:4, 0:3] of it should be in the batch's parts; [3:4, 0:3] is in none");
  EXPECT_EQ(message_of([&] { session.step_on_parts({{"x", {part(0, 1), part(1, 4)}}}); }), "nothing");
}

}  // namespace
}  // namespace shardwright
