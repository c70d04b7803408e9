#include "python/core/program.h"

#include "python/core/ranks.h"

#include <pybind11/stl.h>

#include <set>

#include "shardwright/annotations/patterns.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/runtime/backend/backend.h"
#include "shardwright/search/planning/make_plan.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright::python {
namespace {

std::uint64_t current_seed = 1;

/// What options say of a plan, by the table that flags are read with.
PlanRequest request_of(const std::map<std::string, std::string>& options) {
  PlanRequest request{
      .model = "traced network", .keeps_micro_batches = true, .formats = default_devices().formats};
  std::set<std::string> known{"annotate", "plan"};
  for (const SettingRow& row : all_settings()) {
    std::string option = row.flag.substr(2);
    std::ranges::replace(option, '-', '_');
    known.insert(option);
    if (const auto it = options.find(option); it != options.end()) row.parse(request, {option, it->second});
  }
  for (const auto& [name, value] : options)
    if (!known.contains(name))
      throw error("there is no option '{}'{}", name,
                  near_names(name, std::vector<std::string>(known.begin(), known.end())));
  if (request.devices == 1) request.parallel = Parallel::stand_alone;
  return request;
}

PlannedNetwork planned(TracedGraph traced, const std::map<std::string, std::string>& options,
                       PlanRequest request) {
  if (const auto plan = options.find("plan"); plan != options.end()) {
    Plan saved = known_plan(plan->second);
    apply(saved, traced.graph);  // it fits
    return {std::move(traced.graph), std::move(saved)};
  }
  Annotations own = std::move(request.annotations);
  request.annotations = merged(std::move(traced.annotations), own);
  if (const auto file = options.find("annotate"); file != options.end())
    request.annotations = merged(std::move(request.annotations),
                                 without_patterns(load_annotations(file->second), traced.graph));
  Plan plan = make_plan(traced.graph, request);
  return {std::move(traced.graph), std::move(plan)};
}

/// In their order.
std::vector<std::string> inputs_of(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::input) out.push_back(graph.value(node.results[0]).name);
  return out;
}

}  // namespace

std::uint64_t Program::seed() { return current_seed; }
void Program::set_seed(std::uint64_t seed) { current_seed = seed; }

Program::Program(const std::shared_ptr<Tracing>& tracing, const Outputs& outputs,
                 const std::map<std::string, std::string>& options, std::shared_ptr<Store> store)
    : store_(std::move(store)) {
  PlanRequest request = request_of(options);
  std::vector<Traced> values;
  for (const ArrayPtr& a : outputs.values) values.push_back(a->in(*tracing));
  Graph graph = tracing->graph_of(values, request.settings.pipelining.micro_batches);
  verify(graph);
  graph = with_precision(std::move(graph), tracing->trace.all_precision());
  if (outputs.optimizer) {
    add_train_step(graph, graph.outputs.front(), *outputs.optimizer);
    request.origin.optimizer = *outputs.optimizer;
  }
  std::set<std::string> outside;
  for (const auto& [tensor, name] : tracing->outside) outside.insert(name);
  for (const std::string& name : inputs_of(graph))
    if (!outside.contains(name)) inputs_.push_back(name);
  for (const auto& [tensor, name] : tracing->outside) {
    inputs_.push_back(name);
    captured_.push_back(lent(tensor));
  }
  start({std::move(graph), tracing->trace.annotations()}, tracing->leaves, options, std::move(request));
}

Program::Program(const std::string& name, const OptimizerChoice& optimizer,
                 const std::map<std::string, std::string>& options, std::shared_ptr<Store> store)
    : store_(std::move(store)) {
  PlanRequest request = request_of(options);
  request.model = name;
  request.origin.optimizer = optimizer;
  Model model = build_model(name, model_options(request.origin, request.settings.pipelining.micro_batches));
  for (const std::string& line : model.notices)
    py::print(line, py::arg("file") = py::module_::import("sys").attr("stderr"));
  inputs_ = inputs_of(model.graph);
  add_train_step(model.graph, model.loss, optimizer);
  const std::map<std::string, InitialValue> initial = std::move(model.initial);
  start({std::move(model.graph), std::move(model.annotations)}, {}, options, std::move(request));
  for (const auto& [parameter, value] : initial) step_->session().set(parameter, value());
}

