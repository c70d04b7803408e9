#include "shardwright/search/planning/make_plan.h"

#include <chrono>
#include <functional>

#include "shardwright/annotations/degrees.h"
#include "shardwright/annotations/operator_splits.h"
#include "shardwright/base/attempt.h"
#include "shardwright/base/progress.h"
#include "shardwright/graph/calls.h"
#include "shardwright/plan/complete.h"
#include "shardwright/plan/set_words.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/batch_shares.h"
#include "shardwright/search/planning/contradictions.h"
#include "shardwright/search/planning/decisions.h"
#include "shardwright/search/planning/judge.h"
#include "shardwright/search/planning/search_for.h"
#include "shardwright/search/planning/stages_of_plan.h"
#include "shardwright/search/planning/suggestion.h"

namespace shardwright {
namespace {

FixedChoices stand_alone(const Graph& graph) {
  FixedChoices out{.meshes = {Mesh{}}};
  out.strategies.resize(graph.nodes.size());
  out.reasons.resize(graph.nodes.size());
  return out;
}

/// Throws: Error unless groups are of equal size.
void check(const OptimizerParallel& options, int devices) {
  if (options.level < 0 || options.level > 3)
    throw error("optimizer parallel level {}: there are 0, 1, 2 and 3", options.level);
  if (options.threshold < 0)
    throw error("optimizer parallel threshold {}: should be bytes from 0 on", options.threshold);
  if (options.group < 0 || (options.group > 0 && devices % options.group))
    throw error("optimizer parallel group {}: should divide the {} devices; 0 is all replicas", options.group,
                devices);
}

/// Throws: Error unless degrees are all that is said of the split, for as many devices as there are.
void check_degrees(const PlanRequest& request) {
  if (!request.is_set) return;
  const int data = request.constraints.degrees.of("dp"), tensor = request.constraints.degrees.of("tp");
  const int context = request.constraints.degrees.of("cp");
  const int stages = settings_of(request).pipelining.stages;
  const std::int64_t wanted = std::int64_t{data} * context * tensor * stages;
  if (wanted != request.devices)
    throw error("dp={} x tp={}{} on {} stages are {} devices but there are {}", data, tensor,
                context > 1 ? fmt::format(" x cp={}", context) : "", stages, wanted, request.devices)
        .between(
            {.key = "devices", .wanted = std::to_string(wanted), .given = std::to_string(request.devices)});
  if (splits_tensors(request.constraints))
    throw error(
        "dp={}, tp={} already say how everything is split; leave out annotations and dataset strategies",
        data, tensor);
}

/// Throws: Error if it has another number of devices than there are.
Cluster cluster_of(const PlanRequest& request) {
  Cluster out = request.cluster ? *request.cluster : host_cluster(request.devices);
  if (out.devices() != request.devices)
    throw error("cluster {} has {} devices but --devices says {}", out.name, out.devices(), request.devices)
        .between({.key = "devices",
                  .wanted = std::to_string(out.devices()),
                  .given = std::to_string(request.devices)});
  return out;
}

/// Throws: Error if layers are counted of what has none: of one stage, or of what is not computed again.
void check_layers(const PlanRequest& request, const Settings& settings) {
  const std::string layers = numbers_text(request.stage_layers);
  if (!layers.empty() && settings.pipelining.stages == 1)
    throw error("stage_layers={}: there is one stage; say pp, too", layers);
  const auto& stages = request.constraints.stages;
  if (!layers.empty() && !stages.empty())
    throw error("stage_layers={} and {}=stage {} both say where stages are cut; leave one out", layers,
                stages.begin()->first, stages.begin()->second);
  const LayersAgain& again = request.layers_again;
  const std::string first = numbers_text(again.first);
  if (!first.empty() && again.together > 1)
    throw error("recompute_layers={} and recompute_together={}: there is no way to say both; leave one out",
                first, again.together);
  if (!first.empty() && settings.recompute.mode == RecomputeMode::none)
    throw error("recompute_layers={}: of nothing; say recompute=full or recompute=selected, too", first);
  if (again.together > 1 && settings.recompute.mode != RecomputeMode::full)
    throw error("recompute_together={}: is of recompute=full, which computes whole layers again; say it, too",
                again.together);
}

/// The plan before anything is chosen.
Plan draft(const Graph& graph, const PlanRequest& request) {
  if (request.parallel == Parallel::stand_alone && request.devices > 1)
    throw error(
        "parallel mode stand_alone is for 1 device but there are {}; use data_parallel or auto_parallel",
        request.devices);
  Plan plan{.model = request.model, .origin = request.origin, .fingerprint = fingerprint_of(graph)};
  const Constraints& fixed = request.constraints;
  plan.settings = settings_of(request);
  Settings& s = plan.settings;
  check(s.pipelining);
  check_degrees(request);
  plan.cluster = cluster_of(request);
  plan.parallel = name_of(request.parallel);
  check(s.optimizer_parallel, request.devices);
  s.comm_fusion = with_parameters(std::move(s.comm_fusion), graph, fixed.fusion_numbers);
  check(s.recompute, graph);
  check(s.offload, graph);
  if (request.parallel == Parallel::auto_parallel) plan.search = search_for(request).search->name;
  if (request.is_set && s.pipelining.stages == 1 && !fixed.stages.empty())
    throw error("constraints: '{}' is in stage {} but there is one stage; say pp, too",
                fixed.stages.begin()->first, fixed.stages.begin()->second);
  if (!request.is_set) check_stages(fixed, s.pipelining);
  check_layers(request, s);
  if (const std::string why = refusal_of(s.pipelining); !why.empty()) throw error("{}", why);
  check_names(graph, fixed);  // also where the mode has no use for them
  check_operators(graph, fixed);
  return plan;
}

/// Of `graph`, a stage's, all that its degrees say.
FixedChoices fixed_by_degrees(const Graph& graph, const Calls& calls, const PlanRequest& asked) {
  return fixed_choices_of(graph, calls, with_numbered_shares(asked.constraints, graph, calls, *asked.cluster),
                          asked.has_equal_parts);
}

/// What is fixed of `graph`, a stage's.
FixedChoices fixed_choices_for(const Graph& graph, const Calls& calls, const PlanRequest& asked) {
  if (asked.parallel == Parallel::stand_alone) return stand_alone(graph);
  if (asked.is_set) return fixed_by_degrees(graph, calls, asked);
  return fixed_choices_of(graph, asked.constraints, asked.devices, asked.parallel);
}

/// Nothing is left to choose.
SearchResult all_fixed(const FixedChoices& fixed) {
  SearchResult out{.status = SearchStatus::feasible};
  for (std::size_t n = 0; n < fixed.strategies.size(); ++n)
    out.choices.push_back({fixed.strategies[n].value_or(Strategy{}), fixed.reasons[n]});
  return out;
}

/// Lets the search choose what `graph`, a stage's, does.
SearchResult found_for(const Graph& graph, const Calls& calls, const PlanRequest& request, const Plan& plan,
                       const FixedChoices& fixed) {
  if (request.is_set && request.parallel != Parallel::stand_alone) return all_fixed(fixed);
  const Cluster& cluster = *request.cluster;
  Redistributor redistributor = redistributor_for(fixed.meshes, cluster);
  JudgedPlans judged;
  const bool is_whole = plan.settings.pipelining.parts() == 1, is_noted = request.stock && is_whole;
  const Judge judge(graph, calls, request, cluster, fixed, plan, is_noted ? &judged : nullptr,
                    is_whole ? request.evaluated : nullptr);
  const Problem problem{.graph = &graph,
                        .calls = &calls,
                        .cluster = &cluster,
                        .fixed = fixed,
                        .redistributor = &redistributor,
                        .parameters_stay_whole = request.parallel == Parallel::data_parallel,
                        .judge = &judge};
  check_no_contradiction(problem, request.options);
  const Searcher& search =
      request.parallel == Parallel::auto_parallel ? find_search(plan.search) : spreading_search();
  SearchResult found = search.run(problem, request.options);
  if (found.status == SearchStatus::infeasible) throw Infeasible(fmt::format("no plan: {}", found.violation));
  if (is_noted) request.stock->tried = judged.told(found, fixed.meshes, graph, calls);
  return found;
}

/// Tells in the head of the plan how the search went, stage after stage. Where stages are cut is not searched, so that
/// several are never proven to be optimal.
void tell(Plan& plan, SearchResult& found, int stage) {
  if (plan.settings.pipelining.parts() == 1) {
    plan.status = name_of(found.status);
    plan.compared = std::move(found.compared);
    plan.log = std::move(found.log);
    plan.lower_bound_seconds = found.lower_bound_seconds;
    return;
  }
  if (found.status == SearchStatus::timeout) plan.status = name_of(found.status);
  if (!found.log.empty()) plan.log.push_back(fmt::format("stage {}", stage));
  plan.log.insert(plan.log.end(), found.log.begin(), found.log.end());
}

/// That there are no unequal ones where they were asked for.
void tell_idle_shares(Plan& plan, const Constraints& asked) {
  const auto has_shares = [](const StagePlan& stage) { return stage.meshes.front().has_shares(); };
  if (asked.batch_shares && asked.degrees.of("dp") > 1 && std::ranges::none_of(plan.stages, has_shares))
    plan.log.emplace_back(
        "batch_shares has no effect: each of dp has as many samples; by speed, its devices take as long for "
        "one");
}

/// One clock for all that is searched, which whoever asks may have begun.
void begin_clock(SearchOptions& options) {
  if (!options.deadline.seconds_left()) options.deadline = options.deadline.within(options.most_seconds);
}

/// Gets the choices for one stage's part of the graph, what was asked of it, and the settings of the plan.
using Taker = std::function<void(Graph part, const Calls& calls, Choices choices, const PlanRequest& asked,
                                 const Settings& settings)>;

/// Searches stage after stage; what is chosen is told in the plan, and `take` may write it onto the graph.
Plan planned(const Graph& graph, PlanRequest request, const Taker& take) {
  const auto start = std::chrono::steady_clock::now();
  begin_clock(request.options);
  Plan plan = draft(graph, request);
  StagedGraph cut = parts_of(graph, request, plan);
  request.has_layers = plan.settings.recompute.is_on() && has_layers(graph);
  if (request.layers_again.is_on())
    plan.settings.recompute = of_layers(std::move(plan.settings.recompute), cut.stages, request.layers_again);
  plan.stages.clear();
  bool repeats_tensor = true, repeats_context = true;  // in every stage
  bool has_context_ways = false;
  const int parts = plan.settings.pipelining.parts();
  const std::string how = plan.search.empty() ? plan.parallel : "search " + plan.search;
  Doing doing(request.options.deadline.progress(), how + (parts > 1 ? ": stage" : ""), parts > 1 ? parts : 0);
  for (int s = 0; s < parts; ++s) {
    doing.tell(s);
    Graph& part = cut.stages[static_cast<std::size_t>(s)];
    const PlanRequest asked = request_of_stage(request, plan, graph, part, s);
    check(plan.settings.optimizer_parallel, asked.devices);
    const Calls calls(part);
    FixedChoices fixed = fixed_choices_for(part, calls, asked);
    repeats_tensor = repeats_tensor && fixed.repeats_tensor;
    repeats_context = repeats_context && fixed.repeats_context;
    has_context_ways = has_context_ways || fixed.has_context_ways;
    SearchResult found = found_for(part, calls, asked, plan, fixed);
    tell(plan, found, s);
    Decisions decided =
        decisions_of(std::move(fixed), std::move(found), part, calls, plan.settings.optimizer_parallel);
    plan.stages.push_back(told(part, calls, decided));
    if (take) take(std::move(part), calls, std::move(decided.choices), asked, plan.settings);
  }
  if (repeats_context)
    throw error("cp={}: the network has no sequence to split; leave cp out",
                request.constraints.degrees.of("cp"));
  if (repeats_tensor)
    throw error("tp={}: no dim of a weight has as many parts, nor have the heads or features of the network",
                request.constraints.degrees.of("tp"));
  tell_idle_shares(plan, request.constraints);
  if (request.constraints.context && request.constraints.degrees.of("cp") > 1 && !has_context_ways)
    plan.log.emplace_back("context has no effect: nothing in the network is attention as one operator");
  const SearchChoice choice = search_for(request);
  if (!plan.search.empty() && !choice.why.empty())
    plan.log.insert(plan.log.begin(), notice_of(choice.why, *choice.search));
  plan.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

/// By a search of whole plans. Where nobody named it and it has no plan, another's counts, and that is told.
Plan chosen(const StepOf& step, PlanRequest request) {
  begin_clock(request.options);
  PlanRequest asked = request;
  asked.cluster = cluster_of(request);
  asked.constraints = fixed_by(request);
  if (request.auto_pipeline == true) asked.most_stages = request.constraints.degrees.said("pp");
  const Searcher& search = *search_for(request).search;
  const auto other = instead_of_auto(request);
  std::string why;
  std::optional<Plan> found =
      other ? attempt(why, [&] { return search.plan(step, asked); }) : search.plan(step, asked);
  if (!found) {
    Plan plan = planned(step(settings_of(*other).pipelining.batch_parts()), *other, {});
    plan.log.insert(plan.log.begin(), notice_of(why, find_search(other->search)));
    return plan;
  }
  if (request.auto_pipeline != false) return *std::move(found);
  asked.constraints.degrees.set("pp", std::nullopt);
  asked.stock = nullptr;
  if (asked.options.deadline.is_over()) {
    found->log.emplace_back("other numbers of stages were not looked at: --search-time was over");
    return *std::move(found);
  }
  const auto suggestion =  // nothing if with other stages there is no plan
      attempt(why, [&] { return suggestion_of(step, asked, *found, search.plan(step, asked)); });
  if (suggestion) found->suggestion = *suggestion;
  return *std::move(found);
}

/// No structure that was looked at has parts side by side.
void suggest_parts(Plan& plan, const StepOf& step, const PlanRequest& request) {
  std::string why;  // it cannot be cut so
  plan.suggestion = attempt(why, [&] { return parts_suggestion_of(step, request, plan); }).value_or("");
  if (!plan.suggestion.empty() && plan.lower_bound_seconds) plan.compared += ", parts side by side aside";
}

}  // namespace

Settings settings_of(const PlanRequest& request) {
  Settings out = settings_of(request.constraints);
  if (request.kept_micro_batches && !request.constraints.micro_batches)
    out.pipelining.micro_batches = *request.kept_micro_batches;
  return out;
}

Plan make_plan(const Graph& graph, const PlanRequest& request) {
  if (!chooses_structure(request)) return planned(graph, request, {});
  const Pipelining there = settings_of(request).pipelining;
  const StepOf alone = [&](int parts) {
    if (parts == there.batch_parts()) return graph;
    throw error("the network was made for {} micro-batches, not for {}", there.batch_parts(), parts);
  };
  PlanRequest asked = request;
  asked.kept_micro_batches = there.micro_batches;
  return make_plan(alone, asked);
}

bool chooses_structure(const PlanRequest& request) {
  return request.parallel == Parallel::auto_parallel && !request.is_set && search_for(request).search->plan;
}

Plan make_plan(const StepOf& step, const PlanRequest& request) {
  if (!chooses_structure(request))
    return planned(step(settings_of(request).pipelining.batch_parts()), request, {});
  const auto start = std::chrono::steady_clock::now();
  Plan plan = chosen(step, request);
  if (plan.suggestion.empty() && !request.options.deadline.is_over()) suggest_parts(plan, step, request);
  plan.search_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return plan;
}

PlannedGraph split_by_degrees(Graph part, const Calls& calls, const PlanRequest& request) {
  FixedChoices fixed = fixed_by_degrees(part, calls, request);
  SearchResult found = all_fixed(fixed);
  const Settings settings = settings_of(request);
  Decisions decided =
      decisions_of(std::move(fixed), std::move(found), part, calls, settings.optimizer_parallel);
  return written(std::move(part), std::move(decided.choices), settings, request.micro_batches,
                 request.has_layers);
}

Planned make_planned(const Graph& graph, const PlanRequest& request) {
  require(!chooses_structure(request), "search {} makes whole plans", request.search);
  Planned out;
  const auto complete_stage = [&](Graph part, const Calls& calls, Choices choices, const PlanRequest& asked,
                                  const Settings& settings) {
    out.stages.push_back(
        written(std::move(part), std::move(choices), settings, asked.micro_batches, asked.has_layers));
    PlannedGraph& stage = out.stages.back();
    Redistributor redistributor = redistributor_for(stage.graph.meshes, *asked.cluster);
    complete(stage.graph, redistributor, stage.update_layouts, calls);
  };
  out.plan = planned(graph, request, complete_stage);
  return out;
}

}  // namespace shardwright
