#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/run_training.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/cli/survival.h"
#include "shardwright/cli/waiting.h"

namespace shardwright::verbs {
namespace {

int run(const Arguments& arguments, Terminal& terminal) {
  check_survival(arguments);
  return runtime_of(arguments) == Runtime::mpi ? train_over_mpi(arguments, terminal)
                                               : train_on_threads(arguments, terminal);
}

}  // namespace

std::vector<Verb> train() {
  return {
      {.name = "train",
       .doc = "plan a network and train it",
       .positionals = {"MODEL"},
       .flags = planning_flags(
           {{"--data", "DIR|FILE",
             "a folder with MNIST, CIFAR, images, tokens or texts, a file of tokens (.bin, .npy) or text "
             "(.txt, .jsonl), columns (.csv, .tsv, or a folder with a .npy for each input), or "
             "a safetensors file with input and label",
             ""},
            tokenizer_flag(),
            talks_flag(),
            end_flag(),
            buckets_flag(),
            {"--init", "FILE|DIR", "initial parameters: safetensors, or a checkpoint", ""},
            {"--save", "DIR", "keep checkpoints there: at the end, and when interrupted", ""},
            {"--save-every", "K", "also after every K-th step, while training goes on", ""},
            {"--keep", "N", "only the last N checkpoints (default: all)", ""},
            survive_flag(),
            survive_every_flag(),
            {"--save-folder", "DIR",
             "of a model that is a folder: what it was trained to, as such a folder; of one with "
             "adapters: these, as PEFT's",
             ""},
            {"--save-merged", "DIR",
             "of a folder with adapters: what it was trained to, as such a folder with the adapters "
             "merged in",
             ""},
            {"--resume", "DIR|auto",
             "continue from a checkpoint, under any plan; auto: from the last one in --save, if any", ""},
            {"--steps", "K", "how many steps, with those of --resume (default: 20, or the epochs)", ""},
            {"--epochs", "E", "how often through the data", ""},
            {"--lr-schedule", "S",
             "constant, step:every=K, exponential:factor=F, cosine, linear, polynomial; with :end=E and "
             "others",
             ""},
            {"--warmup", "K", "steps, or such as 2epochs, in which the learning rate grows to --lr", ""},
            {"--eval", "DIR|FILE", "held-out data, with labels", ""},
            {"--eval-every", "K", "evaluate after every K-th step (default: only at the end)", ""},
            {"--keep-best", "M", "loss or accuracy: save what is best on --eval, as DIR/best", ""},
            {"--tensorboard", "DIR", "event files with what each step tells", ""},
            {"--time-limit", "S", "end after the step in which so many seconds are over", ""},
            timeout_flag(),
            {"--net", "NAME",
             "of ranks that are processes, the network interface between hosts, or a network: eth1, "
             "10.0.0.0/24",
             ""},
            {"--check-replicas", "K",
             "behind every K-th step, compare what several ranks hold: a copy that has come apart ends the "
             "run",
             ""},
            {"--deterministic-check", "",
             "run the first step, or those of --check-replicas, twice from the same state: a machine that "
             "computes wrongly ends the run",
             ""},
            {"--seed", "S", "of initial parameters, data order and synthetic data (default 1)", ""},
            {"--log-every", "K", "print every K-th loss", ""},
            runtime_flag(),
            save_strategy_flag(),
            html_flag(),
            {"--trace", "FILE",
             "what every rank does in the fourth and fifth step (of fewer the last two), for "
             "ui.perfetto.dev",
             ""},
            {"--compare-plan", "",
             "what a step has taken beside what was predicted: by operator, collective and stage", ""},
            wide_flag(),
            {"--json", "", "JSON lines: one per loss, then the summary", ""}}),
       .example = "shardwright train ffn --devices 8 --optimizer momentum --lr 0.05 --steps 100",
       .run = run,
       .joins_mpirun = true}};
}

}  // namespace shardwright::verbs