void Program::start(TracedGraph traced, const std::vector<LeafPtr>& leaves,
                    const std::map<std::string, std::string>& options, PlanRequest request) {
  const TrainOptions run_options{
      .devices = request.devices, .search_options = request.options, .seed = current_seed};
  const SessionStart session = session_start(request.devices);
  {
    const py::gil_scoped_release others_run;
    step_ = std::make_unique<GraphStep>(planned(std::move(traced), options, std::move(request)), inputs_,
                                        run_options, session);
  }
  find_leaves(leaves);
}

GraphStep& Program::step() const {
  if (!step_) throw error("the program has ended");
  return *step_;
}

void Program::find_leaves(const std::vector<LeafPtr>& known_leaves) {
  std::set<std::string> changed;
  const Graph& graph = step_->graph();
  for (const Update& update : graph.updates) changed.insert(graph.value(update.leaf).name);
  std::map<std::string, LeafPtr> known;
  for (const LeafPtr& leaf : known_leaves) known[leaf->name()] = leaf;
  const KeptValues& kept = step_->session().kept();
  for (const Kept& value : kept.all()) {
    if (&kept.parameter_of(value) != &value || kept.is_cache(value) || value.name == rate_state) continue;
    LeafPtr leaf = known[value.name];
    if (!leaf && store_) {
      LeafPtr& stored = store_->leaves[value.name];
      if (!stored)
        stored = std::make_shared<Leaf>(value.name, kept.type_of(value), Initializer{}, kept.is_state(value));
      leaf = stored;
    }
    if (leaf) leaves_.push_back({leaf, changed.contains(value.name)});
  }
}

Program::~Program() {
  // What nobody else has would be lost.
  for (const Used& used : leaves_)
    if (step_ && used.leaf->is_newest_in(*this)) try {
        used.leaf->keep(step_->session().get(used.leaf->name()));
      } catch (const Error&) {  // a session that has failed has nothing to give
      }
}

void Program::refresh() {
  for (const Used& used : leaves_) {
    Leaf& leaf = *used.leaf;
    if (leaf.is_newest_in(*this)) continue;
    if (!leaf.is_fresh()) {
      const std::shared_ptr<Tensor> now = leaf.elements();
      const KeptValues& kept = step().session().kept();
      const DType own = kept.type_of(kept.named(leaf.name())).dtype;
      step().session().set(leaf.name(), now->dtype() == own ? *now : convert(*now, own));
    }
    leaf.is_in(shared_from_this(), false);
  }
}

void Program::has_loaded() {
  for (const Used& used : leaves_) used.leaf->is_in(shared_from_this(), true);
}

std::vector<ArrayPtr> Program::run(const std::vector<ArrayPtr>& batch) {
  std::vector<Tensor> tensors;
  for (const ArrayPtr& a : batch) tensors.push_back(lent(a->elements()));
  for (const Tensor& t : captured_) tensors.push_back(t);
  refresh();
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release others_run;
    outputs = step()(tensors);
  }
  return finish(std::move(outputs));
}

std::vector<ArrayPtr> Program::run_local(const std::vector<ArrayPtr>& rows) {
  BatchParts parts;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    std::vector<TensorPart>& own = parts[inputs_[i]];
    if (i < rows.size()) {
      add_rows(rows[i]->elements(), own);
    } else {
      const Tensor& captured = captured_.at(i - rows.size());
      own.push_back({whole_box(captured.shape()), captured});
    }
  }
  refresh();
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release others_run;
    outputs = step().session().step_on_parts(parts);
  }
  return finish(std::move(outputs));
}

void Program::add_rows(const std::shared_ptr<Tensor>& rows, std::vector<TensorPart>& to) const {
  const Pipeline& pipeline = step().session().pipeline();
  const std::int64_t parts = pipeline.micro_batches(), ranks = pipeline.rank_count() / pipeline.stage_count();
  const Shape shape = rows->shape();
  if (shape.empty() || shape[0] % parts)
    throw error("a process has {} of the batch, whose rows cannot be cut into {} micro-batches",
                to_text(rows->type()), parts);
  Box where = whole_box(shape);
  where.extent[0] /= parts;
  const Type type{rows->dtype(), where.extent};
  for (std::int64_t m = 0; m < parts; ++m) {
    where.offset[0] = (m * ranks + own_rank() % ranks) * where.extent[0];
    const std::byte* const first = std::as_const(*rows).bytes().data() + m * type.bytes();
    to.push_back({where, Tensor(type, std::shared_ptr<const std::byte>(rows, first))});
  }
}

