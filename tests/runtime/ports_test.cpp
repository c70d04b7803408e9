// How parts of a batch and of parameters come to the ranks that hold them: from whatever parts there are, in as few moves
// as the device allows, on the rank's own thread.

#include "shardwright/runtime/ports.h"

#include <gtest/gtest.h>

#include <atomic>
#include <barrier>
#include <random>
#include <thread>

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/communicator/threads.h"
#include "shardwright/runtime/initial.h"
#include "shardwright/runtime/session.h"
#include "tests/support/forwarding_backend.h"
#include "tests/support/message_of.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::message_of;

using testing::counting;
using testing::program_of;

TEST(Boxes, what_is_cut_out_is_gone_and_nothing_else) {
  std::mt19937 random(5);
  const auto drawn = [&](const Shape& whole) {
    Box out = whole_box(whole);
    for (std::size_t d = 0; d < whole.size(); ++d) {
      out.offset[d] = static_cast<std::int64_t>(random() % static_cast<unsigned>(whole[d]));
      out.extent[d] =
          static_cast<std::int64_t>(random() % static_cast<unsigned>(whole[d] - out.offset[d] + 1));
    }
    return out;
  };
  const auto mark = [](Tensor& seen, const Box& box, float by) {
    const Piece piece = piece_of(box, box, whole_box(seen.shape()));
    for_each_run(piece, [&](std::int64_t, std::int64_t to, std::int64_t n) {
      for (std::int64_t i = to; i < to + n; ++i) seen.as<float>()[static_cast<std::size_t>(i)] += by;
    });
  };
  const Shape shape{4, 5, 6};
  for (int draw = 0; draw < 200; ++draw) {
    std::vector<Box> left{whole_box(shape)};
    Tensor covered({DType::f32, shape}), seen({DType::f32, shape});
    for (int cut = 0; cut < 4; ++cut) {
      const Box part = drawn(shape);
      cut_out(left, part);
      mark(covered, part, 1);
    }
    for (const Box& box : left) {
      EXPECT_FALSE(is_empty(box));
      mark(seen, box, 1);
    }
    for (std::size_t i = 0; i < seen.as<float>().size(); ++i)
      ASSERT_EQ(seen.as<float>()[i], covered.as<float>()[i] == 0) << i;
  }
  std::vector<Box> scalar{Box{}};
  cut_out(scalar, {});
  EXPECT_TRUE(scalar.empty());
}

/// One input that two stages read, of two micro-batches: by rows the first, by columns the second.
Pipeline cut_in_two_ways(const Schedule& schedule) {
  Program by_rows = program_of(R"(
mesh [dp=2]
%x = input f32[3, 4] as [6, 4] [dp, -]
output %x
)");
  Program by_columns = program_of(R"(
mesh [tp=2]
%x = input f32[6, 2] as [6, 4] [-, tp]
output %x
)");
  by_rows.micro_batches = by_columns.micro_batches = 2;
  Pipeline out = by_rows;
  out.stages.push_back(by_columns);
  out.outputs = {{0, 0}, {1, 0}};
  out.pipelining = {schedule, schedule.chunks == 1 ? 2 : 1, 2};
  return out;
}

TensorPart part_of(const Tensor& whole, const Box& where) {
  Tensor part({whole.dtype(), where.extent});
  copy_piece(piece_of(where, whole_box(whole.shape()), where), whole.bytes().data(), part.bytes().data(),
             size_of(whole.dtype()));
  return {where, std::move(part)};
}

// The ranks of one stage take what those of the other take, too, in other parts.
TEST(PortParts, stages_and_chunks_may_cut_an_input_in_different_ways) {
  const Tensor x = counting({DType::f32, {12, 4}});
  for (const Schedule& schedule : {Schedule::gpipe(), Schedule::interleaved(2)}) {
    SCOPED_TRACE(name_of(schedule));
    const Pipeline pipeline = cut_in_two_ways(schedule);
    BatchParts parts;
    for (int rank = 0; rank < pipeline.rank_count(); ++rank)
      for (const NamedBox& part : input_parts(pipeline, rank))
        parts[part.name].push_back(part_of(x, part.where));
    EXPECT_EQ(parts.at("x").size(), 8U);
    Session session(pipeline);
    EXPECT_EQ(message_of([&] {
                EXPECT_EQ(session.step_on_parts(parts), (std::vector<Tensor>{x, x}));
              }),
              "nothing");
  }
}

