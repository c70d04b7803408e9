// What executors ask of their communicators is what verification has read: prepares, starts and finishes, one by one.

#include "shardwright/verify/instructions.h"

#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <thread>

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/executor.h"
#include "shardwright/runtime/session.h"
#include "tests/support/drawn_pipeline.h"

namespace shardwright {
namespace {

/// Writes down what is asked; what passes on to a real communicator.
class Recording final : public Communicator {
 public:
  explicit Recording(Communicator& real) : real_(real) {}

  int rank() const override { return real_.rank(); }
  int size() const override { return real_.size(); }
  Memory allocate(std::int64_t bytes, Backend& backend) override {
    Memory out = real_.allocate(bytes, backend);
    if (!arena_) arena_ = out.data();
    return out;
  }
  int prepare(std::span<const BoundTransfer> transfers) override {
    prepared.push_back(transfers.front().transfer);
    places.emplace_back();
    for (const BoundTransfer& t : transfers)
      places.back().insert(places.back().end(),
                           {t.from ? t.from - arena_ : no_place, t.to ? t.to - arena_ : no_place});
    return real_.prepare(transfers);
  }
  void start(int t) override {
    asked.emplace_back(Act::start, t);
    real_.start(t);
  }
  void finish(int t) override {
    asked.emplace_back(Act::finish, t);
    real_.finish(t);
  }
  void progress() override { real_.progress(); }
  void barrier() override { real_.barrier(); }
  bool fail(std::string message) override { return real_.fail(std::move(message)); }

  std::vector<Transfer> prepared;
  std::vector<Shape> places;  // of each tensor operand and result, in the arena
  std::vector<std::pair<Act, int>> asked;

 private:
  Communicator& real_;
  const std::byte* arena_ = nullptr;
};

/// Labels and tokens have to be numbers that there are.
void clear_inputs(const Graph& graph, const Executor& executor, int micro_batch) {
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input) continue;
    const TensorView view = executor.view(node.results.front(), executor.slot_of(micro_batch));
    std::memset(view.data, 0, static_cast<std::size_t>(view.size()) * size_of(view.dtype));
  }
}

/// One step, in the order of Session.
void run_step(const Pipeline& pipeline, Communicator& communicator) {
  const int rank = communicator.rank(), stage = pipeline.stage_of(rank);
  const auto backend = cpu_backend();
  backend->enter_thread();
  Executor executor(pipeline.stage(stage), *backend, communicator, stage_rank(pipeline, rank));
  const std::vector<Task> tasks = tasks_of(pipeline.pipelining, stage);
  executor.begin();
  executor.expect(tasks.front());
  for (std::size_t t = 0; t < tasks.size(); ++t) {
    if (t + 1 < tasks.size()) executor.expect(tasks[t + 1]);
    if (tasks[t].phase == Phase::forward)
      clear_inputs(pipeline.stage(stage).graph, executor, tasks[t].micro_batch);
    executor.run(tasks[t]);
  }
  executor.run_update();
  executor.update();
  communicator.barrier();
}

/// The number of each prepared transfer: of crossings for all micro-batches, then of steps, slot by slot; those of the
/// update only where the last micro-batch lies.
std::map<std::pair<int, int>, int> numbers_of(const RankInstructions& rank, const Program& program) {
  std::map<std::pair<int, int>, int> out;  // by transfer and copy
  int next = 0;
  const int count = static_cast<int>(rank.transfers.size());
  const auto transfer = [&](int t) -> const PreparedTransfer& {
    return rank.transfers[static_cast<std::size_t>(t)];
  };
  for (int t = 0; t < count; ++t)
    for (int m = 0; transfer(t).crossing >= 0 && m < transfer(t).copies; ++m) out[{t, m}] = next++;
  const int last = (program.micro_batches - 1) % program.slots;
  for (int slot = 0; slot < program.slots; ++slot)
    for (int t = 0; t < count; ++t) {
      if (transfer(t).crossing >= 0) continue;
      const bool is_update = program.graph.node(transfer(t).node).phase == Phase::update;
      if (!is_update || slot == last) out[{t, slot}] = next++;
    }
  return out;
}

std::string text(Act act, int number, const Transfer& t, const Shape& places) {
  return fmt::format("{} {}: {} on channel {} of {} from {} to {} at {}",
                     act == Act::start ? "start" : "finish", number, name_of(t.kind), t.channel,
                     to_text(Shape(t.group.begin(), t.group.end())), to_text(t.from_shape),
                     to_text(t.to_shape), to_text(places));
}

std::vector<std::string> expected(const RankInstructions& rank, const Pipeline& pipeline) {
  const Program& program = pipeline.stage(rank.stage);
  const auto numbers = numbers_of(rank, program);
  std::vector<std::string> out;
  for (const Instruction& i : rank.instructions) {
    if (i.act != Act::start && i.act != Act::finish) continue;
    const PreparedTransfer& t = rank.transfer(i);
    const bool crosses = t.crossing >= 0;
    const int copy = crosses ? i.micro_batch : i.micro_batch % program.slots;
    const int slot = i.micro_batch % program.slots;
    Shape places;
    for (const Part& part : t.parts)
      for (ValueId v : {part.from, part.to})
        places.push_back(v.is_valid() ? program.offset(v, slot) : no_place);
    out.push_back(text(i.act, numbers.at({i.what, copy}), t.parts.front().transfer, places));
  }
  return out;
}

std::vector<std::string> recorded(const Recording& r) {
  std::vector<std::string> out;
  for (const auto& [act, number] : r.asked)
    out.push_back(text(act, number, r.prepared[static_cast<std::size_t>(number)],
                       r.places[static_cast<std::size_t>(number)]));
  return out;
}

class ExecutedInstructions : public ::testing::TestWithParam<int> {};

TEST_P(ExecutedInstructions, are_those_that_are_verified) {
  const testing::DrawnPipeline drawn = testing::drawn_pipeline(static_cast<std::uint64_t>(GetParam()));
  SCOPED_TRACE(drawn.what);
  const Pipeline& pipeline = drawn.pipeline;
  const std::vector<RankInstructions> ranks = instructions_of(pipeline);
  auto communicators = thread_communicators(pipeline.rank_count());
  std::vector<std::unique_ptr<Recording>> recordings;
  for (auto& c : communicators) recordings.push_back(std::make_unique<Recording>(*c));
  {
    std::vector<std::jthread> threads;
    for (auto& r : recordings) threads.emplace_back([&] { run_step(pipeline, *r); });
  }
  for (std::size_t r = 0; r < ranks.size(); ++r) {
    EXPECT_EQ(recorded(*recordings[r]), expected(ranks[r], pipeline)) << "rank " << r;
    EXPECT_LE(recordings[r]->prepared.size(), most_transfers(pipeline)) << "rank " << r;
  }
}

INSTANTIATE_TEST_SUITE_P(Runtime, ExecutedInstructions, ::testing::Range(0, 40));

}  // namespace
}  // namespace shardwright