std::vector<ArrayPtr> Program::finish(std::vector<Tensor> outputs) {
  for (const Used& used : leaves_)
    if (used.is_changed) used.leaf->is_in(shared_from_this(), true);
  std::vector<ArrayPtr> out;
  for (Tensor& t : outputs) out.push_back(std::make_shared<Array>(std::move(t)));
  return out;
}

Tensor Program::value_of(const std::string& name) const { return step().session().get(name); }

void Program::set_rate(double rate) {
  step().session().set(rate_state, make_tensor({DType::f32, {}}, std::span(&rate, 1)));
}

void bind_program(py::module_& m) {
  py::class_<Store, std::shared_ptr<Store>>(m, "Store", "Parameters and states by name.")
      .def(py::init<>())
      .def("items", [](const Store& s) { return s.leaves; })
      .def("__setitem__",
           [](Store& s, const std::string& name, LeafPtr leaf) { s.leaves[name] = std::move(leaf); });

  py::class_<Program, std::shared_ptr<Program>>(m, "Program",
                                                "A traced function, planned and running on devices.")
      .def(py::init([](const std::shared_ptr<Tracing>& trace, const std::vector<ArrayPtr>& outputs,
                       const std::map<std::string, std::string>& options, std::shared_ptr<Store> store,
                       const std::optional<std::string>& optimizer, const py::dict& settings,
                       double clip_norm, bool has_set_rate) {
             Program::Outputs all{outputs, {}};
             if (optimizer)
               all.optimizer = OptimizerChoice{.name = *optimizer,
                                               .attributes = attributes_of(settings),
                                               .clip_norm = clip_norm,
                                               .loss_scale = default_loss_scale(trace->trace.all_precision()),
                                               .has_set_rate = has_set_rate};
             auto out = std::make_shared<Program>(trace, all, options, std::move(store));
             remember(out);
             return out;
           }),
           py::arg("trace"), py::arg("outputs"), py::arg("options"), py::arg("store") = nullptr,
           py::arg("optimizer") = std::nullopt, py::arg("settings") = py::dict(), py::arg("clip_norm") = 0.0,
           py::arg("has_set_rate") = false)
      .def(py::init([](const std::string& model, const std::string& optimizer, const py::dict& settings,
                       double clip_norm, const std::map<std::string, std::string>& options,
                       std::shared_ptr<Store> store) {
             const OptimizerChoice choice{.name = optimizer,
                                          .attributes = attributes_of(settings),
                                          .clip_norm = clip_norm,
                                          .has_set_rate = true};
             auto out = std::make_shared<Program>(model, choice, options, std::move(store));
             remember(out);
             return out;
           }),
           py::arg("model"), py::arg("optimizer"), py::arg("settings"), py::arg("clip_norm"),
           py::arg("options"), py::arg("store"))
      .def("run", &Program::run)
      .def("run_local", &Program::run_local)
      .def_property_readonly("inputs", &Program::inputs)
      .def("input_type",
           [](Program& self, const std::string& name) {
             const Graph& graph = self.step().graph();
             const Type& type = graph.value(graph.find(name)).type;
             return py::make_tuple(numpy_name(type.dtype), type.shape);
           })
      .def("set_rate", &Program::set_rate)
      .def("explain", [](Program& self) { return self.step().explain(); })
      .def("plan_json", [](Program& self) { return to_json(self.step().plan()); })
      .def("graph_text", [](Program& self) { return to_text(self.step().graph()); })
      .def(
          "lower_text",
          [](Program& self, int stage) { return to_text(self.step().session().pipeline().stage(stage)); },
          py::arg("stage") = 0)
      .def_property_readonly("step_seconds",
                             [](Program& self) { return self.step().estimate().step_seconds(); })
      .def_property_readonly("arena_bytes",
                             [](Program& self) { return self.step().session().statistics().arena_bytes; })
      .def_property_readonly("collectives", [](Program& self) {
        return self.step().session().statistics().collectives_per_step;
      });

  m.def("set_seed", &Program::set_seed);
  m.def("seed", &Program::seed);
}

}  // namespace shardwright::python
