#include "shardwright/runtime/session.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <optional>
#include <system_error>
#include <thread>

#include "shardwright/base/text.h"
#include "shardwright/layout/transfer.h"
#include "shardwright/lower/traffic.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/communicator/wait.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/gather.h"
#include "shardwright/runtime/initial.h"
#include "shardwright/runtime/whole.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Among ranks that hold the same part of a value, the one that gives it.
bool gives(const Program& program, ValueId v, int rank) {
  const Value& value = program.graph.value(v);
  const Layout layout = layout_of(value);
  const Mesh& mesh = program.graph.meshes[at(layout.mesh)];
  return mesh.index_along(rank, mesh.all_axes().without(layout.used())) == 0;
}

/// Lets `fill` write a tensor row-major, wherever that is, and brings it to `view`, which lies in `format`.
template <class F>
void fill_row_major(const TensorView& view, const Format& format, F fill) {
  if (format.is_row_major()) return fill(view);
  Tensor copy({view.dtype, view.shape});
  fill(copy.view());
  reformat(copy.bytes().data(), {}, view.data, format, view.shape, size_of(view.dtype));
}

/// A value's way between the whole tensor (of one micro-batch) and one rank's arena.
struct Way {
  Piece in;
  Piece out;
  Format format;
  bool gives = false;

  void take(const std::byte* whole, const TensorView& local) const {
    fill_row_major(local, format,
                   [&](const TensorView& view) { copy_piece(in, whole, view.data, size_of(view.dtype)); });
  }
  void give(const TensorView& local, std::byte* whole) const {
    if (!gives) return;
    const std::size_t element_bytes = size_of(local.dtype);
    if (format.is_row_major()) return copy_piece(out, local.data, whole, element_bytes);
    copy_piece(out, row_major(local).bytes().data(), whole, element_bytes);
  }
  Tensor row_major(const TensorView& local) const {
    Tensor copy({local.dtype, local.shape});
    reformat(local.data, format, copy.bytes().data(), {}, local.shape, size_of(local.dtype));
    return copy;
  }
};

Way way_of(const Pipeline& pipeline, const Executor& executor, int stage, ValueId v) {
  const Program& program = pipeline.stage(stage);
  const Shape whole = program.graph.value(v).global_type().shape;
  return {.in = from_whole(whole, executor.box(stage, v)),
          .out = to_whole(whole, executor.box(stage, v)),
          .format = program.graph.value(v).format,
          .gives = gives(program, v, executor.step().rank - pipeline.first_rank(stage))};
}

/// A value of a stage, and the tensor outside that it is a part of.
struct Port {
  int stage = 0;
  ValueId value;
  std::size_t outside = 0;  // among the inputs' names, or the outputs
  Way way;
  double sum = 0;                 // of a scalar output: over the micro-batches
  std::vector<Tensor> kept = {};  // of another output, if other processes have parts too: by micro-batch
};

/// What one thread owns. Destroyed only when all threads have ended, because peers read its arena.
struct Rank {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;
  std::vector<Port> inputs;
  std::vector<Port> outputs;
  Recorder recorder;
  std::int64_t first_recorded = 0;  // when all ranks were about to begin the first recorded step
};

/// A parameter or state, in the stages that have it.
struct Kept {
  std::string name;
  std::vector<std::pair<int, ValueId>> places;
};

struct Failure {
  std::string message;
  ErrorKind kind = ErrorKind::user;
  bool is_ours = false;  // an InternalError
};

/// Who runs the ranks: a thread each; or the caller runs the only rank here, and others are elsewhere.
enum class Driver { threads, caller };

}  // namespace

struct Session::State {
  Pipeline pipeline;
  Driver driver;
  SessionOptions options;
  SessionStatistics statistics;
  std::vector<std::pair<std::string, Type>> inputs;  // types of one micro-batch
  std::vector<Kept> kept;
  std::vector<Rank> ranks;         // those in this process
  std::optional<Gather> gather;    // if the caller drives
  std::optional<Reduced> largest;  // likewise: the largest of a number of each rank

  // A round is the preparation, then each step. Who raises `round` owns the tensors below until `done`
  // follows.
  std::vector<const Tensor*> batch;
  std::vector<Tensor> outputs;
  bool is_recording = false;
  int steps = 0;  // that have begun before
  Awaited round;
  std::atomic<std::uint32_t> busy{0};  // ranks that have not finished the round
  Awaited done;                        // rounds finished

