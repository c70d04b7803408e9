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
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/communicator/wait.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/initial.h"
#include "shardwright/runtime/whole.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

/// Among ranks that hold the same part of a value, the one that gives it.
bool gives(const Program& program, ValueId v, int rank) {
  const Value& value = program.graph.value(v);
  const Layout layout = value.layout.value_or(replicated(value.type.shape.size()));
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

/// A value's way between the whole tensor and one rank's arena.
struct Part {
  Piece in;
  Piece out;
  TensorView local;
  Format format;
  bool gives = false;

  void take(const Tensor& whole) const {
    fill_row_major(local, format, [&](const TensorView& view) {
      copy_piece(in, whole.bytes().data(), view.data, size_of(view.dtype));
    });
  }
  void give(Tensor& whole) const {
    if (!gives) return;
    const std::size_t element_bytes = size_of(local.dtype);
    Tensor copy;
    if (!format.is_row_major()) {
      copy = Tensor({local.dtype, local.shape});
      reformat(local.data, format, copy.bytes().data(), {}, local.shape, element_bytes);
    }
    copy_piece(out, format.is_row_major() ? local.data : copy.bytes().data(), whole.bytes().data(),
               element_bytes);
  }
};

Part part_of(const Program& program, const Executor& executor, ValueId v, int rank) {
  const Shape whole = program.graph.value(v).global_type().shape;
  const TensorView& view = executor.view(v);
  return {.in = from_whole(whole, executor.box(v)),
          .out = to_whole(whole, executor.box(v)),
          .local = view,
          .format = program.graph.value(v).format,
          .gives = gives(program, v, rank)};
}

/// What one thread owns. Destroyed only when all threads have ended, because peers read its arena.
struct Rank {
  std::unique_ptr<Communicator> communicator;
  std::unique_ptr<Backend> backend;
  std::unique_ptr<Executor> executor;
  std::vector<Part> inputs;   // in the order of State::inputs
  std::vector<Part> outputs;  // in the order of the graph's outputs
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
  Program program;
  Driver driver;
  SessionOptions options;
  SessionStatistics statistics;
  std::vector<ValueId> inputs;
  std::vector<ValueId> kept;  // parameters and states
  std::vector<Rank> ranks;    // those in this process

  // If the caller drives: transfers that bring whole values here, by value, and room for the largest; and for the
  // row-major copy of a part that lies in another format.
  std::map<int, int> gathers;
  Memory room;
  Memory row_major;

  // A round is the preparation, then each step. Who raises `round` owns the tensors below until `done`
  // follows.
  std::vector<const Tensor*> batch;
  std::vector<Tensor> outputs;
  Awaited round;
  std::atomic<std::uint32_t> busy{0};  // ranks that have not finished the round
  Awaited done;                        // rounds finished

  std::mutex mutex;  // guards failure
  std::optional<Failure> failure;
  std::vector<std::jthread> threads;  // last: they use all of the above

  State(Program p, std::vector<std::unique_ptr<Communicator>> communicators, Driver d, SessionOptions o);
  ~State();
  void stop_threads();
  void find_leaves();
  void drive(int index, const std::stop_token& stop);
  void prepare(int index);
  void run(int index);
  void guarded(int index, void (State::*work)(int));
  void record(int index, Failure f);
  std::int64_t largest_gather() const;
  void gather(ValueId v, Tensor& whole);
  void collect_statistics();
  void take_largest_statistics();
  ValueId kept_value(std::string_view name) const;
  void throw_failure();
  void check_usable();
  void bind(const std::map<std::string, Tensor>& batch);
};

Session::State::State(Program p, std::vector<std::unique_ptr<Communicator>> communicators, Driver d,
                      SessionOptions o)
    : program(std::move(p)), driver(d), options(o) {
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
  const Graph& graph = program.graph;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::input) inputs.push_back(node.results[0]);
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) kept.push_back(node.results[0]);
  }
  std::vector<ValueId> outside = graph.outputs;
  outside.insert(outside.end(), inputs.begin(), inputs.end());
  outside.insert(outside.end(), kept.begin(), kept.end());
  for (ValueId v : outside)
    require(!graph.value(v).layout || !graph.value(v).layout->is_partial(),
            "%{} is partial, but leaves and outputs of a program are not", graph.value(v).name);
  for (ValueId v : graph.outputs) outputs.emplace_back(graph.value(v).global_type());
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
  const Graph& graph = program.graph;
  const int rank = self.communicator->rank();
  self.backend = cpu_backend();
  self.backend->enter_thread();
  self.executor = std::make_unique<Executor>(program, *self.backend, *self.communicator);
  for (ValueId v : inputs) self.inputs.push_back(part_of(program, *self.executor, v, rank));
  for (ValueId v : graph.outputs) self.outputs.push_back(part_of(program, *self.executor, v, rank));
  for (ValueId v : kept) {
    const Value& value = graph.value(v);
    const Shape whole = value.global_type().shape;
    fill_row_major(self.executor->view(v), value.format, [&](const TensorView& view) {
      initialize(view, self.executor->box(v), {value.name, graph.node(value.producer).attributes, whole},
                 options.seed);
    });
  }
}

