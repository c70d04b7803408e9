// Losses that depend on how the batch is cut are told, whoever chose the number of micro-batches.
#include <gtest/gtest.h>

#include <filesystem>
#include <sstream>

#include "shardwright/cli/verb.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// What a command says on stderr.
std::string told(const std::vector<std::string>& words, int status = 0) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  EXPECT_EQ(run_command(words, terminal), status) << err.str();
  return err.str();
}

constexpr const char* residual = "resnet18:image=16,width=8,classes=8,batch=8";
constexpr const char* products = "dense_net:widths=32-8-16,batch=8";

TEST(MicroBatches, of_which_the_loss_depends_are_told) {
  const std::string of_norm = "2 micro-batches: %bn1.norm (batch_norm) works over the samples";
  EXPECT_NE(told({"plan", residual, "--devices", "4", "--fix", "pp=2"}).find(of_norm), std::string::npos);
  const std::string of_product =
      "2 micro-batches: %matmul1 (matmul) works over the samples of a micro-batch, so losses differ from "
      "those "
      "of the whole batch at once\n";
  EXPECT_NE(told({"train", products, "--accumulate", "2", "--steps", "1"}).find(of_product),
            std::string::npos);
  const std::string plan = scratch_folder() + "/p.json";
  EXPECT_NE(told({"plan", products, "--devices", "2", "--stages", "2", "-o", plan}).find(of_product),
            std::string::npos);
  EXPECT_NE(told({"train", products, "--plan", plan, "--steps", "1"}).find(of_product), std::string::npos);
}

TEST(MicroBatches, of_which_it_does_not_are_not) {
  for (const char* model : {"ffn", "three_layer:widths=16-8-8-4", "three_layer_mae:widths=16-8-8-1",
                            "matmul_chain", "llama:layers=1,hidden=16,heads=4,ffn=16,vocab=16,seq=8,batch=4",
                            "gpt:layers=1,hidden=16,heads=4,vocab=16,seq=8,batch=4"})
    EXPECT_EQ(told({"plan", model, "--accumulate", "2"}).find("joins"), std::string::npos) << model;
  EXPECT_EQ(told({"plan", residual, "--devices", "4"}).find("joins"), std::string::npos);
  EXPECT_EQ(told({"train", products, "--steps", "1"}).find("joins"), std::string::npos);
}

TEST(Fixed, what_contradicts_itself_is_what_is_blamed) {
  EXPECT_EQ(told({"plan", "ffn", "--devices", "4", "--fix", "pp=4,sequence_parallel=1"}, 2),
            "shardwright: no plan: 4 devices and 32 samples cannot be shared out as is fixed (pp=4, "
            "sequence_parallel=1); sequence_parallel=1 splits over tp, of which only 1 is left\n");
  EXPECT_EQ(told({"plan", "ffn", "--devices", "8", "--fix", "dp=3,tp=2,zero=1"}, 2),
            "shardwright: no plan: 8 devices and 32 samples cannot be shared out as is fixed (dp=3)\n");
  told({"plan", "ffn", "--devices", "4", "--fix", "pp=2,sequence_parallel=1"});
}

/// Stages of one micro-batch wait for each other; where nothing else is left, they are what there is.
TEST(Fixed, degrees_may_leave_stages_that_wait) {
  const char* model = "matmul_chain:widths=12-4,batch=4";
  told({"plan", model, "--devices", "8", "--fix", "tp=1,dp=4"});
  told({"train", model, "--devices", "8", "--fix", "tp=1,dp=4", "--steps", "1"});
}

}  // namespace
}  // namespace shardwright
