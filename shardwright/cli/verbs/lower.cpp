#include <filesystem>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/planning.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright::verbs {
namespace {

/// The program with the pass's time in its first line, and with which transfers start early in its last ones.
std::string dump_of(const Pass& pass, const Program& program, double seconds) {
  const Graph& graph = program.graph;
  std::string out = fmt::format("# {}: {:.3f} ms\n{}", pass.name, seconds * 1e3, to_text(graph));
  for (std::size_t i = 0; i < program.starts.size(); ++i)
    if (const NodeId node{static_cast<int>(i)}; program.starts[i] < node && !graph.node(node).is_fused)
      out += fmt::format("# %{} starts in front of %{}\n", graph.name_of(node),
                         graph.name_of(program.starts[i]));
  return out;
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
  std::vector<std::string> flags{"--config", "--plan", "--cluster"};
  for (std::string& flag : splitting_flags()) flags.push_back(std::move(flag));
  for (const std::string& flag : flags)
    if (arguments.has(flag))
      throw error("{}: {} says itself how it is split ({})", flag, model.name, to_text(mesh));
}

/// It does not say which collectives run as one, and what is recomputed.
PlannedGraph planned_text(const Arguments& arguments, const Model& model) {
  const Recompute recompute = recompute_of(arguments);
  check(recompute, model.graph);
  return {.graph = model.graph,
          .update_layouts = {},
          .comm_fusion = comm_fusion_of(arguments),
          .recompute = recompute};
}

int run(const Arguments& arguments, Terminal& terminal) {
  Model model = model_of(arguments, terminal);
  const auto dump = dumper(arguments.text("--dump-passes"), terminal);
  const bool is_text = is_planned(model.graph);
  if (is_text) check_no_planning(arguments, model);
  if (!is_text && !arguments.has("--forward"))
    add_train_step(model.graph, model.loss, optimizer_of(arguments));
  const CompileOptions options{.after = dump, .formats = cpu_formats};
  const Pipeline pipeline =
      is_text ? compile(planned_text(arguments, model), options)
              : compile_pipeline(model.graph, plan_of(arguments, model, model.graph, terminal), options);
  const bool is_full = arguments.has("--layouts");
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    if (pipeline.stage_count() > 1)
      terminal.out << fmt::format("# stage {}, ranks {} to {}\n", s, pipeline.first_rank(s),
                                  pipeline.first_rank(s + 1) - 1);
    terminal.out << to_text(pipeline.stage(s).graph, {.layouts = is_full, .gradients = is_full});
  }
  return 0;
}

}  // namespace

std::vector<Verb> lower() {
  std::vector<Flag> flags =
      planning_flags({{"--layouts", "", "with meshes, strategies and layouts: can be read again", ""},
                      {"--forward", "", "only the forward phase", ""},
                      {"--dump-passes", "DIR", "write the program after each pass, and its time", ""}});
  for (Flag& f : optimizer_flags()) flags.push_back(std::move(f));
  return {{.name = "lower",
           .doc = "print the program that every rank runs: every collective visible",
           .positionals = {"[MODEL]"},
           .flags = std::move(flags),
           .example = "shardwright lower dense_matmul:form=reid --devices 4 --forward",
           .run = run}};
}

}  // namespace shardwright::verbs
