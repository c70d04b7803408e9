// A network as deep as a file can say is walked by loops: all that happens to it happens on a small stack.

#include <gtest/gtest.h>
#include <pthread.h>

#include <functional>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/verify/verify.h"

namespace shardwright {
namespace {

void on_stack_of(std::size_t bytes, std::function<void()> work) {
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  ASSERT_EQ(pthread_attr_setstacksize(&attributes, bytes), 0);
  pthread_t thread{};
  const auto call = [](void* f) -> void* {
    (*static_cast<std::function<void()>*>(f))();
    return nullptr;
  };
  ASSERT_EQ(pthread_create(&thread, &attributes, call, &work), 0);
  pthread_join(thread, nullptr);
  pthread_attr_destroy(&attributes);
}

/// A recursion over it needs more than 64 bytes a node.
TEST(LongChain, is_planned_lowered_proven_and_trained_on_a_small_stack) {
  static constexpr int nodes = 8000;
  on_stack_of(nodes * 64, [] {
    std::string text = "%x = input f32[4]\n%w = param f32[4] (init=ones)\n%n0 = mul %x, %w\n";
    for (int i = 0; i < nodes; ++i) text += fmt::format("%n{} = relu %n{}\n", i + 1, i);
    text += fmt::format("%l = reduce_sum %n{}\noutput %l\n", nodes);
    Graph graph = parse_graph(text);
    add_train_step(graph, graph.outputs.front(), {.name = "sgd", .attributes = {{"rate", 0.5}}});
    const Plan plan = make_plan(graph, {.model = "chain", .devices = 2, .parallel = Parallel::data_parallel});
    Pipeline pipeline = compile_pipeline(graph, plan, {.formats = cpu_formats});
    EXPECT_EQ(prove(pipeline).ranks, 2);
    Session session(std::move(pipeline));
    const std::map<std::string, Tensor> batch{
        {"x", make_tensor({DType::f32, {4}}, std::vector<double>{1, 2, 3, -4})}};
    EXPECT_EQ(to_doubles(session.step(batch).front()).front(), 6);
    EXPECT_EQ(to_doubles(session.get("w")), (std::vector<double>{0.5, 0, -0.5, 1}));
  });
}

}  // namespace
}  // namespace shardwright