  mutable std::mutex mutex;  // guards failure
  std::optional<Failure> failure;
  std::vector<std::jthread> threads;  // last: they use all of the above

  State(Pipeline p, std::vector<std::unique_ptr<Communicator>> communicators, Driver d, SessionOptions o);
  ~State();
  void stop_threads();
  void find_leaves();
  void drive(int index, const std::stop_token& stop);
  void prepare(int index);
  void run(int index);
  void run_step(Rank& self);
  void guarded(int index, void (State::*work)(int));
  void record(int index, Failure f);
  void prepare_stage(Rank& self, int stage);
  std::int64_t largest_value() const;
  bool is_wanted(std::size_t output) const {
    return !options.only_scalars || pipeline.output_type(pipeline.outputs[output]).shape.empty();
  }
  void take_inputs(Rank& self, int stage, int micro_batch);
  void give_outputs(Rank& self, int stage, int micro_batch);
  void give(Rank& self, Port& port, int micro_batch);
  void gather_outputs(Rank& self);
  void collect_statistics();
  void take_largest_statistics();
  const Kept& kept_value(std::string_view name) const;
  /// The value in full precision of a parameter that is read in a shorter one; nullptr of all others.
  const Kept* master_of(const Kept& value) const;
  /// The parameter that `master` is one of; `master` itself if it is none.
  const Kept& parameter_of(const Kept& master) const;
  const Attributes& attributes_of(const Kept& value) const;
  /// As users know it: a parameter that is read in a shorter type has that of its master.
  Type type_of(const Kept& value) const;
  void set(const Kept& value, const Tensor& whole);
  void throw_failure();
  void check_usable() const;
  void bind(const std::map<std::string, Tensor>& batch);
};

Session::State::State(Pipeline p, std::vector<std::unique_ptr<Communicator>> communicators, Driver d,
                      SessionOptions o)
    : pipeline(std::move(p)), driver(d), options(o) {
  find_leaves();
  ranks.resize(communicators.size());
  for (std::size_t i = 0; i < ranks.size(); ++i) ranks[i].communicator = std::move(communicators[i]);
  if (driver == Driver::caller) {
    guarded(0, &State::prepare);
    return;
  }
  busy = static_cast<std::uint32_t>(ranks.size());
  try {
    for (int i = 0; i < static_cast<int>(ranks.size()); ++i)
      threads.emplace_back([this, i](const std::stop_token& stop) { drive(i, stop); });
  } catch (const std::system_error& e) {
    stop_threads();  // those that run would be waited for
    throw io_error("only {} of {} devices could be started ({}); use fewer", threads.size(), ranks.size(),
                   e.what());
  }
  done.wait_while(0);
}

Session::State::~State() { stop_threads(); }

void Session::State::stop_threads() {
  for (std::jthread& t : threads) t.request_stop();
  round.add(1);
}

void Session::State::find_leaves() {
  const auto add = [](auto& list, auto one) {
    const auto same = [&](const auto& other) { return std::get<0>(other) == std::get<0>(one); };
    if (std::none_of(list.begin(), list.end(), same)) list.push_back(std::move(one));
  };
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Graph& graph = pipeline.stage(s).graph;
    for (const Node& node : graph.nodes) {
      const ValueId v = node.results[0];
      const Value& value = graph.value(v);
      if (node.op->kind == OpKind::input) add(inputs, std::pair{value.name, value.global_type()});
      if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
      const auto same =
          std::find_if(kept.begin(), kept.end(), [&](const Kept& k) { return k.name == value.name; });
      if (same == kept.end())
        kept.push_back({value.name, {{s, v}}});
      else
        same->places.emplace_back(s, v);
    }
  }
  for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
    const Type type = pipeline.output_type(pipeline.outputs[o]);
    outputs.emplace_back(is_wanted(o) ? type : Type{type.dtype, {0}});
  }
}

/// The life of one rank's thread.
void Session::State::drive(int index, const std::stop_token& stop) {
  for (std::uint32_t number = 0;; ++number) {
    guarded(index, number == 0 ? &State::prepare : &State::run);
    if (busy.fetch_sub(1, std::memory_order_acq_rel) == 1) done.add(1);
    round.wait_while(number);
    if (stop.stop_requested()) return;
  }
}

