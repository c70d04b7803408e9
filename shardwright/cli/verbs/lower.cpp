#include <filesystem>
#include <fstream>
#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/cli/planning.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"

namespace shardwright::verbs {
namespace {

/// Writes the program after each pass to DIR/NN_pass.txt.
std::function<void(const Pass&, const Program&)> dumper(const std::string& directory) {
  if (directory.empty()) return {};
  std::error_code failed;
  std::filesystem::create_directories(directory, failed);
  return [directory, number = 0](const Pass& pass, const Program& program) mutable {
    const std::string path = fmt::format("{}/{:02}_{}.txt", directory, ++number, pass.name);
    std::ofstream out(path);
    out << to_text(program.graph);
    if (!out) throw io_error("{}: cannot be written", path);
  };
}

/// A graph that says itself how it is split leaves nothing to plan.
void check_no_planning(const Arguments& arguments, const Model& model) {
  const Mesh& mesh = model.graph.meshes.front();
  if (arguments.integer("--devices", mesh.size()) != mesh.size())
    throw error("--devices {} but {} has {}", arguments.text("--devices"), model.name, to_text(mesh));
  for (const char* flag : {"--plan", "--annotate", "--parallel", "--search", "--dataset-strategy",
                           "--optimizer-parallel", "--cluster"})
    if (arguments.has(flag))
      throw error("{}: {} says itself how it is split ({})", flag, model.name, to_text(mesh));
}

int run(const Arguments& arguments, Terminal& terminal) {
  Model model = model_of(arguments, terminal);
  const auto dump = dumper(arguments.text("--dump-passes"));
  const bool is_text = is_planned(model.graph);
  if (is_text) check_no_planning(arguments, model);
  if (!is_text && !arguments.has("--forward"))
    add_train_step(model.graph, model.loss, optimizer_of(arguments));
  const Program program = is_text ? compile(PlannedGraph{model.graph, {}}, dump)
                                  : compile(model.graph, plan_of(arguments, model, model.graph), dump);
  const bool is_full = arguments.has("--layouts");
  terminal.out << to_text(program.graph, {.layouts = is_full, .gradients = is_full});
  return 0;
}

}  // namespace

std::vector<Verb> lower() {
  std::vector<Flag> flags =
      planning_flags({{"--layouts", "", "with meshes, strategies and layouts: can be read again", ""},
                      {"--forward", "", "only the forward phase", ""},
                      {"--dump-passes", "DIR", "write the program after each pass", ""}});
  for (Flag& f : optimizer_flags()) flags.push_back(std::move(f));
  return {{.name = "lower",
           .doc = "print the program that every rank runs: every collective visible",
           .positionals = {"[MODEL]"},
           .flags = std::move(flags),
           .example = "shardwright lower dense_matmul:form=reid --devices 4 --forward",
           .run = run}};
}

}  // namespace shardwright::verbs
