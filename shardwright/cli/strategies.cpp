#include "shardwright/cli/strategies.h"

#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/frontend/fitting_strategies.h"
#include "shardwright/frontend/planned_strategies.h"

namespace shardwright {
namespace {

const StrategyFile& strategies_asked(const Arguments& arguments) {
  if (!arguments.strategies)
    arguments.strategies =
        std::make_shared<const StrategyFile>(load_strategies(arguments.flags.at("--strategy")));
  return *arguments.strategies;
}

/// `arguments` is a copy. Throws: Error where a flag says another number of stages, or of turns.
void check_order(const Arguments& arguments, const StrategyFile& file, const std::string& called) {
  const int stages = file.stages(), turns = file.turns();
  if (stages > 1 && arguments.integer("--stages", stages) != stages)
    throw error("{} has {} stages but {} says {}", called, stages, arguments.called("--stages"),
                arguments.text("--stages"));
  const std::string schedule = arguments.text("--schedule");
  if (turns > 1 && !schedule.empty() && schedule_called(schedule).chunks != turns)
    throw error("{} has {} parts of the network in each stage, as interleaved:{}, but {} says {}", called,
                turns, turns, arguments.called("--schedule"), schedule);
}

/// What --annotate says beside the file; `arguments` is a copy.
std::optional<Annotated> annotated_by(const Arguments& arguments) {
  if (!arguments.has("--annotate")) return std::nullopt;
  const std::string path = arguments.text("--annotate");
  return Annotated{"--annotate " + path, load_annotations(path)};
}

}  // namespace

void read_strategies(const Arguments& arguments) {
  if (arguments.has("--strategy")) strategies_asked(arguments);
}

void add_strategies(const Arguments& given, PlanRequest& request) {
  const Arguments arguments = given;  // reading this copy heeds nothing
  const std::string path = arguments.flags.at("--strategy"),
                    called = arguments.called("--strategy") + " " + path;
  BesideStrategies beside{.search = arguments.text("--search"), .search_called = "--search"};
  for (const char* flag : {"--set", "--fix"})
    if (arguments.has(flag)) beside.whole.push_back({flag, arguments.text(flag)});
  check_takes_strategies(called, beside);
  const StrategyFile& file = strategies_asked(given);
  check_order(arguments, file, called);
  add_strategies(file, path, called, annotated_by(arguments), request);
}

Constraints fitting_strategies(const Arguments& given, const Graph& network, const PlanRequest& request,
                               Constraints said) {
  if (!given.has("--strategy")) return said;
  const Arguments arguments = given;
  const std::string path = arguments.text("--strategy"), called = arguments.called("--strategy");
  FittingStrategies fitting = fitting_strategies(strategies_asked(given), path, network, request,
                                                 annotated_by(arguments), std::move(said));
  for (const std::string& line : fitting.not_heeded)
    given.notices.push_back(fmt::format("{} {}: {}", called, path, line));
  return std::move(fitting.said);
}

std::optional<std::string> stages_of_file(const Arguments& arguments) {
  if (!arguments.has("--strategy") || arguments.has("--micro-batches") || arguments.has("--stages"))
    return std::nullopt;
  const int stages = strategies_asked(arguments).stages();
  if (stages == 1) return std::nullopt;
  return fmt::format("{} has {} stages", arguments.flags.at("--strategy"), stages);
}

Flag save_strategy_flag() {
  return {"--save-strategy", "FILE", "how operators are split and parameters lie: .json, or else protobuf",
          ""};
}

void require_strategies_writable(const Arguments& arguments) {
  const std::string path = arguments.text("--save-strategy");
  if (!path.empty()) require_writable(path);
}

void save_strategies(const Arguments& arguments, const Graph& graph, const Plan& plan,
                     const Pipeline& pipeline, Terminal& terminal) {
  const std::string path = arguments.text("--save-strategy");
  if (path.empty()) return;
  const PlannedStrategies saved = strategies_of(graph, plan, pipeline);
  for (const std::string& line : saved.left_out)
    terminal.err << fmt::format("--save-strategy {}: the file does not hold the whole plan; {}\n", path,
                                line);
  save_strategies(saved.file, path);
}

}  // namespace shardwright
