// Degrees that divide neither samples nor heads nor features: some ranks have one more, nothing is padded, and losses are
// those of one device.

#include <gtest/gtest.h>

#include "tests/support/degrees_runs.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

using testing::TrainingRun;

struct UnevenCase {
  std::string name;
  std::string model;
  std::string set;
  int micro_batches = 1;
};
void PrintTo(const UnevenCase& c, std::ostream* out) { *out << c.name; }

class EndToEndUneven : public ::testing::TestWithParam<UnevenCase> {};

TEST_P(EndToEndUneven, has_the_losses_of_one_device) {
  const UnevenCase& c = GetParam();
  const TrainingRun run{
      .model = c.model, .optimizer = {.name = "momentum"}, .precision = DType::f64, .steps = 3};
  testing::expect_same(testing::run_planned(run, testing::request_of_set(c.set, c.micro_batches)),
                       testing::run_alone(run), {.losses = 1e-9, .weights = 1e-7});
}

const std::string gpt = "gpt:layers=2,hidden=40,heads=5,vocab=47,seq=8,batch=10";
const std::string llama = "llama:layers=2,hidden=32,heads=8,kv_heads=4,ffn=50,vocab=47,seq=9,batch=7";

const std::string few_keys = "llama:layers=2,hidden=56,heads=14,kv_heads=2,ffn=50,vocab=47,seq=9,batch=6";

INSTANTIATE_TEST_SUITE_P(
    all, EndToEndUneven,
    ::testing::Values(
        UnevenCase{"samples", gpt, "dp=3"}, UnevenCase{"samples_of_micro_batches", gpt, "dp=3", 2},
        UnevenCase{"as_many_samples_as_devices", llama, "dp=7,zero=2"},
        UnevenCase{"a_sample_more", llama, "dp=6,zero=3"}, UnevenCase{"heads", gpt, "tp=3"},
        UnevenCase{"heads_of_whole_width", gpt, "tp=4"}, UnevenCase{"one_head_each", gpt, "tp=5"},
        UnevenCase{"heads_of_keys", llama, "tp=3"},
        UnevenCase{"heads_of_keys_by_sequence", llama, "tp=3,sequence_parallel=1,zero=3"},
        UnevenCase{"heads_of_queries", few_keys, "tp=4"},
        UnevenCase{"heads_of_queries_with_all", few_keys,
                   "dp=2,tp=4,sequence_parallel=1,zero=3,recompute=full"},
        UnevenCase{"experts", "moe:layers=2,hidden=32,heads=4,ffn=34,experts=4,vocab=47,seq=8,batch=4",
                   "tp=3"},
        UnevenCase{"operators", llama, "tp=3,layers.*.attention.q.matmul={n: tp},embedding={v: tp}"},
        UnevenCase{"vocabulary", "gpt:layers=2,hidden=32,heads=4,vocab=47,seq=8,batch=8", "tp=4"},
        UnevenCase{"both", llama, "dp=2,tp=3,zero=2"},
        UnevenCase{"stages", gpt, "dp=3,pp=2,recompute=full", 2},
        UnevenCase{"all", "gpt:layers=4,hidden=40,heads=5,vocab=47,seq=8,batch=14",
                   "dp=2,tp=2,pp=2,sequence_parallel=1,zero=1,schedule=interleaved:2", 2},
        UnevenCase{"sequence", llama, "dp=2,tp=3,sequence_parallel=1,recompute=selected"},
        UnevenCase{"context", "llama:layers=2,hidden=32,heads=4,ffn=50,vocab=47,seq=8,batch=5",
                   "dp=3,cp=2,context=ring"},
        UnevenCase{"images", "resnet18:image=32,classes=10,batch=7", "dp=3,zero=2"},
        UnevenCase{"channels", "resnet18:image=32,classes=10,batch=4", "tp=3"},
        UnevenCase{"dropout", gpt + ",dropout=0.2,attention_dropout=0.1", "dp=3,tp=2"},
        UnevenCase{"shares", gpt, "dp=2,batch_shares=7:3"},
        UnevenCase{"shares_of_micro_batches", gpt, "dp=3,zero=2,batch_shares=3:1:1", 2},
        UnevenCase{"shares_with_heads", llama,
                   "dp=2,tp=3,sequence_parallel=1,zero=3,recompute=selected,batch_shares=6:1"},
        UnevenCase{"shares_in_stages", "gpt:layers=4,hidden=40,heads=5,vocab=47,seq=8,batch=14",
                   "dp=2,tp=2,pp=2,zero=1,schedule=interleaved:2,batch_shares=2:5", 2},
        UnevenCase{"shares_of_sequences", "llama:layers=2,hidden=32,heads=4,ffn=50,vocab=47,seq=8,batch=5",
                   "dp=2,cp=2,context=ring,batch_shares=4:1"},
        UnevenCase{"shares_of_images", "resnet18:image=32,classes=10,batch=7", "dp=2,batch_shares=5:2"},
        UnevenCase{"shares_with_dropout", gpt + ",dropout=0.2,attention_dropout=0.1",
                   "dp=3,batch_shares=5:3:2"},
        UnevenCase{"overlap", llama, "dp=2,tp=3,sequence_parallel=1,overlap_tensor=1"}),
    [](const auto& test) { return test.param.name; });

TEST(EndToEndUneven, drawn_have_the_losses_of_one_device) {
  testing::DrawnDegrees drawn(static_cast<unsigned>(11 + testing::further_seeds()));
  const unsigned all = testing::draws(60);
  for (unsigned i = 0; i < all; ++i) {
    const std::string set = drawn.with_settings(
        drawn.one_of("dp=3", "dp=5", "dp=7", "tp=3", "tp=4", "tp=5", "tp=6", "tp=7", "dp=2,tp=3", "dp=2,tp=4",
                     "dp=3,tp=2", "dp=3,pp=2", "tp=3,pp=2", "dp=3,cp=2"));
    std::string model =
        drawn.one_of("llama:layers=2,hidden=32,heads=8,kv_heads=4,ffn=50,vocab=47",
                     "gpt:layers=2,hidden=56,heads=7,vocab=53", "gpt:layers=2,hidden=24,heads=3,vocab=30",
                     "llama:layers=2,hidden=48,heads=6,ffn=64,vocab=48",
                     "llama:layers=2,hidden=40,heads=10,kv_heads=2,ffn=50,vocab=48");
    model += drawn.one_of(",seq=8", ",seq=10");
    model += drawn.one_of(",batch=14", ",batch=16", ",batch=22");
    drawn.compare(model, set + drawn.shares_for(set), {"heads", "layers", "sequence of", "would have none"});
  }
  EXPECT_GT(drawn.trained(), static_cast<int>(all) / 2);
}

}  // namespace
}  // namespace shardwright
