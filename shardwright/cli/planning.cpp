#include "shardwright/cli/planning.h"

#include <algorithm>
#include <istream>
#include <iterator>
#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/search_settings.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/annotation_patterns.h"
#include "shardwright/plan/pipeline_plan.h"

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

DType precision_of(const Arguments& arguments) {
  const std::string name = arguments.text("--precision", "f32");
  const auto dtype = dtype_of(name == "fp16" ? "f16" : name);
  if (!dtype || !is_floating(*dtype)) throw error("--precision {}: there are f32, f64, bf16, fp16", name);
  return *dtype;
}

ModelOptions model_options(const Origin& origin, int micro_batches = 1) {
  return {.global_batch = origin.global_batch,
          .precision = origin.precision,
          .loss = origin.loss,
          .micro_batches = micro_batches};
}

Model model_for(const Arguments& arguments, Terminal& terminal, int micro_batches) {
  const std::string spec = arguments.positionals.empty() ? "-" : arguments.positionals[0];
  std::string input;
  if (spec == "-") input.assign(std::istreambuf_iterator<char>(terminal.in), {});
  return build_model(spec, model_options(origin_of(arguments), micro_batches), input);
}

std::vector<std::string> names_of_searches() {
  std::vector<std::string> out;
  for (const Searcher& search : all_search()) out.push_back(search.name);
  return out;
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
      {"--precision", "TYPE", "f32, f64, bf16 or fp16", ""},
      {"--stages", "N", "pipeline stages, each on its part of the devices", ""},
      {"--micro-batches", "COUNT",
       "parts of the batch that run through the stages (default: as many as stages)", ""},
      {"--schedule", "NAME", "order of micro-batches in a stage: gpipe or 1f1b (default)", ""},
      {"--accumulate", "N", "on one stage: parts of the batch whose gradients are added up", ""},
      {"--optimizer-parallel", "LEVEL[:threshold=BYTES,group=G]",
       "shard over replicas, or G of them: 1 state, 2 + gradients, 3 + weights; not what is below 64KiB", ""},
      {"--comm-fusion", "WHICH",
       "collectives that run as one: auto, none, size:MB, index:I,J,... or COLLECTIVE=...;...", ""},
      {"--recompute", "WHAT", "compute again in the backward: none, selected, full or MODULE,...", ""}};
  for (const std::vector<Flag>& others : {search_flags(), more})
    flags.insert(flags.end(), others.begin(), others.end());
  return flags;
}

std::vector<Flag> optimizer_flags() {
  return {{"--optimizer", "NAME", "sgd, momentum, adam or adamw", ""},
          {"--lr", "X", "learning rate (default 0.01)", ""},
          {"--momentum", "X", "of momentum (default 0.9)", ""},
          {"--weight-decay", "X", "added to the gradient; decoupled in adamw", ""},
          {"--beta1", "X", "of adam and adamw (default 0.9)", ""},
          {"--beta2", "X", "of adam and adamw (default 0.999)", ""},
          {"--epsilon", "X", "of adam and adamw (default 1e-8)", ""},
          {"--clip-norm", "X", "scale gradients so that their norm all together is at most X", ""},
          {"--loss", "NAME", "cross_entropy, binary_cross_entropy, mean_squared_error or mean_absolute_error",
           ""}};
}

Model model_of(const Arguments& arguments, Terminal& terminal) {
  return model_for(arguments, terminal, pipelining_of(arguments).micro_batches);
}

Model whole_model_of(const Arguments& arguments, Terminal& terminal) {
  return model_for(arguments, terminal, 1);
}

