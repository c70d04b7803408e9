#include "python/core/program.h"

#include "shardwright/frontend/inference.h"

#include <pybind11/stl.h>

#include <set>
#include <tuple>

#include "shardwright/base/checksum.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/text.h"
#include "shardwright/lower/program_text.h"

namespace shardwright::python {
namespace {

std::uint64_t current_seed = 1;

/// `'w' = [0.5, 1, ...]`
Agreement told(const std::string& name, const Tensor& value) {
  constexpr std::size_t shown = 3;
  Tensor first({value.dtype(), {std::min<std::int64_t>(shown + 1, element_count(value.shape()))}});
  std::copy_n(value.bytes().begin(), first.bytes().size(), first.bytes().begin());
  std::vector<std::string> numbers;
  for (const double number : to_doubles(first))
    numbers.push_back(numbers.size() < shown ? fmt::format("{:.9g}", number) : "...");
  return {fmt::format("value of '{}'", name), checksum_text(checksum(value.bytes())),
          fmt::format("'{}' = [{}]", name, join(numbers, ", "))};
}

}  // namespace

std::uint64_t Program::seed() { return current_seed; }
void Program::set_seed(std::uint64_t seed) { current_seed = seed; }

Program::Program(Asked asked, std::shared_ptr<Store> store, std::vector<int> ranks, std::vector<Asked> others)
    : store_(std::move(store)), inputs_(asked.inputs), captured_{std::move(asked.captured)} {
  for (Asked& other : others) {
    if (other.inputs != inputs_)
      throw error("batches of several sizes: the function takes {} of one and {} of another",
                  join(inputs_, ", "), join(other.inputs, ", "));
    captured_.push_back(std::move(other.captured));
  }
  const SessionStart session = session_start(asked.request.devices, std::move(ranks), together_);
  const TrainOptions options = run_options_of(asked, current_seed);
  {
    const py::gil_scoped_release others_run;
    step_ = std::make_unique<GraphStep>(planned_sizes(asked, others), inputs_, options, session);
  }
  for (const std::string& line : step_->planned()->notices) tell(line);
  const Graph& graph = step_->graph();
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::input) {
      const Value& v = graph.value(node.results[0]);
      input_types_[v.name] = v.type.dtype;
    }
  for (std::vector<Tensor>& captured : captured_)
    for (std::size_t i = 0; i < captured.size(); ++i)
      captured[i] = as_input(given() + i, std::move(captured[i]));  // once, for all steps
  find_leaves(asked.leaves);
  std::vector<Agreement> outside;
  for (const std::vector<Tensor>& captured : captured_)
    for (std::size_t i = 0; i < captured.size(); ++i)
      outside.push_back(told(inputs_[given() + i], captured[i]));
  for (const auto& [parameter, initial] : asked.initial) {
    const Tensor value = initial();
    step_->session().set(parameter, value);
    outside.push_back(told(parameter, value));
  }
  agree(step_->session(), outside);
}

GraphStep& Program::step() const {
  if (!step_) throw error("the program has ended");
  return *step_;
}

GraphStep& Program::running() const {
  if (step().session().has_stopped()) {
    const py::gil_scoped_release others_run;
    step_->restart();
    for (const auto& [name, rate] : rates_) shardwright::set_rate(step_->session(), rate, name);
  }
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
    if (&kept.parameter_of(value) != &value || kept.is_cache(value) || is_rate(value.name)) continue;
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

void Program::begin() {
  running();
  agree_on_values();
  std::vector<std::string> rates;
  for (const auto& [name, rate] : rates_) rates.push_back(fmt::format("{:.9g}", rate));
  enter(rates.empty() ? "runs" : fmt::format("runs at rate {}", join(rates, ", ")));
  hand_over();
}

void Program::refresh() {
  agree_on_values();
  hand_over();
}

void Program::agree_on_values() const {
  std::vector<Agreement> outside;
  if (rank_count() > 1)
    for (const Used& used : leaves_)
      if (const Tensor* const value = used.leaf->outside(); value && !used.leaf->is_newest_in(*this))
        outside.push_back(told(used.leaf->name(), *value));
  if (outside.empty()) return;
  enter(fmt::format("sets the {}{} of", outside.front().name,
                    outside.size() > 1 ? fmt::format(" and {} others", outside.size() - 1) : ""));
  agree(step().session(), outside);
}

void Program::hand_over() {
  for (const Used& used : leaves_) {
    Leaf& leaf = *used.leaf;
    if (leaf.is_newest_in(*this)) continue;
    if (!leaf.is_fresh()) leaf.hand_to(running().session());
    leaf.is_in(shared_from_this(), false);
  }
}

void Program::has_loaded() {
  for (const Used& used : leaves_) used.leaf->is_in(shared_from_this(), true);
}

Tensor Program::as_input(std::size_t i, Tensor given) const {
  const auto wanted = i < inputs_.size() ? input_types_.find(inputs_[i]) : input_types_.end();
  if (wanted == input_types_.end() || wanted->second == given.dtype()) return given;
  return is_floating(wanted->second) && is_floating(given.dtype()) ? convert(given, wanted->second) : given;
}

std::vector<ArrayPtr> Program::run(const std::vector<ArrayPtr>& batch) {
  std::vector<Tensor> tensors;
  for (const ArrayPtr& a : batch) tensors.push_back(as_input(tensors.size(), lent(a->elements())));
  for (const Tensor& t : captured_beside(tensors)) tensors.push_back(t);
  begin();
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release others_run;
    outputs = step()(tensors);
  }
  return finish(std::move(outputs));
}

