// Each kind of violation on a program small enough to see why, with the line that it prints.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/index.h"
#include "shardwright/verify/verify.h"
#include "tests/support/changed_transfer.h"
#include "tests/support/program.h"

namespace shardwright {
namespace {

using testing::program_of;

const char* const two_sums = R"(
mesh [a=2, b=2]
%x = input f32[4] as [4] [-]
%p = mask %x over a : f32[4] as [4] [-] sum(a)
%q = mask %x over b : f32[4] as [4] [-] sum(b)
%u = all_reduce.sum %p over a : f32[4] as [4] [-]
%v = all_reduce.sum %q over b : f32[4] as [4] [-]
%w = add %u, %v {} : f32[4] as [4] [-]
output %w
)";

/// Changes the instructions of ranks and says what is found first.
template <class F>
std::string found(const Pipeline& pipeline, F change) {
  std::vector<RankStep> ranks = unrolled_steps(pipeline);
  change(ranks);
  const Violations out = violations(ranks, pipeline);
  return out.empty() ? "nothing" : out.front().text;
}
std::string found(const Pipeline& pipeline) {
  return found(pipeline, [](auto&) {});
}

/// Where `rank` starts the transfer that makes `name`; its finish follows.
std::size_t start_of(const RankStep& rank, const Pipeline& pipeline, std::string_view name) {
  const auto it = std::find_if(rank.instructions.begin(), rank.instructions.end(), [&](const Instruction& i) {
    return i.act == Act::start &&
           pipeline.stage(rank.transfer(i).to_stage).graph.value(rank.transfer(i).parts.front().to).name ==
               name;
  });
  return static_cast<std::size_t>(it - rank.instructions.begin());
}

PreparedTransfer& transfer_called(RankStep& rank, const Pipeline& pipeline, std::string_view name) {
  const Instruction& i = rank.instructions[start_of(rank, pipeline, name)];
  return rank.transfers[static_cast<std::size_t>(i.what)];
}

TEST(Violations, a_correct_program_has_none) { EXPECT_EQ(found(program_of(two_sums)), "nothing"); }

TEST(Violations, a_rank_of_another_size) {
  const Pipeline p = program_of(two_sums);
  EXPECT_EQ(
      found(p,
            [&](auto& ranks) {
              testing::own_transfer(transfer_called(ranks[2], p, "u").parts.front()).from_shape = {8};
            }),
      "rank 2: all_reduce.sum %u over a f32[8] of ranks 0,2 but rank 0: all_reduce.sum %u over a f32[4] of "
      "ranks 0,2 (shapes differ)");
}

TEST(Violations, a_rank_that_leaves_one_out) {
  const Pipeline p = program_of(two_sums);
  EXPECT_EQ(
      found(p,
            [&](auto& ranks) {
              auto& list = ranks[3].instructions;
              const auto start = list.begin() + static_cast<std::ptrdiff_t>(start_of(ranks[3], p, "v"));
              list.erase(start, start + 2);
            }),
      "rank 2: start all_reduce.sum %v over b f32[4] of ranks 2,3 but rank 3: nothing more of this group");
}

TEST(Violations, groups_that_differ) {
  const Pipeline p = program_of(two_sums);
  EXPECT_EQ(
      found(p,
            [&](auto& ranks) {
              testing::own_transfer(transfer_called(ranks[1], p, "u").parts.front()).group = {1, 2};
            }),
      "rank 1: all_reduce.sum %u over a f32[4] of ranks 1,2 but rank 2: all_reduce.sum %u over a f32[4] of "
      "ranks 0,2");
}

// Every group sees its transfers in one order, and still everybody waits.
TEST(Violations, a_cycle_of_waits) {
  const Pipeline p = program_of(two_sums);
  EXPECT_EQ(
      found(p,
            [&](auto& ranks) {
              for (std::size_t r : {1, 2}) {
                auto& list = ranks[r].instructions;
                std::swap_ranges(list.begin() + static_cast<std::ptrdiff_t>(start_of(ranks[r], p, "u")),
                                 list.begin() + static_cast<std::ptrdiff_t>(start_of(ranks[r], p, "u")) + 2,
                                 list.begin() + static_cast<std::ptrdiff_t>(start_of(ranks[r], p, "v")));
              }
            }),
      "rank 0: finish all_reduce.sum %u over a f32[4] of ranks 0,2 waits for rank 2, but rank 2: finish "
      "all_reduce.sum %v over b f32[4] of ranks 2,3 waits for rank 3, but rank 3: finish all_reduce.sum %u "
      "over "
      "a f32[4] of ranks 1,3 waits for rank 1, but rank 1: finish all_reduce.sum %v over b f32[4] of ranks "
      "0,1 "
      "waits for rank 0: nobody can go on");
}

TEST(Violations, two_values_in_one_place) {
  Program p = program_of(two_sums);
  testing::share_place(p, "v", "u");
  EXPECT_EQ(found(p), "rank 0: %w = add: reads %u but %v has been written over it");
}

TEST(Violations, a_value_beyond_the_arena) {
  Program p = program_of(two_sums);
  p.arena_bytes -= 64;
  EXPECT_EQ(found(p), "rank 0: before the step: %w lies at 320 to 336 in an arena of 320 bytes");
}

TEST(Violations, a_transfer_that_starts_before_its_operand_is_made) {
  Program p = program_of(two_sums);
  p.starts = p.graph.node_ids();
  const NodeId node = p.graph.value(p.graph.find("u")).producer;
  p.starts[static_cast<std::size_t>(node.index)] = p.graph.value(p.graph.find("p")).producer;
  EXPECT_EQ(found(p),
            "rank 0: start all_reduce.sum %u over a f32[4] of ranks 0,2: reads %p before it is there");
}

TEST(Violations, a_result_that_is_read_while_it_is_on_its_way) {
  const Pipeline p = program_of(two_sums);
  const auto finish_behind_the_reader = [&](auto& ranks) {
    auto& list = ranks[0].instructions;
    const auto finish = list.begin() + static_cast<std::ptrdiff_t>(start_of(ranks[0], p, "v")) + 1;
    std::iter_swap(finish, finish + 1);
  };
  EXPECT_EQ(found(p, finish_behind_the_reader), "rank 0: %w = add: reads %v before it is there");
}

TEST(Violations, what_is_on_its_way_is_written_over) {
  Program p = program_of(two_sums);
  testing::share_place(p, "v", "p");
  p.starts = p.graph.node_ids();
  EXPECT_EQ(found(p), "nothing");
  const auto keep_on_its_way = [&](auto& ranks) {
    for (RankStep& rank : ranks) {
      auto& list = rank.instructions;
      const auto finish = list.begin() + static_cast<std::ptrdiff_t>(start_of(rank, p, "u")) + 1;
      std::rotate(finish, finish + 1, finish + 3);  // behind %v
    }
  };
  EXPECT_EQ(found(p, keep_on_its_way),
            "rank 0: finish all_reduce.sum %u over a f32[4] of ranks 0,2: gives %p but %v has been written "
            "over it");
}

TEST(Violations, partials_that_no_step_reduces) {
  Program p = program_of(two_sums);
  p.graph.value(p.graph.find("u")).layout->sum = p.graph.value(p.graph.find("p")).layout->sum;
  EXPECT_EQ(found(p),
            "stage 0: %u = all_reduce.sum of %p: the partials that are gone are not those that it reduces");
}

TEST(Violations, partials_over_other_axes_than_a_mask_makes) {
  Program p = program_of(two_sums);
  p.graph.value(p.graph.find("p")).layout->sum = p.graph.value(p.graph.find("q")).layout->sum;
  EXPECT_EQ(found(p), "stage 0: %p = mask of %x: the partials that are new are not those that it makes");
}

const char* const a_step = R"(
mesh [a=2, b=2]
%x = input f32[4, 4] as [8, 4] [a, -]
%w = param f32[4, 3] as [4, 6] [-, b]
%d = input f32[4, 3] as [8, 6] [a, b]
backward:
%g = matmul %x, %d (transpose_a=true) {k: a, n: b} : f32[4, 3] as [4, 6] [-, b] sum(a)
update:
%s = all_reduce.sum %g over a : f32[4, 3] as [4, 6] [-, b]
%v = add %w, %s {i1: b} : f32[4, 3] as [4, 6] [-, b]
update %w <- %v
)";

