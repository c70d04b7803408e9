#include "shardwright/cli/planning.h"

#include <algorithm>
#include <array>
#include <istream>
#include <ostream>
#include <set>

#include "shardwright/annotations/patterns.h"
#include "shardwright/base/file.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/search_settings.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/table.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

/// The cluster that was asked for. Throws: Error unless it has `devices` devices.
std::string cluster_of(const Arguments& arguments, int devices) {
  const Cluster cluster = cluster_called(arguments.text("--cluster"));
  if (cluster.devices() != devices)
    throw error("--cluster {} has {} devices but the plan is for {}", cluster.name, cluster.devices(),
                devices);
  return cluster.name;
}

/// All of it. Throws: Error if it cannot be read, or is longer than any file that is.
std::string text_from(std::istream& in) {
  std::string text;
  std::array<char, 1 << 16> chunk{};
  while (in.read(chunk.data(), chunk.size()) || in.gcount() > 0) {
    text.append(chunk.data(), static_cast<std::size_t>(in.gcount()));
    if (static_cast<std::int64_t>(text.size()) > most_text_bytes)
      throw io_error("standard input: cannot be read: more than {} bytes", most_text_bytes);
  }
  if (in.bad()) throw io_error("standard input: cannot be read");
  return text;
}

Model model_for(const Arguments& arguments, Terminal& terminal, int micro_batches) {
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  std::string input;
  if (spec == "-") input = text_from(terminal.in);
  Model model = build_model(spec, model_options(origin_of(arguments), micro_batches), input);
  origin_of(arguments, model);  // what the flags say is so
  if (micro_batches > 1 && model.has_uneven_loss)
    arguments.notices.push_back(
        fmt::format("{}: its loss sums or weighs its labels, so the mean over {} micro-batches is another "
                    "number than that of the "
                    "whole batch",
                    spec, micro_batches));
  for (const char* flag : {"--precision", "--global-batch", "--loss"}) arguments.heed(flag);
  if (!has_masters(model.graph))
    arguments.idle("--reduce-precision", "no parameter is updated in another type than it is read in");
  else if (micro_batches > 1 && arguments.text("--reduce-precision") == "short")
    arguments.idle("--reduce-precision",
                   "gradients of several micro-batches are added up in f32, and reduced so");
  return model;
}

std::vector<std::string> names_of_searches() {
  std::vector<std::string> out;
  for (const Searcher& search : all_search()) out.push_back(search.name);
  return out;
}

/// Throws: Error if `plan` is of the network called `spec` as mixed precision was before it was mixed.
void check_means_mixed(const Plan& plan, const std::string& spec, const Graph& graph) {
  if (!plan.origin.precision.is_mixed || spec == "-" || fingerprint_of(graph) == plan.fingerprint) return;
  const Precision pure = plan.origin.precision.compute;
  ModelOptions options = model_options(plan.origin, plan.pipelining.micro_batches);
  options.precision = pure;
  if (fingerprint_of(build_model(spec, options).graph) == plan.fingerprint)
    throw error(
        "the plan is of a time when {0} kept everything short, as {1} does now; plan again, with --precision "
        "{0} or {1}",
        to_text(plan.origin.precision), to_text(pure));
}

}  // namespace

std::vector<Flag> planning_flags(std::vector<Flag> more) {
  std::vector<Flag> flags{
      {"--devices", "N", "number of devices", ""},
      {"--cluster", "C",
       "the machine: PRESET:N, PRESET:NODESxPER_NODE or a YAML file (see clusters; default: cpu:DEVICES)",
       ""},
      {"--parallel", "MODE", "stand_alone, data_parallel, semi_auto_parallel or auto_parallel", ""},
      {"--search", "NAME", "search of auto_parallel: " + join(names_of_searches(), ", "), ""},
      {"--plan", "FILE", "use a saved plan", ""},
      {"--config", "FILE", "YAML of a model suite: what it says and no flag does", ""},
      {"--annotate", "FILE", "strategies of single operators and parameters, as JSON", ""},
      {"--global-batch", "B", "samples per step on all devices together", "--batch-size"},
      {"--dataset-strategy", "S", "full_batch, data_parallel or splits such as ((4,1),(4,))", ""},
      {"--precision", "TYPE", std::string(known_precisions) + "; bf16 and fp16 update in f32", ""},
      {"--reduce-precision", "TYPE",
       "of gradients in mixed precision: f32 (default), or short as they come out", ""},
      {"--stages", "N", "pipeline stages, each on its part of the devices", ""},
      {"--micro-batches", "COUNT",
       "parts of the batch that run through the stages, or on one stage one after the other, their gradients "
       "added up (default: as many as stages)",
       "--accumulate"},
      {"--schedule", "NAME", "order of micro-batches in a stage: gpipe or 1f1b (default)", ""},
      {"--optimizer-parallel", "LEVEL[:threshold=BYTES,group=G]",
       "shard over replicas, or G of them: 1 state, 2 + gradients, 3 + weights; not what is below 64KiB", ""},
      {"--comm-fusion", "WHICH",
       "collectives that run as one: auto, none, size:MB, index:I,J,... or COLLECTIVE=...;...", ""},
      {"--recompute", "WHAT", "compute again in the backward: none, selected, full or MODULE,...", ""},
      {"--verify-passes", "", "check the program after each step of compiling", ""}};
  for (const std::vector<Flag>& others : {search_flags(), more})
    flags.insert(flags.end(), others.begin(), others.end());
  return flags;
}

