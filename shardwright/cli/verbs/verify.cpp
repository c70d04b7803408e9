#include "shardwright/verify/verify.h"
#include "shardwright/cli/programs.h"

#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/table.h"

namespace shardwright::verbs {
namespace {

void tell(const Proof& p, const Evaluation& evaluation, bool is_json, Terminal& terminal) {
  if (is_json) {
    terminal.out << nlohmann::ordered_json{{"proven", true},
                                           {"ranks", p.ranks},
                                           {"stages", p.stages},
                                           {"micro_batches", p.micro_batches},
                                           {"groups", p.groups},
                                           {"transfers", p.transfers},
                                           {"instructions", p.instructions},
                                           {"values", p.values},
                                           {"arena_bytes", p.arena_bytes},
                                           {"cap_bytes", evaluation.cap_bytes},
                                           {"fits", evaluation.fits()}}
                        .dump()
                 << "\n";
    return;
  }
  const auto count = [](std::int64_t n, std::string_view what) {
    return fmt::format("{} {}{}", n, what, n == 1 ? "" : "s");
  };
  terminal.out << fmt::format(
      "proven for {} in {}: {} on {} match, no rank waits forever, {} are complete, and each is there when "
      "it is read "
      "({}; largest arena {} of {})\n",
      count(p.ranks, "rank"), count(p.stages, "stage"), count(p.transfers, "transfer"),
      count(p.groups, "group"), count(p.values, "value"), count(p.instructions, "instruction"),
      bytes_text(p.arena_bytes), bytes_text(evaluation.cap_bytes));
}

int run(const Arguments& arguments, Terminal& terminal) {
  const auto [model, plan] = planned_positional(
      arguments, {"--json", "--memory-cap", "--device-memory", "--memory-margin", "--verify-passes"},
      terminal);
  const Pipeline pipeline = compiled(arguments, model.graph, plan);
  const Evaluation evaluation = own_evaluation_of(arguments, pipeline, plan.cluster);
  const bool is_json = arguments.is_on("--json");
  tell_assumed(arguments, model);
  arguments.check_heeded(terminal.err);
  const Proof proof = proven(arguments, pipeline);
  terminal.err << memory_notices(evaluation, plan);
  tell(proof, evaluation, is_json, terminal);
  return 0;
}

}  // namespace

std::vector<Verb> verify() {
  return {{.name = "verify",
           .doc = "prove that a step cannot hang or mix up its transfers, before anything runs",
           .positionals = {"PLAN|MODEL"},
           .flags = planning_flags({{"--json", "", "one JSON document", ""}}),
           .example = "shardwright verify plan.json",
           .run = run}};
}

}  // namespace shardwright::verbs