void Session::State::prepare(int index) {
  Rank& self = ranks[at(index)];
  self.backend = cpu_backend();
  self.backend->enter_thread();
  self.executor = std::make_unique<Executor>(
      pipeline, *self.backend, *self.communicator,
      Ports{.fill = [this, &self](int stage, int micro_batch) { take_inputs(self, stage, micro_batch); },
            .hand_out = [this, &self](int stage, int m) { give_outputs(self, stage, m); }});
  self.executor->stop_when(options.stop);
  for (int stage : pipeline.stages_of(self.communicator->rank())) prepare_stage(self, stage);
}

void Session::State::prepare_stage(Rank& self, int stage) {
  const Graph& graph = pipeline.stage(stage).graph;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const ValueId v = node.results[0];
    const auto name = std::find_if(inputs.begin(), inputs.end(),
                                   [&](const auto& input) { return input.first == graph.value(v).name; });
    self.inputs.push_back({stage, v, static_cast<std::size_t>(name - inputs.begin()),
                           way_of(pipeline, *self.executor, stage, v)});
  }
  for (std::size_t o = 0; o < pipeline.outputs.size(); ++o) {
    if (pipeline.outputs[o].stage != stage || !is_wanted(o)) continue;
    const ValueId v = graph.outputs[at(pipeline.outputs[o].index)];
    self.outputs.push_back({stage, v, o, way_of(pipeline, *self.executor, stage, v)});
  }
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
    const ValueId v = node.results[0];
    const Value& value = graph.value(v);
    const Shape whole = value.global_type().shape;
    fill_row_major(self.executor->view(stage, v), value.format, [&](const TensorView& view) {
      initialize(view, self.executor->box(stage, v), {value.name, node.attributes, whole}, options.seed);
    });
  }
}

void Session::State::run(int index) {
  Rank& self = ranks[at(index)];
  self.executor->record(is_recording ? &self.recorder : nullptr);
  if (!is_recording) return run_step(self);
  // Where clocks differ, all are set by this moment.
  if (self.recorder.events().empty()) {
    self.communicator->barrier();
    self.first_recorded = Recorder::now();
  }
  self.recorder.time({.instruction = {.what = steps}, .activity = Activity::step}, [&] { run_step(self); });
}

void Session::State::run_step(Rank& self) {
  self.executor->run();
  if (driver == Driver::threads) return;
  if (!is_recording) return gather_outputs(self);
  self.recorder.time(
      {.instruction = {.act = Act::hand_out}, .activity = Activity::instruction, .phase = Phase::update},
      [&] { gather_outputs(self); });
}

void Session::State::take_inputs(Rank& self, int stage, int micro_batch) {
  for (const Port& input : self.inputs) {
    if (input.stage != stage) continue;
    const Tensor& whole = *batch[input.outside];
    const bool is_cut = whole.type() != inputs[input.outside].second;
    const std::int64_t bytes = inputs[input.outside].second.bytes();
    input.way.take(whole.bytes().data() + (is_cut ? micro_batch * bytes : 0),
                   self.executor->view(stage, input.value, micro_batch));
  }
}

void Session::State::give_outputs(Rank& self, int stage, int micro_batch) {
  for (Port& port : self.outputs)
    if (port.stage == stage) give(self, port, micro_batch);
}

void Session::State::give(Rank& self, Port& port, int micro_batch) {
  TensorView view = self.executor->view(port.stage, port.value, micro_batch);
  Tensor& whole = outputs[port.outside];
  const int count = pipeline.micro_batches();
  Tensor mean;  // not in the value's place: a backward may read that
  if (whole.shape().empty() && count > 1) {
    if (micro_batch == 0) port.sum = 0;
    port.sum += to_doubles(port.way.row_major(view)).front();
    if (micro_batch + 1 < count) return;
    mean = make_tensor(whole.type(), std::array{port.sum / count});
    view = mean.view();
  }
  if (driver == Driver::caller) {
    port.kept.resize(static_cast<std::size_t>(whole.shape().empty() ? 1 : count));
    port.kept[static_cast<std::size_t>(whole.shape().empty() ? 0 : micro_batch)] = port.way.row_major(view);
    return;
  }
  const auto bytes = static_cast<std::int64_t>(whole.bytes().size()) / (whole.shape().empty() ? 1 : count);
  port.way.give(view, whole.bytes().data() + (whole.shape().empty() ? 0 : micro_batch * bytes));
}