Pipelining pipelining_of(const Arguments& arguments) {
  if (arguments.has("--plan")) return load_plan(arguments.text("--plan")).pipelining;
  Pipelining out;
  const Annotations annotations =
      arguments.has("--annotate") ? load_annotations(arguments.text("--annotate")) : Annotations{};
  std::optional<int> asked;
  if (arguments.has("--stages")) asked = static_cast<int>(arguments.integer("--stages", 1, 1, most_devices));
  out.stages = stages_asked(asked, annotations);
  for (const std::string flag : {"--micro-batches", "--schedule"})
    if (out.stages == 1 && arguments.has(flag))
      throw error("{} is for several stages; add --stages N, or use --accumulate for one", flag);
  if (out.stages > 1 && arguments.has("--accumulate"))
    throw error("--accumulate is for one stage; with --stages use --micro-batches");
  const std::string flag = out.stages > 1 ? "--micro-batches" : "--accumulate";
  out.micro_batches = static_cast<int>(arguments.integer(flag, out.stages, 1, most_micro_batches));
  if (arguments.has("--schedule")) out.schedule = schedule_called(arguments.text("--schedule"));
  return out;
}

Origin origin_of(const Arguments& arguments) {
  Origin out{.precision = precision_of(arguments),
             .loss = arguments.text("--loss"),
             .optimizer = optimizer_of(arguments)};
  if (arguments.has("--global-batch")) out.global_batch = arguments.integer("--global-batch", 0);
  return out;
}

PlannedModel planned_model(const std::string& path) {
  Plan plan = load_plan(path);
  if (plan.model == "-")
    throw error("{}: its network came from standard input; save it as NAME.graph and plan that", path);
  try {
    Model model = build_model(plan.model, model_options(plan.origin, plan.pipelining.micro_batches));
    add_train_step(model.graph, model.loss, plan.origin.optimizer);
    check_fits(plan, model.graph);
    check(plan.recompute, model.graph);
    return {std::move(model), std::move(plan)};
  } catch (const Error& e) {
    throw with_context(e, fmt::format("{}: the network that it was made for", path));
  }
}

OptimizerChoice optimizer_of(const Arguments& arguments) {
  OptimizerChoice out{.name = arguments.text("--optimizer", "sgd"), .attributes = {}};
  const auto at_least_0 = [&](const std::string& flag, double otherwise) {
    const double x = arguments.number(flag, otherwise);
    if (x < 0) throw error("{} {}: should be a number from 0 on", flag, arguments.text(flag));
    return x;
  };
  out.attributes.set("rate", at_least_0("--lr", 0.01));
  const std::vector<std::string>& settings = optimizer_called(out.name).attributes;
  for (const std::string attribute : {"momentum", "weight_decay", "beta1", "beta2", "epsilon"}) {
    std::string flag = "--" + attribute;
    std::replace(flag.begin(), flag.end(), '_', '-');
    if (!arguments.has(flag)) continue;
    if (std::find(settings.begin(), settings.end(), attribute) == settings.end())
      throw error("{} is no setting of optimizer {}", flag, out.name);
    if (flag.starts_with("--beta") && at_least_0(flag, 0) >= 1)
      throw error("{} {}: should be below 1", flag, arguments.text(flag));
    out.attributes.set(attribute, at_least_0(flag, 0));
  }
  if (arguments.has("--clip-norm")) out.clip_norm = arguments.number("--clip-norm", 0);
  if (arguments.has("--clip-norm") && out.clip_norm <= 0)
    throw error("--clip-norm {}: should be a number above 0", arguments.text("--clip-norm"));
  return out;
}

