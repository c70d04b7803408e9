#include "python/core/asked.h"

#include <pybind11/stl.h>

#include <algorithm>
#include <set>
#include <utility>

#include "shardwright/annotations/patterns.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/explain/binding.h"
#include "shardwright/frontend/bound_json.h"
#include "shardwright/frontend/emit.h"
#include "shardwright/frontend/export_plan.h"
#include "shardwright/frontend/fitting_strategies.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/plan_page.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/graph/verify.h"
#include "shardwright/ops/calls.h"
#include "shardwright/plan/batch.h"
#include "shardwright/plan/constraints.h"
#include "shardwright/plan/plan_json.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/search/automatic/stock.h"
#include "shardwright/search/planning/plan_alike.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright::python {

DeviceKind device() { return default_devices(); }

void tell(const std::string& line) {
  const py::gil_scoped_acquire gil;
  py::print(line, py::arg("file") = py::module_::import("sys").attr("stderr"));
}

namespace {

/// Of a file, or as they would stand in it.
Constraints annotations_in(const std::string& option) {
  const bool is_text = trim(option).starts_with('{');
  return is_text ? parse_annotations(option, "annotate") : load_annotations(option);
}

/// A word of `fix`, or an option that is written alike.
std::string option_meant_by(const std::string& name, const std::string& value,
                            const std::set<std::string>& known) {
  if (std::ranges::find(constraint_words(), name, &ConstraintWord::name) != constraint_words().end())
    return fmt::format(" (did you mean fix=\"{}={}\"?)", name, value);
  return near_names(name, std::vector<std::string>(known.begin(), known.end()));
}

/// What fixes everything, and whole plans, have no use for strategies of single operators.
void check_strategies(const PlanRequest& request, const PlanOptions& options) {
  BesideStrategies beside{.search = request.search, .search_called = "search"};
  for (const char* other : {"set", "fix", "plan"})
    if (const auto it = options.find(other); it != options.end()) beside.whole.push_back({other, it->second});
  check_takes_strategies("strategy", beside);
  check_splits(request.parallel, "strategy", "parallel");
}

/// What the command says by flags beside --set, options say here.
void check_set(const std::string& text, const PlanOptions& options) {
  const Constraints said = parse_constraints({"set", text});
  if (said.micro_batch || said.global_batch)
    throw error("set {}: micro_batch and global_batch are for the options micro_batches= and global_batch=",
                text);
  if (options.contains("fix")) throw error("set and fix exclude each other: set says everything");
}

/// What is fixed beside a search has no effect where nothing is searched.
void check_searches(const PlanRequest& request) {
  if (request.parallel == Parallel::data_parallel || request.parallel == Parallel::semi_auto_parallel)
    throw error("fix is for searches, but {} does not search", name_of(request.parallel));
  if (request.devices == 1) tell("fix has no effect: there is 1 device");
}

/// The file that plan= names.
std::optional<Plan> saved_plan(const PlanOptions& options) {
  const auto path = options.find("plan");
  return path == options.end() ? std::nullopt : std::optional(known_plan(path->second));
}

/// By the table that flags are read with. What nobody says of the network called `model` is as `saved` has it, if it is of
/// this one, or as on such machines.
PlanRequest request_of(const PlanOptions& options, const std::string& model = "",
                       const std::optional<Plan>& saved = {}) {
  PlanRequest request{.model = "traced network", .formats = device().formats};
  // Before all else, as the command reads its file: what contradicts it is refused.
  SaidSettings settings;
  if (const auto said = options.find("annotate"); said != options.end()) {
    request.constraints = annotations_in(said->second);
    settings.add("annotate", request.constraints);
  }
  std::set<std::string> known{"annotate", "plan", "save_strategy", "strategy", "timeout"};
  bool is_ordered = false;
  for (const SettingRow& row : all_settings()) {
    if (row.part > SettingPart::order && !std::exchange(is_ordered, true)) {
      if (request.devices == 1) request.parallel = Parallel::stand_alone;
      if (!model.empty())
        request.origin =
            saved && saved->model == model ? saved->origin : usual_origin(model, request.cluster);
    }
    std::string option = row.flag.substr(2);
    std::ranges::replace(option, '-', '_');
    known.insert(option);
    if (const auto it = options.find(option); it != options.end())
      settings.parse(request, row, {option, it->second});
  }
  for (const auto& [name, value] : options)
    if (!known.contains(name))
      throw error("there is no option '{}'{}", name, option_meant_by(name, value, known));
  // Stages alone are not asked to share a batch.
  request.kept_micro_batches = options.contains("stages") ? 1 : settings_of(request).pipelining.micro_batches;
  if (options.contains("strategy")) check_strategies(request, options);
  if (const auto set = options.find("set"); set != options.end()) check_set(set->second, options);
  if (options.contains("fix")) check_searches(request);
  if (options.contains("annotate") && !request.constraints.tensors.empty())
    check_splits(request.parallel, "annotate", "parallel");
  return request;
}

/// In their order.
std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::input) out.push_back(graph.value(node.results[0]).name);
  return out;
}