/// Brings the whole outputs here, parts of which are in other processes. All processes do so.
void Session::State::gather_outputs(Rank& self) {
  for (std::size_t o = 0; o < outputs.size(); ++o) {
    if (!is_wanted(o)) continue;
    const auto [stage, index] = pipeline.outputs[o];
    const ValueId v = pipeline.stage(stage).graph.outputs[at(index)];
    const auto port =
        std::find_if(self.outputs.begin(), self.outputs.end(), [&](const Port& p) { return p.outside == o; });
    const int count = outputs[o].shape().empty() ? 1 : pipeline.micro_batches();
    const std::size_t bytes = outputs[o].bytes().size() / static_cast<std::size_t>(count);
    for (std::size_t m = 0; m < static_cast<std::size_t>(count); ++m)
      (*gather)(stage, v, port == self.outputs.end() ? nullptr : port->kept[m].bytes().data(),
                outputs[o].bytes().data() + m * bytes);
  }
}

std::int64_t Session::State::largest_value() const {
  std::int64_t bytes = 1;
  for (const Tensor& t : outputs) bytes = std::max(bytes, t.type().bytes());
  for (const Kept& k : kept) {
    const auto [stage, v] = k.places.front();
    bytes = std::max(bytes, pipeline.stage(stage).graph.value(v).global_type().bytes());
  }
  return bytes;
}

/// Nothing may escape: what goes wrong is told to the peers and kept for the caller.
void Session::State::guarded(int index, void (State::*work)(int)) {
  try {
    (this->*work)(index);
  } catch (const Error& e) {
    record(index, {e.what(), e.kind()});
  } catch (const std::bad_alloc&) {
    record(index, {"out of memory", ErrorKind::memory});
  } catch (const std::exception& e) {
    record(index, {e.what(), ErrorKind::user, true});
  }
}

void Session::State::record(int index, Failure f) {
  // The first is the cause; what follows are peers that were told of it.
  Communicator& communicator = *ranks[at(index)].communicator;
  const int rank = communicator.rank();
  const bool is_first = communicator.fail(f.message);
  const std::lock_guard lock(mutex);
  if (!is_first) f.kind = ErrorKind::peer;
  if (is_first || !failure)
    failure = Failure{fmt::format("rank {}: {}", rank, f.message), f.kind, is_first && f.is_ours};
}

void Session::State::collect_statistics() {
  for (const Rank& rank : ranks) {
    statistics.arena_bytes =
        std::max(statistics.arena_bytes, static_cast<std::int64_t>(rank.executor->arena().size()));
    const Traffic traffic = traffic_of(rank.executor->step());
    statistics.bytes_communicated_per_step = std::max(statistics.bytes_communicated_per_step, traffic.bytes);
    for (const auto& [kind, count] : traffic.collectives) {
      int& most = statistics.collectives_per_step[std::string(kind)];
      most = std::max(most, count);
    }
  }
}

/// Of all ranks, by an all_reduce.
void Session::State::take_largest_statistics() {
  constexpr std::array<std::string_view, 8> kinds{"all_gather", "all_to_all", "reduce_scatter", "all_reduce",
                                                  "permute",    "exchange",   "send",           "receive"};
  std::vector<std::int64_t> most{statistics.bytes_communicated_per_step, statistics.arena_bytes};
  for (std::string_view kind : kinds) {
    const auto it = statistics.collectives_per_step.find(std::string(kind));
    most.push_back(it == statistics.collectives_per_step.end() ? 0 : it->second);
  }
  most = reduced(*ranks.front().communicator, *ranks.front().backend, most, Reduction::max);
  statistics.bytes_communicated_per_step = most[0];
  statistics.arena_bytes = most[1];
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (most[k + 2] > 0)
      statistics.collectives_per_step[std::string(kinds[k])] = static_cast<int>(most[k + 2]);
}

const Kept& Session::State::kept_value(std::string_view name) const {
  std::vector<std::string> known;
  for (const Kept& k : kept) {
    if (k.name == name) return k;
    known.push_back(k.name);
  }
  throw error("there is no parameter or state '{}'{}", name, near_names(name, known));
}

const Attributes& Session::State::attributes_of(const Kept& value) const {
  const auto [stage, v] = value.places.front();
  const Graph& graph = pipeline.stage(stage).graph;
  return graph.node(graph.value(v).producer).attributes;
}

const Kept* Session::State::master_of(const Kept& value) const {
  if (attributes_of(value).text("master", "").empty()) return nullptr;
  const std::string name = fmt::format("{}.{}", value.name, master_state);
  const auto it = std::ranges::find_if(kept, [&](const Kept& k) { return k.name == name; });
  return it == kept.end() ? nullptr : &*it;
}