TEST(PortParts, what_is_there_twice_does_not_stand_for_what_is_missing) {
  Session session(program_of(R"(
mesh [dp=2]
%x = input f32[2, 3] as [4, 3] [dp, -]
output %x
)"));
  const Tensor x = counting({DType::f32, {4, 3}});
  const auto rows = [&](std::int64_t from, std::int64_t to) {
    return part_of(x, {{from, 0}, {to - from, 3}});
  };
  EXPECT_EQ(message_of([&] {
              session.step_on_parts({{"x", {rows(0, 2), rows(2, 3), rows(2, 3)}}});
            }),
            "input 'x': [2:4, 0:3] of it should be in the batch's parts; [3:4, 0:3] is in none");
  EXPECT_EQ(session.step_on_parts({{"x", {rows(2, 4), rows(1, 3), rows(0, 3), rows(2, 4)}}}),
            std::vector<Tensor>{x});
}

/// What a session asks of its backends, of all ranks together.
struct Moves {
  std::atomic<std::int64_t> writes = 0, reads = 0, read_bytes = 0, most_written = 0;
};

class CountingBackend final : public testing::ForwardingBackend {
 public:
  CountingBackend(Moves& moves, bool is_host)
      : ForwardingBackend(cpu_backend()), moves_(moves), is_host_(is_host) {}
  bool is_host() const override { return is_host_; }
  void write(std::byte* to, std::span<const std::byte> host) override {
    ++moves_.writes;
    const auto bytes = static_cast<std::int64_t>(host.size());
    for (std::int64_t most = moves_.most_written; most < bytes;)
      if (moves_.most_written.compare_exchange_weak(most, bytes)) break;
    ForwardingBackend::write(to, host);
  }
  void read(std::span<std::byte> host, const std::byte* from) override {
    ++moves_.reads;
    moves_.read_bytes += static_cast<std::int64_t>(host.size());
    ForwardingBackend::read(host, from);
  }

 private:
  Moves& moves_;
  bool is_host_;
};

DeviceKind counting_devices(Moves& moves, bool is_host = true) {
  return {.formats = nullptr,
          .backend = [&moves, is_host](int) { return std::make_unique<CountingBackend>(moves, is_host); }};
}

// Parts of columns are no run of what the ranks hold: row by row on the host, else brought as few pieces as there are.
TEST(PortParts, nothing_that_is_not_asked_for_is_read_or_moved) {
  const Tensor x = counting({DType::f32, {6, 8}});
  for (const bool is_host : {true, false}) {
    SCOPED_TRACE(is_host);
    Moves moves;
    Session session(program_of(R"(
mesh [tp=2]
%x = input f32[6, 4] as [6, 8] [-, tp]
%w = param f32[6, 4] as [6, 8] [-, tp]
output %x
)"),
                    {.devices = counting_devices(moves, is_host)});
    EXPECT_EQ(session.step_on_parts({{"x", {part_of(x, {{0, 0}, {6, 4}}), part_of(x, {{0, 4}, {6, 4}})}}}),
              std::vector<Tensor>{x});
    moves.writes = moves.reads = moves.read_bytes = 0;
    session.set("w", {{1, 2}, {4, 4}}, part_of(x, {{1, 2}, {4, 4}}).tensor);  // of each rank two columns
    EXPECT_EQ(moves.reads, 0);
    EXPECT_EQ(moves.writes, 8);
    session.step({{"x", x}});
    EXPECT_EQ(moves.writes, 8 + (is_host ? 12 : 2));
    EXPECT_EQ(moves.reads, is_host ? 12 : 2);
    EXPECT_EQ(moves.read_bytes, 6 * 8 * 4);
    moves.reads = moves.read_bytes = 0;
    EXPECT_EQ(session.get("w", {{1, 2}, {4, 4}}), part_of(x, {{1, 2}, {4, 4}}).tensor);
    EXPECT_EQ(moves.read_bytes, 4 * 4 * 4);
  }
}

TEST(PortParts, random_values_are_made_block_by_block) {
  for (const char* layout : {"f32[700, 1001] (init=normal) as [1400, 1001] [a, -]",
                             "f32[1400, 501] (init=normal) as [1400, 1001] [-, a]",
                             "f32[1, 1400, 1001] (init=normal) as [1, 1400, 1001] [-, -, -]"}) {
    SCOPED_TRACE(layout);
    Moves moves;
    Session session(program_of(fmt::format("mesh [a=2]\n%w = param {}\noutput %w\n", layout)),
                    {.seed = 3, .devices = counting_devices(moves)});
    EXPECT_LE(moves.most_written, 1 << 20);
    const Tensor have = session.get("w");
    Tensor want(have.type());
    const Attributes normal{{"init", "normal"}};
    initialize(want.view(), whole_box(want.shape()), {"w", normal, want.shape()}, 3);
    EXPECT_EQ(have, want);
  }
}

/// Peers in other processes are at work on the step already, or wait for it.
TEST(PortParts, what_one_process_lacks_all_hear_of) {
  const Tensor x = counting({DType::f32, {4, 3}});
  const Program program = program_of(R"(
mesh [dp=2]
%x = input f32[2, 3] as [4, 3] [dp, -]
%y = all_gather %x dim 0 over dp : f32[4, 3] as [4, 3] [-, -]
output %y
)");
  for (const bool knows_name : {true, false}) {
    auto communicators = thread_communicators(2);
    std::barrier begun(2);  // who fails before is told to those that only begin
    std::vector<std::jthread> ranks;
    for (auto& communicator : communicators)
      ranks.emplace_back([&] {
        const int rank = communicator->rank();
        Session session(program, std::move(communicator));
        begun.arrive_and_wait();
        const auto step = [&] {
          session.step_on_parts({{rank == 0 || knows_name ? "x" : "z", {part_of(x, {{0, 0}, {2, 3}})}}});
        };
        const std::string want =
            knows_name ? " input 'x': [2:4, 0:3] of it should be in the batch's parts; [2:4, 0:3] is in none"
                       : " input 'x' is missing from the batch";
        const std::string have = message_of(step);
        EXPECT_NE(have.find(rank == 1 ? "rank 1:" + want : "rank 1 failed:" + want), std::string::npos)
            << have;
        EXPECT_EQ(message_of(step), "the session has stopped; " + have);
      });
  }
}

/// Devices that cannot say what they are.
class Unsaid final : public testing::ForwardingBackend {
 public:
  Unsaid() : ForwardingBackend(cpu_backend()) {}
  bool is_host() const override { throw error("nobody knows"); }
};

TEST(PortParts, a_rank_that_gets_no_communicator_for_its_device_says_so) {
  const DeviceKind devices{.formats = nullptr, .backend = [](int) { return std::make_unique<Unsaid>(); }};
  const std::string message = message_of([&] {
    Session(program_of("mesh [a=2]\n%w = param f32[2] as [2] [-]\noutput %w\n"), {.devices = devices});
  });
  EXPECT_EQ(message.substr(message.find(':')), ": nobody knows");
}

}  // namespace
}  // namespace shardwright