std::vector<ArrayPtr> Program::run_local(const std::vector<ArrayPtr>& parts, const std::vector<Shape>& cuts) {
  BatchParts batch;
  for (std::size_t i = 0; i < inputs_.size(); ++i) {
    std::vector<TensorPart>& own = batch[inputs_[i]];
    if (i < parts.size()) {
      add_part(std::make_shared<Tensor>(as_input(i, lent(parts[i]->elements()))),
               i < cuts.size() ? cuts[i] : Shape{}, own);
    } else {
      const Tensor& captured = captured_.front().at(i - parts.size());
      own.push_back({whole_box(captured.shape()), captured});
    }
  }
  begin();
  std::vector<Tensor> outputs;
  {
    const py::gil_scoped_release others_run;
    outputs = step().session().step_on_parts(batch);
  }
  return finish(std::move(outputs));
}

void Program::add_part(const std::shared_ptr<Tensor>& part, const Shape& said,
                       std::vector<TensorPart>& to) const {
  const Session& session = step().session();
  const Pipeline& pipeline = session.pipeline();
  const std::int64_t micro_batches = pipeline.batch_parts();
  const std::int64_t ranks = pipeline.rank_count() / pipeline.group_count();
  const Shape shape = part->shape();
  if (micro_batches > 1 && (shape.empty() || shape[0] % micro_batches))
    throw error("a process has {} of the batch, whose rows cannot be cut into {} micro-batches",
                to_text(part->type()), micro_batches);
  Shape cuts = said;
  if (cuts.empty() && !shape.empty()) {
    cuts.assign(shape.size(), 1);
    cuts[0] = ranks;
  }
  if (cuts.size() != shape.size() || ranks % element_count(cuts) != 0)
    throw error(
        "{} of each process is cut {}, but there are {} processes, which should be a multiple of the parts",
        to_text(part->type()), to_text(cuts), ranks);
  Box where{Shape(shape.size()), shape};
  std::int64_t index = session.ranks().front() % ranks % element_count(cuts);
  for (std::size_t d = shape.size(); d-- > 0; index /= cuts[d]) where.offset[d] = index % cuts[d] * shape[d];
  if (shape.empty()) return to.push_back({where, lent(part)});
  const std::int64_t first = where.offset[0] / micro_batches;
  where.extent[0] /= micro_batches;
  const Type type{part->dtype(), where.extent};
  for (std::int64_t m = 0; m < micro_batches; ++m) {
    where.offset[0] = m * cuts[0] * where.extent[0] + first;
    const std::byte* const begin = std::as_const(*part).bytes().data() + m * type.bytes();
    to.push_back({where, Tensor(type, std::shared_ptr<const std::byte>(part, begin))});
  }
}

void Program::has_stepped() {
  for (const Used& used : leaves_)
    if (used.is_changed) used.leaf->is_in(shared_from_this(), true);
}

const std::vector<Tensor>& Program::captured_beside(const std::vector<Tensor>& batch) const {
  if (captured_.size() == 1) return captured_.front();
  std::map<std::string, Tensor> shaped;
  for (std::size_t i = 0; i < std::min(batch.size(), given()); ++i) shaped[inputs_[i]] = batch[i];
  return captured_[step().size_of(shaped)];
}