Model model_of(const Arguments& arguments, Terminal& terminal) {
  // The model is for one micro-batch, of which there are as many as stages if no flag says it.
  arguments.heed(arguments.has("--micro-batches") ? "--micro-batches" : "--stages");
  return model_for(arguments, terminal, pipelining_of(arguments).micro_batches);
}

Model whole_model_of(const Arguments& arguments, Terminal& terminal) {
  return model_for(arguments, terminal, 1);
}

Pipelining pipelining_of(const Arguments& given) {
  const Arguments arguments = given;  // reading this copy heeds nothing
  if (arguments.has("--plan")) return saved_plan(arguments).pipelining;
  Pipelining out;
  const Annotations annotations =
      arguments.has("--annotate") ? load_annotations(arguments.text("--annotate")) : Annotations{};
  std::optional<int> asked;
  if (arguments.has("--stages")) asked = static_cast<int>(arguments.integer("--stages", 1, 1, most_devices));
  out.stages = stages_asked(asked, annotations);
  if (out.stages == 1 && arguments.has("--schedule"))
    throw error("--schedule is the order of micro-batches in several stages; add --stages N");
  out.micro_batches =
      static_cast<int>(arguments.integer("--micro-batches", out.stages, 1, most_micro_batches));
  if (arguments.has("--schedule")) out.schedule = schedule_called(arguments.text("--schedule"));
  return out;
}

PlannedModel planned_model(const std::string& path) {
  Plan plan = known_plan(path);
  if (plan.model == "-")
    throw error("{}: its network came from standard input; save it as NAME.graph and plan that", path);
  try {
    Model model = build_model(plan.model, model_options(plan.origin, plan.pipelining.micro_batches));
    check_means_mixed(plan, plan.model, model.graph);
    add_train_step(model.graph, model.loss, plan.origin.optimizer);
    check_fits(plan, model.graph);
    check(plan.recompute, model.graph);
    return {std::move(model), std::move(plan)};
  } catch (const Error& e) {
    throw with_context(e, fmt::format("{}: the network that it was made for", path));
  }
}

int devices_of(const Arguments& arguments) {
  if (arguments.has("--plan")) return saved_plan(arguments).devices;
  const int of_cluster =
      arguments.has("--cluster") ? cluster_called(arguments.text("--cluster")).devices() : 1;
  return static_cast<int>(arguments.integer("--devices", of_cluster, 1, most_devices));
}

Parallel mode_of(const Arguments& arguments) {
  return parallel_called(
      arguments.text("--parallel", devices_of(arguments) == 1 ? "stand_alone" : "auto_parallel"));
}

const Searcher& search_of(const Arguments& arguments) {
  return find_search(arguments.text("--search", PlanRequest{}.search));
}