void Session::State::run(int index) {
  Rank& self = ranks[at(index)];
  for (std::size_t i = 0; i < batch.size(); ++i) self.inputs[i].take(*batch[i]);
  self.executor->run();
  for (std::size_t i = 0; i < outputs.size(); ++i)
    if (driver == Driver::caller)
      gather(program.graph.outputs[i], outputs[i]);
    else
      self.outputs[i].give(outputs[i]);
  self.executor->update();
}

std::int64_t Session::State::largest_gather() const {
  std::int64_t bytes = 1;
  for (const auto* values : {&program.graph.outputs, &kept})
    for (ValueId v : *values) bytes = std::max(bytes, program.graph.value(v).global_type().bytes());
  return bytes;
}

/// Brings the whole of a value here, parts of which are in other processes. All processes do so.
void Session::State::gather(ValueId v, Tensor& whole) {
  Rank& self = ranks.front();
  const Graph& graph = program.graph;
  const Value& value = graph.value(v);
  const TensorView& part = self.executor->view(v);
  const auto bytes = static_cast<std::int64_t>(whole.bytes().size());
  const Layout layout = value.layout.value_or(replicated(value.type.shape.size()));
  const auto to_row_major = [&](std::byte* to) {
    reformat(part.data, value.format, to, {}, part.shape, size_of(part.dtype));
  };
  if (layout == replicated(value.type.shape.size())) return to_row_major(whole.bytes().data());
  if (room.bytes() == 0) room = self.communicator->allocate(largest_gather(), *self.backend);
  const bool is_row_major = value.format.is_row_major();
  if (!is_row_major && row_major.bytes() == 0)
    row_major = self.communicator->allocate(largest_gather(), *self.backend);
  const auto [it, is_new] = gathers.try_emplace(v.index, -1);
  if (is_new) {
    const Step step{
        .kind = StepKind::exchange, .axes = {}, .from = layout, .to = replicated(value.type.shape.size())};
    const BoundTransfer bound{
        transfer_of(step, graph.meshes, value.global_type().shape, self.communicator->rank()), part.dtype,
        is_row_major ? part.data : row_major.data(), room.data()};
    it->second = self.communicator->prepare({&bound, 1});
  }
  if (!is_row_major) to_row_major(row_major.data());
  self.communicator->run(it->second);
  std::copy_n(room.data(), bytes, whole.bytes().data());
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
  statistics.arena_bytes = program.arena_bytes;
  for (const Rank& rank : ranks) {
    const Traffic& traffic = rank.executor->traffic();
    statistics.bytes_communicated_per_step = std::max(statistics.bytes_communicated_per_step, traffic.bytes);
    for (const auto& [kind, count] : traffic.collectives) {
      int& most = statistics.collectives_per_step[std::string(kind)];
      most = std::max(most, count);
    }
  }
}

/// Of all ranks, by an all_reduce. All have the same program, so they have the same kinds of steps in it.
void Session::State::take_largest_statistics() {
  constexpr std::array kinds{StepKind::all_gather, StepKind::all_to_all, StepKind::reduce_scatter,
                             StepKind::all_reduce, StepKind::permute,    StepKind::exchange};
  constexpr auto count = static_cast<std::int64_t>(kinds.size()) + 1;
  Rank& self = ranks.front();
  const std::vector<Mesh> all{Mesh{{{"all", program.rank_count()}}}};
  Step step{.kind = StepKind::all_reduce, .axes = {0}, .from = replicated(1), .to = replicated(1)};
  step.reduction = Reduction::max;
  step.from.max = all[0].all_axes();
  const Memory memory = self.communicator->allocate(count * 8, *self.backend);
  const BoundTransfer bound{transfer_of(step, all, {count}, self.communicator->rank()), DType::i64,
                            memory.data(), memory.data()};
  const int transfer = self.communicator->prepare({&bound, 1});
  auto* most = reinterpret_cast<std::int64_t*>(memory.data());
  most[0] = statistics.bytes_communicated_per_step;
  for (std::size_t k = 0; k < kinds.size(); ++k) {
    const auto it = statistics.collectives_per_step.find(std::string(name_of(kinds[k])));
    most[k + 1] = it == statistics.collectives_per_step.end() ? 0 : it->second;
  }
  self.communicator->run(transfer);
  statistics.bytes_communicated_per_step = most[0];
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (most[k + 1] > 0)
      statistics.collectives_per_step[std::string(name_of(kinds[k]))] = static_cast<int>(most[k + 1]);
}

