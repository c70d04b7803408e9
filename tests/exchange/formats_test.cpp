// What formats write of plans, and what is read back: the plan again, or what is otherwise has been told by name.

#include "shardwright/exchange/plan_format.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>

#include "shardwright/exchange/command_text.h"
#include "shardwright/exchange/megatron_settings.h"
#include "shardwright/exchange/option_text.h"
#include "shardwright/frontend/advice.h"
#include "shardwright/frontend/export_plan.h"
#include "shardwright/frontend/plan_diff.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/backend/backend.h"
#include "tests/support/command_outcome.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using Words = std::vector<std::string>;

const std::string llama = "llama:layers=4,hidden=32,heads=8,kv_heads=4,ffn=64,vocab=64,seq=16,batch=16";

using Ran = testing::CommandOutcome;

class Exchange : public ::testing::Test {
 protected:
  Exchange() : folder_(scratch_folder()), old_(fs::current_path()) { fs::current_path(folder_); }
  ~Exchange() override { fs::current_path(old_); }

  static Ran run(const Words& words) { return testing::outcome_of(words); }

  static void plan(const std::string& set, const std::string& devices, const Words& more = {}) {
    Words words{"plan", llama, "--cluster", "h100:" + devices, "--set", set, "-o", "p.json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    ASSERT_EQ(ran.status, 0) << set << ": " << ran.err;
  }

  const fs::path& root() const { return old_; }

  /// The message of an import of `text` on 16 devices.
  static std::string refused(const std::string& from, const std::string& text, const Words& more = {}) {
    write_bytes("r.txt", text);
    Words words{"import", "r.txt", "--from", from, "--cluster", "h100:16", "-o", "i.json"};
    words.insert(words.end(), more.begin(), more.end());
    const Ran ran = run(words);
    EXPECT_EQ(ran.status, 2) << text << ran.out;
    EXPECT_FALSE(fs::exists("i.json"));
    constexpr std::string_view program = "shardwright: r.txt: ";
    EXPECT_TRUE(ran.err.starts_with(program)) << ran.err;
    EXPECT_EQ(std::ranges::count(ran.err, '\n'), 1) << ran.err;
    return ran.err.starts_with(program) ? ran.err.substr(program.size(), ran.err.size() - program.size() - 1)
                                        : ran.err;
  }

 private:
  std::string folder_;
  fs::path old_;
};

struct Drawn {
  const char* set;
  const char* devices;
};
const std::vector<Drawn> plans{
    {"dp=2,tp=2,pp=4,micro_batch=1,global_batch=16,zero=1,recompute=selected,sequence_parallel=1", "16"},
    {"dp=4,tp=2,micro_batch=2,global_batch=16,zero=3,recompute=full", "8"},
    {"dp=4,pp=2,schedule=interleaved:2,micro_batch=1,global_batch=16,zero=2", "8"},
    {"dp=2,tp=4,pp=2,schedule=gpipe,micro_batch=2,global_batch=16,sequence_parallel=1", "16"},
    {"dp=8,micro_batch=1,global_batch=16,zero=1,zero_group=2", "8"},
    {"dp=8,micro_batch=2,global_batch=16,zero=3,zero_group=4,offload={optimizer,parameters}", "8"},
    {"pp=2,dp=2,micro_batch=1,global_batch=8,layers.0=stage 0,layers.1-3=stage 1,embedding=stage "
     "0,head=stage 1",
     "4"},
    {"pp=2,dp=2,tp=2,micro_batch=1,global_batch=8,layers.0=recompute,layers.2=recompute", "8"},
    {"tp=4,micro_batches=2,global_batch=16,layers.1.ffn.up.matmul={},layers.1.ffn.gate.matmul={}", "4"},
    {"dp=2,pp=4,schedule=zero-bubble,micro_batch=1,global_batch=16,offload={optimizer:0.5}", "8"}};

/// Words that say how operators lie and where, by which rows of operators follow.
bool says_operators(const std::string& err) {
  for (const char* word : {"operators split otherwise", "sequence_parallel",
                           "zero_threshold=", "layers by stage", "schedule=", "tp=", "pp="})
    if (err.find(word) != err.npos) return true;
  return false;
}

TEST_F(Exchange, what_is_read_back_is_the_plan_or_its_losses_are_named) {
  for (const Drawn& drawn : plans) {
    plan(drawn.set, drawn.devices, {"--optimizer", "adamw", "--lr", "0.001", "--clip-norm", "1"});
    const Plan mine = load_plan("p.json");
    for (const char* name : {"megatron", "torchtitan", "deepspeed", "mindformers", "yaml"}) {
      const Ran wrote = run({"export", "p.json", "--to", name, "-o", "x.txt"});
      ASSERT_EQ(wrote.status, 0) << name << ": " << wrote.err;
      Words words{"import", "x.txt", "--from", name, "--cluster", std::string("h100:") + drawn.devices,
                  "-o",     "b.json"};
      if (std::string_view(name) != "yaml") words.insert(words.end(), {"--model", llama});
      if (wrote.err.find("schedule.csv") != wrote.err.npos)
        run({"export", "p.json", "--to", "torch-schedule", "-o", "schedule.csv"});
      const Ran read = run(words);
      ASSERT_EQ(read.status, 0) << drawn.set << "\n" << name << ": " << read.err << read_bytes("x.txt");
      for (const PlanDifference& d : differences(mine, load_plan("b.json"))) {
        const std::string word = d.what == "rate" ? "optimizer" : d.what;
        const bool is_named = wrote.err.find(word) != wrote.err.npos;
        EXPECT_TRUE(is_named || says_operators(wrote.err))
            << drawn.set << "\n"
            << name << ": " << d.what << " is " << d.a << " and was read back as " << d.b << "\n"
            << wrote.err;
      }
    }
  }
}

TEST_F(Exchange, formats_that_say_all_read_back_the_same) {
  plan(
      "dp=2,tp=2,pp=2,micro_batch=1,global_batch=16,zero=1,zero_threshold=0,recompute=full,sequence_parallel="
      "1,layers.0=stage "
      "0,"
      "layers.1-3=stage 1,embedding=stage 0,head=stage 1",
      "8");
  for (const char* name : {"megatron", "mindformers", "yaml"}) {
    ASSERT_EQ(run({"export", "p.json", "--to", name, "-o", "x.txt"}).status, 0);
    Words words{"import", "x.txt", "--cluster", "h100:8", "-o", "b.json"};
    if (std::string_view(name) != "yaml") words.insert(words.end(), {"--model", llama});
    const Ran read = run(words);  // as the file looks
    ASSERT_EQ(read.status, 0) << read.err;
    const auto rows = differences(load_plan("p.json"), load_plan("b.json"));
    if (rows.size() == 1) {
      EXPECT_EQ(rows[0].what, "framework");
    }
    EXPECT_LE(rows.size(), 1U) << name << to_text(rows, "a", "b", 9);
  }
}

/// Ways that the sequence is seen as a whole: in Megatron's words, and back.
TEST_F(Exchange, ways_of_context_are_written_and_read_back) {
  const std::map<std::string, std::string> written{
      {"ring", "--cp-comm-type p2p\n"},
      {"exchange", "--cp-comm-type a2a\n"},
      {"gather", "--cp-comm-type allgather\n"},
      {"exchange:2+ring", "--cp-comm-type a2a+p2p\n    --hierarchical-context-parallel-sizes 2 2\n"}};
  for (const auto& [way, flags] : written) {
    SCOPED_TRACE(way);
    plan("dp=2,cp=4,micro_batch=1,global_batch=16,context=" + way, "8");
    const Ran wrote = run({"export", "p.json", "--to", "megatron", "-o", "x.txt"});
    EXPECT_EQ(wrote.err.find("operators split otherwise"), wrote.err.npos) << wrote.err;
    EXPECT_EQ(wrote.err.find("context"), wrote.err.npos) << wrote.err;
    EXPECT_NE(read_bytes("x.txt").find(flags), std::string::npos) << read_bytes("x.txt");
    ASSERT_EQ(run({"import", "x.txt", "--model", llama, "--cluster", "h100:8", "-o", "b.json"}).status, 0);
    const Plan p = load_plan("p.json"), b = load_plan("b.json");
    EXPECT_EQ(p.stages.front().meshes, b.stages.front().meshes);
    EXPECT_EQ(p.stages.front().layouts, b.stages.front().layouts);
  }
  plan("dp=2,cp=4,micro_batch=1,global_batch=16,context=exchange:2+gather", "8");
  const Ran beside = run({"export", "p.json", "--to", "megatron"});
  EXPECT_NE(beside.err.find("context=exchange:2+gather: Megatron exchanges heads beside a ring alone"),
            beside.err.npos)
      << beside.err;
}

TEST_F(Exchange, ways_of_context_are_read_of_mindformers) {
  const auto mesh_of = [](const std::string& algorithm) {
    write_bytes(
        "m.yaml",
        "parallel: {parallel_mode: 1}\nrunner_config: {batch_size: 1}\nparallel_config: {data_parallel: 1, "
        "model_parallel: 1, context_parallel: 4, context_parallel_algo: " +
            algorithm + "}\n");
    const Ran read = run({"import", "m.yaml", "--from", "mindformers", "--model", llama, "--cluster",
                          "h100:4", "-o", "b.json"});
    EXPECT_EQ(read.status, 0) << read.err;
    return to_text(load_plan("b.json").stages.front().meshes.front());
  };
  EXPECT_EQ(mesh_of("hybrid_cp, ulysses_degree_in_cp: 2"), "mesh [cp0=2, cp1=2]");
  EXPECT_EQ(mesh_of("colossalai_cp"), "mesh [cp=4]");
  EXPECT_EQ(
      refused("mindformers",
              "parallel: {parallel_mode: 1}\nparallel_config: {context_parallel: 16, context_parallel_algo: "
              "some_cp}\n",
              {"--model", llama}),
      "parallel_config.context_parallel_algo some_cp: there are colossalai_cp, ulysses_cp and hybrid_cp");
}

TEST_F(Exchange, every_format_tells_all_that_it_does_not_take) {
  plan(
      "dp=2,tp=2,micro_batches=2,global_batch=16,zero=1,comm_fusion=none,offload={activations:0.5},recompute="
      "full",
      "4", {"--clip-norm", "2"});
  for (const std::string& name : written_formats()) {
    if (name == "torch-schedule") continue;  // of several stages
    const Ran ran = run({"export", "p.json", "--to", name});
    ASSERT_EQ(ran.status, 0) << name << ran.err;
    EXPECT_FALSE(ran.out.empty()) << name;
    if (name == "yaml") {
      EXPECT_EQ(ran.err, "");
      continue;
    }
    for (const char* word : {"offload=", "comm_fusion=none"})
      EXPECT_NE(ran.err.find(word), ran.err.npos) << name << ": " << ran.err;
  }
}

/// None of them has the like: weights that are not trained, and those that an optimizer treats otherwise.
TEST_F(Exchange, parameters_that_are_trained_otherwise_than_others_are_told) {
  write_bytes("own.graph",
              "%x = input f32[8, 4]\n%w = param f32[4, 4] (own_weight_decay=0.5)\n%v = param f32[4, 4] "
              "(frozen=true)\n"
              "%y = matmul %x, %w\n%z = matmul %y, %v\n%loss = reduce_mean %z\noutput %loss\n");
  ASSERT_EQ(run({"plan", "own.graph", "--devices", "2", "--fix", "dp=2", "-o", "p.json"}).status, 0);
  for (const char* format : {"deepspeed", "accelerate", "jax", "dtensor"}) {
    const Ran ran = run({"export", "p.json", "--to", format});
    ASSERT_EQ(ran.status, 0) << ran.err;
    EXPECT_NE(ran.err.find("frozen parameters: 'v'"), std::string::npos) << ran.err;
    EXPECT_NE(ran.err.find("settings of parameters: 'w'"), std::string::npos) << ran.err;
  }
}

TEST_F(Exchange, dtensor_leaves_room_for_an_axis_that_is_more_major_and_more_to_the_right) {
  ASSERT_EQ(run({"plan", "matmul_chain:widths=8-8-8,batch=8", "--devices", "4", "--set",
                 "dp=2,tp=2,zero=3,zero_threshold=0", "-o", "p.json"})
                .status,
            0);
  const std::string text = run({"export", "p.json", "--to", "dtensor"}).out;
  EXPECT_NE(text.find("\"w2\": (0, (8, 8), [_StridedShard(0, split_factor=2), Shard(0)])"), text.npos)
      << text;
  EXPECT_NE(text.find("\"w1\": (0, (8, 8), [Shard(0), Shard(1)])"), text.npos) << text;
  EXPECT_NE(text.find("\"matmul2\": (0, (8, 8), [Shard(0), Partial(\"sum\")])"), text.npos) << text;
  const std::string of_jax = run({"export", "p.json", "--to", "jax"}).out;
  EXPECT_NE(of_jax.find("\"w2\": (0, (8, 8), P((\"tp\", \"dp\"), None))"), of_jax.npos);
  // JAX takes addends only over axes of this type.
  EXPECT_NE(of_jax.find("unreduced={\"tp\"}"), of_jax.npos);
  EXPECT_NE(of_jax.find("AxisType.Explicit if spec.unreduced"), of_jax.npos);
}

TEST_F(Exchange, what_no_axis_divides_is_refused_by_name) {
  ASSERT_EQ(run({"plan", "ffn:batch=24,widths=10-7-10", "--devices", "4", "--parallel", "data_parallel",
                 "--optimizer-parallel", "3:threshold=1", "-o", "p.json"})
                .status,
            0);
  EXPECT_EQ(run({"export", "p.json", "--to", "dtensor"}).err,
            "shardwright: DTensor: dense1.weight: dim 0 of 10 is cut over 4 devices (dp), which do not "
            "divide it; it cuts "
            "into pieces of ceil size, so the ranks would have others; pad it\n");
  EXPECT_NE(run({"export", "p.json", "--to", "jax"}).err.find("JAX: dense1.weight: dim 0 of 10"),
            std::string::npos);
}

TEST_F(Exchange, formats_of_degrees_refuse_plans_that_are_no_grid) {
  ASSERT_EQ(run({"plan", "dense_matmul:form=dlrm", "--devices", "8", "--search", "recursive", "-o", "p.json"})
                .status,
            0);
  const Ran ran = run({"export", "p.json", "--to", "megatron"});
  EXPECT_EQ(ran.status, 2);
  EXPECT_NE(ran.err.find("take --to dtensor, jax or mindspore"), std::string::npos) << ran.err;
}

TEST_F(Exchange, products_that_do_not_come_out_are_told_with_the_right_number) {
  const std::string flags =
      "--micro-batch-size 2 --global-batch-size 64 --num-layers 4 --hidden-size 32 "
      "--num-attention-heads 8 --ffn-hidden-size 64 --seq-length 16 --vocab-size 64 --swiglu "
      "--normalization RMSNorm --position-embedding-type rope ";
  EXPECT_EQ(refused("megatron", flags + "--tensor-model-parallel-size 3"),
            "--tensor-model-parallel-size 3 x --pipeline-model-parallel-size 1 = 3: does not divide the 16 "
            "devices of the "
            "cluster; 15 or 18 would do");
  EXPECT_EQ(refused("megatron",
                    flags + "--global-batch-size 64 --micro-batch-size 2 --tensor-model-parallel-size 2 "
                            "--micro-batch-size 3"),
            "--micro-batch-size is said twice, 2 and 3");
  EXPECT_EQ(refused("megatron", "--micro-batch-size 3 --global-batch-size 64 --tensor-model-parallel-size 2"),
            "--global-batch-size 64: should be a multiple of --micro-batch-size 3 x data parallelism 8 = 24; "
            "48 or 72 would be");
  EXPECT_EQ(refused("megatron", flags + "--pipeline-model-parallel-size 8"),
            "--num-layers 4: should be a multiple of --pipeline-model-parallel-size 8 = 8; 8 would be");
  EXPECT_EQ(refused("megatron",
                    flags + "--pipeline-model-parallel-size 2 --pipeline-model-parallel-layout Ett|ttt|L"),
            "--pipeline-model-parallel-layout: has 3 chunks, which --pipeline-model-parallel-size 2 does not "
            "divide");
  EXPECT_EQ(
      refused("megatron", flags + "--context-parallel-size 4 --cp-comm-type a2a+p2p"),
      "--cp-comm-type a2a+p2p: --hierarchical-context-parallel-sizes should be two numbers whose product is "
      "--context-parallel-size 4");
  EXPECT_EQ(refused("megatron", flags + "--context-parallel-size 4 --cp-comm-type p2p a2a"),
            "--cp-comm-type p2p a2a: layers go different ways, which a plan cannot say");
  EXPECT_EQ(refused("megatron", flags + "--context-parallel-size 4 --cp-comm-type ulysses"),
            "--cp-comm-type ulysses: there are p2p, a2a, allgather and a2a+p2p");
  EXPECT_EQ(refused("megatron", flags + "--expert-model-parallel-size 4"),
            "ep=4: the network has no experts; leave it out");
  EXPECT_EQ(
      refused("deepspeed", R"({"train_batch_size": 64, "train_micro_batch_size_per_gpu": 2,
                                     "gradient_accumulation_steps": 4})",
              {"--model", llama}),
      "train_batch_size is 64, but train_micro_batch_size_per_gpu 2 x gradient_accumulation_steps 4 x data "
      "parallelism 16 = 128");
  EXPECT_EQ(refused("torchtitan",
                    "config.parallelism = ParallelismConfig(data_parallel_shard_degree=4, "
                    "tensor_parallel_degree=2)\nconfig.training.local_batch_size = 1\n",
                    {"--model", llama}),
            "parallelism.data_parallel_replicate_degree 1 x parallelism.tensor_parallel_degree 2 x "
            "parallelism.pipeline_parallel_degree 1 x parallelism.data_parallel_shard_degree 4 = 8: but the "
            "cluster has 16 "
            "devices; parallelism.data_parallel_shard_degree 8 would use them");
  EXPECT_EQ(refused("mindformers",
                    "parallel: {parallel_mode: 1}\nparallel_config: {data_parallel: 2, model_parallel: 4}\n",
                    {"--model", llama}),
            "parallel_config.data_parallel 2 x parallel_config.model_parallel 4 x "
            "parallel_config.pipeline_stage 1 = 8: but "
            "the cluster has 16 devices; parallel_config.data_parallel 4 would use them");
}

