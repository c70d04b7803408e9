#include "python/core/trace.h"

#include <pybind11/functional.h>
#include <pybind11/stl.h>

#include <algorithm>

#include "python/core/program.h"
#include "python/core/ranks.h"
#include "shardwright/autodiff/backward.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/recompute.h"
#include "shardwright/frontend/shard.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/ops/row_updates.h"
#include "shardwright/runtime/hand_over.h"
#include "shardwright/runtime/initial.h"

namespace shardwright::python {
namespace {

thread_local std::vector<Tracing*> running;  // the innermost last

}  // namespace

Leaf::Leaf(std::string name, Type type, Initializer initializer, bool is_state)
    : name_(std::move(name)),
      type_(std::move(type)),
      initializer_(std::move(initializer)),
      is_state_(is_state) {}

Leaf::Leaf(std::string name, Tensor value, bool is_state)
    : name_(std::move(name)), type_(value.type()), is_state_(is_state) {
  set_elements(std::move(value));
}

Type Leaf::type() const {
  const Tracing* const tracing = Tracing::current();
  if (!tracing || type_.dtype != DType::f32) return type_;
  const Trace& trace = tracing->trace;
  return {is_state_ || is_full ? trace.kept_precision() : trace.precision(), type_.shape};
}

Tensor Leaf::in_own_type(Tensor value) const {
  return value.dtype() == type_.dtype ? value : convert(value, type_.dtype);
}

std::shared_ptr<Program> Leaf::reader() const {
  for (const auto& reader : readers_)
    if (auto program = reader.lock()) return program;
  return nullptr;
}

Tensor Leaf::initial() const {
  Trace alone;  // which knows what a leaf starts with
  const ValueId leaf = enter(alone).id;
  const Attributes& start = alone.graph().node(alone.graph().value(leaf).producer).attributes;
  Tensor value(type_);
  initialize(value.view(), whole_box(type_.shape), {name_, start, type_.shape}, Program::seed());
  return value;
}

std::shared_ptr<Tensor> Leaf::elements() const {
  if (has_elements()) return Array::elements();
  TensorPart part = own();
  if (part.where.extent != type_.shape)
    throw error(
        "this process has {} of '{}' {}: collectives.gather(), which all processes call, brings all of it",
        to_text(part.where), name_, to_text(type_));
  auto value = std::make_shared<Tensor>(std::move(part.tensor));
  // Looking at a value brings it here; it stays the same. Among processes each may look or not, and all ask for it
  // alike.
  if (rank_count() == 1) const_cast<Leaf*>(this)->set_elements(value);
  return value;
}

TensorPart Leaf::own() const {
  const Box whole = whole_box(type_.shape);
  if (has_elements()) return {whole, lent(Array::elements())};
  if (const auto program = reader())
    if (auto part = program->own(name_)) return {part->where, in_own_type(std::move(part->tensor))};
  return {whole, initial()};
}

std::shared_ptr<Tensor> Leaf::gathered() const {
  if (has_elements()) return Array::elements();
  const auto program = reader();
  return std::make_shared<Tensor>(program ? in_own_type(program->value_of(name_)) : initial());
}

void Leaf::hand_to(Session& session) const {
  const auto program = has_elements() ? nullptr : reader();
  if (program) return hand_over(session, program->step().session(), name_);
  const std::shared_ptr<Tensor> now = gathered();
  const DType dtype = session.kept().type_of(session.kept().named(name_)).dtype;
  session.set(name_, now->dtype() == dtype ? *now : convert(*now, dtype));
}

void Leaf::rename(std::string name) {
  for (const auto& reader : readers_)
    if (!reader.expired())
      throw error("parameter '{}' is part of a program, which knows it by this name", name_);
  name_ = std::move(name);
  parameter_.reset();
  state_.reset();
}

void Leaf::set(Tensor value) {
  if (value.type() != type_)
    throw error("'{}' is {} but is set to {}", name_, to_text(type_), to_text(value.type()));
  set_elements(std::move(value));
  readers_.clear();
}

void Leaf::is_in(const std::shared_ptr<Program>& program, bool is_changed) {
  std::erase_if(readers_, [](const auto& reader) { return reader.expired(); });
  if (is_changed) {
    readers_.clear();
    drop_elements();
  }
  if (!is_newest_in(*program)) readers_.push_back(program);
}

bool Leaf::is_newest_in(const Program& program) const {
  return std::ranges::any_of(readers_, [&](const auto& reader) { return reader.lock().get() == &program; });
}

Traced Leaf::in(Tracing& tracing) const { return tracing.leaf(*this); }

Traced Tracing::leaf(const Leaf& leaf) {
  if (const auto it = known_leaves_.find(&leaf); it != known_leaves_.end()) return it->second;
  Traced out = leaf.enter(trace);
  known_leaves_.emplace(&leaf, out);
  leaves.push_back(std::const_pointer_cast<Leaf>(leaf.shared_from_this()));
  return out;
}

Traced Leaf::enter(Trace& trace) const {
  if (is_state_) {
    state_ = State{.name = name_, .shape = type_.shape, .initializer = initializer_};
    if (type_.dtype != DType::f32) state_->dtype = type_.dtype;
    return trace.state(*state_);
  }
  parameter_ = Parameter{.name = name_,
                         .shape = type_.shape,
                         .initializer = initializer_,
                         .is_full = is_full,
                         .comm_fusion = comm_fusion,
                         .is_frozen = is_frozen};
  // f32 is what a network is written in: its precision may compute in another.
  if (type_.dtype != DType::f32) parameter_->dtype = type_.dtype;
  const Traced out = trace.parameter(*parameter_);
  if (is_sparse) mark_sparse(trace.graph(), out.id);
  Attributes& attributes = trace.graph().node(trace.graph().value(out.id).producer).attributes;
  for (const auto& [name, value] : own_settings)
    attributes.set(name == rate_group ? name : fmt::format("{}{}", own_setting, name), value);
  return out;
}

Tracing::~Tracing() { end(); }

void Tracing::begin() {
  running.push_back(this);
  is_running_ = true;
}

void Tracing::end() {
  if (!is_running_) return;
  std::erase(running, this);
  is_running_ = false;
}

Tracing* Tracing::current() { return running.empty() ? nullptr : running.back(); }

Traced Tracing::captured(const std::shared_ptr<Tensor>& elements, bool is_lent) {
  if (const auto it = known_outside_.find(elements.get()); it != known_outside_.end()) return it->second;
  if (!is_lent && elements->shape().empty()) {
    // A number: it becomes part of the graph, where kernels fold it.
    return trace.call("fill", {},
                      {{"shape", Shape{}},
                       {"value", to_doubles(*elements)[0]},
                       {"dtype", std::string(shardwright::name_of(entering(elements->dtype())))}});
  }
  const std::string name = fmt::format("captured{}", outside.size());
  Traced out = input(name, elements->type());
  outside.emplace_back(elements, name);
  known_outside_.emplace(elements.get(), out);
  return out;
}

std::vector<std::optional<Traced>> Tracing::gradients(Traced loss, const std::vector<Traced>& of) {
  std::vector<ValueId> wanted;
  for (const Traced& t : of) wanted.push_back(t.id);
  const auto found = add_backward(trace.builder(), loss.id, {.of = wanted});
  trace.builder().set_forward({});
  std::vector<std::optional<Traced>> out;
  for (const Traced& t : of) {
    const auto it = found.find(t.id);
    out.push_back(it == found.end() ? std::nullopt : std::optional(Traced{&trace, it->second}));
  }
  return out;
}

std::vector<Traced> Tracing::call(std::string_view op, const std::vector<Traced>& operands,
                                  const Attributes& attributes, std::string_view name) {
  // What is made of gradients is made once behind all micro-batches, as updates are.
  const Graph& graph = trace.graph();
  const bool is_behind = std::ranges::any_of(operands, [&](const Traced& t) {
    return graph.node(graph.value(t.id).producer).phase != Phase::forward;
  });
  trace.builder().set_phase(is_behind ? Phase::update : Phase::forward);
  return trace.call_all(op, operands, attributes, name);
}

Graph Tracing::graph_of(const std::vector<Traced>& outputs, int micro_batches) {
  Graph graph = trace.graph();
  Builder builder(graph);
  for (const Traced& t : outputs) graph.outputs.push_back(t.id);
  const auto is_of_parameter = [&](ValueId v) {
    return std::ranges::any_of(graph.value(v).gradient_of, [&](ValueId of) {
      return graph.node(graph.value(of).producer).op->kind == OpKind::parameter;
    });
  };
  // A parameter's gradient is that of all micro-batches: what the update reads.
  builder.set_phase(Phase::update);
  for (ValueId& v : graph.outputs)
    if (micro_batches > 1 && is_of_parameter(v)) v = shifted(builder, v, 0);
  // Python may have gone back to the forward after the backward.
  std::vector<NodeId> order = graph.node_ids();
  std::ranges::stable_sort(order, {}, [&](NodeId id) { return graph.node(id).phase; });
  const std::vector<ValueId> same(graph.values.size());
  return rebuild(std::move(graph), order, same);
}

void Tracing::update(const std::vector<std::pair<LeafPtr, Traced>>& gradients,
                     const OptimizerChoice& optimizer) {
  std::map<ValueId, ValueId> by_parameter;
  for (const auto& [parameter, gradient] : gradients) by_parameter[leaf(*parameter).id] = gradient.id;
  add_updates(trace.graph(), by_parameter, optimizer);
}

void bind_trace(py::module_& m) {
  py::class_<Leaf, Array, LeafPtr>(m, "Parameter", "A tensor that is trained, or kept from step to step.")
      .def(py::init([](const py::object& value, const std::string& name, bool is_state) {
             return std::make_shared<Leaf>(name, *array_of(value)->elements(), is_state);
           }),
           py::arg("value"), py::arg("name") = "", py::arg("is_state") = false)
      .def_static(
          "initialized",
          [](const std::vector<std::int64_t>& shape, const std::string& init, double scale, double shift,
             const std::string& dtype, const std::string& name, bool is_state) {
            return std::make_shared<Leaf>(name, Type{dtype_called(dtype), shape},
                                          Initializer{init, scale, shift}, is_state);
          },
          py::arg("shape"), py::arg("init") = "zeros", py::arg("scale") = 1.0, py::arg("shift") = 0.0,
          py::arg("dtype") = "float32", py::arg("name") = "", py::arg("is_state") = false,
          "Starts as `init` says (zeros, ones, uniform, normal), by the seed and the parameter's name.")
      .def_property("name", &Leaf::name, &Leaf::rename)
      .def_property_readonly("is_state", &Leaf::is_state)
      .def("__reduce__",
           [](const py::object& self) {
             const py::object value =
                 py::cast(std::make_shared<Array>(lent(self.cast<const Leaf&>().elements())));
             return py::make_tuple(py::type::of<Leaf>(),
                                   py::make_tuple(value, self.attr("name"), self.attr("is_state")));
           })
      .def(
          "own",
          [](const Leaf& self) {
            TensorPart part = self.own();
            return py::make_tuple(std::make_shared<Array>(std::move(part.tensor)), part.where.offset);
          },
          "What this process has of it, and where that begins, without asking others.")
      .def(
          "gathered", [](const Leaf& self) { return std::make_shared<Array>(lent(self.gathered())); },
          "All of it, for which processes that have parts of it all ask at the same time.")
      .def_readwrite("comm_fusion", &Leaf::comm_fusion)
      .def_readwrite("is_full", &Leaf::is_full)
      .def_readwrite("is_sparse", &Leaf::is_sparse)
      .def_readwrite("is_frozen", &Leaf::is_frozen)
      .def(
          "set_own_settings",
          [](Leaf& self, const py::dict& settings) { self.own_settings = attributes_of(settings); },
          py::arg("settings"),
          "What it has instead of the optimizer's, in programs that are traced from now on.")
      .def("set", [](Leaf& self, const py::object& value) {
        const ArrayPtr a = array_of(value);
        self.set(self.in_own_type(*a->elements()));
      });

  py::class_<Tracing, std::shared_ptr<Tracing>>(m, "Trace",
                                                "Records what functions of traced tensors compute.")
      .def(py::init([](const std::string& precision, bool training) {
             const auto called = precision_called(precision);
             if (!called) throw error("precision '{}' is unknown; there are f32, f64, bf16, fp16", precision);
             return std::make_shared<Tracing>(*called, training);
           }),
           py::arg("precision") = "f32", py::arg("training") = false)
      .def("__enter__",
           [](const std::shared_ptr<Tracing>& self) {
             self->begin();
             return self;
           })
      .def("__exit__", [](Tracing& self, const py::args&) { self.end(); })
      .def("input",
           [](Tracing& self, const std::string& name, const std::vector<std::int64_t>& shape,
              const std::string& dtype) {
             return std::make_shared<Array>(self.input(name, {dtype_called(dtype), shape}));
           })
      .def("gradients",
           [](Tracing& self, const ArrayPtr& loss, const std::vector<ArrayPtr>& of) {
             std::vector<Traced> wanted;
             for (const ArrayPtr& a : of) wanted.push_back(a->in(self));
             std::vector<ArrayPtr> out;
             for (const auto& g : self.gradients(loss->in(self), wanted))
               out.push_back(g ? std::make_shared<Array>(*g) : nullptr);
             return out;
           })
      .def(
          "update",
          [](Tracing& self, const std::vector<std::pair<LeafPtr, ArrayPtr>>& gradients,
             const std::string& optimizer, const py::dict& settings, double clip_norm, bool has_set_rate,
             const std::string& rate_name) {
            std::vector<std::pair<LeafPtr, Traced>> all;
            for (const auto& [leaf, gradient] : gradients) all.emplace_back(leaf, gradient->in(self));
            self.update(all, {.name = optimizer,
                              .attributes = attributes_of(settings),
                              .clip_norm = clip_norm,
                              .has_set_rate = has_set_rate,
                              .rate_name = rate_name});
          },
          py::arg("gradients"), py::arg("optimizer"), py::arg("settings"), py::arg("clip_norm") = 0.0,
          py::arg("has_set_rate") = false, py::arg("rate_name") = rate_state)
      .def("assign", [](Tracing& self, const LeafPtr& leaf,
                        const ArrayPtr& value) { self.trace.update(self.leaf(*leaf), value->in(self)); })
      .def_readonly("is_training", &Tracing::is_training)
      .def_property_readonly(
          "operators",
          [](Tracing& self) {
            const Graph& graph = self.trace.graph();
            std::map<std::string, std::vector<Shape>> out;
            for (const Node& node : graph.nodes)
              if (node.op->kind == OpKind::compute && node.phase == Phase::forward)
                for (std::vector<Shape>& of = out[graph.value(node.results[0]).name];
                     const ValueId v : node.operands)
                  of.push_back(graph.value(v).type.shape);
            return out;
          },
          "The operators so far, without those of the backward: names, with the shapes of their inputs.")
      .def_property_readonly("parameters", [](const Tracing& self) { return self.leaves; })
      .def_property_readonly(
          "captured",
          [](const Tracing& self) {
            std::vector<Shape> out;
            for (const auto& [tensor, name] : self.outside) out.push_back(tensor->shape());
            return out;
          },
          "Shapes of the tensors from outside, which are inputs behind those that are given.");

  m.def(
      "tracing",
      [] {
        Tracing* const t = Tracing::current();
        return t ? t->shared_from_this() : nullptr;
      },
      "The trace that runs, or None.");
}

}  // namespace shardwright::python
