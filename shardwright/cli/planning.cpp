#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"

#include <algorithm>
#include <array>
#include <istream>
#include <ostream>

#include "shardwright/annotations/patterns.h"
#include "shardwright/base/file.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/device_counts.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/explain/unfixed.h"
#include "shardwright/frontend/alternatives.h"
#include "shardwright/frontend/fitting_strategies.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/batch.h"
#include "shardwright/search/planning/plan_alike.h"
#include "shardwright/search/planning/stages_of_plan.h"

namespace shardwright {
namespace {

/// The cluster that is asked for instead of the plan's. Throws: Error unless it has as many devices.
Cluster cluster_of(const Arguments& arguments, const Cluster& planned) {
  Cluster cluster = cluster_called(arguments.text("--cluster"));
  if (cluster.devices() != planned.devices())
    throw error("--cluster {} has {} devices but the plan is for {}", cluster.name, cluster.devices(),
                planned.devices());
  Cluster same = planned;
  same.name = cluster.name;  // files may be called by several paths
  if (!is_preset(cluster) && cluster != same)
    arguments.notices.push_back(fmt::format(
        "--cluster {}: differs from the cluster {} in the plan {}; times are those of the cluster "
        "given, not of the one planned for",
        cluster.name, planned.name, arguments.text("--plan")));
  return cluster;
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

}  // namespace

std::vector<Flag> planning_flags(std::vector<Flag> more) {
  std::vector<Flag> flags{
      {"--plan", "FILE", "use a saved plan", ""},
      {"--config", "FILE", "settings in YAML, as MindFormers has them; a flag counts more", ""},
      {"--annotate", "FILE", "strategies of single operators and parameters, as JSON", ""},
      {"--strategy", "FILE",
       "a strategy file, JSON or protobuf: operators that it names are split as it says", ""},
      {"--verify-passes", "", "check the program after each step of compiling", ""}};
  for (const std::vector<Flag>& others : {setting_flags(), more})
    flags.insert(flags.end(), others.begin(), others.end());
  return flags;
}

namespace {

std::string spec_of(const Arguments& arguments) {
  return arguments.positionals.empty() ? "-" : arguments.positionals[0];
}

Model unsplit_model_of(const Arguments& arguments, const Pipelining& p, const std::string& input,
                       bool asks = false) {
  const auto built = [&](int parts) {
    const int interleave = parts == 1 ? 1 : p.interleave;
    ModelOptions options = model_options(origin_of(arguments), parts, interleave);
    options.asks = asks;
    return build_model(spec_of(arguments), options, input);
  };
  try {
    return built(p.batch_parts());
  } catch (const Error& e) {
    const auto asked = p.batch_parts() == 1 ? std::nullopt : stages_of_file(arguments);
    if (!asked) throw;
    built(1);  // else it is not for micro-batches
    throw with_context(e, *asked);
  }
}

Model model_of(const Arguments& arguments, const Pipelining& p, const std::string& input, bool asks = false) {
  const int micro_batches = p.batch_parts();
  Model model = unsplit_model_of(arguments, p, input, asks);
  for (const std::string& line : model.warnings)
    if (std::ranges::count(arguments.notices, line) == 0) arguments.notices.push_back(line);
  const Origin origin = origin_of(arguments, model);  // what the flags say is so
  if (const std::string uneven = uneven_notice(model, micro_batches); !uneven.empty())
    arguments.notices.push_back(uneven);
  heed(arguments, {SettingPart::network});
  for (const auto& [flag, why] : idle_settings(model, origin, micro_batches)) arguments.idle(flag, why);
  return model;
}

std::string input_of(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positionals.empty() && arguments.has("--plan"))
    throw error(
        "--plan {}: the model that it is for is missing; name it, or write - for a graph on standard input",
        arguments.text("--plan"));
  return spec_of(arguments) == "-" ? text_from(terminal.in) : "";
}

/// Parts of the batch, as many as the flags say, or as stages. The model is for one of them.
Pipelining pipelining_asked(const Arguments& arguments) {
  arguments.heed(arguments.has("--micro-batches") ? "--micro-batches" : "--stages");
  arguments.heed("--micro-batch-interleave");
  return settings_of(asked_of(arguments)).pipelining;
}

}  // namespace

Model model_of(const Arguments& arguments, Terminal& terminal, bool asks) {
  return model_of(arguments, pipelining_asked(arguments), input_of(arguments, terminal), asks);
}

int devices_of(const Arguments& arguments) {
  arguments.heed("--plan");
  heed(arguments, {SettingPart::machine});
  return asked_of(arguments).devices;
}

namespace {

Plan loaded_plan(const Arguments& arguments, const Model& model, const Graph& graph) {
  Plan plan = saved_plan(arguments);
  const std::string path = arguments.text("--plan");
  std::vector<std::string> decided = decided_flags();
  decided.insert(decided.end(), {"--annotate", "--strategy"});
  for (const std::string& flag : decided)
    if (arguments.has(flag))
      throw error("{}: the plan {} has decided it; plan again, with -o", arguments.called(flag), path);
  if (arguments.integer("--devices", plan.devices()) != plan.devices())
    throw error("--devices {} but the plan {} is for {}", arguments.text("--devices"), path, plan.devices());
  if (arguments.has("--cluster")) plan.cluster = cluster_of(arguments, plan.cluster);
  set_what_is_known(arguments, plan.cluster);
  try {
    check_means_mixed(plan, model.name, graph);
    apply(plan, graph);  // it fits
    check(plan.settings.recompute, graph);
    check(plan.settings.offload, graph);
  } catch (const Error& e) {
    throw with_context(e, path);
  }
  plan.model = model.name;
  plan.origin = origin_of(arguments, model);
  return plan;
}

/// What is asked, of which files say a part with patterns, beside what the model says itself.
Constraints constraints_of(const Arguments& arguments, const Model& model, const PlanRequest& asked) {
  Constraints said = without_patterns(asked.constraints, model.graph);
  const char* const fixes = arguments.has("--annotate") ? "--annotate" : "--strategy";
  if (!said.tensors.empty())
    check_splits(asked.parallel, fmt::format("{} {}", fixes, Arguments(arguments).text(fixes)), "--parallel");
  said = fitting_strategies(arguments, model.graph, asked, std::move(said));
  return merged(model.constraints, said);
}

PlanRequest request_of(const Arguments& arguments, const Model& model) {
  PlanRequest request = asked_of(arguments);
  heed(arguments, {SettingPart::machine, SettingPart::order, SettingPart::split, SettingPart::step,
                   SettingPart::search, SettingPart::memory});
  arguments.heed("--annotate");
  arguments.heed("--strategy");
  request.model = model.name;
  request.origin = origin_of(arguments, model);
  request.formats = device_of(arguments).formats;
  request.verifies =
      Arguments(arguments).is_on("--verify-passes");  // a copy: it is heeded by who compiles the plan
  // A graph as text is for its own batch, of which there are no parts.
  if (model.has_uneven_loss || model.own)
    request.kept_micro_batches = settings_of(request).pipelining.micro_batches;
  request.constraints = constraints_of(arguments, model, request);
  if (arguments.has("--buckets")) request = on_devices(std::move(request));
  tell_idle(arguments, request);
  const Constraints& c = request.constraints;
  if (request.devices == stage_count(c) && c.recomputed.empty() && c.stages.empty())
    for (const char* flag : {"--annotate", "--strategy"})
      arguments.idle(flag, request.devices == 1 ? "there is 1 device" : "each stage has 1 device");
  return request;
}

void check_not_planned(const Model& model, const Graph& graph) {
  if (is_planned(graph))
    throw error(
        "{} already says how it is split ({}): use lower, or take out its mesh, strategies and layouts",
        model.name, to_text(graph.meshes.front()));
}

/// What turns out to have nothing to do only in the plan.
void tell_idle(const Arguments& arguments, const Plan& plan, const Graph& graph) {
  const bool has_updates = std::any_of(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.op->optimizer.has_value(); });
  if (!arguments.has("--optimizer-parallel") || plan.settings.optimizer_parallel.level == 0) return;
  if (has_updates && plan.devices() > plan.settings.pipelining.stages && !shards_states(plan, graph))
    arguments.idle("--optimizer-parallel",
                   fmt::format("no parameter of {} or more is repeated on several devices",
                               bytes_text(plan.settings.optimizer_parallel.threshold)));
}

void tell(const Arguments& arguments, const Plan& plan, const Model& model, const Graph& graph,
          Terminal& terminal) {
  tell_idle(arguments, plan, graph);
  arguments.tell_notices(terminal.err);
  const Pipelining& p = plan.settings.pipelining;
  const std::string mixing = mixing_notice(graph, p.micro_batches, p.interleave);
  if (!mixing.empty() && !model.has_uneven_loss) terminal.err << mixing << "\n";  // else it has been told
  for (const std::string& line : plan.log) terminal.err << line << "\n";
  const auto gradients = std::count_if(graph.nodes.begin(), graph.nodes.end(),
                                       [](const Node& node) { return node.op->optimizer.has_value(); });
  for (std::int64_t index : plan.settings.comm_fusion.all_reduce.indices)
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

/// What is searched for `network`, which is of as many micro-batches as are asked for, or whole where they are searched.
SearchAsked asked_for(const Arguments& arguments, Model network, bool is_trained, std::string input) {
  PlanRequest request = request_of(arguments, network);
  StepOf step = step_of(spec_of(arguments), request.origin, is_trained, input,
                        settings_of(request).pipelining.interleave);
  return {std::move(step), std::move(request), std::move(network), std::move(input)};
}

}  // namespace

Model model_to_plan(const Arguments& arguments, bool is_trained, Terminal& terminal,
                    automatic::Stock* stock) {
  const Pipelining asked = pipelining_asked(arguments);
  const std::string input = input_of(arguments, terminal);
  const bool is_decided = arguments.has("--plan") || !chooses_structure(asked_of(arguments));
  if (!is_decided) {
    Model whole = unsplit_model_of(arguments, {}, input);
    if (!is_planned(whole.graph)) {
      SearchAsked search = asked_for(arguments, std::move(whole), is_trained, input);
      search.request.stock = stock;
      return model_of(arguments, search, make_plan(search.step, search.request));
    }
  }
  return model_of(arguments, asked, input);
}

SearchAsked search_asked(const Arguments& arguments, Terminal& terminal) {
  const Pipelining asked = pipelining_asked(arguments);
  std::string input = input_of(arguments, terminal);
  Model network =
      unsplit_model_of(arguments, chooses_structure(asked_of(arguments)) ? Pipelining{} : asked, input);
  check_not_planned(network, network.graph);
  return asked_for(arguments, std::move(network), true, std::move(input));
}

Model model_of(const Arguments& arguments, const SearchAsked& search, Plan found) {
  arguments.found = std::make_shared<const Plan>(std::move(found));
  return model_of(arguments, arguments.found->settings.pipelining, search.input);
}

Plan plan_of(const Arguments& arguments, const Model& model, const Graph& graph, Terminal& terminal) {
  check_not_planned(model, graph);
  tell_if_large(graph, terminal);
  Plan plan = arguments.has("--plan") ? loaded_plan(arguments, model, graph)
              : arguments.found       ? *arguments.found
                                      : make_plan(graph, request_of(arguments, model));
  tell(arguments, plan, model, graph, terminal);
  return plan;
}

PlannedModel planned_positional(const Arguments& arguments, const std::vector<std::string>& open,
                                Terminal& terminal) {
  const std::string& name = arguments.positionals[0];
  if (name.ends_with(".json")) {
    for (const auto& [flag, value] : arguments.flags)
      if (std::find(open.begin(), open.end(), flag) == open.end())
        throw error("{}: the plan {} has decided it; plan again, with -o", arguments.called(flag), name);
    PlannedModel out = planned_model(name);
    set_what_is_known(arguments, out.plan.cluster);
    return out;
  }
  Model model = model_to_plan(arguments, true, terminal);
  add_train_step(model.graph, model.loss, optimizer_of(arguments, model));
  Plan plan = plan_of(arguments, model, model.graph, terminal);
  return {std::move(model), std::move(plan)};
}

Planned planned_of(const Arguments& arguments, const Model& model, Terminal& terminal,
                   automatic::Stock* stock) {
  check_not_planned(model, model.graph);
  tell_if_large(model.graph, terminal);
  if (arguments.found) {
    tell(arguments, *arguments.found, model, model.graph, terminal);
    return {*arguments.found, {}};
  }
  PlanRequest request = request_of(arguments, model);
  request.stock = stock;
  Planned out = make_planned(model.graph, request);
  tell(arguments, out.plan, model, model.graph, terminal);
  return out;
}

Evaluation evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster,
                         std::string_view framework, const RemediesOf& remedies) {
  const auto cap = memory_cap_of(arguments);
  Evaluation out = evaluate(
      pipeline, cluster,
      {.memory_cap = cap ? std::optional(cap->bytes) : std::nullopt, .framework = std::string(framework)});
  if (cap && !out.fits()) {
    std::string what = misfit_text(out, fmt::format("{} {} allows", cap->flag, arguments.text(cap->flag)));
    auto would_fit = remedies ? std::optional(remedies(out)) : std::nullopt;
    if (would_fit && !would_fit->found.empty()) what += "; " + text_of(would_fit->found.front());
    if (would_fit && !would_fit->unasked.empty()) what += "; remedies " + unasked_text(arguments, *would_fit);
    throw Refusal(what, std::move(out), std::move(would_fit));
  }
  // A plan that keeps to the cap may still be more than the cluster's devices have; --device-memory says what they have.
  if (cap && !arguments.has("--device-memory")) out.cap_bytes = std::min(out.cap_bytes, left_bytes(cluster));
  return out;
}