/// What drops reads the steps done: where no optimizer counts them, each call is one.
void count_calls(Graph& graph) {
  const ValueId count = existing_step_count(graph);
  const auto counts = [&](const Update& u) { return u.leaf == count; };
  if (!count.is_valid() || std::ranges::any_of(graph.updates, counts)) return;
  Builder builder(graph);
  builder.set_phase(Phase::update);
  graph.updates.push_back({count, shifted(builder, count, 1)});
}

Graph graph_of(const TracedStep& traced, int micro_batches) {
  Tracing& tracing = *traced.tracing;
  std::vector<Traced> values;
  for (const ArrayPtr& a : traced.outputs) values.push_back(a->in(tracing));
  Graph graph = tracing.graph_of(values, micro_batches);
  verify(graph);
  graph = with_precision(std::move(graph), tracing.trace.all_precision());
  if (traced.optimizer) add_train_step(graph, graph.outputs.front(), *traced.optimizer);
  count_calls(graph);
  return graph;
}

/// Asks Python for the graph of another number of micro-batches.
StepOf step_of(const TracedStep& traced) {
  // Planning runs without Python's lock, and lets go of this without it.
  const std::shared_ptr<TracedStep> kept(new TracedStep(traced), [](TracedStep* t) {
    const py::gil_scoped_acquire gil;
    delete t;
  });
  return [kept](int micro_batches) {
    const py::gil_scoped_acquire gil;
    TracedStep again = *kept;
    try {
      const py::tuple made = again.retrace(micro_batches);
      again.tracing = made[0].cast<std::shared_ptr<Tracing>>();
      again.outputs = made[1].cast<std::vector<ArrayPtr>>();
    } catch (const py::error_already_set& e) {
      throw error("the function cannot be traced with {} micro-batches: {}", micro_batches, e.what());
    }
    return graph_of(again, micro_batches);
  };
}

/// Bytes of the device that takes most, by what they are for.
std::map<std::string, std::int64_t> memory_by_kind(const Estimate& estimate) {
  std::map<std::string, std::int64_t> out;
  for (std::size_t k = 0; k < memory_kinds; ++k)
    out[std::string(name_of(static_cast<MemoryKind>(k)))] = estimate.memory.bytes[k];
  return out;
}

/// A loss that is another in so many parts of the batch. Planning runs without Python's lock.
void tell_mixing(const Graph& graph, const Plan& plan) {
  const Pipelining& p = plan.settings.pipelining;
  const std::string notice = mixing_notice(graph, p.micro_batches, p.interleave);
  if (!notice.empty()) tell(notice);
}

StrategyFile strategies_in(const std::string& option, bool is_text) {
  if (!is_text) return load_strategies(option);
  try {
    return parse_strategies(option, true);
  } catch (const Error& e) {
    throw with_context(e, "strategy");
  }
}

/// What files say, of which `graph` has all.
void add_files(const PlanOptions& options, const Graph& graph, PlanRequest& request) {
  const auto annotate = options.find("annotate");
  if (annotate != options.end()) request.constraints = without_patterns(request.constraints, graph);
  const auto said = options.find("strategy");
  if (said == options.end()) return;
  std::optional<Annotated> annotated;
  if (annotate != options.end())
    annotated = {"annotate", without_patterns(annotations_in(annotate->second), graph)};
  const bool is_text = trim(said->second).starts_with('{');
  const std::string path = is_text ? "strategy" : said->second;
  const StrategyFile file = strategies_in(said->second, is_text);
  add_strategies(file, path, is_text ? path : "strategy " + path, annotated, request);
  FittingStrategies fitting =
      fitting_strategies(file, path, graph, request, annotated, std::move(request.constraints));
  request.constraints = std::move(fitting.said);
  if (request.devices == 1) tell("strategy has no effect: there is 1 device");
  for (const std::string& line : fitting.not_heeded)
    tell(is_text ? "strategy: " + line : fmt::format("strategy {}: {}", path, line));
}

