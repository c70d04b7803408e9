#include "shardwright/runtime/session.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <thread>

#include "shardwright/runtime/communicator/threads.h"
#include "tests/support/message_of.h"
#include "tests/support/program_with_op.h"

namespace shardwright {
namespace {

using testing::message_of;

using testing::counting;
using testing::program_of;
using testing::program_with;

Tensor product(const Tensor& a, const Tensor& b) {
  const std::int64_t m = a.shape()[0], k = a.shape()[1], n = b.shape()[1];
  const std::vector<double> x = to_doubles(a), y = to_doubles(b);
  std::vector<double> out(static_cast<std::size_t>(m * n));
  for (std::int64_t i = 0; i < m; ++i)
    for (std::int64_t j = 0; j < n; ++j)
      for (std::int64_t l = 0; l < k; ++l)
        out[static_cast<std::size_t>(i * n + j)] +=
            x[static_cast<std::size_t>(i * k + l)] * y[static_cast<std::size_t>(l * n + j)];
  return make_tensor({a.dtype(), {m, n}}, out);
}

const char* const one_rank = R"(
mesh [dp=1]
%x = input f32[4, 8] as [4, 8] [-, -]
%w = param f32[8, 6] (init=normal) as [8, 6] [-, -]
%y = matmul %x, %w : f32[4, 6] as [4, 6] [-, -]
update:
%w2 = fill (shape=[8, 6], value=2) : f32[8, 6] as [8, 6] [-, -]
output %y
update %w <- %w2
)";

const char* const contracted = R"(
mesh [tp=2]
%x = input f32[4, 4] as [4, 8] [-, tp]
%w = param f32[4, 6] (init=normal) as [8, 6] [tp, -]
%1 = matmul %x, %w {k: tp} : f32[4, 6] as [4, 6] [-, -] sum(tp)
%y = all_reduce.sum %1 over tp : f32[4, 6] as [4, 6] [-, -]
update:
%w2 = fill (shape=[8, 6], value=2) {i0: tp} : f32[4, 6] as [8, 6] [tp, -]
output %y
update %w <- %w2
)";

const char* const scattered = R"(
mesh [dp=2, tp=2]
%x = input f32[2, 4] as [4, 8] [dp, tp]
%w = param f32[4, 6] (init=normal) as [8, 6] [tp, -]
%1 = matmul %x, %w {m: dp, k: tp} : f32[2, 6] as [4, 6] [dp, -] sum(tp)
%y = reduce_scatter %1 dim 1 over tp : f32[2, 3] as [4, 6] [dp, tp]
update:
%w2 = fill (shape=[8, 6], value=2) {i0: tp} : f32[4, 6] as [8, 6] [tp, -]
output %y
update %w <- %w2
)";

TEST(Session, every_split_gives_the_numbers_of_one_rank) {
  const Tensor x = counting({DType::f32, {4, 8}}), w = counting({DType::f32, {8, 6}});
  for (const char* text : {one_rank, contracted, scattered}) {
    Session session(program_of(text));
    session.set("w", w);
    EXPECT_EQ(session.get("w"), w);
    const std::vector<Tensor> out = session.step({{"x", x}});
    ASSERT_EQ(out.size(), 1U);
    EXPECT_EQ(out[0], product(x, w)) << text;
  }
}

TEST(Session, initial_values_do_not_depend_on_the_split) {
  Session whole(program_of(one_rank), {.seed = 7}), split(program_of(scattered), {.seed = 7});
  EXPECT_EQ(whole.get("w"), split.get("w"));
  Session other(program_of(scattered), {.seed = 8});
  EXPECT_NE(whole.get("w"), other.get("w"));
}

TEST(Session, a_rank_of_its_own_gets_whole_tensors) {
  const Tensor x = counting({DType::f32, {4, 8}}), w = counting({DType::f32, {8, 6}});
  const SessionStatistics together = Session(program_of(scattered)).statistics();
  auto communicators = thread_communicators(4);
  std::vector<std::jthread> ranks;
  for (auto& communicator : communicators)
    ranks.emplace_back([&] {
      Session session(program_of(scattered), std::move(communicator));
      session.set("w", w);
      EXPECT_EQ(session.get("w"), w);
      EXPECT_EQ(session.step({{"x", x}})[0], product(x, w));
      EXPECT_EQ(session.step({{"x", x}})[0], product(x, session.get("w")));
      EXPECT_EQ(session.statistics().collectives_per_step, together.collectives_per_step);
      EXPECT_EQ(session.statistics().bytes_communicated_per_step, together.bytes_communicated_per_step);
    });
}

