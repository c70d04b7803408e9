#include "shardwright/runtime/session_state.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/ops/sequence_order.h"
#include "shardwright/runtime/host_memory.h"

namespace shardwright {
namespace {

std::deque<Rank> ranks_of(const Pipeline& pipeline, StepTensors& tensors,
                          std::vector<std::unique_ptr<Communicator>> communicators, Driver::Mode mode,
                          const SessionOptions& options) {
  std::deque<Rank> out;
  require(options.memory.empty() || options.memory.size() == communicators.size(), "memory of other ranks");
  for (auto& communicator : communicators)
    out.emplace_back(
        pipeline, tensors, std::move(communicator),
        RankOptions{.seed = options.seed,
                    .stop = options.stop,
                    .keeps_outputs = mode == Driver::Mode::caller,
                    .devices = options.devices,
                    .clock = options.clock,
                    .memory = options.memory.empty() ? std::span<std::byte>() : options.memory[out.size()]});
  return out;
}

/// With what stands in the order that ranks share a sequence in where it is in the sequence.
std::vector<Tensor> in_place(const Pipeline& pipeline, std::vector<Tensor> outputs) {
  for (const OutputInOrder& o : pipeline.in_order) {
    Tensor& stands = outputs[at(o.output)];
    if (at(o.dim) >= stands.shape().size()) continue;  // nobody wants it
    Tensor out(stands.type());
    ops::bring_into_order(out.bytes().data(), stands.bytes().data(), stands.dtype(), stands.shape(),
                          at(o.dim), o.blocks, true);
    stands = std::move(out);
  }
  return outputs;
}

}  // namespace

Session::State::State(Pipeline p, std::vector<std::unique_ptr<Communicator>> communicators, Mode mode,
                      const SessionOptions& options)
    : pipeline(options.memory.empty() ? within_host_memory(std::move(p)) : std::move(p)),
      kept(pipeline),
      tensors(pipeline, options.only_scalars),
      ranks(ranks_of(pipeline, tensors, std::move(communicators), mode, options)),
      failures{.path = options.failures},
      stop(options.stop),
      driver(ranks, mode, options.timeout) {
  driver.run([](Rank& rank) { rank.prepare(); });
  for (const Rank& rank : ranks) add(statistics, rank.executor());
  if (mode == Mode::threads) return;
  const Rank& self = ranks.front();
  self.communicator().describe_by([this](int rank, const StepPlace& place) { return words_of(rank, place); });
  statistics = shardwright::largest(statistics, self);
  gather.emplace(pipeline, self.communicator(), self.backend());
  largest.emplace(self.communicator(), self.backend(), 1, Reduction::max);
}

void Session::State::failed() const {
  if (stop && *stop) throw;  // it was asked for
  rethrow_recorded(failures, ranks, pipeline);
}

void Session::State::gave_up(std::string_view what, const TimedOut& e) const {
  const bool is_first = ranks.front().communicator().fail(e.of(what).what());
  const Error told(fmt::format("rank {}: {}", ranks.front().number(), e.of(what).what()),
                   is_first ? ErrorKind::timeout : ErrorKind::peer);
  try {
    throw told;
  } catch (const Error&) {
    failed();
  }
}

void Session::State::set(const Kept& value, const Tensor& part, const Box& where) {
  for (const auto& [stage, v] : value.places) {
    const DType dtype = pipeline.stage(stage).graph.value(v).type.dtype;
    const Tensor other = dtype == part.dtype() ? Tensor() : convert(part, dtype);
    const Tensor& own = dtype == part.dtype() ? part : other;
    driver.run([&](Rank& r) {
      if (pipeline.has(stage, r.number()))
        r.way(stage, v).take(r.backend(), r.view(stage, v), own.bytes().data(), where);
    });
  }
}

Tensor Session::State::get(int stage, ValueId v, const Box& where) {
  Tensor out({pipeline.stage(stage).graph.value(v).type.dtype, where.extent});
  std::byte* const to = out.bytes().data();
  driver.read([&](Rank& r) {
    if (pipeline.has(stage, r.number()))
      if (const Way way = r.way(stage, v); way.owns() || has_others())
        way.give(r.backend(), r.view(stage, v), to, where);
  });
  return out;
}

std::vector<Tensor> Session::State::step(const std::function<void()>& bind) {
  driver.check_usable();
  if (!has_others()) bind();
  const int number = steps++;
  const auto work = [&, number](Rank& rank) {
    std::function<void()> behind;
    if (has_others()) {
      waiting_as([&] { return fmt::format("the beginning of step {}", number); },
                 [&] { rank.communicator().barrier(); });  // a failure is told to all within the same step
      bind();  // who cannot tells the peers, which may be at work already
      behind = [this, number, &rank] {
        waiting_as([&] { return fmt::format("gathering the outputs of step {}", number); },
                   [&] { rank.ports().gather(*gather); });
      };
    }
    is_recording ? rank.run_recorded(number, behind) : rank.run(number, behind);
  };
  try {
    driver.run(work);
  } catch (...) {
    std::atomic<bool> is_as_before = true;
    driver.keep(true);
    driver.read([&](Rank& rank) {
      if (!rank.restore()) is_as_before = false;
    });
    driver.keep(is_as_before);
    failed();
  }
  for (Rank& rank : ranks) rank.end_step();
  return in_place(pipeline, tensors.outputs);
}

/// Places may come from a rank that is gone, or that has another step.
std::string Session::State::words_of(int rank, const StepPlace& place) const {
  if (rank >= pipeline.rank_count() || place.act > static_cast<int>(Act::run)) return "another step";
  const Instruction i{.act = static_cast<Act>(place.act),
                      .stage = place.stage,
                      .what = place.what,
                      .micro_batch = place.micro_batch};
  const RankStep step = step_of(pipeline, rank);
  const std::size_t what = at(i.what);
  const bool is_transfer = i.act == Act::start || i.act == Act::finish;
  const bool is_node = i.act == Act::compute || i.act == Act::copy || i.act == Act::keep;
  if (i.stage >= pipeline.stage_count() || i.act == Act::run ||
      (is_transfer && what >= step.transfers.size()) ||
      (is_node && what >= pipeline.stage(i.stage).graph.nodes.size()))
    return "another step";
  return to_text(step, i, pipeline);
}

}  // namespace shardwright
