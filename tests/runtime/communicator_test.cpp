// The contract of communicators: every step on every mesh gives what layout/sharded_tensor.h says.

#include "shardwright/runtime/communicator/communicator.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <cmath>
#include <functional>
#include <mutex>
#include <set>
#include <thread>

#include "shardwright/layout/sharded_tensor.h"
#include "shardwright/runtime/communicator/threads.h"

namespace shardwright {
namespace {

using Communicators = std::vector<std::unique_ptr<Communicator>>;

/// Runs `work` on a thread per rank; what a thread throws fails the test unless `work` catches it.
void on_each(Communicators& ranks, const std::function<void(Communicator&)>& work) {
  std::vector<std::jthread> threads;
  for (auto& rank : ranks) threads.emplace_back([&] { work(*rank); });
}

struct Case {
  const char* name;
  const char* mesh;
  Shape shape;
  const char* from;
  const char* to;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

const std::vector<Case> cases{
    {"slice", "mesh [a=2]", {4, 6}, "[-, -]", "[-, a]"},
    {"mask", "mesh [a=2]", {4, 6}, "[-, -]", "[-, -] sum(a)"},
    {"gather", "mesh [a=2]", {4, 6}, "[a, -]", "[-, -]"},
    {"gather_uneven", "mesh [a=4]", {3, 7}, "[-, a]", "[-, -]"},
    {"gather_two_axes", "mesh [a=2, b=3]", {12, 5}, "[a.b, -]", "[-, -]"},
    {"gather_minor", "mesh [a=2, b=3]", {13, 5}, "[a.b, -]", "[a, -]"},
    {"move", "mesh [a=4]", {8, 4}, "[a, -]", "[-, a]"},
    {"move_uneven", "mesh [a=4]", {7, 5}, "[a, -]", "[-, a]"},
    {"move_one_of_two", "mesh [a=2, b=3]", {12, 6, 3}, "[a.b, -, -]", "[a, b, -]"},
    {"scatter", "mesh [a=4]", {8, 4}, "[-, -] sum(a)", "[-, a]"},
    {"scatter_uneven", "mesh [a=2, b=3]", {1, 7}, "[-, -] sum(a, b)", "[-, b.a]"},
    {"scatter_one_row", "mesh [a=2]", {1, 7}, "[-, -] sum(a)", "[a, -]"},
    {"reduce", "mesh [a=4]", {5, 7}, "[-, -] sum(a)", "[-, -]"},
    {"reduce_scalar", "mesh [a=2, b=2]", {}, "[] sum(a, b)", "[]"},
    {"reduce_one_axis", "mesh [a=2, b=2]", {6, 4}, "[b, -] sum(a)", "[b, -]"},
    {"reduce_max", "mesh [a=2, b=3]", {70, 90}, "[-, -] max(a, b)", "[-, -]"},
    {"reduce_large", "mesh [a=2, b=3]", {130, 101}, "[-, -] sum(b)", "[-, -]"},
    {"reduce_many", "mesh [a=7]", {40, 90}, "[-, -] sum(a)", "[-, -]"},
    {"scatter_many", "mesh [a=11]", {3, 4000}, "[-, -] sum(a)", "[-, a]"},
    {"reorder", "mesh [a=2, b=3]", {12, 2}, "[a.b, -]", "[b.a, -]"},
    {"swap", "mesh [a=2, b=2]", {5, 4}, "[a, -]", "[b, -]"},
    {"swap_dims", "mesh [a=2, b=2]", {5, 4}, "[a, b]", "[b, a]"},
    {"chain", "mesh [a=2, b=2]", {8, 6}, "[a, -] sum(b)", "[b, a]"},
    {"empty_parts", "mesh [a=2, b=2]", {1, 2}, "[a.b, -]", "[-, b.a]"},
};

Layout layout_of(const char* text, const Mesh& mesh) {
  Scanner in(text);
  return parse_layout(in, mesh);
}

/// Small integers that depend on the global place and, where the value is partial, on the addend.
std::vector<Tensor> addends(const Type& type, const Layout& layout, const Mesh& mesh) {
  std::vector<Tensor> parts;
  for (int r = 0; r < mesh.size(); ++r) {
    const int addend = mesh.index_along(r, layout.sum.with(layout.max));
    std::vector<double> values(static_cast<std::size_t>(element_count(type.shape)));
    for (std::size_t i = 0; i < values.size(); ++i)
      values[i] = static_cast<double>((i * 7 + static_cast<std::size_t>(addend) * 5) % 11) - 4;
    parts.push_back(take(make_tensor(type, values), box(layout, mesh, type.shape, r)));
  }
  return parts;
}

/// Runs all steps on every rank, twice, and compares with what `apply` says after each.
void expect_as_applied(const std::vector<Step>& steps, const std::vector<Mesh>& meshes, const Type& type,
                       bool in_place) {
  std::vector<std::vector<Tensor>> want{
      addends(type, steps[0].from, meshes[static_cast<std::size_t>(steps[0].from.mesh)])};
  for (const Step& step : steps) want.push_back(apply(step, meshes, type.shape, want.back()));
  Communicators ranks = thread_communicators(meshes[0].size());
  std::mutex mutex;
  on_each(ranks, [&](Communicator& self) {
    const auto r = static_cast<std::size_t>(self.rank());
    std::vector<int> prepared;
    std::vector<Tensor> held{want[0][r]};
    for (std::size_t s = 0; s < steps.size(); ++s) {
      prepared.push_back(self.prepare(transfer_of(steps[s], meshes, type.shape, self.rank()), type.dtype));
      held.emplace_back(want[s + 1][r].type());
    }
    for (int round = 0; round < 2; ++round)
      for (std::size_t s = 0; s < steps.size(); ++s) {
        if (in_place && steps[s].kind == StepKind::all_reduce) {
          held[s + 1] = held[s];
          self.run(prepared[s], held[s + 1].bytes().data(), held[s + 1].bytes().data());
        } else {
          self.run(prepared[s], held[s].bytes().data(), held[s + 1].bytes().data());
        }
        const std::lock_guard lock(mutex);
        EXPECT_EQ(held[s + 1], want[s + 1][r]) << "rank " << r << " after " << to_text(steps[s], meshes);
      }
  });
}

class CommunicatorContract : public ::testing::TestWithParam<Case> {};

TEST_P(CommunicatorContract, moves_and_reduces_as_the_steps_say) {
  const Case& c = GetParam();
  Scanner in(c.mesh);
  const Mesh mesh = parse_mesh(in);
  for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32}) {
    const Type type{dtype, c.shape};
    Redistributor redistributor(mesh);
    const auto& r = redistributor.find(layout_of(c.from, mesh), layout_of(c.to, mesh), type);
    SCOPED_TRACE(fmt::format("{} {}", to_text(type), to_text(r, redistributor.meshes())));
    expect_as_applied(r.steps, redistributor.meshes(), type, false);
    expect_as_applied(r.steps, redistributor.meshes(), type, true);
  }
}

INSTANTIATE_TEST_SUITE_P(Steps, CommunicatorContract, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

TEST(CommunicatorContract, cases_cover_every_kind_but_exchange) {
  std::set<StepKind> seen;
  for (const Case& c : cases) {
    Scanner in(c.mesh);
    Redistributor redistributor(parse_mesh(in));
    const Mesh& mesh = redistributor.meshes()[0];
    for (const Step& s :
         redistributor.find(layout_of(c.from, mesh), layout_of(c.to, mesh), {DType::f32, c.shape}).steps)
      seen.insert(s.kind);
  }
  for (StepKind kind : {StepKind::slice, StepKind::mask, StepKind::all_gather, StepKind::all_to_all,
                        StepKind::reduce_scatter, StepKind::all_reduce, StepKind::permute})
    EXPECT_TRUE(seen.contains(kind)) << name_of(kind);
}

TEST(CommunicatorContract, exchanges_between_meshes) {
  const Mesh a{{{"x", 2}, {"y", 3}}}, b{{{"u", 3}, {"v", 2}}};
  Layout from = layout_of("[x.y, -]", a), to = layout_of("[v, u]", b);
  to.mesh = 1;
  const Step step{.kind = StepKind::exchange, .axes = {}, .from = from, .to = to};
  for (const Shape& shape : {Shape{12, 6}, Shape{7, 5}})
    expect_as_applied({step}, {a, b}, {DType::f32, shape}, false);
}

TEST(CommunicatorContract, sums_are_the_same_bits_on_every_rank) {
  const Mesh mesh{{{"a", 4}}};
  const Step step{.kind = StepKind::all_reduce,
                  .axes = {0},
                  .from = layout_of("[-] sum(a)", mesh),
                  .to = layout_of("[-]", mesh)};
  const Type type{DType::f32, {1000}};
  Communicators ranks = thread_communicators(4);
  std::vector<Tensor> results(4, Tensor(type));
  on_each(ranks, [&](Communicator& self) {
    const std::vector<Mesh> meshes{mesh};
    const int prepared = self.prepare(transfer_of(step, meshes, type.shape, self.rank()), type.dtype);
    Tensor addend(type);
    for (std::size_t i = 0; i < 1000; ++i)
      addend.as<float>()[i] = std::pow(10.0F, static_cast<float>(self.rank())) / static_cast<float>(i + 3);
    self.run(prepared, addend.bytes().data(), results[static_cast<std::size_t>(self.rank())].bytes().data());
  });
  for (int r = 1; r < 4; ++r) EXPECT_EQ(results[static_cast<std::size_t>(r)], results[0]);
}

TEST(Communicator, barrier_lets_nobody_pass_before_all_have_come) {
  Communicators ranks = thread_communicators(3);
  std::atomic<int> before{0};
  on_each(ranks, [&](Communicator& self) {
    for (int round = 1; round <= 50; ++round) {
      ++before;
      self.barrier();
      EXPECT_GE(before.load(), 3 * round);
      self.barrier();
    }
  });
}

TEST(Communicator, a_failing_rank_stops_all_with_its_message) {
  const auto start = std::chrono::steady_clock::now();
  Communicators ranks = thread_communicators(4);
  std::atomic<int> stopped{0};
  on_each(ranks, [&](Communicator& self) {
    if (self.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so that the others are asleep
      self.fail("disk full");
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        self.barrier();
        ADD_FAILURE() << "rank " << self.rank() << " went on";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::peer);
        EXPECT_STREQ(e.what(), "rank 2 failed: disk full");
        ++stopped;
      }
    }
  });
  EXPECT_EQ(stopped, 8);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(2));
}

TEST(Communicator, ranks_that_run_different_transfers_are_told) {
  const std::vector<Mesh> meshes{{{{"a", 2}}}};
  const Step step{.kind = StepKind::all_gather,
                  .axes = {0},
                  .dim_from = 0,
                  .from = layout_of("[a]", meshes[0]),
                  .to = layout_of("[-]", meshes[0])};
  Communicators ranks = thread_communicators(2);
  std::atomic<int> told{0};
  on_each(ranks, [&](Communicator& self) {
    const Transfer t = transfer_of(step, meshes, {4}, self.rank());
    const int first = self.prepare(t, DType::f32), second = self.prepare(t, DType::f32);
    Tensor from({DType::f32, {2}}), to({DType::f32, {4}});
    try {
      self.run(self.rank() == 0 ? first : second, from.bytes().data(), to.bytes().data());
    } catch (const InternalError&) {
      ++told;
    }
  });
  EXPECT_EQ(told, 2);
}

}  // namespace
}  // namespace shardwright