namespace {

/// The step of `model`, which has it as it is planned, of any number of micro-batches.
StepOf step_again(const Model& model, const Plan& plan, const Origin& origin) {
  if (!model.own) return step_of(model.name, origin, true, "");
  return [&](int micro_batches) {
    if (micro_batches == plan.settings.pipelining.batch_parts()) return model.graph;
    throw error("{}: a graph in text form has a fixed batch, which cannot be cut otherwise", model.name);
  };
}

}  // namespace

PlanRequest planning_request(const Arguments& arguments, const Model& model) {
  const Arguments told = arguments;  // a copy: what there is to notice has been told
  return request_of(told, model);
}

Remedies remedies_of(const Arguments& arguments, const Model& model, const Plan& plan,
                     const Evaluation& evaluation) {
  PlanRequest request = planning_request(arguments, model);
  Deadline& deadline = request.options.deadline;
  if (!deadline.seconds_left()) deadline = deadline.within(most_seconds_of_remedies);
  const Misfit misfit{request, plan, evaluation};
  if (model.own) return remedies_for(misfit, step_again(model, plan, request.origin));
  const StepsOf steps = [&](const Origin& origin) { return step_of(model.name, origin, true, ""); };
  return remedies_for(misfit, steps(request.origin), steps);
}

Bound bound_of(const Arguments& arguments, const Model& model, const Plan& plan, const Evaluation& evaluation,
               std::vector<Tried> tried) {
  PlanRequest request = planning_request(arguments, model);
  request.devices = plan.devices();  // an objective may have chosen them
  request.cluster = plan.cluster;
  const Judged judged{request, plan, evaluation};
  const StepOf step = step_again(model, plan, request.origin);
  Bound out = bound_of(judged, std::move(tried), step);
  if (arguments.has("--html") && !chooses_devices(Arguments(arguments)))
    out.unfixed = unfixed_of(judged, step);
  return out;
}

Evaluation own_evaluation_of(const Arguments& arguments, const Pipeline& pipeline, const Cluster& cluster) {
  arguments.idle("--framework",
                 "this is about our own programs; plan and estimate count memory as other frameworks do");
  return evaluation_of(arguments, pipeline, cluster, own_framework);
}

void tell_if_long(std::int64_t many, std::string_view what, std::string_view costs, Terminal& terminal) {
  constexpr std::int64_t few = 1024;
  if (many > few)
    terminal.err << fmt::format("{} {}, each of which {}: this may take minutes\n", many, what, costs)
                 << std::flush;
}

bool is_planned(const Graph& graph) { return graph.level == Level::planned; }

}  // namespace shardwright