TEST(Violations, a_step_that_is_right_has_none) { EXPECT_EQ(found(program_of(a_step)), "nothing"); }

TEST(Violations, a_gradient_that_nobody_has_reduced) {
  Program p = program_of(a_step);
  p.graph.node(p.graph.value(p.graph.find("v")).producer).operands[1] = p.graph.find("g");
  EXPECT_EQ(found(p), "stage 0: %v = add: %g lies in [-, b] sum(a) but its rule reads [-, b]");
}

TEST(Violations, an_operand_that_is_split_over_another_axis) {
  Program p = program_of(a_step);
  p.graph.value(p.graph.find("d")).layout->dims = {Axes{1}, Axes{0}};
  EXPECT_EQ(found(p), "stage 0: %g = matmul: %d lies in [b, a] but its rule reads [a, b]");
}

TEST(Violations, a_result_that_the_rule_does_not_make) {
  Program p = program_of(a_step);
  p.graph.value(p.graph.find("v")).layout->dims[1] = {0};
  EXPECT_EQ(found(p), "stage 0: %v = add lies in [-, a] but its rule makes [-, b]");
}

TEST(Violations, a_leaf_whose_new_value_lies_otherwise) {
  Program p = program_of(a_step);
  p.graph.value(p.graph.find("w")).layout->dims[1] = {0};
  p.graph.node(p.graph.value(p.graph.find("v")).producer).operands[0] = p.graph.find("s");
  EXPECT_EQ(found(p), "stage 0: %w lies in [-, a] but its new value %v in [-, b]");
}