ValueId Session::State::kept_value(std::string_view name) const {
  std::vector<std::string> known;
  for (ValueId v : kept) {
    if (program.graph.value(v).name == name) return v;
    known.push_back(program.graph.value(v).name);
  }
  throw error("there is no parameter or state '{}'{}", name, near_names(name, known));
}

void Session::State::throw_failure() {
  const std::lock_guard lock(mutex);
  if (!failure) return;
  if (failure->is_ours) throw InternalError(failure->message);
  throw Error(failure->message, failure->kind);
}

void Session::State::check_usable() {
  const std::lock_guard lock(mutex);
  if (failure) throw Error(fmt::format("the session has stopped; {}", failure->message), failure->kind);
}

void Session::State::bind(const std::map<std::string, Tensor>& tensors) {
  std::vector<std::string> known;
  batch.clear();
  for (ValueId v : inputs) {
    const Value& value = program.graph.value(v);
    known.push_back(value.name);
    const auto it = tensors.find(value.name);
    if (it == tensors.end()) throw error("input '{}' is missing from the batch", value.name);
    if (it->second.type() != value.global_type())
      throw error("input '{}' is {} but the batch has {}", value.name, to_text(value.global_type()),
                  to_text(it->second.type()));
    batch.push_back(&it->second);
  }
  if (tensors.size() == inputs.size()) return;
  for (const auto& [name, tensor] : tensors)
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw error("there is no input '{}'{}", name, near_names(name, known));
}

Session::Session(Program program, SessionOptions options) {
  auto communicators = thread_communicators(program.rank_count());
  state_ = std::make_unique<State>(std::move(program), std::move(communicators), Driver::threads, options);
  state_->throw_failure();
  state_->collect_statistics();
}
Session::Session(Program program, std::unique_ptr<Communicator> communicator, SessionOptions options) {
  std::vector<std::unique_ptr<Communicator>> communicators;
  communicators.push_back(std::move(communicator));
  state_ = std::make_unique<State>(std::move(program), std::move(communicators), Driver::caller, options);
  state_->throw_failure();
  state_->collect_statistics();
  state_->take_largest_statistics();
}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Program& Session::program() const { return state_->program; }
const SessionStatistics& Session::statistics() const { return state_->statistics; }

void Session::set(std::string_view name, const Tensor& whole) {
  State& s = *state_;
  s.check_usable();
  const ValueId v = s.kept_value(name);
  if (whole.type() != s.program.graph.value(v).global_type())
    throw error("'{}' is {} but is set to {}", name, to_text(s.program.graph.value(v).global_type()),
                to_text(whole.type()));
  for (const Rank& r : s.ranks) part_of(s.program, *r.executor, v, r.communicator->rank()).take(whole);
}

Tensor Session::get(std::string_view name) const {
  State& s = *state_;
  s.check_usable();
  const ValueId v = s.kept_value(name);
  Tensor whole(s.program.graph.value(v).global_type());
  if (s.driver == Driver::caller)
    s.gather(v, whole);
  else
    for (const Rank& r : s.ranks) part_of(s.program, *r.executor, v, r.communicator->rank()).give(whole);
  return whole;
}

std::vector<Tensor> Session::step(const std::map<std::string, Tensor>& batch) {
  State& s = *state_;
  s.check_usable();
  s.bind(batch);
  if (s.driver == Driver::caller) {
    s.guarded(0, &State::run);
    s.throw_failure();
    return s.outputs;
  }
  s.busy.store(static_cast<std::uint32_t>(s.ranks.size()), std::memory_order_relaxed);
  const std::uint32_t number = s.done.load();
  s.round.add(1);
  s.done.wait_while(number);
  s.throw_failure();
  return s.outputs;
}

}  // namespace shardwright