/// What binds what was made for `request`, whose search has looked at `tried`.
BoundOf bound_by(const PlanRequest& request, const Plan& plan, std::vector<Tried> tried, const StepOf& step) {
  struct Made {
    PlanRequest request;
    Plan plan;
    std::vector<Tried> tried;
    StepOf step;
  };
  const auto made = std::make_shared<Made>(Made{request, plan, std::move(tried), step});
  made->request.stock = nullptr;
  made->request.cluster = plan.cluster;
  return [made](const Evaluation& evaluation) {
    PlanRequest asked = made->request;
    asked.options.deadline = {};  // this is a search of its own
    return bound_of({asked, made->plan, evaluation}, made->tried, made->step);
  };
}

}  // namespace

Asked asked_of(const TracedStep& traced, const PlanOptions& options) {
  Asked out{.request = request_of(options), .saved = saved_plan(options), .options = options};
  const Tracing& tracing = *traced.tracing;
  if (out.request.devices > 1 && tracing.calls_back)
    throw error("a function that is called back runs on one device, but there are {}", out.request.devices);
  if (traced.optimizer) out.request.origin.optimizer = *traced.optimizer;
  out.traced.graph = graph_of(traced, settings_of(out.request).pipelining.batch_parts());
  out.traced.constraints = traced.tracing->trace.constraints();
  std::set<std::string> outside;
  for (const auto& [tensor, name] : tracing.outside) outside.insert(name);
  for (const std::string& name : inputs_of(out.traced.graph))
    if (!outside.contains(name)) out.inputs.push_back(name);
  for (const auto& [tensor, name] : tracing.outside) {
    out.inputs.push_back(name);
    out.captured.push_back(lent(tensor));
  }
  out.leaves = tracing.leaves;
  if (!traced.retrace.is_none()) out.step = step_of(traced);
  return out;
}

namespace {

Asked named_asked(const std::string& name, const PlanOptions& options) {
  std::optional<Plan> saved = saved_plan(options);
  Asked out{.request = request_of(options, name, saved), .saved = std::move(saved), .options = options};
  out.request.model = name;
  return out;
}

/// The network called `asked.request.model`; a graph as text says itself of what types it is.
Model network_of(Asked& asked, int micro_batches) {
  const PlanOptions& options = asked.options;
  const std::string& name = asked.request.model;
  Model out = build_model(name, model_options(asked.request.origin, micro_batches));
  if (out.own) set_precision(asked.request.origin, out.own->precision);
  if (!options.contains("plan") && !out.own)
    asked.assumed = {.batch = !options.contains("global_batch") && !says_batch(name),
                     .precision = !options.contains("precision")};
  asked.tokens = out.tokens;
  return out;
}

}  // namespace

Asked asked_of(const std::string& name, const std::optional<OptimizerChoice>& optimizer,
               const PlanOptions& options) {
  Asked out = named_asked(name, options);
  const int micro_batches = settings_of(out.request).pipelining.batch_parts();
  OptimizerChoice& chosen = out.request.origin.optimizer;
  Model model = network_of(out, micro_batches);
  out.assumed.optimizer = !optimizer && !options.contains("plan");
  const OptimizerChoice usual = std::exchange(chosen, optimizer.value_or(chosen));
  chosen.loss_scale = usual.loss_scale;  // options say these
  chosen.reduces_short = usual.reduces_short;
  chosen.has_set_rate = true;
  add_train_step(model.graph, model.loss, chosen);
  for (const auto* lines : {&model.warnings, &model.notices})
    for (const std::string& line : *lines) tell(line);
  out.inputs = inputs_of(model.graph);
  out.initial = std::move(model.initial);
  out.traced = {std::move(model.graph), std::move(model.constraints)};
  out.step = step_of(name, out.request.origin, true);
  return out;
}