const Kept& Session::State::parameter_of(const Kept& master) const {
  const std::string suffix = fmt::format(".{}", master_state);
  if (!master.name.ends_with(suffix)) return master;
  const auto name = std::string_view(master.name).substr(0, master.name.size() - suffix.size());
  const auto it = std::ranges::find_if(kept, [&](const Kept& k) { return k.name == name; });
  return it != kept.end() && master_of(*it) == &master ? *it : master;
}

Type Session::State::type_of(const Kept& value) const {
  const auto [stage, v] = value.places.front();
  Type type = pipeline.stage(stage).graph.value(v).global_type();
  type.dtype = dtype_of(attributes_of(value).text("master", "")).value_or(type.dtype);
  return type;
}

void Session::State::set(const Kept& value, const Tensor& whole) {
  for (const auto& [stage, v] : value.places) {
    const DType dtype = pipeline.stage(stage).graph.value(v).type.dtype;
    const Tensor other = dtype == whole.dtype() ? Tensor() : convert(whole, dtype);
    const Tensor& own = dtype == whole.dtype() ? whole : other;
    for (const Rank& r : ranks)
      if (pipeline.has(stage, r.communicator->rank()))
        way_of(pipeline, *r.executor, stage, v).take(own.bytes().data(), r.executor->view(stage, v));
  }
}

void Session::State::throw_failure() {
  const std::lock_guard lock(mutex);
  if (!failure) return;
  if (failure->is_ours) throw InternalError(failure->message);
  throw Error(failure->message, failure->kind);
}

void Session::State::check_usable() const {
  const std::lock_guard lock(mutex);
  if (failure) throw Error(fmt::format("the session has stopped; {}", failure->message), failure->kind);
}

void Session::State::bind(const std::map<std::string, Tensor>& tensors) {
  std::vector<std::string> known;
  batch.clear();
  for (const auto& [name, type] : inputs) {
    known.push_back(name);
    const auto it = tensors.find(name);
    if (it == tensors.end()) throw error("input '{}' is missing from the batch", name);
    Type whole = type;
    if (!whole.shape.empty()) whole.shape[0] *= pipeline.micro_batches();
    if (it->second.type() != whole && it->second.type() != type)
      throw error("input '{}' is {} but the batch has {}", name, to_text(whole), to_text(it->second.type()));
    batch.push_back(&it->second);
  }
  if (tensors.size() == inputs.size()) return;
  for (const auto& [name, tensor] : tensors)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw error("there is no input '{}'{}", name, near_names(name, known));
}

std::size_t most_transfers(const Pipeline& pipeline) {
  constexpr std::size_t statistics = 100;  // a few, by all ranks
  std::size_t gathered = pipeline.outputs.size();
  std::vector<std::size_t> prepared(at(pipeline.group_count()));
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Program& program = pipeline.stage(s);
    std::size_t steps = 0, flows = 0;
    for (const Node& node : program.graph.nodes) {
      steps += node.op->kind == OpKind::step;
      gathered += node.op->kind == OpKind::parameter || node.op->kind == OpKind::state;
    }
    for (const PlacedCrossing& c : pipeline.crossings) flows += c.from == s || c.to == s;
    prepared[at(s % pipeline.group_count())] +=
        steps * at(program.slots) + flows * at(pipeline.micro_batches());
  }
  return *std::max_element(prepared.begin(), prepared.end()) + gathered + statistics;
}

Session::Session(Pipeline pipeline, SessionOptions options) {
  auto communicators = thread_communicators(pipeline.rank_count());
  state_ = std::make_unique<State>(std::move(pipeline), std::move(communicators), Driver::threads, options);
  state_->throw_failure();
  state_->collect_statistics();
}
Session::Session(Pipeline pipeline, std::unique_ptr<Communicator> communicator, SessionOptions options) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(std::move(communicator));
  state_ = std::make_unique<State>(std::move(pipeline), std::move(communicators), Driver::caller, options);
  state_->throw_failure();
  state_->collect_statistics();
  state_->take_largest_statistics();
  Rank& self = state_->ranks.front();
  state_->gather.emplace(state_->pipeline, *self.communicator, *self.backend, state_->largest_value());
  state_->largest.emplace(*self.communicator, *self.backend, 1, Reduction::max);
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Pipeline& Session::pipeline() const { return state_->pipeline; }
const Program& Session::program() const { return state_->pipeline.stages.front(); }
const SessionStatistics& Session::statistics() const { return state_->statistics; }