OptimizerParallel optimizer_parallel_of(const Arguments& arguments) {
  const std::string given = arguments.text("--optimizer-parallel", "0");
  const std::string flag = arguments.called("--optimizer-parallel");
  const std::size_t colon = given.find(':');
  OptimizerParallel out;
  const auto level = to_integer(given.substr(0, colon));
  if (!level || *level < 0 || *level > 3)
    throw error("{} {}: should be LEVEL or LEVEL:threshold=BYTES,group=G, the level 0, 1, 2 or 3", flag,
                given);
  out.level = static_cast<int>(*level);
  if (colon == std::string::npos) return out;
  if (out.level == 0) throw error("{} {}: level 0 shards nothing, so it has no settings", flag, given);
  std::set<std::string_view> keys;
  for (std::string_view part : split(std::string_view(given).substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == part.npos ? "" : part.substr(equals + 1);
    if (!keys.insert(key).second) throw error("{} {}: '{}' is given twice", flag, given, key);
    if (key == "threshold") {
      const auto bytes = value == "0" ? std::optional<std::int64_t>(0) : to_bytes(value);
      if (!bytes) throw error("{} {}: the threshold should be bytes, such as 64KiB or 0", flag, given);
      out.threshold = *bytes;
    } else if (key == "group") {
      const auto group = to_integer(value);
      if (!group || *group < 1 || *group > most_devices)
        throw error("{} {}: the group should be how many replicas share a state, from 1 on", flag, given);
      out.group = static_cast<int>(*group);
    } else {
      throw error("{} {}: '{}' is unknown; there are threshold=BYTES and group=G", flag, given, key);
    }
  }
  return out;
}

CommFusion comm_fusion_of(const Arguments& arguments) {
  return parse_comm_fusion(arguments.text("--comm-fusion", "auto"));
}

Recompute recompute_of(const Arguments& arguments) {
  return parse_recompute(arguments.text("--recompute", "none"));
}

std::vector<std::string> splitting_flags() {
  std::vector<std::string> out{"--search", "--annotate",      "--dataset-strategy", "--optimizer-parallel",
                               "--stages", "--micro-batches", "--schedule",         "--parallel"};
  for (std::string& flag : setting_flags()) out.push_back(std::move(flag));
  return out;
}

namespace {

Plan loaded_plan(const Arguments& arguments, const Model& model, const Graph& graph) {
  Plan plan = saved_plan(arguments);
  const std::string path = arguments.text("--plan");
  std::vector<std::string> decided = splitting_flags();
  for (const char* flag : {"--comm-fusion", "--recompute"}) decided.emplace_back(flag);
  for (const std::string& flag : decided)
    if (arguments.has(flag))
      throw error("{}: the plan {} has decided it; plan again, with -o", arguments.called(flag), path);
  if (arguments.integer("--devices", plan.devices) != plan.devices)
    throw error("--devices {} but the plan {} is for {}", arguments.text("--devices"), path, plan.devices);
  if (arguments.has("--cluster")) {
    plan.cluster = cluster_of(arguments, plan.devices);
    for (Plan& stage : plan.stages) stage.cluster = part_name(plan.cluster, stage.devices);
  }
  try {
    check_means_mixed(plan, model.name, graph);
    check_fits(plan, graph);
    check(plan.recompute, graph);
  } catch (const Error& e) {
    throw with_context(e, path);
  }
  plan.model = model.name;
  plan.origin = origin_of(arguments, model);
  return plan;
}

Annotations annotations_of(const Arguments& arguments, const Model& model, Parallel mode) {
  Annotations out = model.annotations;
  if (arguments.has("--annotate")) {
    const Annotations of_file = without_patterns(load_annotations(arguments.text("--annotate")), model.graph);
    if (!of_file.nodes.empty() && mode == Parallel::data_parallel)
      throw error("--annotate {} and --parallel data_parallel exclude each other; use semi_auto_parallel",
                  arguments.text("--annotate"));
    out = merged(std::move(out), of_file);
  }
  if (arguments.has("--dataset-strategy")) set_dataset_strategy(out, arguments.text("--dataset-strategy"));
  return out;
}

/// Flags that are right and have nothing to do in this mode, or on so few devices.
void tell_idle(const Arguments& arguments, const PlanRequest& request) {
  std::vector<std::string> flags{"--search"};
  std::string why = fmt::format("{} does not search", name_of(request.parallel));
  const bool is_alone = request.devices == request.pipelining.stages;
  if (is_alone) {
    why = request.devices == 1 ? "there is 1 device" : "each stage has 1 device";
    for (const char* flag : {"--dataset-strategy", "--optimizer-parallel", "--comm-fusion"})
      flags.emplace_back(flag);
    for (std::string& flag : setting_flags()) flags.push_back(std::move(flag));
    const Annotations& a = request.annotations;
    if (a.recompute.empty() && a.stages.empty()) flags.emplace_back("--annotate");
  }
  if (request.parallel != Parallel::auto_parallel || is_alone)
    for (const std::string& flag : flags) arguments.idle(flag, why);
}

PlanRequest request_of(const Arguments& arguments, const Model& model) {
  PlanRequest request{
      .model = model.name, .origin = origin_of(arguments, model), .cluster = arguments.text("--cluster")};
  request.devices = devices_of(arguments);
  request.parallel = mode_of(arguments);
  const Searcher& search = search_of(arguments);
  request.search = search.name;
  request.options = search_options_of(arguments, search, request.parallel);
  request.formats = cpu_formats;
  request.verifies =
      Arguments(arguments).is_on("--verify-passes");  // a copy: it is heeded by who compiles the plan
  request.optimizer_parallel = optimizer_parallel_of(arguments);
  request.pipelining = pipelining_of(arguments);
  for (const char* flag : {"--stages", "--schedule"}) arguments.heed(flag);
  request.recompute = recompute_of(arguments);
  request.annotations = annotations_of(arguments, model, request.parallel);
  request.comm_fusion = comm_fusion_of(arguments);
  tell_idle(arguments, request);
  return request;
}

void check_not_planned(const Model& model, const Graph& graph) {
  if (is_planned(graph))
    throw error("{} says itself how it is split ({}): lower it, or take out its mesh, strategies and layouts",
                model.name, to_text(graph.meshes.front()));
}

/// What turns out to have nothing to do only in the plan.
void tell_idle(const Arguments& arguments, const Plan& plan, const Graph& graph) {
  const bool has_updates = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.op->optimizer.has_value(); });
  if (!arguments.has("--optimizer-parallel") || plan.optimizer_parallel.level == 0) return;
  if (has_updates && plan.devices > plan.pipelining.stages && !shards_states(plan, graph))
    arguments.idle("--optimizer-parallel",
                   fmt::format("no parameter of {} or more is repeated on several devices",
                               bytes_text(plan.optimizer_parallel.threshold)));
}

