#include "shardwright/runtime/session.h"

#include <algorithm>
#include <array>
#include <limits>

#include "shardwright/base/text.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/host_memory.h"
#include "shardwright/runtime/session_state.h"

namespace shardwright {
namespace {

std::vector<std::unique_ptr<Communicator>> only(std::unique_ptr<Communicator> communicator) {
  std::vector<std::unique_ptr<Communicator>> out;
  out.push_back(std::move(communicator));
  return out;
}

std::int64_t resident_bytes_of(const Rank& rank) {
  return rank.backend().resident_bytes(rank.executor().arena());
}

}  // namespace

Session::Session(Pipeline pipeline, SessionOptions options) {
  auto communicators = thread_communicators(pipeline.rank_count(), options.timeout);
  state_ =
      std::make_unique<State>(std::move(pipeline), std::move(communicators), Driver::Mode::threads, options);
}
Session::Session(Pipeline pipeline, std::unique_ptr<Communicator> communicator, SessionOptions options)
    : state_(std::make_unique<State>(std::move(pipeline), only(std::move(communicator)), Driver::Mode::caller,
                                     options)) {}
Session::~Session() = default;
Session::Session(Session&&) noexcept = default;
Session& Session::operator=(Session&&) noexcept = default;

const Pipeline& Session::pipeline() const { return state_->pipeline; }
const Program& Session::program() const { return state_->pipeline.stages.front(); }
const SessionStatistics& Session::statistics() const { return state_->statistics; }
const DeviceKind& Session::device() const { return state_->ranks.front().device(); }
std::vector<std::span<std::byte>> Session::memory() const {
  std::vector<std::span<std::byte>> out;
  for (const Rank& rank : state_->ranks) out.push_back(rank.executor().arena());
  return out;
}

void Session::set(std::string_view name, const Tensor& whole) {
  const KeptValues& kept = state_->kept;
  state_->driver.check_usable();
  const Kept& value = kept.parameter_of(kept.named(name));
  if (const Type type = kept.type_of(value); whole.type() != type)
    throw error("'{}' is {} but is set to {}", value.name, to_text(type), to_text(whole.type()));
  set(name, whole_box(whole.shape()), whole);
}

void Session::set(std::string_view name, const Box& where, const Tensor& part) {
  State& s = *state_;
  s.driver.check_usable();
  const Kept& value = s.kept.parameter_of(s.kept.named(name));
  check_part(value.name, s.kept.type_of(value), where, part.type());
  if (const Kept* const master = s.kept.master_of(value)) s.set(*master, part, where);
  s.set(value, part, where);
}

Tensor Session::get(std::string_view name) const {
  const KeptValues& kept = state_->kept;
  return get(name, whole_box(kept.type_of(kept.named(name)).shape));
}

Tensor Session::get(std::string_view name, const Box& where) const {
  State& s = *state_;
  if (!s.has_others()) return get_own(name, where);
  s.driver.check_usable();
  const Kept& value = s.kept.named(name);
  const Type type = s.kept.type_of(value);
  check_part(name, type, where, {type.dtype, where.extent});
  const auto [stage, v] = s.kept.place_of(value);
  Tensor out({s.pipeline.stage(stage).graph.value(v).type.dtype, where.extent});
  s.together(fmt::format("gathering '{}'", name), [&] {
    s.driver.run([&](const Rank& self) {
      Tensor own;
      if (s.pipeline.has(stage, self.number()))
        own = self.way(stage, v).read(self.backend(), self.view(stage, v));
      (*s.gather)(stage, v, own.bytes().data(), out.bytes().data(), where);
    });
  });
  return type.dtype == out.dtype() ? out : convert(out, type.dtype);
}

Tensor Session::get_own(std::string_view name, const Box& where) const {
  State& s = *state_;
  const Kept& value = s.kept.named(name);
  const Type type = s.kept.type_of(value);
  check_part(name, type, where, {type.dtype, where.extent});
  const auto [stage, v] = s.kept.place_of(value);
  if (s.has_others()) {
    const int rank = s.ranks.front().number();
    const Box held = s.pipeline.has(stage, rank)
                         ? s.ranks.front().way(stage, v).box()
                         : Box{Shape(where.extent.size()), Shape(where.extent.size())};
    if (!s.pipeline.has(stage, rank) || intersect(held, where) != where)
      throw error("rank {} holds {} of '{}', not all of {}", rank, to_text(held), name, to_text(where));
  }
  Tensor out = s.get(stage, v, where);
  return type.dtype == out.dtype() ? out : convert(out, type.dtype);
}

bool Session::has_stopped() const { return state_->driver.has_stopped(); }

void Session::take_over(const Session& before) {
  require(ranks() == before.ranks(), "another session's ranks");
  restore(before.snapshot());
}

void Session::copy_out(const std::vector<std::vector<NamedBox>>& parts,
                       const std::function<std::byte*(int rank, std::size_t i)>& to) const {
  State& s = *state_;
  s.driver.read([&](Rank& rank) {
    const std::vector<NamedBox>& own = parts[static_cast<std::size_t>(rank.number())];
    for (std::size_t i = 0; i < own.size(); ++i) {
      const Kept& value = s.kept.named(own[i].name);
      const auto [stage, v] = s.kept.place_of(value);
      const TensorView view = rank.view(stage, v);
      std::byte* const out = to(rank.number(), i);
      const DType dtype = s.kept.type_of(value).dtype;
      if (dtype == view.dtype) {
        rank.way(stage, v).give(rank.backend(), view, out, own[i].where);
        continue;
      }
      Tensor part({view.dtype, own[i].where.extent});
      rank.way(stage, v).give(rank.backend(), view, part.bytes().data(), own[i].where);
      std::ranges::copy(convert(part, dtype).bytes(), out);
    }
  });
}

void Session::copy_in(const PartSource& from) {
  State& s = *state_;
  s.driver.run([&](Rank& rank) {
    std::vector<std::byte> room;  // of a block, so that memory is asked for once
    for (const Kept& value : s.kept.all())
      for (const auto& [stage, v] : value.places) {
        if (!s.pipeline.has(stage, rank.number())) continue;
        const Kept& known = s.kept.parameter_of(value);
        const DType dtype = s.kept.type_of(known).dtype;
        const TensorView view = rank.view(stage, v);
        const Way way = rank.way(stage, v);
        // What lies in blocks would be read and written as a whole each time.
        const bool is_row_major = s.pipeline.stage(stage).graph.value(v).format.is_row_major();
        for_each_block(way.box(), is_row_major ? elements_at_once : view.size(), [&](const Box& block) {
          const auto bytes = static_cast<std::size_t>(element_count(block.extent)) * size_of(dtype);
          if (room.size() < bytes) room.resize(bytes);
          if (!from(known.name, block, std::span(room).first(bytes))) return;
          if (dtype == view.dtype) return way.take(rank.backend(), view, room.data(), block);
          Tensor part({dtype, block.extent});
          std::copy_n(room.begin(), bytes, part.bytes().begin());
          way.take(rank.backend(), view, convert(part, view.dtype).bytes().data(), block);
        });
      }
  });
}

std::vector<int> Session::ranks() const {
  std::vector<int> out;
  for (const Rank& rank : state_->ranks) out.push_back(rank.number());
  return out;
}
const KeptValues& Session::kept() const { return state_->kept; }

bool Session::any(bool own) {
  State& s = *state_;
  s.driver.check_usable();
  if (!s.has_others()) return own;
  const std::array<std::int64_t, 1> number{own};
  return s.together("agreeing between steps", [&] { return (*s.largest)(number).front() != 0; });
}

void Session::record(bool is_on) { state_->is_recording = is_on; }

int Session::next_step() const { return state_->steps; }

void Session::set_next_step(std::int64_t number) {
  state_->steps = static_cast<int>(std::min<std::int64_t>(number, std::numeric_limits<int>::max() - 1));
}

StepTrace Session::trace() const {
  const State& s = *state_;
  s.driver.check_usable();
  StepTrace out;
  if (!s.has_others()) {
    for (const Rank& r : s.ranks) out.ranks.push_back(r.recorder().events());
    return out;
  }
  const Rank& self = s.ranks.front();
  std::vector<std::int64_t> own = packed(self.recorder().events());
  own.insert(own.begin(), {clock_name(), self.first_recorded()});
  const auto all =
      s.together("gathering traces", [&] { return gathered(self.communicator(), self.backend(), own); });
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
  State& s = *state_;
  s.driver.check_usable();
  MemoryMarks out;
  for (int r = 0; r < s.pipeline.rank_count(); ++r) out.planned.push_back(s.pipeline.arena_bytes(r));
  if (!s.has_others()) {
    out.measured.resize(s.ranks.size());
    s.driver.run(
        [&](const Rank& r) { out.measured[static_cast<std::size_t>(r.number())] = resident_bytes_of(r); });
    out.processes.push_back(most_bytes_of_process());
    return out;
  }
  const Rank& self = s.ranks.front();
  const std::array<std::int64_t, 2> own{resident_bytes_of(self), most_bytes_of_process()};
  const auto all =
      s.together("gathering figures", [&] { return gathered(self.communicator(), self.backend(), own); });
  for (const auto& numbers : all) {
    out.measured.push_back(numbers[0]);
    out.processes.push_back(numbers[1]);
  }
  return out;
}

std::optional<double> Session::routing_imbalance() const {
  const State& s = *state_;
  s.driver.check_usable();
  const RoutedCounts& own = s.ranks.front().executor().routed();
  if (own.counts().empty()) return std::nullopt;
  std::vector<std::vector<std::int64_t>> counts;
  if (s.has_others())
    counts = s.together("gathering figures", [&] {
      return gathered(s.ranks.front().communicator(), s.ranks.front().backend(), own.counts());
    });
  else
    for (const Rank& rank : s.ranks) counts.push_back(rank.executor().routed().counts());
  std::vector<std::int64_t> most(own.counts().size()), all(most.size());
  for (const auto& of_rank : counts)
    for (std::size_t i = 0; i < of_rank.size(); ++i) {
      most[i] = std::max(most[i], of_rank[i]);
      all[i] += of_rank[i];
    }
  return imbalance_of(most, all, own.ranks());
}

std::vector<Tensor> Session::step(const std::map<std::string, Tensor>& batch) {
  return state_->step([&] { state_->tensors.bind(batch); });
}

std::vector<Tensor> Session::step_on_parts(const BatchParts& batch) {
  return state_->step([&] {
    state_->tensors.bind(batch);
    for (Rank& rank : state_->ranks) rank.ports().check_sources();
  });
}

}  // namespace shardwright