TEST(Session, parameters_change_after_the_step) {
  const Tensor x = counting({DType::f32, {4, 8}}), w = counting({DType::f32, {8, 6}});
  for (const char* text : {one_rank, contracted, scattered}) {
    Session session(program_of(text));
    session.set("w", w);
    EXPECT_EQ(session.step({{"x", x}})[0], product(x, w));
    const Tensor twos = session.get("w");
    for (double v : to_doubles(twos)) EXPECT_EQ(v, 2);
    EXPECT_EQ(session.step({{"x", x}})[0], product(x, twos));
  }
}

TEST(Session, outputs_that_nobody_wants_stay_on_the_devices) {
  const Tensor x = counting({DType::f32, {4, 8}});
  const char* const text = R"(
mesh [tp=2]
%x = input f32[4, 4] as [4, 8] [-, tp]
%1 = reduce_sum %x (dims=[0, 1]) {i1: tp} : f32[] as [] [] sum(tp)
%y = all_reduce.sum %1 over tp : f32[] as [] []
output %y
output %x
)";
  for (const bool only_scalars : {false, true}) {
    Session session(program_of(text), {.only_scalars = only_scalars});
    const std::vector<Tensor> out = session.step({{"x", x}});
    EXPECT_EQ(to_doubles(out.at(0)), (std::vector<double>{496}));
    EXPECT_EQ(out.at(1), only_scalars ? Tensor({DType::f32, {0}}) : x);
  }
}