TEST_F(Exchange, names_that_there_are_not_are_told_with_near_ones) {
  EXPECT_EQ(refused("megatron", "--micro-batch-size 1 --tensor-model-paralel-size 2"),
            "--tensor-model-paralel-size: is no flag of Megatron-LM that is known here (did you mean "
            "tensor-model-parallel-size or expert-model-parallel-size?)");
  EXPECT_EQ(refused("megatron", "--micro-batch-size $MBS"),
            "--micro-batch-size $MBS: the file does not say what that is; write a value");
  EXPECT_EQ(refused("deepspeed", R"({"train_batch_size": 16, "zero_optimisation": {"stage": 1}})",
                    {"--model", llama}),
            "zero_optimisation: is no key of DeepSpeed's configuration (did you mean zero_optimization?)");
  EXPECT_EQ(refused("torchtitan", "ParallelismConfig(tensor_paralel_degree=2)", {"--model", llama}),
            "parallelism.tensor_paralel_degree: is no option of torchtitan (did you mean "
            "tensor_parallel_degree or expert_parallel_degree?)");
  EXPECT_EQ(refused("huggingface", R"({"base_model_tp_plan": {"layers.*.self_attn.q_proj": "rowwise"}})",
                    {"--model", llama}),
            "layers.*.self_attn.q_proj: rowwise is not how such a module can be split here; colwise is");
}