void tell(const Arguments& arguments, const Plan& plan, const Graph& graph, Terminal& terminal) {
  tell_idle(arguments, plan, graph);
  arguments.tell_notices(terminal.err);
  for (const std::string& line : plan.log) terminal.err << line << "\n";
  const auto gradients = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.op->optimizer.has_value(); });
  for (std::int64_t index : plan.comm_fusion.all_reduce.indices)
    if (gradients > 0 && index >= gradients)
      terminal.err << fmt::format("communication fusion: index {} is ignored: there are {} gradients\n",
                                  index, gradients);
}

/// Before a silence of minutes.
void tell_if_large(const Graph& graph, Terminal& terminal) {
  constexpr std::size_t large = 100000;
  if (graph.nodes.size() > large)
    terminal.err << fmt::format("{} nodes in a step: planning and pricing them may take minutes\n",
                                graph.nodes.size())
                 << std::flush;
}

}  // namespace

Plan plan_of(const Arguments& arguments, const Model& model, const Graph& graph, Terminal& terminal) {
  check_not_planned(model, graph);
  tell_if_large(graph, terminal);
  Plan plan = arguments.has("--plan") ? loaded_plan(arguments, model, graph)
                                      : make_plan(graph, request_of(arguments, model));
  tell(arguments, plan, graph, terminal);
  return plan;
}

PlannedModel planned_positional(const Arguments& arguments, const std::vector<std::string>& open,
                                Terminal& terminal) {
  const std::string& name = arguments.positionals[0];
  if (name.ends_with(".json")) {
    for (const auto& [flag, value] : arguments.flags)
      if (std::find(open.begin(), open.end(), flag) == open.end())
        throw error("{}: the plan {} has decided it; plan again, with -o", arguments.called(flag), name);
    return planned_model(name);
  }
  Model model = model_of(arguments, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments, model));
  Plan plan = plan_of(arguments, model, model.graph, terminal);
  return {std::move(model), std::move(plan)};
}

Planned planned_of(const Arguments& arguments, const Model& model, Graph graph, Terminal& terminal) {
  check_not_planned(model, graph);
  tell_if_large(graph, terminal);
  Planned out = make_planned(std::move(graph), request_of(arguments, model));
  tell(arguments, out.plan, out.planned.graph, terminal);
  return out;
}

CompileOptions compile_options_of(const Arguments& arguments) {
  return {.formats = cpu_formats, .verifies = arguments.is_on("--verify-passes")};
}

Evaluation evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster) {
  const auto cap = memory_cap_of(arguments);
  Evaluation out =
      evaluate(pipeline, cluster, {.memory_cap = cap ? std::optional(cap->bytes) : std::nullopt});
  if (cap) check_memory(out, fmt::format("{} {}", cap->flag, arguments.text(cap->flag)));
  // A plan that keeps to the cap may still be more than the cluster's devices have; --device-memory says what they have.
  if (cap && !arguments.has("--device-memory"))
    out.cap_bytes = std::min(out.cap_bytes, usable_bytes(cluster));
  return out;
}

void tell_if_long(std::int64_t many, std::string_view what, std::string_view costs, Terminal& terminal) {
  constexpr std::int64_t few = 1024;
  if (many > few)
    terminal.err << fmt::format("{} {}, each of which {}: this may take minutes\n", many, what, costs)
                 << std::flush;
}

bool is_planned(const Graph& graph) { return !graph.meshes.empty(); }

}  // namespace shardwright
