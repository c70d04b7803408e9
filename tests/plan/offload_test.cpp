#include "shardwright/plan/offload.h"

#include <gtest/gtest.h>

#include "shardwright/frontend/model.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/settings.h"
#include "tests/support/message_of.h"

namespace shardwright {
namespace {

using testing::message_of;

TEST(OffloadText, round_trips) {
  for (const char* text : {"none", "optimizer", "optimizer:0.5", "parameters,activations:0.25",
                           "optimizer,parameters,activations,host(a.b),host(c*)", "activations:1/0.5/0",
                           "optimizer:0/1,activations:0.25/0"})
    EXPECT_EQ(to_text(parse_offload(text)), text);
  EXPECT_EQ(to_text(parse_offload("embedding, optimizer:1")), "optimizer,host(embedding)");
  EXPECT_EQ(to_text(parse_offload("optimizer:0")), "none");
  EXPECT_EQ(to_text(parse_offload("optimizer:0.5/0.5,activations:0/0")), "optimizer:0.5");
}

TEST(OffloadText, stages_have_shares_of_their_own) {
  const Offload all = parse_offload("optimizer:0.5,activations:1/0.5/0");
  EXPECT_EQ(all.activations, 1);
  EXPECT_EQ(all.stages(), 3U);
  EXPECT_EQ(to_text(all.of_stage(0)), "optimizer:0.5,activations");
  EXPECT_EQ(to_text(all.of_stage(1)), "optimizer:0.5,activations:0.5");
  EXPECT_EQ(to_text(all.of_stage(2)), "optimizer:0.5");
  EXPECT_NE(all, parse_offload("optimizer:0.5,activations:1/0/0"));
  EXPECT_TRUE(all < parse_offload("optimizer:0.5,activations:1/0.5/0.5"));
}

TEST(OffloadText, says_what_is_wrong) {
  EXPECT_EQ(
      message_of([] { parse_offload("optimizer:2"); }),
      "offload: 'optimizer:2': the share should be a number from 0 to 1, such as 0.5, or one for each stage, "
      "as 1/0.5/0");
  EXPECT_EQ(
      message_of([] { parse_offload("activations:1/nan"); }),
      "offload: 'activations:1/nan': the share should be a number from 0 to 1, such as 0.5, or one for each "
      "stage, as 1/0.5/0");
  EXPECT_EQ(
      message_of([] { parse_offload("optimizer:1/0,activations:1/0/0"); }),
      "offload: 'optimizer:1/0,activations:1/0/0': has shares of 2 stages for optimizer, of 3 for others");
  EXPECT_EQ(message_of([] { parse_offload("optimizer,optimizer:0.5"); }), "offload: optimizer is said twice");
  EXPECT_EQ(message_of([] { parse_offload("weights:0.5"); }),
            "offload: 'weights:0.5' should be optimizer, parameters or activations, each with a share "
            "(optimizer:0.5), or an operator");
  const Graph graph = build_model("ffn").graph;
  EXPECT_EQ(message_of([&] { check(parse_offload("dense1.matmull"), graph); }),
            "offload: there is no operator or parameter 'dense1.matmull' (did you mean dense1.matmul or "
            "dense2.matmul?)");
}

TEST(OffloadText, constraints_say_the_same) {
  const Constraints c = parse_constraints({"test", "offload={optimizer:0.5,parameters},embedding=host"});
  EXPECT_EQ(to_text(c), "offload={optimizer:0.5,parameters},embedding=host");
  EXPECT_EQ(to_text(settings_of(c).offload), "optimizer:0.5,parameters,host(embedding)");
  EXPECT_EQ(constraints_of(settings_of(c)), c);
}

}  // namespace
}  // namespace shardwright