const std::string routed = R"(
mesh [a=2]
%x = input f32[4, 3] as [8, 3] [a, -]
%ids = input i32[4, 2] as [8, 2] [a, -]
%others = input i32[8, 2] as [8, 2] [-, -]
%w = input f32[8, 2] as [8, 2] [-, -]
%up = param f32[2, 3, 5] as [4, 3, 5] [a, -, -]
%down = param f32[2, 5, 3] as [4, 5, 3] [a, -, -]
%all_ids = all_gather %ids dim 0 over a : i32[8, 2] as [8, 2] [-, -]
%rows = all_gather %x, %all_ids dim 0 over a for 4 experts over a : f32[8, 3] as [8, 3] [-, -]
%partial = experts %rows, %all_ids, %w, %up, %down {e: a} : f32[8, 3] as [8, 3] [-, -] sum(a)
%y = reduce_scatter %partial, %all_ids dim 0 over a for 4 experts over a : f32[4, 3] as [8, 3] [a, -]
)";

/// Rows that are not brought are read by nobody; those that are not added up are zero.
TEST(Violations, rows_that_are_left_out) {
  const auto changed = [](std::string_view from, std::string_view to, std::string more = "") {
    std::string text = routed + std::move(more) + "output %y\n";
    text.replace(text.find(from), from.size(), to);
    return found(program_of(text));
  };
  EXPECT_EQ(changed("%y", "%y"), "nothing");
  EXPECT_EQ(changed("%y", "%y", "%z = relu %rows {} : f32[8, 3] as [8, 3] [-, -]\n"),
            "stage 0: %rows = all_gather: brings rows by %all_ids, of which z reads all");
  EXPECT_EQ(changed("%y", "%y", "output %rows\n"),
            "stage 0: %rows = all_gather: brings some rows of what is handed out");
  EXPECT_EQ(changed("%rows = all_gather %x, %all_ids", "%rows = all_gather %x, %others"),
            "stage 0: %rows = all_gather: brings rows by %others, of which partial reads all");
  EXPECT_EQ(changed("%y = reduce_scatter %partial, %all_ids", "%y = reduce_scatter %partial, %others"),
            "stage 0: %y = reduce_scatter: adds up rows by %others, by which %partial is not made");
  EXPECT_EQ(changed("%y = reduce_scatter %partial, %all_ids", "%y = reduce_scatter %partial, %ids"),
            "stage 0: %y = reduce_scatter: moves rows of %partial by %ids, which lie otherwise");
  EXPECT_EQ(changed("for 4 experts", "for 2 experts"),
            "stage 0: %rows = all_gather: brings rows by %all_ids, of which partial reads all");
}

TEST(Violations, outputs_are_handed_out_behind_what_makes_them) {
  Program p = program_of(a_step);
  p.graph.outputs.push_back(p.graph.find("s"));
  EXPECT_EQ(found(p), "nothing");
}

const char* const a_gather = R"(
mesh [a=2]
%x = input f32[4, 4] as [8, 4] [a, -]
%y = all_gather %x dim 0 over a : f32[8, 4] as [8, 4] [-, -]
%p = mask %y over a : f32[8, 4] as [8, 4] [-, -] sum(a)
%z = all_reduce.sum %p over a : f32[8, 4] as [8, 4] [-, -]
output %y
)";

TEST(Violations, pieces_of_a_tensor_in_blocks) {
  Program p = program_of(a_gather);
  EXPECT_EQ(found(p), "nothing");
  p.graph.value(p.graph.find("x")).format = parse_format("aB4b");
  EXPECT_EQ(found(p),
            "rank 0: all_gather %y over a f32[4, 4] of ranks 0,1: %y moves in pieces but %x lies in aB4b");
}

TEST(Violations, a_sum_in_another_format_than_its_addends) {
  Program p = program_of(a_gather);
  p.graph.value(p.graph.find("z")).format = parse_format("aB4b");
  EXPECT_EQ(found(p),
            "rank 0: all_reduce.sum %z over a f32[8, 4] of ranks 0,1: %z and its operand lie in different "
            "formats");
}

TEST(Violations, an_output_that_is_partial) {
  Program p = program_of(a_step);
  p.graph.outputs.push_back(p.graph.find("g"));
  EXPECT_EQ(found(p), "stage 0: %g is an output but partial: [-, b] sum(a)");
}