void Session::set(std::string_view name, const Tensor& whole) {
  State& s = *state_;
  s.check_usable();
  const Kept& value = s.parameter_of(s.kept_value(name));
  if (const Type type = s.type_of(value); whole.type() != type)
    throw error("'{}' is {} but is set to {}", value.name, to_text(type), to_text(whole.type()));
  if (const Kept* const master = s.master_of(value)) s.set(*master, whole);
  s.set(value, whole);
}

Tensor Session::get(std::string_view name) const {
  State& s = *state_;
  s.check_usable();
  const Kept& value = s.kept_value(name);
  const Kept* const master = s.master_of(value);
  const auto [stage, v] = (master ? *master : value).places.front();
  Tensor whole(s.pipeline.stage(stage).graph.value(v).global_type());
  for (const Rank& r : s.ranks) {
    const bool has = s.pipeline.has(stage, r.communicator->rank());
    const Way way = has ? way_of(s.pipeline, *r.executor, stage, v) : Way{};
    if (s.driver == Driver::threads && has) way.give(r.executor->view(stage, v), whole.bytes().data());
    if (s.driver == Driver::threads) continue;
    const Tensor own = has ? way.row_major(r.executor->view(stage, v)) : Tensor();
    (*s.gather)(stage, v, has ? own.bytes().data() : nullptr, whole.bytes().data());
  }
  const DType dtype = s.type_of(value).dtype;
  return dtype == whole.dtype() ? whole : convert(whole, dtype);
}

bool Session::any(bool own) {
  State& s = *state_;
  s.check_usable();
  if (s.driver == Driver::threads) return own;
  const std::array<std::int64_t, 1> number{own};
  return (*s.largest)(number).front() != 0;
}

void Session::record(bool is_on) { state_->is_recording = is_on; }

StepTrace Session::trace() const {
  const State& s = *state_;
  s.check_usable();
  StepTrace out;
  if (s.driver == Driver::threads) {
    for (const Rank& r : s.ranks) out.ranks.push_back(r.recorder.events());
    return out;
  }
  const Rank& self = s.ranks.front();
  std::vector<std::int64_t> own = packed(self.recorder.events());
  own.insert(own.begin(), {clock_name(), self.first_recorded});
  const auto all = gathered(*self.communicator, *self.backend, own);
  for (const auto& numbers : all) {
    out.ranks.push_back(unpacked(std::span(numbers).subspan(2)));
    if (numbers[0] == all[0][0]) continue;  // the clock of rank 0
    for (TraceEvent& e : out.ranks.back()) {
      e.begin += all[0][1] - numbers[1];
      e.end += all[0][1] - numbers[1];
    }
  }
  return out;
}

MemoryMarks Session::memory_marks() const {
  const State& s = *state_;
  s.check_usable();
  MemoryMarks out;
  for (int r = 0; r < s.pipeline.rank_count(); ++r) out.planned.push_back(s.pipeline.arena_bytes(r));
  const auto measured = [](const Rank& rank) {
    const auto arena = rank.executor->arena();
    return resident_bytes(arena.data(), static_cast<std::int64_t>(arena.size()));
  };
  if (s.driver == Driver::threads) {
    for (const Rank& r : s.ranks) out.measured.push_back(measured(r));
    out.processes.push_back(most_bytes_of_process());
    return out;
  }
  const Rank& self = s.ranks.front();
  const std::array<std::int64_t, 2> own{measured(self), most_bytes_of_process()};
  for (const auto& numbers : gathered(*self.communicator, *self.backend, own)) {
    out.measured.push_back(numbers[0]);
    out.processes.push_back(numbers[1]);
  }
  return out;
}

std::vector<Tensor> Session::step(const std::map<std::string, Tensor>& batch) {
  State& s = *state_;
  s.check_usable();
  s.bind(batch);
  if (s.driver == Driver::caller) {
    s.guarded(0, &State::run);
    ++s.steps;
    s.throw_failure();
    return s.outputs;
  }
  s.busy.store(static_cast<std::uint32_t>(s.ranks.size()), std::memory_order_relaxed);
  const std::uint32_t number = s.done.load();
  s.round.add(1);
  s.done.wait_while(number);
  ++s.steps;
  s.throw_failure();
  return s.outputs;
}

}  // namespace shardwright