TEST_F(Exchange, another_model_is_told_with_the_right_number) {
  const std::string flags = "--micro-batch-size 1 --global-batch-size 16 --num-layers 40";
  EXPECT_EQ(refused("megatron", flags, {"--model", llama}),
            "--num-layers is 40, but " + llama + " has layers=4");
  EXPECT_EQ(refused("megatron", flags + " --swiglu"),
            "does not say which network it is for; --model MODEL does");
  EXPECT_EQ(refused("megatron", flags + " --swiglu --normalization RMSNorm --position-embedding-type rope"),
            "says nothing of the model's hidden; add it, or name the model with --model");
}

TEST_F(Exchange, a_file_is_taken_for_what_it_looks_like) {
  write_bytes("r.txt", "nothing of the kind");
  EXPECT_EQ(run({"import", "r.txt", "--cluster", "h100:8", "-o", "i.json"}).err,
            "shardwright: r.txt: looks like none of deepspeed, huggingface, megatron, mindformers, "
            "mindspore, torchtitan, "
            "yaml; --from NAME says what it is\n");
}

TEST_F(Exchange, advice_says_what_a_recipe_takes_and_what_would_be_better) {
  plan("tp=4,pp=2,micro_batch=1,global_batch=16", "8");
  run({"export", "p.json", "--to", "megatron", "-o", "r.sh"});
  const Ran ran = run({"advise", "r.sh", "--cluster", "h100:8", "--json"});
  ASSERT_EQ(ran.status, 0) << ran.err;
  const Json advice = parse_json(ran.out);
  EXPECT_EQ(advice["fits"], true);
  EXPECT_EQ(advice["from"], "megatron");
  EXPECT_EQ(advice["binding"], "fixed");
  EXPECT_TRUE(advice["remedies"].empty());
  EXPECT_LT(advice["better"]["step_seconds"].get<double>(), advice["step_seconds"].get<double>());
  EXPECT_GT(advice["memory_bytes"]["arena"].get<double>(),
            84 << 20);  // by the memory of Megatron-LM, which has as much besides
  EXPECT_FALSE(advice["differences"].empty());
  // What it says of the recipe is what simulate says of the plan that import makes.
  run({"import", "r.sh", "--cluster", "h100:8", "-o", "i.json"});
  const Json simulated = parse_json(run({"simulate", "i.json", "--json"}).out);
  EXPECT_EQ(simulated["step_seconds"], advice["step_seconds"]);
  EXPECT_EQ(simulated["memory_bytes"], advice["memory_bytes"]);
}

