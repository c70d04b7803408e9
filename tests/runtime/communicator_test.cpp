// The contract of communicators: every step on every mesh gives what layout/sharded_tensor.h says.

#include "shardwright/runtime/communicator/communicator.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>
#include <deque>
#include <random>
#include <set>
#include <thread>

#include "shardwright/layout/sharded_tensor.h"
#include "tests/support/allocations.h"
#include "tests/support/device.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

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

/// Of the rank that this thread runs.
Backend& own_device() {
  thread_local const std::unique_ptr<Backend> device = testing::device();
  return *device;
}

/// A tensor where communicators can reach it.
struct Buffer {
  Buffer(Communicator& communicator, Type t)
      : type(std::move(t)), memory(communicator.allocate(tensor_bytes(), own_device())) {}

  std::int64_t tensor_bytes() const {
    return element_count(type.shape) * static_cast<std::int64_t>(size_of(type.dtype));
  }
  std::byte* data() const { return memory.data(); }
  void fill(const Tensor& t) const { own_device().write(data(), t.bytes()); }
  void fill(double value) const { own_device().fill({type.dtype, type.shape, data()}, value); }
  Tensor tensor() const { return testing::read(own_device(), {type.dtype, type.shape, data()}); }

  Type type;
  Memory memory;
};

int prepare(Communicator& self, const Transfer& t, DType dtype, const std::byte* from, std::byte* to) {
  const BoundTransfer bound{t, dtype, from, to};
  return self.prepare({&bound, 1});
}

