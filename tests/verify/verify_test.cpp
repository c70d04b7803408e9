// Correct pipelines are proven; one whose communication has been changed on one rank is not, whatever was changed.

#include "shardwright/verify/verify.h"
#include "shardwright/base/index.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/random.h"
#include "shardwright/graph/op.h"
#include "shardwright/verify/meetings.h"
#include "tests/support/changed_transfer.h"
#include "tests/support/drawn_pipeline.h"
#include "tests/support/draws.h"

namespace shardwright {
namespace {

class DrawnPipelines : public ::testing::TestWithParam<int> {};

TEST_P(DrawnPipelines, are_proven) {
  const int each = static_cast<int>(testing::draws(25));
  for (int seed = GetParam() * each; seed < (GetParam() + 1) * each; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(static_cast<std::uint64_t>(seed), true);
    SCOPED_TRACE(drawn.what);
    try {
      const Proof proof = prove(drawn.pipeline);
      EXPECT_EQ(proof.ranks, drawn.pipeline.rank_count());
    } catch (const std::exception& e) {
      ADD_FAILURE() << e.what();
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Verify, DrawnPipelines, ::testing::Range(0, 10));

/// Changes one thing in what one rank communicates. Every kind of change makes another program, by construction:
/// `try_to` says false where what was drawn would not.
class Mutation {
 public:
  Mutation(RankStep& rank, const Pipeline& pipeline, std::uint64_t seed)
      : rank_(rank), pipeline_(pipeline), stream_(seed, "mutation") {
    for (std::size_t i = 0; i < rank.instructions.size(); ++i) {
      const Instruction& instruction = rank.instructions[i];
      if (instruction.act != Act::start && instruction.act != Act::finish) continue;
      if (rank.transfer(instruction).moves_between_ranks()) communicating_.push_back(i);
    }
  }

  bool is_possible() const { return !communicating_.empty(); }

  /// Says what it has changed.
  std::string apply() {
    using Kind = std::pair<const char*, bool (Mutation::*)()>;
    const std::array<Kind, 13> kinds{{{"dropped", &Mutation::drop},
                                      {"dropped for all micro-batches", &Mutation::drop_all},
                                      {"swapped with another of its group", &Mutation::swap_starts},
                                      {"finished before it starts", &Mutation::swap_with_finish},
                                      {"finished below its first reader", &Mutation::finish_late},
                                      {"of another micro-batch", &Mutation::move_to_another_micro_batch},
                                      {"resized", &Mutation::resize},
                                      {"a piece changed", &Mutation::change_piece},
                                      {"of another group", &Mutation::regroup},
                                      {"on another channel", &Mutation::change_channel},
                                      {"of another type", &Mutation::change_type},
                                      {"of another kind", &Mutation::change_kind},
                                      {"from another peer", &Mutation::change_peer}}};
    for (;;) {
      const Kind& kind = kinds[at(below(static_cast<int>(kinds.size())))];
      chosen_ = communicating_[at(below(static_cast<int>(communicating_.size())))];
      const std::string what = to_text(rank_, instruction(), pipeline_);
      if ((this->*kind.second)()) return fmt::format("{}: {}", what, kind.first);
    }
  }

 private:
  int below(int n) { return static_cast<int>(stream_.below(next_++, n)); }
  Instruction& instruction() { return rank_.instructions[chosen_]; }
  PreparedTransfer& transfer() { return rank_.transfers[at(instruction().what)]; }
  Part& part() { return transfer().parts[at(below(static_cast<int>(transfer().parts.size())))]; }
  template <class F>
  bool change_all(F change) {
    for (Part& p : transfer().parts) change(testing::own_transfer(p));
    return true;
  }

  bool drop() {
    rank_.instructions.erase(rank_.instructions.begin() + static_cast<std::ptrdiff_t>(chosen_));
    return true;
  }
  bool drop_all() {
    const int what = instruction().what;
    std::erase_if(rank_.instructions, [&](const Instruction& i) {
      return (i.act == Act::start || i.act == Act::finish) && i.what == what;
    });
    return true;
  }
  /// Starts of one group on one channel: their order is what the group's members share. The order of starts of
  /// different groups is free, because a start waits for nobody.
  bool swap_starts() {
    if (instruction().act != Act::start) return false;
    const std::size_t other = communicating_[at(below(static_cast<int>(communicating_.size())))];
    Instruction& b = rank_.instructions[other];
    const PreparedTransfer &s = transfer(), &t = rank_.transfer(b);
    if (b.act != Act::start || b == instruction() || s.group() != t.group() || s.channel() != t.channel())
      return false;
    std::swap(instruction(), b);
    return true;
  }
  bool swap_with_finish() {
    if (instruction().act != Act::start) return false;
    Instruction wanted = instruction();
    wanted.act = Act::finish;
    const auto finish = std::find(rank_.instructions.begin() + static_cast<std::ptrdiff_t>(chosen_),
                                  rank_.instructions.end(), wanted);
    if (finish == rank_.instructions.end()) return false;
    std::iter_swap(rank_.instructions.begin() + static_cast<std::ptrdiff_t>(chosen_), finish);
    return true;
  }
  bool finish_late() {
    if (instruction().act != Act::finish) return false;
    const auto finish = rank_.instructions.begin() + static_cast<std::ptrdiff_t>(chosen_);
    const auto reader = std::find_if(finish, rank_.instructions.end(), [&](const Instruction& i) {
      return i.act == Act::compute && i.micro_batch == finish->micro_batch && reads_result(i, transfer());
    });
    if (reader == rank_.instructions.end()) return false;
    std::rotate(finish, finish + 1, reader + 1);
    return true;
  }
  /// Aliases are not asked: they read nothing.
  bool reads_result(const Instruction& i, const PreparedTransfer& t) const {
    const Graph& graph = pipeline_.stage(i.stage).graph;
    const Node& node = graph.node({i.what});
    return !node.op->is_alias && node.op->kind == OpKind::compute &&
           std::any_of(t.parts.begin(), t.parts.end(), [&](const Part& p) {
             return std::find(node.operands.begin(), node.operands.end(), p.to) != node.operands.end();
           });
  }
  bool move_to_another_micro_batch() {
    ++instruction().micro_batch;
    return true;
  }
  bool resize() {
    Part& p = part();
    Transfer& own = testing::own_transfer(p);
    Shape& shape = p.from.is_valid() && (!p.to.is_valid() || below(2)) ? own.from_shape : own.to_shape;
    if (shape.empty())
      shape.push_back(2);
    else
      shape[at(below(static_cast<int>(shape.size())))] += 1;
    return true;
  }
  bool change_piece() {
    std::vector<Piece>& pieces = testing::own_transfer(part()).pieces;
    if (pieces.empty()) return false;
    Piece& piece = pieces[at(below(static_cast<int>(pieces.size())))];
    switch (piece.extent.empty() ? 0 : below(4)) {
      case 0: pieces.erase(pieces.begin() + (&piece - pieces.data())); return true;
      case 1: piece.to_offset += 1; return true;
      case 2: piece.from_offset += 1; return true;
      default: piece.extent[at(below(static_cast<int>(piece.extent.size())))] -= 1; return true;
    }
  }
  bool regroup() {
    std::vector<int> group = transfer().group();
    const int member = below(static_cast<int>(group.size()));
    const int stranger = below(pipeline_.rank_count());
    if (below(2))
      group.erase(group.begin() + member);
    else if (std::find(group.begin(), group.end(), stranger) != group.end())
      return false;
    else
      group.insert(std::upper_bound(group.begin(), group.end(), stranger), stranger);
    return change_all([&](Transfer& t) { t.group = group; });
  }
  bool change_channel() {
    const int other = transfer().channel() + 1 + below(3);
    return change_all([&](Transfer& t) { t.channel = other; });
  }
  bool change_type() {
    DType& dtype = part().dtype;
    dtype = dtype == DType::f32 ? DType::i32 : DType::f32;
    return true;
  }
  bool change_kind() {
    if (transfer().parts.front().transfer->reduces && below(2)) {
      Transfer& t = testing::own_transfer(part());
      t.reduction = t.reduction == Reduction::sum ? Reduction::max : Reduction::sum;
      return true;
    }
    const StepKind kind =
        transfer().kind() == StepKind::all_gather ? StepKind::all_to_all : StepKind::all_gather;
    return change_all([&](Transfer& t) { t.kind = kind; });
  }
  /// Another rank that holds the same box gives the same elements: that would be the same program.
  bool change_peer() {
    Part& chosen = part();
    std::vector<Piece>& pieces = testing::own_transfer(chosen).pieces;
    if (pieces.empty()) return false;
    Piece& piece = pieces[at(below(static_cast<int>(pieces.size())))];
    const int other = below(pipeline_.rank_count());
    if (other == piece.source || box_given(chosen, other) == box_given(chosen, piece.source)) return false;
    piece.source = other;
    return true;
  }
  std::optional<Box> box_given(const Part& p, int rank) const {
    if (std::find(p.transfer->group.begin(), p.transfer->group.end(), rank) == p.transfer->group.end())
      return std::nullopt;
    if (p.transfer->reduces) return Box{{rank}, {1}};  // every rank's addend is its own
    int stage = rank_.transfer(rank_.instructions[chosen_]).from_stage;
    ValueId v = p.from;
    if (!v.is_valid()) {
      const PlacedCrossing& c = pipeline_.crossings[at(p.transfer->channel - 1)];
      stage = c.from;
      v = c.sent;
    }
    if (!pipeline_.has(stage, rank)) return std::nullopt;
    return box_of(pipeline_.stage(stage).graph, v, rank - pipeline_.first_rank(stage));
  }

  RankStep& rank_;
  const Pipeline& pipeline_;
  RandomStream stream_;
  std::uint64_t next_ = 0;
  std::size_t chosen_ = 0;
  std::vector<std::size_t> communicating_;
};

/// Changes the layouts of a stage, everywhere alike: instructions follow, and nothing but rules can tell.
class LayoutMutation {
 public:
  LayoutMutation(Pipeline& pipeline, std::uint64_t seed) : stream_(seed, "layouts"), pipeline_(pipeline) {}

  /// Says what it has changed; nothing if what was drawn does not allow it.
  std::string apply() {
    Graph& graph = pipeline_.stages[at(below(pipeline_.stage_count()))].graph;
    return below(2) ? leave_out_a_reduction(graph) : exchange_axes(graph);
  }

 private:
  int below(int n) { return static_cast<int>(stream_.below(next_++, n)); }

  /// Who reads the sum reads an addend of it instead.
  std::string leave_out_a_reduction(Graph& graph) {
    const int first = below(static_cast<int>(graph.nodes.size()));
    for (std::size_t n = at(first); n < graph.nodes.size(); ++n) {
      const Node& node = graph.nodes[n];
      if (!node.op->step || *node.op->step != StepKind::all_reduce) continue;
      const ValueId whole = node.results.front(), addend = node.operands.front();
      for (Node& reader : graph.nodes)
        std::replace(reader.operands.begin(), reader.operands.end(), whole, addend);
      std::replace(graph.outputs.begin(), graph.outputs.end(), whole, addend);
      for (Update& u : graph.updates)
        if (u.value == whole) u.value = addend;
      if (std::find(graph.sends.begin(), graph.sends.end(), whole) != graph.sends.end()) return "";
      return fmt::format("%{} left out", graph.value(whole).name);
    }
    return "";
  }

  /// One axis instead of another of the same size: shapes stay.
  std::string exchange_axes(Graph& graph) {
    Value& v = graph.values[at(below(static_cast<int>(graph.values.size())))];
    const Mesh& mesh = graph.meshes[at(v.layout->mesh)];
    for (Axes& axes : v.layout->dims)
      for (int a : axes)
        for (int b : mesh.all_axes().without(v.layout->used())) {
          if (mesh.size_of(a) != mesh.size_of(b) || mesh.size_of(a) == 1) continue;
          Axes other;
          for (int c : axes) other.push_back(c == a ? b : c);
          axes = other;
          return fmt::format("%{} over {} instead of {}", v.name, mesh.axes[at(b)].name,
                             mesh.axes[at(a)].name);
        }
    return "";
  }

  RandomStream stream_;
  std::uint64_t next_ = 0;
  Pipeline& pipeline_;
};

std::string first_of(const Violations& found) { return found.empty() ? "nothing" : found.front().text; }

class LayoutMutations : public ::testing::TestWithParam<int> {};

TEST_P(LayoutMutations, are_found) {
  constexpr int pipelines = 10, each = 20;
  int tried = 0;
  for (int seed = GetParam() * pipelines; seed < (GetParam() + 1) * pipelines; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE(drawn.what);
    for (int m = 0; m < each; ++m) {
      Pipeline changed = drawn.pipeline;
      const std::string what = LayoutMutation(changed, static_cast<std::uint64_t>(seed * each + m)).apply();
      if (what.empty()) continue;
      ++tried;
      const Violations found = violations(unrolled_steps(changed), changed);
      EXPECT_FALSE(found.empty()) << what;
      EXPECT_EQ(first_of(violations(classes_of(changed), changed)), first_of(found)) << what;
    }
  }
  EXPECT_GE(tried, each);
}

INSTANTIATE_TEST_SUITE_P(Verify, LayoutMutations, ::testing::Range(0, 4));

/// Classes of ranks, of which one is by itself.
std::vector<RankClass> split_out(int rank, std::vector<RankClass> classes,
                                 const std::vector<RankStep>& ranks) {
  for (RankClass& c : classes)
    if (std::erase(c.ranks, rank) > 0 && !c.ranks.empty()) c.step = ranks[at(c.ranks.front())];
  std::erase_if(classes, [](const RankClass& c) { return c.ranks.empty(); });
  classes.push_back({ranks[at(rank)], {rank}});
  std::ranges::sort(classes, {}, &RankClass::ranks);
  return classes;
}

class Mutations : public ::testing::TestWithParam<int> {};

TEST_P(Mutations, are_found) {
  constexpr int pipelines = 8, each = 20;
  int tried = 0;
  for (int seed = GetParam() * pipelines; seed < (GetParam() + 1) * pipelines; ++seed) {
    const testing::DrawnPipeline drawn = testing::drawn_pipeline(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE(drawn.what);
    std::vector<RankStep> ranks = unrolled_steps(drawn.pipeline);
    ASSERT_TRUE(violations(ranks, drawn.pipeline).empty());
    const std::vector<RankClass> classes = classes_of(drawn.pipeline);
    for (int m = 0; m < each; ++m) {
      RankStep& changed = ranks[at(m) % ranks.size()];
      const RankStep correct = changed;
      Mutation mutation(changed, drawn.pipeline, static_cast<std::uint64_t>(seed * each + m));
      if (!mutation.is_possible()) continue;
      const std::string what = mutation.apply();
      const Violations found = violations(ranks, drawn.pipeline);
      ++tried;
      EXPECT_FALSE(found.empty()) << "rank " << changed.rank << ": " << what;
      const auto in_classes = split_out(changed.rank, classes, ranks);
      EXPECT_EQ(first_of(violations(in_classes, drawn.pipeline)), first_of(found)) << what;
      if (!found.empty()) {
        EXPECT_EQ(found.front().text.find('\n'), std::string::npos);
        EXPECT_NE(found.front().text.find("rank "), std::string::npos) << found.front().text;
      }
      changed = correct;
    }
  }
  EXPECT_GE(tried, 3 * each);
}

INSTANTIATE_TEST_SUITE_P(Verify, Mutations, ::testing::Range(0, 6));

}  // namespace
}  // namespace shardwright