TEST(Session, an_output_is_the_value_before_the_update) {
  Session session(program_of(R"(
mesh [dp=2]
%w = param f32[3] (init=ones) as [3] [-]
update:
%w2 = fill (shape=[3], value=5) : f32[3] as [3] [-]
output %w
update %w <- %w2
)"));
  EXPECT_EQ(to_doubles(session.step({})[0]), (std::vector<double>{1, 1, 1}));
  EXPECT_EQ(to_doubles(session.step({})[0]), (std::vector<double>{5, 5, 5}));
}

TEST(Session, unequal_shards_are_split_and_joined) {
  Session session(program_of(R"(
mesh [dp=4]
%x = input i32[2, 3] as [7, 3] [dp, -]
%y = all_to_all %x dim 0 to 1 over dp : i32[7, 1] as [7, 3] [-, dp]
%z = all_gather %y dim 1 over dp : i32[7, 3] as [7, 3] [-, -]
output %x
output %y
output %z
)"));
  const Tensor x = counting({DType::i32, {7, 3}});
  EXPECT_EQ(session.step({{"x", x}}), (std::vector<Tensor>{x, x, x}));
}

TEST(Session, meshes_may_differ_within_a_program) {
  Session session(program_of(R"(
mesh [a=2, b=3]
mesh [u=3, v=2]
%x = input f32[1, 4] as [6, 4] [a.b, -]
%y = exchange %x : f32[3, 2] as [6, 4] [v, u]@1
output %y
)"));
  const Tensor x = counting({DType::f32, {6, 4}});
  EXPECT_EQ(session.step({{"x", x}})[0], x);
  EXPECT_EQ(session.statistics().collectives_per_step, (std::map<std::string, int>{{"exchange", 1}}));
}

TEST(Session, statistics_say_what_a_step_moves) {
  Session session(program_of(scattered));
  const SessionStatistics& s = session.statistics();
  EXPECT_EQ(s.arena_bytes, session.program().arena_bytes);
  EXPECT_EQ(s.collectives_per_step, (std::map<std::string, int>{{"reduce_scatter", 1}}));
  EXPECT_EQ(s.bytes_communicated_per_step, 2 * 6 * 4 / 2);
}

TEST(Session, survives_many_steps_on_more_ranks_than_cores) {
  Session session(program_of(R"(
mesh [dp=8]
%x = input f32[1, 4] as [8, 4] [dp, -]
%y = all_gather %x dim 0 over dp : f32[8, 4] as [8, 4] [-, -]
output %y
)"));
  for (int step = 0; step < 200; ++step) {
    const Tensor x = make_tensor({DType::f32, {8, 4}}, std::vector<double>(32, step));
    ASSERT_EQ(session.step({{"x", x}})[0], x);
  }
}

TEST(Session, wrong_batches_are_told_before_anything_runs) {
  Session session(program_of(contracted));
  const Tensor x = counting({DType::f32, {4, 8}});
  EXPECT_EQ(message_of([&] { session.step({}); }), "input 'x' is missing from the batch");
  EXPECT_EQ(message_of([&] {
              session.step({{"x", counting({DType::f32, {4, 4}})}});
            }),
            "input 'x' is f32[4, 8] but the batch has f32[4, 4]");
  EXPECT_EQ(message_of([&] {
              session.step({{"x", counting({DType::f64, {4, 8}})}});
            }),
            "input 'x' is f32[4, 8] but the batch has f64[4, 8]");
  EXPECT_EQ(message_of([&] {
              session.step({{"x", x}, {"xx", x}});
            }),
            "there is no input 'xx' (did you mean x?)");
  EXPECT_EQ(message_of([&] { session.step({{"x", x}}); }), "nothing");
}

TEST(Session, wrong_parameters_are_named) {
  Session session(program_of(contracted));
  EXPECT_EQ(message_of([&] { session.get("v"); }), "there is no parameter or state 'v' (did you mean w?)");
  EXPECT_EQ(message_of([&] {
              session.set("w", Tensor({DType::f32, {4, 6}}));
            }),
            "'w' is f32[8, 6] but is set to f32[4, 6]");
}

/// An operator that fails on the rank whose part of `i0` starts at 1.
const OpDef& failing_op() {
  static const OpDef op{.name = "fail",
                        .doc = "y = x, except on one rank",
                        .rule = "... -> ...",
                        .kernel = [](const KernelCall& call) {
                          if (call.loop("i0").offset == 1) throw error("the sky fell");
                        }};
  return op;
}

// What it is read as follows from it, and so is only rounded where nothing is updated.
TEST(Session, a_parameter_is_its_master) {
  const std::string text = R"(
mesh [dp=2]
%x = input bf16[4] as [4] [-]
%w = param bf16[4] (init=ones, master=f32) as [4] [-]
MASTER%y = add %x, %w : bf16[4] as [4] [-]
update:
UPDATEoutput %y
)";
  const auto with = [&](std::string master, std::string update) {
    std::string out = text;
    out.replace(out.find("MASTER"), 6, master);
    out.replace(out.find("UPDATE"), 6, update);
    return program_of(out);
  };
  const std::vector<double> values{1 + 1.0 / 1024, 2, 3, 4};
  const Tensor whole = make_tensor({DType::f32, {4}}, values);
  const std::map<std::string, Tensor> batch{
      {"x", make_tensor({DType::bf16, {4}}, std::vector<double>{0, 1, 1, 1})}};
  Session kept(with("%w.master = state f32[2] (init=ones, as=w) as [4] [dp]\n", ""));
  for (const char* name : {"w", "w.master"}) {
    kept.set(name, whole);
    EXPECT_EQ(kept.get("w"), whole) << name;
    EXPECT_EQ(to_doubles(kept.step(batch)[0]), (std::vector<double>{1, 3, 4, 5})) << name;
    kept.set("w", make_tensor({DType::f32, {4}}, std::vector<double>(4, 0)));
  }
  Session frozen(with("", ""));
  frozen.set("w", whole);
  EXPECT_EQ(frozen.get("w"), make_tensor({DType::f32, {4}}, std::vector<double>{1, 2, 3, 4}));
  try {
    kept.set("w", make_tensor({DType::bf16, {4}}, values));
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(std::string(e.what()), "'w' is f32[4] but is set to bf16[4]");
  }
}

TEST(Session, a_failing_rank_stops_all_and_is_named) {
  Session session(program_with(failing_op()));
  const std::map<std::string, Tensor> batch{{"x", counting({DType::f32, {4, 2}})}};
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(message_of([&] { session.step(batch); }), "rank 1: %1 = fail: the sky fell");
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(1));
  EXPECT_EQ(message_of([&] { session.step(batch); }),
            "the session has stopped; rank 1: %1 = fail: the sky fell");
}

/// `phase`: of what fails on one rank, beside a parameter whose new value is there before.
Program failing_in(Phase phase) {
  Program p = program_of(R"(
mesh [dp=4]
%x = input f32[1, 2] as [4, 2] [dp, -]
%w = param f32[1, 2] (init=ones) as [4, 2] [dp, -]
%1 = fill (shape=[4, 2], value=2) {i0: dp} : f32[1, 2] as [4, 2] [dp, -]
%y = all_gather %1 dim 0 over dp : f32[4, 2] as [4, 2] [-, -]
output %y
update:
%2 = fill (shape=[4, 2], value=3) {i0: dp} : f32[1, 2] as [4, 2] [dp, -]
%w2 = add %w, %x {i0: dp} : f32[1, 2] as [4, 2] [dp, -]
update %w <- %w2
)");
  Node& node = p.graph.node(p.graph.value(p.graph.find(phase == Phase::forward ? "1" : "2")).producer);
  node.op = &failing_op();
  node.operands = {p.graph.find("x")};
  node.attributes = {};
  return p;
}

TEST(Session, another_goes_on_with_what_one_has_kept_that_failed_before_its_update) {
  const std::map<std::string, Tensor> batch{{"x", counting({DType::f32, {4, 2}})}};
  const Tensor value = counting({DType::f32, {4, 2}});
  Session session(failing_in(Phase::forward));
  session.set("w", value);
  EXPECT_EQ(message_of([&] { session.step(batch); }), "rank 1: %1 = fail: the sky fell");
  EXPECT_TRUE(session.has_stopped());
  EXPECT_EQ(session.get("w"), value);
  EXPECT_NE(message_of([&] { session.set("w", value); }), "nothing");
  Session next(failing_in(Phase::forward));
  next.take_over(session);
  EXPECT_FALSE(next.has_stopped());
  EXPECT_EQ(next.get("w"), value);
}

/// A rank may fail before the others have begun to update: then nothing is lost.
TEST(Session, what_a_failed_update_has_left_nobody_gets) {
  int lost = 0;
  for (int i = 0; i < 100 && lost == 0; ++i) {
    Session session(failing_in(Phase::update));
    const Tensor before = session.get("w");
    EXPECT_EQ(message_of([&] {
                session.step({{"x", counting({DType::f32, {4, 2}})}});
              }),
              "rank 1: %2 = fail: the sky fell");
    const std::string message = message_of([&] { EXPECT_EQ(session.get("w"), before); });
    if (message == "nothing") continue;
    ++lost;
    EXPECT_EQ(message,
              "the session has stopped, and its values are lost, which some rank was changing; rank 1: %2 = "
              "fail: the sky fell");
  }
  EXPECT_EQ(lost, 1);
}

std::atomic<bool> asked_to_stop = false;

/// An operator during which somebody asks for an end, on the rank whose part of `i0` starts at 1.
const OpDef& interrupted_op() {
  static const OpDef op{
      .name = "interrupted", .doc = "y = x", .rule = "... -> ...", .kernel = [](const KernelCall& call) {
        if (call.loop("i0").offset == 1) asked_to_stop = true;
      }};
  return op;
}

TEST(Session, stops_between_nodes_where_it_is_asked_to) {
  Session session(program_with(interrupted_op()), {.stop = &asked_to_stop});
  const std::map<std::string, Tensor> batch{{"x", counting({DType::f32, {4, 2}})}};
  const std::string message = message_of([&] { session.step(batch); });
  EXPECT_NE(message.find(": interrupted"), std::string::npos) << message;
}

TEST(Session, a_leaf_that_cannot_be_filled_is_named) {
  const std::string message = message_of([] {
    Session session(program_of("mesh [dp=2]\n%w = param f32[2] (init=zebra) as [2] [-]\noutput %w\n"));
  });
  EXPECT_EQ(message.substr(0, 5), "rank ");  // either may be the first
  EXPECT_NE(message.find(": w: init=zebra is unknown"), std::string::npos) << message;
}

}  // namespace
}  // namespace shardwright