int devices_of(const Arguments& arguments) {
  if (arguments.has("--plan")) return load_plan(arguments.text("--plan")).devices;
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
  const std::string flag = "--optimizer-parallel", given = arguments.text(flag, "0");
  const std::size_t colon = given.find(':');
  OptimizerParallel out;
  const auto level = to_integer(given.substr(0, colon));
  if (!level || *level < 0 || *level > 3)
    throw error("{} {}: should be LEVEL or LEVEL:threshold=BYTES,group=G, the level 0, 1, 2 or 3", flag,
                given);
  out.level = static_cast<int>(*level);
  if (colon == std::string::npos) return out;
  for (std::string_view part : split(std::string_view(given).substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == part.npos ? "" : part.substr(equals + 1);
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
  std::vector<std::string> out{"--search",  "--annotate",      "--dataset-strategy", "--optimizer-parallel",
                               "--stages",  "--micro-batches", "--schedule",         "--accumulate",
                               "--parallel"};
  for (std::string& flag : setting_flags()) out.push_back(std::move(flag));
  return out;
}

namespace {

Plan loaded_plan(const Arguments& arguments, const Model& model, const Graph& graph) {
  Plan plan = load_plan(arguments.text("--plan"));
  std::vector<std::string> decided = splitting_flags();
  for (const char* flag : {"--comm-fusion", "--recompute"}) decided.emplace_back(flag);
  for (const std::string& flag : decided)
    if (arguments.has(flag)) throw error("{} and --plan exclude each other: the plan has decided it", flag);
  if (arguments.integer("--devices", plan.devices) != plan.devices)
    throw error("--devices {} but the plan {} is for {}", arguments.text("--devices"),
                arguments.text("--plan"), plan.devices);
  if (arguments.has("--cluster")) {
    plan.cluster = cluster_of(arguments, plan.devices);
    for (Plan& stage : plan.stages) stage.cluster = part_name(plan.cluster, stage.devices);
  }
  check_fits(plan, graph);
  check(plan.recompute, graph);
  plan.model = model.name;
  plan.origin = origin_of(arguments);
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

PlanRequest request_of(const Arguments& arguments, const Model& model) {
  PlanRequest request{
      .model = model.name, .origin = origin_of(arguments), .cluster = arguments.text("--cluster")};
  request.devices = devices_of(arguments);
  request.parallel = mode_of(arguments);
  const Searcher& search = search_of(arguments);
  request.search = search.name;
  request.options = search_options_of(arguments, search, request.parallel);
  request.price = price_within(request.options.memory_cap);
  request.optimizer_parallel = optimizer_parallel_of(arguments);
  request.pipelining = pipelining_of(arguments);
  request.recompute = recompute_of(arguments);
  request.annotations = annotations_of(arguments, model, request.parallel);
  request.comm_fusion = comm_fusion_of(arguments);
  return request;
}

void check_not_planned(const Model& model, const Graph& graph) {
  if (is_planned(graph))
    throw error("{} says itself how it is split ({}): lower it, or take out its mesh, strategies and layouts",
                model.name, to_text(graph.meshes.front()));
}

void tell(const Arguments& arguments, const Plan& plan, const Graph& graph, Terminal& terminal) {
  for (const std::string& notice : arguments.notices) terminal.err << notice << "\n";
  for (const std::string& line : plan.log) terminal.err << line << "\n";
  const auto gradients = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.op->optimizer.has_value(); });
  for (std::int64_t index : plan.comm_fusion.all_reduce.indices)
    if (gradients > 0 && index >= gradients)
      terminal.err << fmt::format("communication fusion: index {} is ignored: there are {} gradients\n",
                                  index, gradients);
}

}  // namespace

Plan plan_of(const Arguments& arguments, const Model& model, const Graph& graph, Terminal& terminal) {
  check_not_planned(model, graph);
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
        throw error("{}: the plan {} has decided it; plan again, with -o", flag, name);
    return planned_model(name);
  }
  Model model = model_of(arguments, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments));
  Plan plan = plan_of(arguments, model, model.graph, terminal);
  return {std::move(model), std::move(plan)};
}

Planned planned_of(const Arguments& arguments, const Model& model, Graph graph, Terminal& terminal) {
  check_not_planned(model, graph);
  Planned out = make_planned(std::move(graph), request_of(arguments, model));
  tell(arguments, out.plan, out.planned.graph, terminal);
  return out;
}

Evaluation evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster) {
  const auto cap = memory_cap_of(arguments);
  if (!cap) return evaluate(pipeline, cluster);
  Evaluation out = evaluate(pipeline, cluster, {.memory_cap = cap->bytes});
  check_memory(out, fmt::format("{} {}", cap->flag, arguments.text(cap->flag)));
  return out;
}

bool is_planned(const Graph& graph) { return !graph.meshes.empty(); }

}  // namespace shardwright
