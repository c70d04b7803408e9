#include "shardwright/plan/comm_fusion.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

std::string message_of(const std::function<void()>& f) {
  try {
    f();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(CommFusion, prints_what_it_reads) {
  for (const char* text :
       {"auto", "none", "size:16", "size:0", "all_reduce=index:1,3;all_gather=auto;reduce_scatter=auto",
        "all_reduce=auto;all_gather=none;reduce_scatter=size:2"})
    EXPECT_EQ(to_text(parse_comm_fusion(text)), text);
  EXPECT_EQ(to_text(parse_comm_fusion("index:4")), "all_reduce=index:4;all_gather=auto;reduce_scatter=auto");
  EXPECT_EQ(to_text(parse_comm_fusion("all_gather=none")),
            "all_reduce=auto;all_gather=none;reduce_scatter=auto");
  EXPECT_EQ(to_text(parse_comm_fusion(" all_gather = none ; all_reduce = none;reduce_scatter=none")), "none");
  EXPECT_EQ(parse_comm_fusion("size:3").all_gather.bytes(), 3 << 20);
  EXPECT_EQ(parse_comm_fusion("auto").all_reduce.bytes(), 64 << 20);
}

TEST(CommFusion, a_name_is_of_a_parameter_or_a_module_and_the_longer_wins) {
  const Graph graph = build_model("ffn:widths=8-4-2").graph;
  const CommFusion got = with_parameters({}, graph, {{"dense1", 3}, {"dense1.bias", 0}});
  EXPECT_EQ(got.parameters, (std::map<std::string, int>{{"dense1.bias", 0}, {"dense1.weight", 3}}));
  EXPECT_EQ(message_of([&] {
              with_parameters({}, graph, {{"dense", 1}});
            }),
            "dense: comm_fusion is of a parameter or module, and there is none of that name (did you mean "
            "dense1.bias or dense2.bias?)");
  EXPECT_EQ(
      message_of([&] {
        with_parameters({}, graph, {{"dense2.bia", 1}});
      }),
      "dense2.bia: comm_fusion is of a parameter or module, and there is none of that name (did you mean "
      "dense2.bias or dense1.bias?)");
  EXPECT_EQ(message_of([&] {
              with_parameters({}, graph, {{"dense1", -1}});
            }),
            "dense1: comm_fusion -1 should be an integer from 0 to 1000000; 0 is never with others");
}

TEST(CommFusion, stands_in_the_plan_file) {
  const Graph graph = build_model("ffn:widths=8-4-2,batch=4").graph;
  PlanRequest request{.devices = 2, .parallel = Parallel::data_parallel};
  for (const char* text : {"auto", "none", "all_reduce=index:1,3;all_gather=auto;reduce_scatter=size:2"}) {
    request.constraints.comm_fusion = parse_comm_fusion(text);
    const Plan plan = make_plan(graph, request);
    EXPECT_EQ(parse_plan(to_json(plan), "").settings.comm_fusion, settings_of(request).comm_fusion) << text;
    EXPECT_EQ(apply(plan, graph).stages[0].comm_fusion, settings_of(request).comm_fusion) << text;
  }
  request.constraints.fusion_numbers = {{"dense1", 2}};
  const Plan plan = make_plan(graph, request);
  EXPECT_EQ(plan.settings.comm_fusion.parameters.size(), 2U);
  EXPECT_EQ(parse_plan(to_json(plan), "").settings.comm_fusion, plan.settings.comm_fusion);
}

}  // namespace
}  // namespace shardwright