TEST(Violations, an_addend_of_another_rank) {
  const Program p = program_of(R"(
mesh [a=2, b=2]
%x = input f32[2] as [4] [a]
%p = mask %x over b : f32[2] as [4] [a] sum(b)
%g = all_gather %p dim 0 over a.b : f32[4] as [4] [-] sum(b)
%s = all_reduce.sum %g over b : f32[4] as [4] [-]
output %s
)");
  EXPECT_EQ(
      found(p),
      "rank 1: all_gather %g over a.b f32[2] of ranks 0,1,2,3: %g takes an addend of rank 2 for its own");
}

/// In the same place, and of the same shape, but another part of the tensor: such a step was left out as if nothing were to do.
TEST(Violations, a_mask_of_what_lies_otherwise_in_place) {
  Program p = program_of(R"(
mesh [a=2, b=2]
%x = input f32[2] as [4] [a]
%p = mask %x over a : f32[2] as [4] [b] sum(a)
%s = all_reduce.sum %p over a : f32[2] as [4] [b]
output %s
)");
  const auto number = [&](const char* name) -> int& { return p.buffer_of[at(p.graph.find(name).index)]; };
  number("p") = number("x");
  EXPECT_NE(found(p).find("%p takes 0 elements of 2"), std::string::npos) << found(p);
}

TEST(Violations, a_sum_that_lies_otherwise_than_its_addends) {
  const Program p = program_of(R"(
mesh [a=2, b=2]
%x = input f32[4] as [4] [-]
%p = mask %x over a : f32[4] as [4] [-] sum(a)
%u = all_reduce.sum %p over a : f32[2] as [4] [b]
output %u
)");
  EXPECT_EQ(found(p),
            "rank 0: all_reduce.sum %u over a f32[4] of ranks 0,2: %u sums [4] where [2] should be");
}

TEST(Violations, a_value_that_nobody_sends) {
  const Program p = program_of(R"(
mesh [a=2]
%x = receive f32[4] as [4] [-]
%y = relu %x {} : f32[4] as [4] [-]
output %y
)");
  EXPECT_EQ(found(p), "stage 0: %x is received but nobody sends it");
}

TEST(Violations, a_local_shape_that_its_layout_does_not_give) {
  Program p = program_of(two_sums);
  p.graph.value(p.graph.find("w")).type.shape = {2};
  EXPECT_EQ(found(p), "stage 0: %w f32[2]: its layout [-] of [4] gives [4]");
}

/// What `prove` says of a pipeline whose form is wrong.
template <class F>
std::string refused(F change) {
  Pipeline pipeline = program_of(a_step);
  change(pipeline);
  try {
    prove(pipeline);
    return "nothing";
  } catch (const Error& e) {
    return e.what();
  }
}

TEST(Prove, refuses_what_is_no_program) {
  EXPECT_EQ(refused([](Pipeline&) {}), "nothing");
  EXPECT_EQ(refused([](Pipeline& p) { p.stages[0].graph.nodes[3].is_fused = true; }),
            "stage 0: g: matmul is not point-wise and cannot be fused");
  EXPECT_EQ(refused([](Pipeline& p) { p.stages[0].starts = {{5}}; }), "stage 0: node 0 of 6 starts at 5");
  EXPECT_EQ(refused([](Pipeline& p) { p.stages[0].buffer_of.pop_back(); }),
            "stage 0: 5 of 6 values have a buffer or not");
  EXPECT_EQ(refused([](Pipeline& p) { p.stages[0].buffer_of[1] = 6; }), "stage 0: buffer 6 of 6");
  EXPECT_EQ(refused([](Pipeline& p) { p.stages[0].buffers[1].slots = 2; }),
            "stage 0: a buffer of 2 slots where micro-batches have 1");
  EXPECT_EQ(refused([](Pipeline& p) { p.crossings.push_back({.from = 0, .to = 1}); }),
            "a crossing from stage 0 to 1 of 1");
  EXPECT_EQ(refused([](Pipeline& p) {
              p.stages.push_back(p.stages[0]);
              p.crossings.push_back({.from = 0, .to = 1, .sent = {0}, .received = {0}});
            }),
            "stage 0: %x is not sent but stage 1 receives it as %x");
}

TEST(Prove, says_what_is_wrong_first) {
  Program p = program_of(two_sums);
  EXPECT_EQ(prove(p).arena_bytes, 384);
  testing::share_place(p, "v", "u");
  try {
    prove(p);
    FAIL();
  } catch (const InternalError& e) {  // ours: what users write cannot cause it
    EXPECT_STREQ(e.what(),
                 "rank 0: %w = add: reads %u but %v has been written over it; the plan was compiled wrongly, "
                 "which is no fault of yours: please report it with the command and its model or plan file");
  }
}

}  // namespace
}  // namespace shardwright