Asked inference_asked(const std::string& name, bool has_loss, const PlanOptions& options) {
  Asked out = named_asked(name, options);
  Model model = inference_of(network_of(out, 1), has_loss);
  out.inputs = inputs_of(model.graph);
  out.initial = std::move(model.initial);
  out.traced = {std::move(model.graph), std::move(model.constraints)};
  return out;
}

void tell_assumed(const Asked& asked) {
  const std::string line = assumed_text(asked.assumed, asked.request.origin, asked.request.cluster);
  if (!line.empty()) tell(line);
}

TrainOptions run_options_of(const Asked& asked, std::uint64_t seed) {
  TrainOptions out{.devices = asked.request.devices,
                   .search_options = asked.request.options,
                   .seed = seed,
                   .device = device()};
  const auto saved = asked.options.find("save_strategy");
  if (saved != asked.options.end()) require_writable(out.save_strategy = saved->second);
  if (const auto said = asked.options.find("timeout"); said != asked.options.end()) {
    out.timeout = timeout_of({"timeout", said->second});
    if (out.devices == 1) tell("timeout has no effect: there is 1 device");
  }
  return out;
}

namespace {

/// Completes the request by what code and files say, and returns the step of so many micro-batches.
StepOf step_asked(Asked& asked) {
  PlanRequest& request = asked.request;
  const Graph& graph = asked.traced.graph;
  request.constraints = merged(std::move(asked.traced.constraints), request.constraints);
  add_files(asked.options, graph, request);
  const int there = settings_of(request).pipelining.batch_parts();
  return [there, graph = std::make_shared<const Graph>(graph), others = asked.step](int micro_batches) {
    if (micro_batches == there) return *graph;
    if (others) return others(micro_batches);
    throw error("the network was made for {} micro-batches, not for {}", there, micro_batches);
  };
}

}  // namespace

PlannedNetwork planned(Asked& asked) {
  Graph& graph = asked.traced.graph;
  if (asked.saved) {
    apply(*asked.saved, graph);  // it fits
    tell_mixing(graph, *asked.saved);
    return {.graph = std::move(graph),
            .plan = *std::move(asked.saved),
            .tokens = asked.tokens,
            .formats = asked.request.formats};
  }
  PlanRequest& request = asked.request;
  const StepOf step = step_asked(asked);
  automatic::Stock stock;
  request.stock = &stock;
  Plan plan = asked.step ? make_plan(step, request) : make_plan(graph, request);
  request.stock = nullptr;
  tell_mixing(graph, plan);
  BoundOf bound = bound_by(request, plan, std::move(stock.tried), step);
  return {std::move(graph), std::move(plan), std::move(bound), asked.assumed, asked.tokens, request.formats};
}

std::vector<PlannedNetwork> planned_sizes(Asked& asked, std::vector<Asked>& others) {
  const bool is_given = asked.saved.has_value();
  if (!others.empty()) asked.request = on_devices(std::move(asked.request));
  std::vector<PlannedNetwork> out;
  out.push_back(planned(asked));
  if (others.empty()) return out;
  const FormatsOf formats = out.front().formats;
  const PlanThere there = plan_there(out.front().graph, out.front().plan, formats, is_given);
  for (Asked& other : others) {
    const StepOf step = step_asked(other);
    PlannedAlike made = plan_alike(there, step, other.request);
    out.push_back({.graph = std::move(made.graph), .plan = std::move(made.plan), .formats = formats});
  }
  return out;
}

TracedStep traced_step(const std::shared_ptr<Tracing>& tracing, const std::vector<ArrayPtr>& outputs,
                       const std::optional<std::string>& optimizer, const py::dict& settings,
                       double clip_norm, bool has_set_rate, const py::object& retrace) {
  TracedStep out{.tracing = tracing, .outputs = outputs, .retrace = retrace};
  if (optimizer)
    out.optimizer = OptimizerChoice{.name = *optimizer,
                                    .attributes = attributes_of(settings),
                                    .clip_norm = clip_norm,
                                    .loss_scale = default_loss_scale(tracing->trace.all_precision()),
                                    .has_set_rate = has_set_rate};
  return out;
}