std::map<std::string, Tensor> Program::named(const std::vector<ArrayPtr>& batch) const {
  if (batch.size() != given())
    throw error("the step takes {} tensors but {} were given", given(), batch.size());
  std::vector<Tensor> tensors;
  for (const ArrayPtr& a : batch) tensors.push_back(as_input(tensors.size(), lent(a->elements())));
  for (const Tensor& t : captured_beside(tensors)) tensors.push_back(t);
  std::map<std::string, Tensor> out;
  for (std::size_t i = 0; i < tensors.size(); ++i) out[inputs_[i]] = std::move(tensors[i]);
  return out;
}

std::vector<Tensor> Program::step_of_loop(const std::map<std::string, Tensor>& batch) {
  {
    const py::gil_scoped_acquire gil;
    begin();
  }
  std::vector<Tensor> outputs = step().run(batch);
  const py::gil_scoped_acquire gil;
  has_stepped();
  return outputs;
}

std::vector<ArrayPtr> Program::finish(std::vector<Tensor> outputs) {
  has_stepped();
  std::vector<ArrayPtr> out;
  for (Tensor& t : outputs) out.push_back(std::make_shared<Array>(std::move(t)));
  return out;
}

Tensor Program::value_of(const std::string& name) const {
  running();
  enter(fmt::format("gathers '{}' of", name));
  return step().session().get(name);
}

std::map<std::string, LeafPtr> Program::leaves() const {
  std::map<std::string, LeafPtr> out;
  for (const Used& used : leaves_) out[used.leaf->name()] = used.leaf;
  return out;
}

std::optional<Box> Program::box_of(const std::string& name, std::optional<int> rank) const {
  const Session& session = step().session();
  const KeptValues& kept = session.kept();
  const Kept& value = kept.named(name);
  const Box whole = whole_box(kept.type_of(value).shape);
  const std::vector<int> ranks = session.ranks();
  if (!rank) {
    if (static_cast<int>(ranks.size()) == session.pipeline().rank_count()) return whole;
    rank = ranks.front();
  }
  const auto [stage, v] = kept.place_of(value);
  const Placement place = placement_of(session.pipeline(), stage, v);
  if (!place.has(*rank)) return std::nullopt;
  return place.box_on(*rank, whole.extent);
}

std::optional<TensorPart> Program::own(const std::string& name, std::optional<int> rank) const {
  const std::optional<Box> where = box_of(name, rank);
  if (!where) return std::nullopt;
  return TensorPart{*where, step().session().get_own(name, *where)};
}

void Program::set_own(const std::string& name, const Tensor& part, std::optional<int> rank) {
  running();
  hand_over();  // of which each process may have set what it alone needs
  if (const std::optional<Box> where = box_of(name, rank)) step().session().set(name, *where, part);
  for (const Used& used : leaves_)
    if (used.leaf->name() == name) used.leaf->is_in(shared_from_this(), true);
}

void Program::take_weights(Program& trained) {
  running();
  trained.running();
  enter("takes weights for");
  trained.refresh();
  shardwright::take_weights(step().session(), trained.step().session());
  has_loaded();
}

void Program::set_rate(double rate, const std::string& name) {
  const auto is_it = [&](const Kept& value) { return value.name == name; };
  // Of a group of parameters of which none is trained here.
  if (name != rate_state && std::ranges::none_of(step().session().kept().all(), is_it)) return;
  if (!step().session().has_stopped()) shardwright::set_rate(step().session(), rate, name);
  rates_[name] = rate;
}

namespace {

/// Of another size of batches: trace, outputs, retrace.
using OtherTrace = std::tuple<std::shared_ptr<Tracing>, std::vector<ArrayPtr>, py::object>;

}  // namespace

