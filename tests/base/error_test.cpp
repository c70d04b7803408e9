#include "shardwright/base/error.h"

#include <gtest/gtest.h>

#include <functional>
#include <new>

#include "shardwright/annotations/annotations.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/attempt.h"
#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

Conflict conflict_in(const std::function<void()>& work) {
  try {
    work();
  } catch (const Error& e) {
    return e.conflict().value_or(Conflict{});
  }
  return {};
}

void expect_equal(const Conflict& found, const Conflict& expected) {
  EXPECT_EQ(found.operation, expected.operation);
  EXPECT_EQ(found.key, expected.key);
  EXPECT_EQ(found.wanted, expected.wanted);
  EXPECT_EQ(found.given, expected.given);
}

TEST(Error, keeps_both_sides_under_a_context) {
  const Error e = error("strategy needs {} devices", 8).between({{}, "devices", "8", "2"});
  const Error of_operator = with_context(e, "matmul1", "matmul1");
  EXPECT_STREQ(of_operator.what(), "matmul1: strategy needs 8 devices");
  expect_equal(*of_operator.conflict(), {"matmul1", "devices", "8", "2"});
  expect_equal(*with_context(of_operator, "a.json", "another").conflict(), {"matmul1", "devices", "8", "2"});
  EXPECT_FALSE(with_context(error("no"), "a").conflict());
}

PlanRequest annotated(std::string name, std::vector<TensorSplit> in) {
  PlanRequest request;
  request.devices = 4;
  request.constraints.tensors[std::move(name)].in = std::move(in);
  return request;
}

TEST(Error, of_an_annotation_says_what_it_is_between) {
  const Graph graph = build_model("matmul_chain:widths=12-4,batch=4").graph;
  const auto conflict = [&](const PlanRequest& request) {
    return conflict_in([&] { make_plan(graph, request); });
  };
  expect_equal(conflict(annotated("matmul1", {{4, 2}, {2, 1}})), {"matmul1", "devices", "8", "4"});
  expect_equal(conflict(annotated("matmul1", {{1, 2}, {4, 1}})), {"matmul1", "k", "4", "2"});
  PlanRequest of_others;
  of_others.devices = 4, of_others.cluster = host_cluster(4);
  of_others.cluster->devices_per_node = 8;
  of_others.cluster->name = "other";
  expect_equal(conflict(of_others), {"", "devices", "8", "4"});
}

TEST(Error, of_two_constraints_names_both) {
  const auto said = [](const std::string& text) { return parse_constraints({"--fix", text}); };
  const Constraints weak = said("dp=2,zero=1,a.up={n: tp},layers.0=stage 0");
  EXPECT_FALSE(conflict_of(weak, said("dp=2,tp=4,a.up={n: tp},layers.0=stage 0")));
  expect_equal(*conflict_of(weak, said("dp=4")), {"", "dp", "4", "2"});
  expect_equal(*conflict_of(weak, said("a.up={k: tp}")), {"a.up", "a.up", "{k: tp}", "{n: tp}"});
  expect_equal(*conflict_of(weak, said("layers.0=stage 1")), {"layers.0", "layers.0", "stage 1", "stage 0"});
}

TEST(Attempt, takes_what_may_be_asked_otherwise_for_an_answer) {
  std::string why;
  EXPECT_EQ(attempt(why, [] { return 3; }), 3);
  EXPECT_EQ(why, "");
  EXPECT_FALSE(attempt(why, []() -> int { throw error("does not divide"); }));
  EXPECT_EQ(why, "does not divide");
}

TEST(Attempt, lets_failures_through) {
  std::string why;
  EXPECT_THROW(attempt(why, []() -> int { throw io_error("the disk is full"); }), Error);
  EXPECT_THROW(attempt(why, []() -> int { throw std::bad_alloc(); }), std::bad_alloc);
  EXPECT_EQ(why, "");
  // Of a search that asks for other networks, too.
  PlanRequest request;
  request.devices = 4, request.search = "auto";
  const StepOf step = [](int micro_batches) -> Graph {
    if (micro_batches == 2) throw io_error("weights.safetensors: the disk is gone");
    Model m = build_model("matmul_chain:widths=12-4,batch=8");
    add_train_step(m.graph, m.loss, {});
    return m.graph;
  };
  try {
    make_plan(step, request);
    ADD_FAILURE() << "a failure was taken for an answer";
  } catch (const Error& e) {
    EXPECT_EQ(e.kind(), ErrorKind::io) << e.what();
  }
}

}  // namespace
}  // namespace shardwright