/// Flags that change what a device holds choose the profile by which it is counted.
TEST_F(Exchange, memory_is_counted_as_the_flags_of_megatron_have_it) {
  const auto read = [](const std::string& more) {
    write_bytes("r.sh",
                "ARGS=(--micro-batch-size 1 --global-batch-size 8 --num-layers 1 --hidden-size 16 "
                "--num-attention-heads 4 --ffn-hidden-size 16 --vocab-size 16 --seq-length 32 --swiglu "
                "--normalization RMSNorm --position-embedding-type rope --bf16 " +
                    more + ")\n");
    const Ran ran = run({"import", "r.sh", "--cluster", "h100:2", "-o", "i.json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return std::pair(load_plan("i.json").settings.framework, ran.out + ran.err);
  };
  const std::string aware = "--use-precision-aware-optimizer --exp-avg-dtype bf16 --exp-avg-sq-dtype bf16 ";
  EXPECT_EQ(read("").first, "megatron-lm");
  EXPECT_EQ(read("--cross-entropy-loss-fusion").first, "megatron-lm-fused-loss");
  EXPECT_EQ(read(aware + "--main-grads-dtype bf16").first, "megatron-bridge");
  const auto [framework, told] = read(aware);
  EXPECT_EQ(framework, "megatron-lm");
  EXPECT_NE(told.find("--use-precision-aware-optimizer: gradients and moments count as f32"), told.npos)
      << told;
  const std::string both = read(aware + "--main-grads-dtype bf16 --cross-entropy-loss-fusion").second;
  EXPECT_NE(both.find("--cross-entropy-loss-fusion: its copies of scores do not count"), both.npos) << both;
}

TEST_F(Exchange, calls_of_the_library_are_what_verbs_do) {
  plan("tp=4,pp=2,micro_batch=1,global_batch=16", "8");
  const PlannedModel made = planned_model("p.json");
  const Exported out = export_plan(made.model.graph, made.plan, "megatron");
  EXPECT_EQ(out.text, run({"export", "p.json", "--to", "megatron"}).out);
  EXPECT_FALSE(out.not_carried.empty());
  write_bytes("r.sh", out.text);
  const ImportOptions options{.cluster = "h100:8", .formats = default_devices().formats};
  ASSERT_EQ(run({"import", "r.sh", "--cluster", "h100:8", "-o", "i.json"}).status, 0);
  EXPECT_TRUE(differences(import_plan("r.sh", options).made.plan, load_plan("i.json")).empty());
  EXPECT_EQ(to_json(advise("r.sh", options)).dump() + "\n",
            run({"advise", "r.sh", "--cluster", "h100:8", "--json"}).out);
  EXPECT_THROW(export_plan(made.model.graph, made.plan, "caffe"), Error);
  EXPECT_THROW(import_plan("r.sh", {}), Error);  // no machine
}

TEST_F(Exchange, advice_on_what_does_not_fit_names_remedies) {
  write_bytes(
      "r.json",
      R"({"train_batch_size": 16, "train_micro_batch_size_per_gpu": 1, "gradient_accumulation_steps": 2,
                           "bf16": {"enabled": true}, "optimizer": {"type": "AdamW", "params": {"lr": 1e-4}}})");
  const Ran all =
      run({"advise", "r.json", "--model", "llama2-70b:layers=8", "--cluster", "h100:8", "--json"});
  ASSERT_EQ(all.status, 0) << all.err;
  const Json advice = parse_json(all.out);
  EXPECT_EQ(advice["fits"], false);
  EXPECT_EQ(advice["binding"], "memory");
  EXPECT_GT(advice["excess_bytes"].get<double>(), 0);
  EXPECT_FALSE(advice["remedies"].empty());
  EXPECT_EQ(advice["better"]["fits"], true);
}

/// As they were published; the examples' third one is in docs/exchange.md.
class SlowRecipes : public Exchange {
 protected:
  static Json advice(const std::string& root, const std::string& file, const std::string& cluster) {
    const Ran ran = run({"advise", root + "/examples/recipes/" + file, "--cluster", cluster, "--json"});
    EXPECT_EQ(ran.status, 0) << ran.err;
    return parse_json(ran.out);
  }
};

TEST_F(SlowRecipes, are_advised) {
  const std::string root = this->root().string();
  const Json gpt = advice(root, "megatron_gpt3_175b.args", "h100:16x8");
  EXPECT_EQ(gpt["model"], "gpt:layers=96,hidden=12288,heads=96,seq=2048,vocab=51200");
  EXPECT_EQ(gpt["plan"], "tp=8,pp=16,micro_batches=1536,schedule=1f1b");
  EXPECT_EQ(gpt["fits"], true);
  EXPECT_LT(gpt["better"]["step_seconds"].get<double>(), gpt["step_seconds"].get<double>());
  const Json of_llama = advice(root, "mindformers_llama2_70b.yaml", "a100-80g:8x8");
  EXPECT_EQ(of_llama["plan"], "dp=2,tp=4,pp=8,micro_batches=256,schedule=1f1b,zero=1");
  EXPECT_EQ(of_llama["fits"], true);
  EXPECT_EQ(of_llama["not_heeded"].size(), 2U);
}

// ---- the parts ----

TEST(MegatronLayout, is_read_as_megatron_does) {
  EXPECT_EQ(layers_of_layout("Et*3|t*4|t*4|t*3L"), (std::vector<int>{3, 4, 4, 3}));
  EXPECT_EQ(layers_of_layout("Ettt|(tt|)*2,L"), (std::vector<int>{3, 2, 2, 0}));
  EXPECT_EQ(layers_of_layout("E,(t|)*2,tL"), (std::vector<int>{1, 1, 1}));
  for (const auto& [text, why] : std::vector<std::pair<std::string, std::string>>{
           {"E|(t|)*3,m|m||L",
            "layout 'E|(t|)*3,m|m||L': there are no layers that predict several tokens (m) yet"},
           {"tt|L", "layout 'tt|L': should begin with E and end with L, each once"},
           {"Etx|L", "layout 'Etx|L': 'x' is none of E, t, L, m, |"},
           {"Et*|L", "layout 'Et*|L': behind * should stand how often"},
           {"E(t|L", "layout 'E(t|L': a ( is not closed"}}) {
    try {
      layers_of_layout(text);
      ADD_FAILURE() << text;
    } catch (const Error& e) {
      EXPECT_EQ(e.what(), why);
    }
  }
}

TEST(CommandText, is_cut_into_flags_as_a_shell_does) {
  const auto flags = flags_in(
      "TP=4  # devices\nNAME='a b'\nARGS=(\n  --tensor-model-parallel-size $TP # comment\n  --note "
      "\"${NAME}\" --on\n"
      "  --pp=2 --layout Et|(t|)*2,L)\ntorchrun --nproc_per_node ${GPUS:-8} train.py \\\n  ${ARGS[@]} "
      "--data $DATA");
  std::string all;
  for (const CommandFlag& f : flags) {
    all += f.name + ":";
    for (const std::string& v : f.values) all += " " + v;
    all += "\n";
  }
  EXPECT_EQ(
      all,
      "tensor-model-parallel-size: 4\nnote: a b\non:\npp: 2\nlayout: Et|(t|)*2,L\nnproc-per-node: 8 train.py "
      "${ARGS[@]}\ndata: $DATA\n");
}

TEST(OptionText, finds_assignments_however_they_are_written) {
  std::string all;
  for (const Assigned& a :
       assignments_in("# c = 1\nx = P(\n  a=1,  # b=2\n  b=[[\"q\", 'r'], [\"s\"]],\n  c=F.Config(d=3),\n)\n"
                      "config.training.e = 8 * 2048\n[parallelism]\nf = 4\n--parallelism.g-h 5 --i.j=k\n"))
    all += fmt::format("{}.{}={}\n", a.section, a.name, a.value);
  EXPECT_EQ(all,
            ".x=P\nP.a=1\nP.b=[[\"q\", 'r'], [\"s\"]]\nP.c=F.Config\nConfig.d=3\ntraining.e=8 * "
            "2048\nparallelism.f=4\n"
            "parallelism.g_h=5\ni.j=k\n");
}

}  // namespace
}  // namespace shardwright