namespace {

std::string bound_json_of(PlannedStep& step) {
  Json out;
  if (const std::optional<Bound>& bound = step.bound()) add_bound(out, *bound, step.evaluation);
  return out.dump();
}

}  // namespace

void bind_planned_step(py::module_& m) {
  m.def("check_options", [](const PlanOptions& options) { request_of(options); });
  const auto plan = [](Asked asked) {
    const py::gil_scoped_release others_run;
    const TrainOptions options = run_options_of(asked, 1);
    PlannedStep out = planned_step(planned(asked), options);
    for (const std::string& line : out.notices) tell(line);
    return out;
  };
  py::class_<PlannedStep, std::shared_ptr<PlannedStep>>(m, "PlannedStep",
                                                        "How a step is split, and what it takes.")
      .def(py::init([plan](const std::shared_ptr<Tracing>& trace, const std::vector<ArrayPtr>& outputs,
                           const PlanOptions& options, const std::optional<std::string>& optimizer,
                           const py::dict& settings, double clip_norm, const py::object& retrace) {
             return plan(asked_of(traced_step(trace, outputs, optimizer, settings, clip_norm, true, retrace),
                                  options));
           }),
           py::arg("trace"), py::arg("outputs"), py::arg("options"), py::arg("optimizer") = std::nullopt,
           py::arg("settings") = py::dict(), py::arg("clip_norm") = 0.0, py::arg("retrace") = py::none())
      .def(py::init([plan](const std::string& model, const std::string& optimizer, const py::dict& settings,
                           double clip_norm, const PlanOptions& options) {
             if (optimizer.empty()) return plan(asked_of(model, std::nullopt, options));
             return plan(asked_of(
                 model,
                 OptimizerChoice{
                     .name = optimizer, .attributes = attributes_of(settings), .clip_norm = clip_norm},
                 options));
           }),
           py::arg("model"), py::arg("optimizer"), py::arg("settings"), py::arg("clip_norm"),
           py::arg("options"))
      .def("explain", &PlannedStep::explain)
      .def("page", &PlannedStep::page, py::arg("call"), py::arg("version"),
           py::call_guard<py::gil_scoped_release>(), "The page of `plan --html`.")
      .def_static("write_page", &write_file, py::arg("path"), py::arg("page"))
      .def_static("require_writable", &require_writable, py::arg("path"))
      .def_static("framed", &framed, py::arg("page"), py::arg("title"), "A page as a part of a notebook.")
      .def(
          "save",
          [](const PlannedStep& self, const std::string& path) { save_plan(self.network.plan, path); },
          py::arg("path"))
      .def(
          "emit",
          [](const PlannedStep& self, const std::string& engine, const std::string& path,
             const std::string& model) {
            emit(self.network.graph, self.network.plan, engine, {.model = model}).save(path);
          },
          py::arg("engine"), py::arg("path"), py::arg("model"), py::call_guard<py::gil_scoped_release>(),
          "The package of `emit`, of a plan that is proven first.")
      .def(
          "export",
          [](const PlannedStep& self, const std::string& format, const std::string& path) {
            Exported out = export_plan(self.network.graph, self.network.plan, format, {.path = path});
            for (const std::string& line : out.not_carried)
              tell(fmt::format("{} does not carry: {}", format, line));
            if (!path.empty()) write_file(path, out.text);
            return std::move(out.text);
          },
          py::arg("format"), py::arg("path"), py::call_guard<py::gil_scoped_release>(),
          "As others are configured; what that does not carry is told.")
      .def("bound_json", &bound_json_of, py::call_guard<py::gil_scoped_release>(),
           "What binds it and what lost, as `plan --json` says it; null of a plan that was a file.")
      .def("plan_json", [](const PlannedStep& self) { return to_json(self.network.plan); })
      .def_property_readonly("step_seconds",
                             [](const PlannedStep& self) { return self.evaluation.estimate.step_seconds(); })
      .def_property_readonly("arena_bytes",
                             [](const PlannedStep& self) { return self.evaluation.estimate.arena_bytes; })
      .def_property_readonly("memory",
                             [](const PlannedStep& self) { return memory_by_kind(self.evaluation.estimate); })
      .def_property_readonly("collectives",
                             [](const PlannedStep& self) { return self.evaluation.estimate.collectives; });
}

}  // namespace shardwright::python
