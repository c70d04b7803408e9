#include <filesystem>
#include <optional>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/exchange/program_json.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/graph/text.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/lower/step.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/schedule_table.h"

namespace shardwright::verbs {
namespace {

/// The program with the pass's time in its first line.
std::string dump_of(const Pass& pass, const Program& program, double seconds) {
  return fmt::format("# {}: {:.3f} ms\n{}", pass.name, seconds * 1e3, to_text(program));
}

/// Writes the program after each pass to DIR/NN_pass.txt, and the times of all to the terminal.
AfterPass dumper(const std::string& directory, Terminal& terminal) {
  if (directory.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  if (failed) throw io_error("{}: cannot be made: {}", directory, failed.message());
  return
      [directory, &terminal, number = 0](const Pass& pass, const Program& program, double seconds) mutable {
        const std::string path = fmt::format("{}/{:02}_{}.txt", directory, ++number, pass.name);
        write_file(path, dump_of(pass, program, seconds));
        terminal.err << fmt::format("{:9.3f} ms  {}\n", seconds * 1e3, path);
      };
}

/// A graph that says itself how it is split leaves nothing to plan.
void check_no_planning(const Arguments& arguments, const Model& model) {
  const Mesh& mesh = model.graph.meshes.front();
  if (arguments.integer("--devices", mesh.size()) != mesh.size())
    throw error("--devices {} but {} has {}", arguments.text("--devices"), model.name, to_text(mesh));
  std::vector<std::string> flags{"--annotate", "--strategy", "--config", "--plan", "--cluster"};
  for (std::string& flag : splitting_flags()) flags.push_back(std::move(flag));
  for (const std::string& flag : flags)
    if (arguments.has(flag))
      throw error("{}: {} says itself how it is split ({})", arguments.called(flag), model.name,
                  to_text(mesh));
}

/// It does not say which collectives run as one, and what is recomputed.
PlannedGraph planned_text(const Arguments& arguments, const Model& model) {
  const Settings asked = settings_of(asked_of(arguments));
  heed(arguments, {SettingPart::step});
  check(asked.recompute, model.graph);
  check(asked.offload, model.graph);
  return {.graph = model.graph,
          .update_layouts = {},
          .comm_fusion = asked.comm_fusion,
          .recompute = asked.recompute,
          .has_layers = has_layers(model.graph),
          .offload = asked.offload};
}

/// What is lowered: planned now, or as the graph says itself.
struct Request {
  Model model;
  std::optional<PlannedGraph> text;
  Plan plan;  // of a model that does not say itself how it is split
  Cluster cluster;
};

Request request_of(const Arguments& arguments, Terminal& terminal) {
  Request out{.model = model_to_plan(arguments, !arguments.has("--forward"), terminal),
              .text = {},
              .plan = {},
              .cluster = {}};
  if (is_planned(out.model.graph)) {
    check_no_planning(arguments, out.model);
    out.text = planned_text(arguments, out.model);
    out.cluster = host_cluster(out.model.graph.meshes.front().size());
    return out;
  }
  if (!arguments.is_on("--forward"))
    add_train_step(out.model.graph, out.model.loss, optimizer_of(arguments, out.model));
  out.plan = plan_of(arguments, out.model, out.model.graph, terminal);
  out.cluster = out.plan.cluster;
  tell_assumed(arguments, out.model, !arguments.is_on("--forward"));
  if (!arguments.is_on("--steps") && !arguments.is_on("--json") && !arguments.has("--schedule-csv"))
    arguments.idle("--schedule", "programs do not tell the order of micro-batches; --steps does");
  if (!arguments.has("--forward")) return out;
  arguments.idle("--recompute", "there is no backward");
  if (settings_of(asked_of(arguments)).optimizer_parallel.level < 3)
    arguments.idle("--optimizer-parallel", "there is no update");
  return out;
}

/// Where the table of tasks goes; empty: nowhere.
std::string table_asked(const Arguments& arguments, const Request& request) {
  std::string out = arguments.text("--schedule-csv");
  const Pipelining& p = request.plan.settings.pipelining;
  if (!out.empty() && p.stages == 1)
    throw error("--schedule-csv is for several stages, whose tasks it writes; add --stages N");
  if (!out.empty() && arguments.is_on("--forward"))
    throw error("--schedule-csv writes forwards and backwards; leave --forward out");
  return out;
}

int run(const Arguments& arguments, Terminal& terminal) {
  const bool lists_steps = arguments.is_on("--steps");
  Request request = request_of(arguments, terminal);
  const bool is_json = arguments.is_on("--json");
  if (lists_steps) arguments.idle("--layouts", "steps name values; without --steps their layouts are shown");
  if (is_json)
    for (const char* flag : {"--layouts", "--steps"}) arguments.idle(flag, "--json has all of it");
  const bool is_full = !lists_steps && arguments.is_on("--layouts");
  const std::string directory = arguments.text("--dump-passes"), table = table_asked(arguments, request);
  memory_cap_of(arguments);  // judged below
  CompileOptions options = compile_options_of(arguments);
  arguments.check_heeded(terminal.err);
  options.after = dumper(directory, terminal);
  const Offload offload = request.text ? request.text->offload : request.plan.settings.offload;
  const Pipeline pipeline = request.text ? compile(std::move(*request.text), options)
                                         : compile_pipeline(request.model.graph, request.plan, options);
  if (!table.empty()) write_file(table, table_text(pipeline.pipelining));
  const Evaluation evaluation = own_evaluation_of(arguments, pipeline, request.cluster);
  arguments.tell_notices(terminal.err);
  const std::string notices = memory_notices(evaluation, request.cluster, offload);
  if (is_json) {
    terminal.out << program_json(pipeline) << "\n";
    terminal.err << notices;
    return 0;
  }
  if (lists_steps)
    for (const RankStep& step : steps_of_stages(pipeline)) terminal.out << to_text(step, pipeline);
  if (is_full) terminal.out << to_text(pipeline);
  for (int s = 0; s < pipeline.stage_count() && !lists_steps && !is_full; ++s) {
    if (pipeline.stage_count() > 1)
      terminal.out << fmt::format("# stage {}, ranks {} to {}\n", s, pipeline.first_rank(s),
                                  pipeline.first_rank(s) + pipeline.stage(s).rank_count() - 1);
    terminal.out << to_text(pipeline.stage(s).graph, {.layouts = false, .gradients = false});
  }
  if (!is_full && !lists_steps)
    for (const OutputInOrder& o : pipeline.in_order)
      terminal.out << fmt::format("# handed out from {} blocks along dim {}: %{}\n", o.blocks, o.dim,
                                  pipeline.output_name(static_cast<std::size_t>(o.output)));
  terminal.err << notices;
  return 0;
}

}  // namespace

std::vector<Verb> lower() {
  return {{.name = "lower",
           .doc = "print the program that every rank runs: every collective visible",
           .positionals = {"[MODEL]"},
           .flags = planning_flags(
               {{"--layouts", "", "with meshes, strategies and layouts: can be read again", ""},
                {"--steps", "", "what the first rank of every stage does in a step, in order", ""},
                {"--schedule-csv", "FILE",
                 "write the tasks of all stages as a table that PyTorch's pipelining reads", ""},
                {"--forward", "", "only the forward phase", ""},
                {"--json", "", "all of it, of every rank, as one JSON document (docs/program-format.md)", ""},
                {"--dump-passes", "DIR", "write the program after each pass, and its time", ""}}),
           .example = "shardwright lower dense_matmul:form=reid --devices 4 --forward",
           .run = run}};
}

}  // namespace shardwright::verbs