void bind_program(py::module_& m) {
  py::class_<Store, std::shared_ptr<Store>>(m, "Store", "Parameters and states by name.")
      .def(py::init<>())
      .def("items", [](const Store& s) { return s.leaves; })
      .def("__setitem__",
           [](Store& s, const std::string& name, LeafPtr leaf) { s.leaves[name] = std::move(leaf); });

  py::class_<Program, std::shared_ptr<Program>>(m, "Program",
                                                "A traced function, planned and running on devices.")
      .def(py::init([](const std::shared_ptr<Tracing>& trace, const std::vector<ArrayPtr>& outputs,
                       const PlanOptions& options, std::shared_ptr<Store> store,
                       const std::optional<std::string>& optimizer, const py::dict& settings,
                       double clip_norm, bool has_set_rate, const std::vector<int>& ranks,
                       const py::object& retrace, const std::vector<OtherTrace>& others) {
             const auto asked = [&](const OtherTrace& traced) {
               const auto& [tracing, results, again] = traced;
               return asked_of(
                   traced_step(tracing, results, optimizer, settings, clip_norm, has_set_rate, again),
                   options);
             };
             std::vector<Asked> smaller;
             for (const OtherTrace& other : others) smaller.push_back(asked(other));
             auto out = std::make_shared<Program>(asked({trace, outputs, retrace}), std::move(store), ranks,
                                                  std::move(smaller));
             remember(out);
             return out;
           }),
           py::arg("trace"), py::arg("outputs"), py::arg("options"), py::arg("store") = nullptr,
           py::arg("optimizer") = std::nullopt, py::arg("settings") = py::dict(), py::arg("clip_norm") = 0.0,
           py::arg("has_set_rate") = false, py::arg("ranks") = std::vector<int>{},
           py::arg("retrace") = py::none(), py::arg("others") = std::vector<OtherTrace>{})
      .def(py::init([](const std::string& model, const std::string& optimizer, const py::dict& settings,
                       double clip_norm, const PlanOptions& options, std::shared_ptr<Store> store) {
             const OptimizerChoice choice{.name = optimizer,
                                          .attributes = attributes_of(settings),
                                          .clip_norm = clip_norm,
                                          .has_set_rate = true};
             Asked asked = asked_of(model, choice, options);
             tell_assumed(asked);
             auto out = std::make_shared<Program>(std::move(asked), std::move(store));
             remember(out);
             out->has_loaded();  // it alone knows what its parameters start with
             return out;
           }),
           py::arg("model"), py::arg("optimizer"), py::arg("settings"), py::arg("clip_norm"),
           py::arg("options"), py::arg("store"))
      .def_static(
          "of_inference",
          [](const std::string& model, bool has_loss, const PlanOptions& options,
             std::shared_ptr<Store> store) {
            Asked asked = inference_asked(model, has_loss, options);
            tell_assumed(asked);
            auto out = std::make_shared<Program>(std::move(asked), std::move(store));
            remember(out);
            out->has_loaded();
            return out;
          },
          py::arg("model"), py::arg("has_loss"), py::arg("options"), py::arg("store"),
          "A named model that is only asked: its prediction, and before it the loss if that is wanted.")
      .def("take_weights", &Program::take_weights, py::arg("trained"),
           "Those that another program has now; all processes call it.")
      .def("run", &Program::run)
      .def("refresh", &Program::hand_over,
           "Brings what other programs have changed here; all processes call it.")
      .def("run_local", &Program::run_local, py::arg("parts"), py::arg("cuts") = std::vector<Shape>{})
      .def(
          "own",
          [](const Program& self, const std::string& name, std::optional<int> rank) -> py::object {
            auto part = self.own(name, rank);
            if (!part) return py::none();
            return py::make_tuple(std::make_shared<Array>(std::move(part->tensor)), part->where.offset);
          },
          py::arg("name"), py::arg("rank") = std::nullopt,
          "What this process (or a rank of it) has of a kept value, and where that begins, without asking "
          "others; None "
          "if it lies elsewhere.")
      .def(
          "set_own",
          [](Program& self, const std::string& name, const ArrayPtr& part, std::optional<int> rank) {
            self.set_own(name, *part->elements(), rank);
          },
          py::arg("name"), py::arg("part"), py::arg("rank") = std::nullopt,
          "Sets that; all processes call it. It changes nothing where the value lies elsewhere.")
      .def_property_readonly("leaves", &Program::leaves, "The parameters and states that it keeps, by name.")
      .def("layouts", &layouts_of, "Of what it keeps, by name: on which ranks which part of it lies.")
      .def("operators", &operators_of, "Of its forward operators, by name: how their inputs lie.")
      .def_property_readonly("inputs", &Program::inputs)
      .def("input_type",
           [](Program& self, const std::string& name) {
             const Graph& graph = self.step().graph();
             const Type& type = graph.value(graph.find(name)).type;
             return py::make_tuple(numpy_name(type.dtype), type.shape);
           })
      .def("set_rate", &Program::set_rate, py::arg("rate"), py::arg("name") = rate_state)
      .def_property_readonly("planned", [](Program& self) { return self.step().planned(); })
      .def("graph_text", [](Program& self) { return to_text(self.step().graph()); })
      .def(
          "lower_text",
          [](Program& self, int stage) { return to_text(self.step().session().pipeline().stage(stage)); },
          py::arg("stage") = 0);

  m.def("set_seed", &Program::set_seed);
  m.def("seed", &Program::seed);
}

}  // namespace shardwright::python