/// Runs all steps on every rank, twice, and compares with what `apply` says after each.
void expect_as_applied(const std::vector<Step>& steps, const std::vector<Mesh>& meshes, const Type& type,
                       bool in_place) {
  std::vector<std::vector<Tensor>> want{
      addends(type, steps[0].from, meshes[static_cast<std::size_t>(steps[0].from.mesh)])};
  for (const Step& step : steps) want.push_back(apply(step, meshes, type.shape, want.back()));
  on_each_rank(meshes[0].size(), [&](Communicator& self) {
    const auto r = static_cast<std::size_t>(self.rank());
    std::vector<int> prepared;
    std::deque<Buffer> held;
    held.emplace_back(self, want[0][r].type());
    held[0].fill(want[0][r]);
    const auto is_here = [&](std::size_t s) { return in_place && steps[s].kind == StepKind::all_reduce; };
    for (std::size_t s = 0; s < steps.size(); ++s) {
      held.emplace_back(self, want[s + 1][r].type());
      prepared.push_back(prepare(self, transfer_of(steps[s], meshes, type.shape, self.rank()), type.dtype,
                                 held[is_here(s) ? s + 1 : s].data(), held[s + 1].data()));
    }
    for (int round = 0; round < 2; ++round)
      for (std::size_t s = 0; s < steps.size(); ++s) {
        if (is_here(s)) held[s + 1].fill(held[s].tensor());
        self.run(prepared[s]);
        EXPECT_EQ(held[s + 1].tensor(), want[s + 1][r])
            << "rank " << r << " after " << to_text(steps[s], meshes);
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

/// Rows of a tensor that go to few of many experts.
struct RoutedCase {
  const char* name;
  const char* mesh;
  Shape shape;
  const char* apart;     // rows, as devices have them before a gather and behind a sum
  const char* together;  // as operators read and make them
  const char* experts;   // axes over which these are split
};

void PrintTo(const RoutedCase& c, std::ostream* out) { *out << c.name; }

/// For each row `choices` experts, some of which are none.
Tensor drawn_ids(const Shape& rows, std::int64_t experts, std::int64_t choices, DType dtype) {
  Shape shape = rows;
  shape.back() = choices;
  std::mt19937 random(7);
  std::vector<double> ids(static_cast<std::size_t>(element_count(shape)));
  for (double& id : ids)
    id = static_cast<double>(random() % static_cast<unsigned>(experts + 2)) - 1;  // -1, and one that is none
  return make_tensor({dtype, shape}, ids);
}

class RoutedRowsContract : public ::testing::TestWithParam<RoutedCase> {
 protected:
  static constexpr std::int64_t experts = 12, choices = 2;

  RoutedRowsContract()
      : mesh_(parsed(GetParam().mesh)),
        apart_(layout_of(GetParam().apart, mesh_)),
        together_(layout_of(GetParam().together, mesh_)) {
    Scanner in(GetParam().experts);
    routing_ = {experts, parse_axes(in, mesh_), choices};
    ids_ = drawn_ids(GetParam().shape, experts, choices, DType::i64);
  }

  static Mesh parsed(const char* text) {
    Scanner in(text);
    return parse_mesh(in);
  }

  bool has_expert_of(int rank, std::size_t row) const {
    const std::int64_t each = experts / mesh_.count(routing_.axes),
                       first = each * mesh_.index_along(rank, routing_.axes);
    const auto ids = ids_.as<std::int64_t>().subspan(row * choices, choices);
    return std::ranges::any_of(ids, [&](std::int64_t e) { return e >= first && e < first + each; });
  }

  /// `part`, of layout `layout`, with `value` in the rows of which no rank has an expert that differs from this one along `others`.
  Tensor masked(Tensor part, const Layout& layout, int rank, const Axes& others, double value) const {
    const Box own = box(layout, mesh_, GetParam().shape, rank);
    std::vector<double> values = to_doubles(part);
    const auto width = static_cast<std::size_t>(own.extent.back());
    for (std::size_t i = 0; i * width < values.size(); ++i) {
      std::size_t left = i, row = 0, stride = 1;  // in the whole
      for (std::size_t d = own.extent.size() - 1; d-- > 0;) {
        const auto extent = static_cast<std::size_t>(own.extent[d]);
        row += (left % extent + static_cast<std::size_t>(own.offset[d])) * stride;
        left /= extent, stride *= static_cast<std::size_t>(GetParam().shape[d]);
      }
      const std::vector<int> ranks = mesh_.group_of(rank, others);
      if (std::ranges::any_of(ranks, [&](int r) { return has_expert_of(r, row); })) continue;
      std::fill_n(values.begin() + static_cast<std::ptrdiff_t>(i * width), width, value);
    }
    return make_tensor(part.type(), values);
  }

  /// A gather, or a sum, of one dim after the other.
  std::vector<Step> steps(StepKind kind, Layout now) const {
    std::vector<Step> out;
    for (std::size_t d = 0; d < now.dims.size(); ++d) {
      const Axes& apart = apart_.dims[d];
      const Axes axes = apart.suffix(apart.size() - together_.dims[d].size());
      if (axes.empty()) continue;
      Layout next = now;
      next.dims[d] = kind == StepKind::all_gather ? together_.dims[d] : apart;
      next.sum = now.sum.without(axes);
      out.push_back({.kind = kind,
                     .axes = axes,
                     .dim_from = static_cast<int>(d),
                     .from = now,
                     .to = next,
                     .routing = routing_});
      now = next;
    }
    return out;
  }

  /// Along which rows stay apart while they lie so.
  static Axes split(const Layout& layout) {
    Axes out;
    for (const Axes& dim : layout.dims) out = out.with(dim);
    return out;
  }

  Mesh mesh_;
  Layout apart_, together_;
  Routing routing_;
  Tensor ids_{Type{}};
};

/// Runs `step` on a rank: from `from` to what is returned.
Tensor routed(Communicator& self, const Step& step, const Mesh& mesh, const Shape& shape, const Tensor& from,
              const Tensor& whole_ids, const Type& to) {
  const Buffer given(self, from.type()), made(self, to);
  const Layout& gathered = step.kind == StepKind::all_gather ? step.to : step.from;
  Layout rows = gathered;
  rows.sum = {};
  const Tensor own = take(whole_ids, box(rows, mesh, whole_ids.type().shape, self.rank()));
  const Buffer ids(self, own.type());
  given.fill(from);
  made.fill(99);
  ids.fill(own);
  const BoundTransfer bound{transfer_of(step, std::span(&mesh, 1), shape, self.rank()),
                            to.dtype,
                            given.data(),
                            made.data(),
                            ids.data(),
                            own.type().dtype};
  const int prepared = self.prepare({&bound, 1});
  self.run(prepared);
  self.run(prepared);
  return made.tensor();
}

TEST_P(RoutedRowsContract, are_brought_to_who_has_their_experts) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Type type{dtype, GetParam().shape};
    std::vector<Tensor> parts = addends(type, apart_, mesh_);
    for (const Step& step : steps(StepKind::all_gather, apart_)) {
      std::vector<Tensor> want = apply(step, std::span(&mesh_, 1), type.shape, parts);
      for (std::size_t r = 0; r < want.size(); ++r)
        want[r] = masked(want[r], step.to, static_cast<int>(r), split(step.to), 0);
      on_each_rank(mesh_.size(), [&](Communicator& self) {
        const auto r = static_cast<std::size_t>(self.rank());
        const Tensor have = routed(self, step, mesh_, type.shape, parts[r], ids_, want[r].type());
        if (!ranks_are_processes()) {
          EXPECT_EQ(have, want[r]) << "rank " << r;
        }
        // Between hosts a rank also has what it has received for others of its host.
        EXPECT_EQ(masked(have, step.to, self.rank(), split(step.to), 0), want[r]) << "rank " << r;
      });
      parts = std::move(want);
    }
  }
}

/// What a rank has of rows of none of its experts is not looked at.
TEST_P(RoutedRowsContract, are_added_up_by_who_has_their_experts) {
  for (const DType dtype : {DType::f32, DType::bf16, DType::f64}) {
    const Type type{dtype, GetParam().shape};
    Layout partial = together_;
    partial.sum = split(apart_).without(split(together_)).sorted();
    std::vector<Tensor> parts = addends(type, partial, mesh_);
    for (std::size_t r = 0; r < parts.size(); ++r)
      parts[r] = masked(parts[r], partial, static_cast<int>(r), {}, 0);
    for (const Step& step : steps(StepKind::reduce_scatter, partial)) {
      const std::vector<Tensor> want = apply(step, std::span(&mesh_, 1), type.shape, parts);
      for (std::size_t r = 0; r < parts.size(); ++r)
        parts[r] = masked(parts[r], step.from, static_cast<int>(r), split(step.from), std::nan(""));
      on_each_rank(mesh_.size(), [&](Communicator& self) {
        const auto r = static_cast<std::size_t>(self.rank());
        EXPECT_EQ(routed(self, step, mesh_, type.shape, parts[r], ids_, want[r].type()), want[r])
            << "rank " << r << " after " << to_text(step, std::span(&mesh_, 1));
      });
      parts = want;
    }
  }
}

INSTANTIATE_TEST_SUITE_P(
    Steps, RoutedRowsContract,
    ::testing::Values(RoutedCase{"two", "mesh [a=2]", {6, 3}, "[a, -]", "[-, -]", "a"},
                      RoutedCase{"four", "mesh [a=4]", {3, 4, 5}, "[-, a, -]", "[-, -, -]", "a"},
                      RoutedCase{"uneven", "mesh [a=3]", {7, 4}, "[a, -]", "[-, -]", "a"},
                      RoutedCase{"one_feature", "mesh [a=4]", {8, 1}, "[a, -]", "[-, -]", "a"},
                      RoutedCase{"some", "mesh [a=2, b=2]", {8, 3}, "[a.b, -]", "[a, -]", "b"},
                      RoutedCase{"features_beside", "mesh [a=2, b=2]", {8, 3}, "[a.b, -]", "[-, -]", "a"},
                      RoutedCase{"two_axes", "mesh [a=2, b=2]", {8, 3}, "[a.b, -]", "[-, -]", "a.b"},
                      RoutedCase{"two_dims", "mesh [a=2, b=2]", {4, 6, 3}, "[a, b, -]", "[-, -, -]", "a.b"},
                      RoutedCase{"turned", "mesh [a=2, b=2]", {4, 6, 3}, "[a, b, -]", "[-, -, -]", "b.a"},
                      RoutedCase{"six", "mesh [a=2, b=3]", {4, 9, 2}, "[a, b, -]", "[-, -, -]", "a.b"}),
    [](const auto& each) { return each.param.name; });

TEST(CommunicatorContract, exchanges_between_meshes) {
  const Mesh a{{{"x", 2}, {"y", 3}}}, b{{{"u", 3}, {"v", 2}}};
  Layout from = layout_of("[x.y, -]", a), to = layout_of("[v, u]", b);
  to.mesh = 1;
  const Step step{.kind = StepKind::exchange, .axes = {}, .from = from, .to = to};
  for (const Shape& shape : {Shape{12, 6}, Shape{7, 5}})
    expect_as_applied({step}, {a, b}, {DType::f32, shape}, false);
}

TEST(CommunicatorContract, sums_are_the_same_bits_on_every_rank) {
  const std::vector<Mesh> meshes{{{{"a", 4}}}};
  const Step sum{.kind = StepKind::all_reduce,
                 .axes = {0},
                 .from = layout_of("[-] sum(a)", meshes[0]),
                 .to = layout_of("[-]", meshes[0])};
  const Step gather{.kind = StepKind::all_gather,
                    .axes = {0},
                    .dim_from = 0,
                    .from = layout_of("[a]", meshes[0]),
                    .to = layout_of("[-]", meshes[0])};
  on_each_rank(4, [&](Communicator& self) {
    const Buffer own(self, {DType::f32, {1000}}), all(self, {DType::f32, {4000}});
    const int summed =
        prepare(self, transfer_of(sum, meshes, {1000}, self.rank()), DType::f32, own.data(), own.data());
    const int gathered =
        prepare(self, transfer_of(gather, meshes, {4000}, self.rank()), DType::f32, own.data(), all.data());
    Tensor addend(own.type);
    for (std::size_t i = 0; i < 1000; ++i)
      addend.as<float>()[i] = std::pow(10.0F, static_cast<float>(self.rank())) / static_cast<float>(i + 3);
    own.fill(addend);
    self.run(summed);
    self.run(gathered);
    const Tensor sum_of_all = own.tensor(), together = all.tensor();
    for (std::size_t r = 0; r < 4; ++r)
      EXPECT_EQ(std::memcmp(together.bytes().data() + r * 4000, sum_of_all.bytes().data(), 4000), 0)
          << "rank " << self.rank() << ", " << r;
  });
}

/// Sums, gathers and scatters of `count` elements per rank over all of 4 ranks, with what they should give.
struct Mixed {
  Mixed(Communicator& self, std::int64_t elements)
      : count(elements), rank(self.rank()), memory(self, {DType::f32, {12 * count}}) {
    const Layout partial = layout_of("[-] sum(a)", meshes[0]), whole = layout_of("[-]", meshes[0]);
    const Layout sharded = layout_of("[a]", meshes[0]);
    const auto bind = [&](Step step, float* from, float* to) {
      step.axes = {0};
      return BoundTransfer{transfer_of(step, meshes, {4 * count}, rank), DType::f32,
                           reinterpret_cast<std::byte*>(from), reinterpret_cast<std::byte*>(to)};
    };
    all.push_back(bind({.kind = StepKind::all_reduce, .from = partial, .to = whole}, sum(), sum()));
    all.push_back(bind({.kind = StepKind::all_gather, .dim_from = 0, .from = sharded, .to = whole}, part(),
                       gathered()));
    all.push_back(bind({.kind = StepKind::reduce_scatter, .dim_from = 0, .from = partial, .to = sharded},
                       gathered(), scattered()));
  }

  float* sum() const { return reinterpret_cast<float*>(memory.data()); }
  float* part() const { return sum() + 4 * count; }
  float* gathered() const { return sum() + 5 * count; }
  float* scattered() const { return sum() + 9 * count; }

  /// The numbers from one of the above on.
  std::vector<double> numbers(const float* from, std::int64_t n) const {
    auto* const data = const_cast<std::byte*>(reinterpret_cast<const std::byte*>(from));
    return to_doubles(testing::read(own_device(), {DType::f32, {n}, data}));
  }

  void fill(int round) const {
    Tensor operands({DType::f32, {5 * count}});  // of the sum and the part
    for (std::int64_t i = 0; i < 5 * count; ++i)
      operands.as<float>()[static_cast<std::size_t>(i)] =
          static_cast<float>(i < 4 * count ? i % 13 + rank * round : rank * count + i - 4 * count + round);
    memory.fill(operands);
  }
  void expect_sum_and_gathered(int round) const {
    const std::vector<double> sums = numbers(sum(), 4 * count), together = numbers(gathered(), 4 * count);
    for (std::int64_t i = 0; i < 4 * count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      ASSERT_EQ(sums[at], static_cast<double>(4 * (i % 13) + 6 * round)) << "rank " << rank << ", " << i;
      ASSERT_EQ(together[at], static_cast<double>(i + round)) << "rank " << rank << ", " << i;
    }
  }
  void expect_scattered(int round) const {
    const std::vector<double> part_of_sum = numbers(scattered(), count);
    for (std::int64_t i = 0; i < count; ++i)
      ASSERT_EQ(part_of_sum[static_cast<std::size_t>(i)], static_cast<double>(4 * (rank * count + i + round)))
          << rank << ", " << i;
  }

  std::vector<Mesh> meshes{{{{"a", 4}}}};
  std::int64_t count;
  int rank;
  Buffer memory;
  std::vector<BoundTransfer> all;
};

TEST(CommunicatorContract, many_may_be_started_before_the_first_is_finished) {
  on_each_rank(4, [](Communicator& self) {
    std::deque<Mixed> sets;
    std::vector<int> prepared;
    for (std::int64_t count : {1, 100, 3000}) {
      const Mixed& set = sets.emplace_back(self, count);
      for (const BoundTransfer& t : set.all) prepared.push_back(self.prepare({&t, 1}));
    }
    for (int round = 0; round < 30; ++round) {
      if ((round + self.rank()) % 7 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      for (std::size_t s = 0; s < sets.size(); ++s) {
        sets[s].fill(round);
        self.start(prepared[3 * s]);
        self.start(prepared[3 * s + 1]);
        if (round % 2) self.progress();
      }
      for (std::size_t s = 0; s < sets.size(); ++s) {
        self.finish(prepared[3 * s]);
        self.finish(prepared[3 * s + 1]);
        sets[s].expect_sum_and_gathered(round);
        self.run(prepared[3 * s + 2]);
        sets[s].expect_scattered(round);
      }
    }
  });
}

/// Between hosts what is large crosses in parts.
TEST(CommunicatorContract, what_is_large_arrives_whole) {
  on_each_rank(4, [](Communicator& self) {
    const Mixed set(self, 300'001);
    std::vector<int> prepared;
    for (const BoundTransfer& t : set.all) prepared.push_back(self.prepare({&t, 1}));
    for (int round = 0; round < 2; ++round) {
      set.fill(round);
      for (int t : {0, 1}) self.start(prepared[static_cast<std::size_t>(t)]);
      for (int t : {1, 0}) self.finish(prepared[static_cast<std::size_t>(t)]);
      set.expect_sum_and_gathered(round);
      self.run(prepared[2]);
      set.expect_scattered(round);
    }
  });
}

TEST(CommunicatorContract, transfers_finish_in_another_order_than_they_started) {
  on_each_rank(4, [](Communicator& self) {
    const Mixed set(self, 700), other(self, 5);
    std::vector<int> prepared;
    for (const Mixed* s : {&set, &other})
      for (const std::size_t kind : {0, 1}) prepared.push_back(self.prepare({&s->all[kind], 1}));
    for (int round = 0; round < 10; ++round) {
      set.fill(round);
      other.fill(round);
      for (int number : prepared) self.start(number);
      for (std::size_t i : {3, 0, 2, 1}) self.finish(prepared[i]);
      set.expect_sum_and_gathered(round);
      other.expect_sum_and_gathered(round);
    }
  });
}

// A rank that starts and finishes, and never asks for progress, starts each transfer as one that is new.
TEST(CommunicatorContract, running_a_transfer_again_and_again_allocates_nothing) {
  on_each_rank(4, [](Communicator& self) {
    const Mixed set(self, 5);
    const int sum = self.prepare({&set.all[0], 1});
    set.fill(0);
    self.run(sum);
    const std::int64_t before = testing::allocations_of_this_thread();
    for (int i = 0; i < 1000; ++i) self.run(sum);
    EXPECT_EQ(testing::allocations_of_this_thread(), before) << "rank " << self.rank();
  });
}

// As a crossing is prepared for every micro-batch. Sums hold a copy for each host that takes part, and their result.
TEST(CommunicatorContract, transfers_that_run_in_turn_share_their_memory) {
  on_each_rank(4, [](Communicator& self) {
    constexpr std::int64_t count = 1 << 16;
    const Mixed set(self, count);
    const std::int64_t before = testing::bytes_allocated_by_this_thread();
    for (std::size_t kind : {0, 1, 2})
      for (int m = 0; m < 50; ++m) {
        const int prepared = self.prepare({&set.all[kind], 1});
        self.run(prepared);
      }
    constexpr std::int64_t whole = 4 * count * 4;  // bytes of the largest tensor
    EXPECT_LE(testing::bytes_allocated_by_this_thread() - before, 10 * whole) << "rank " << self.rank();
  });
}

TEST(CommunicatorContract, transfers_of_one_group_run_as_one) {
  on_each_rank(4, [](Communicator& self) {
    const Mixed small(self, 5), large(self, 700);
    std::vector<int> merged;
    for (std::size_t kind : {0, 1, 2}) {
      const BoundTransfer both[] = {small.all[kind], large.all[kind]};
      merged.push_back(self.prepare(both));
    }
    for (int round = 0; round < 5; ++round) {
      for (const Mixed* set : {&small, &large}) set->fill(round);
      for (int number : merged) self.run(number);
      for (const Mixed* set : {&small, &large}) {
        set->expect_sum_and_gathered(round);
        set->expect_scattered(round);
      }
    }
  });
}

// The last rank comes only when all others have started: a start that waited for it would never return.
TEST(CommunicatorContract, start_does_not_wait_for_a_late_rank) {
  on_each_rank(4, [&](Communicator& self) {
    const Mixed set(self, 1000);
    std::vector<int> prepared;
    for (const BoundTransfer& t : set.all) prepared.push_back(self.prepare({&t, 1}));
    set.fill(1);
    self.barrier();
    if (self.rank() == 3) self.barrier();
    self.start(prepared[0]);
    self.start(prepared[1]);
    self.progress();
    if (self.rank() != 3) self.barrier();
    self.finish(prepared[0]);
    self.finish(prepared[1]);
    set.expect_sum_and_gathered(1);
  });
}

/// Ranks 0 and 1 are neighbours, 3 and 4 likewise; on two hosts each pair has one of its own. Rank 0 sends to 3, then sums
/// with 1, which waits for what 4 sends before it sums with 3, which waits for what 0 sends.
TEST(CommunicatorContract, what_has_been_started_arrives_while_its_sender_waits_for_a_neighbour) {
  constexpr std::int64_t count = 1 << 20;
  const auto move = [](int rank, int from, int to, int channel) {
    Transfer t{.kind = StepKind::exchange,
               .group = {std::min(from, to), std::max(from, to)},
               .from_shape = {count},
               .to_shape = {count}};
    if (rank == to) t.pieces = {{.source = from, .extent = {count}, .from_strides = {1}, .to_strides = {1}}};
    t.channel = channel;
    return t;
  };
  on_each_rank(6, [&](Communicator& self) {
    const int rank = self.rank();
    const Buffer moved(self, {DType::f32, {count}}), summed(self, {DType::f32, {1}});
    if (rank % 3 == 2) return;
    const bool sends = rank == 0 || rank == 4;
    const int first = rank % 3 == 0 ? 0 : 4, second = rank % 3 == 0 ? 3 : 1;
    const int crossing = prepare(self, move(rank, first, second, 1), DType::f32,
                                 sends ? moved.data() : nullptr, sends ? nullptr : moved.data());
    const std::vector<Mesh> meshes{{{{"a", 2}}}};
    const Step step{.kind = StepKind::all_reduce,
                    .axes = {0},
                    .from = layout_of("[-] sum(a)", meshes[0]),
                    .to = layout_of("[-]", meshes[0])};
    const Transfer sum = shifted(transfer_of(step, meshes, {1}, rank % 3), rank / 3 * 3);
    const int neighbours = prepare(self, sum, DType::f32, summed.data(), summed.data());
    for (int round = 1; round <= 3; ++round) {
      if (sends) moved.fill(round);
      summed.fill(1);
      self.start(crossing);
      if (!sends) {
        self.finish(crossing);
        const Tensor came = moved.tensor();
        EXPECT_EQ(std::ranges::count(came.as<float>(), static_cast<float>(round)), count);
      }
      self.run(neighbours);
      EXPECT_EQ(to_doubles(summed.tensor()).front(), 2);
      if (sends) self.finish(crossing);
    }
  });
}

/// Nobody leaves a barrier before the last one has come to it, by the clock that all processes of a host share.
TEST(Communicator, barrier_lets_nobody_pass_before_all_have_come) {
  const std::vector<Mesh> meshes{{{{"a", 3}}}};
  const Step sum{.kind = StepKind::all_reduce,
                 .axes = {0},
                 .from = layout_of("[] sum(a)", meshes[0]),
                 .to = layout_of("[]", meshes[0])};
  const auto now = [] {
    return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count();
  };
  on_each_rank(3, [&](Communicator& self) {
    const Buffer coming(self, {DType::f64, {}});
    const int told =
        prepare(self, transfer_of(sum, meshes, {}, self.rank()), DType::f64, coming.data(), coming.data());
    for (int late = 0; late < 3; ++late) {
      if (self.rank() == late) std::this_thread::sleep_for(std::chrono::milliseconds(30));
      coming.fill(self.rank() == late ? now() : 0);
      self.barrier();
      const double passed = now();
      self.run(told);
      EXPECT_GE(passed, to_doubles(coming.tensor()).front());
    }
  });
}

TEST(Communicator, a_failing_rank_stops_all_with_its_message) {
  const auto start = std::chrono::steady_clock::now();
  on_each_rank(4, [&](Communicator& self) {
    self.barrier();
    if (self.rank() == 2) {
      std::this_thread::sleep_for(std::chrono::milliseconds(30));  // so that the others are asleep
      EXPECT_TRUE(self.fail("disk full"));
    }
    for (int attempt = 0; attempt < 2; ++attempt) {
      try {
        self.barrier();
        ADD_FAILURE() << "rank " << self.rank() << " went on";
      } catch (const Error& e) {
        EXPECT_EQ(e.kind(), ErrorKind::peer);
        EXPECT_STREQ(e.what(), "rank 2 failed: disk full");
      }
    }
    EXPECT_FALSE(self.fail("late"));
  });
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
}

// Whether the others are at work on the sum, asleep or not yet there, they hear of it, and so does a later start.
TEST(Communicator, a_rank_that_fails_with_transfers_on_their_way_stops_all) {
  for (const bool at_once : {true, false})
    on_each_rank(4, [&](Communicator& self) {
      const Mixed set(self, 1000);
      std::vector<int> prepared;
      for (const BoundTransfer& t : set.all) prepared.push_back(self.prepare({&t, 1}));
      set.fill(1);
      const auto expect_told = [&](const char* call, const auto& run) {
        try {
          run();
          ADD_FAILURE() << call << ": rank " << self.rank() << " went on";
        } catch (const Error& e) {
          EXPECT_EQ(e.kind(), ErrorKind::peer) << call;
          EXPECT_STREQ(e.what(), "rank 2 failed: disk full") << call;
        }
      };
      if (self.rank() == 2) {
        self.barrier();
        self.start(prepared[0]);
        self.start(prepared[1]);
        if (!at_once) std::this_thread::sleep_for(std::chrono::milliseconds(20));
        EXPECT_TRUE(self.fail("disk full"));
      } else {
        // Rank 2 never works on its part nor closes, so nobody can finish. Calls before that may be told already.
        expect_told("start, finish", [&] {
          self.barrier();
          self.start(prepared[0]);
          self.start(prepared[1]);
          self.finish(prepared[1]);
        });
        expect_told("finish", [&] { self.finish(prepared[0]); });
      }
      expect_told("start", [&] {
        self.start(prepared[2]);
        if (!own_device().is_host()) self.finish(prepared[2]);  // peers hear of it when its operand has come
      });
    });
}

TEST(Communicator, ranks_that_run_different_transfers_are_told) {
  const std::vector<Mesh> meshes{{{{"a", 2}}}};
  const Step step{.kind = StepKind::all_gather,
                  .axes = {0},
                  .dim_from = 0,
                  .from = layout_of("[a]", meshes[0]),
                  .to = layout_of("[-]", meshes[0])};
  on_each_rank(2, [&](Communicator& self) {
    const Transfer t = transfer_of(step, meshes, {4}, self.rank());
    const Buffer from(self, {DType::f32, {2}}), to(self, {DType::f32, {4}});
    const int first = prepare(self, t, DType::f32, from.data(), to.data());
    const int second = prepare(self, t, DType::f32, from.data(), to.data());
    if (self.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(30));
    try {
      self.run(self.rank() == 0 ? first : second);
      ADD_FAILURE() << "rank " << self.rank() << " went on";
    } catch (const InternalError& e) {  // the second to come
      EXPECT_EQ(self.rank(), 1);
      EXPECT_TRUE(self.fail("another transfer"));
    } catch (const Error& e) {
      EXPECT_EQ(self.rank(), 0);
      EXPECT_STREQ(e.what(), "rank 1 failed: another transfer");
    }
  });
}

}  // namespace
}  // namespace shardwright
