// The arena of whole programs, checked by walking through them with the bytes that each value owns.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/model.h"
#include "shardwright/lower/spmd.h"
#include "shardwright/passes/compile.h"
#include "shardwright/plan/complete.h"
#include "tests/support/program.h"
#include "tests/support/transformer.h"

namespace shardwright {
namespace {

std::size_t at(ValueId v) { return static_cast<std::size_t>(v.index); }

/// Runs the program on paper: each byte of the arena remembers which value was last written there, and every
/// read, also by the outputs and updates at the end, must find the value that it wants.
class Walk {
 public:
  explicit Walk(const Program& p)
      : p_(p), owner_(static_cast<std::size_t>(p.arena_bytes / grain), -1), content_(p.graph.values.size()) {
    for (std::size_t v = 0; v < content_.size(); ++v) content_[v] = static_cast<int>(v);
  }

  /// What is wrong, or nothing.
  std::string run() {
    if (p_.offsets.size() != p_.graph.values.size()) return "values without a place";
    for (const Value& v : p_.graph.values)
      if (is_leaf(v)) write(id_of(v));
    for (NodeId id : p_.graph.node_ids()) {
      const Node& node = p_.graph.node(id);
      if (node.op->kind != OpKind::compute && node.op->kind != OpKind::step) continue;
      for (ValueId v : node.operands) read(v, "read by " + p_.graph.name_of(id));
      // While it writes results a node still reads its operands: they may lie in one place only where the
      // operator says so, or where it moves nothing.
      for (std::size_t r = 0; r < node.results.size(); ++r)
        for (std::size_t o = 0; o < node.operands.size(); ++o)
          if (overlap(node.results[r], node.operands[o]) && !may_share(node, r, o))
            note(fmt::format("%{} is written over operand %{}", name(node.results[r]),
                             name(node.operands[o])));
      for (std::size_t r = 0; r < node.results.size(); ++r) {
        const bool is_same = node.op->is_alias && offset(node.results[r]) == offset(node.operands[0]);
        if (is_same) content_[at(node.results[r])] = content_[at(node.operands[0])];
        if (!is_same) write(node.results[r]);
      }
    }
    for (ValueId v : p_.graph.outputs) read(v, "an output");
    for (const Update& u : p_.graph.updates) {
      read(u.value, "the new value of %" + name(u.leaf));
      // In place of the leaf, or elsewhere and copied later: never across its borders, nor in another leaf.
      if (overlap(u.leaf, u.value) && offset(u.leaf) != offset(u.value))
        note("a new value half over its leaf");
    }
    for (const Value& v : p_.graph.values) {
      if (!is_kept(v) || is_updated(id_of(v))) continue;
      read(id_of(v), "kept for the next step");
    }
    for (const Value& a : p_.graph.values)
      for (const Value& b : p_.graph.values)
        if (&a != &b && is_kept(a) && is_kept(b) && overlap(id_of(a), id_of(b)))
          note(fmt::format("%{} and %{} are kept in one place", a.name, b.name));
    return wrong_;
  }

  /// Largest sum of the bytes of values that are alive at one node, aliases and values in place counted once.
  std::int64_t peak() const {
    const int n = static_cast<int>(p_.graph.nodes.size());
    std::vector<int> last(p_.graph.values.size(), -1);
    for (NodeId id : p_.graph.node_ids())
      for (ValueId v : p_.graph.node(id).operands) last[at(v)] = id.index;
    for (ValueId v : p_.graph.outputs) last[at(v)] = n;
    for (const Update& u : p_.graph.updates) last[at(u.value)] = n;
    std::int64_t most = 0;
    for (int i = 0; i < n; ++i) {
      std::map<std::int64_t, std::int64_t> by_offset;
      for (const Value& v : p_.graph.values) {
        const bool is_alive = is_kept(v) || (v.producer.index <= i && last[at(id_of(v))] >= i) ||
                              v.producer.index == i || (is_leaf(v) && last[at(id_of(v))] >= i);
        if (!is_alive) continue;
        auto& bytes = by_offset[offset(id_of(v))];
        bytes = std::max(bytes, rounded(v));
      }
      std::int64_t sum = 0;
      for (const auto& [o, bytes] : by_offset) sum += bytes;
      most = std::max(most, sum);
    }
    return most;
  }

 private:
  static constexpr std::int64_t grain = 8;

  ValueId id_of(const Value& v) const { return {static_cast<int>(&v - p_.graph.values.data())}; }
  const std::string& name(ValueId v) const { return p_.graph.value(v).name; }
  std::int64_t offset(ValueId v) const { return p_.offsets[at(v)]; }
  std::int64_t rounded(const Value& v) const { return (v.type.bytes() + 63) / 64 * 64; }
  OpKind kind(const Value& v) const { return p_.graph.node(v.producer).op->kind; }
  bool is_leaf(const Value& v) const { return is_kept(v) || kind(v) == OpKind::input; }
  bool is_kept(const Value& v) const { return kind(v) == OpKind::parameter || kind(v) == OpKind::state; }
  bool is_updated(ValueId v) const {
    return std::any_of(p_.graph.updates.begin(), p_.graph.updates.end(),
                       [&](const Update& u) { return u.leaf == v; });
  }

  bool overlap(ValueId a, ValueId b) const {
    return offset(a) < offset(b) + p_.graph.value(b).type.bytes() &&
           offset(b) < offset(a) + p_.graph.value(a).type.bytes();
  }

  bool may_share(const Node& node, std::size_t r, std::size_t o) const {
    if (offset(node.results[r]) != offset(node.operands[o])) return false;
    if (node.op->is_alias) return o == 0;
    return r < node.op->overwrites.size() && node.op->overwrites[r] == static_cast<int>(o) &&
           p_.graph.value(node.results[r]).type == p_.graph.value(node.operands[o]).type &&
           std::count(node.operands.begin(), node.operands.end(), node.operands[o]) == 1;
  }

  template <class F>
  void for_each_grain(ValueId v, F use) {
    const std::int64_t end = offset(v) + p_.graph.value(v).type.bytes();
    if (offset(v) < 0 || end > p_.arena_bytes) return note("%" + name(v) + " lies outside the arena");
    for (std::int64_t b = offset(v); b < end; b += grain) use(owner_[static_cast<std::size_t>(b / grain)]);
  }

  void write(ValueId v) {
    for_each_grain(v, [&](int& owner) { owner = content_[at(v)]; });
  }

  void read(ValueId v, const std::string& what) {
    for_each_grain(v, [&](int& owner) {
      if (owner != content_[at(v)])
        note(fmt::format("%{}, {}, was overwritten by %{}", name(v), what,
                         owner < 0 ? "nothing" : name(ValueId{owner})));
    });
  }

  void note(const std::string& what) {
    if (wrong_.empty()) wrong_ = what;
  }

  const Program& p_;
  std::vector<int> owner_;    // per grain of the arena the value written last
  std::vector<int> content_;  // per value the one whose content it is: its own, or of what it is an alias
  std::string wrong_;
};

void expect_sound(const Program& p, const std::string& what, double slack = 1.3) {
  EXPECT_EQ(Walk(p).run(), "") << what;
  for (std::int64_t o : p.offsets) EXPECT_EQ(o % 64, 0) << what;
  const std::int64_t peak = Walk(p).peak();
  EXPECT_GE(p.arena_bytes, peak) << what;
  EXPECT_LE(static_cast<double>(p.arena_bytes), slack * static_cast<double>(peak)) << what;
}

TEST(AssignBuffers, keeps_every_value_until_its_last_read) {
  struct Case {
    std::string model, annotations;
    int devices;
  };
  const std::string seed000 =
      R"({"dense1.matmul": {"in": [[2, 4], [4, 1]]}, "dense3.matmul": {"in": [[1, 8], [8, 1]]}})";
  for (const Case& c : {Case{"ffn", "{}", 1}, Case{"ffn", "{}", 4}, Case{"ffn", seed000, 8},
                        Case{"three_layer_mae", "{}", 2}, Case{"matmul_chain", "{}", 2}})
    for (const char* optimizer : {"sgd", "momentum", "adam"})
      for (int level : {0, 1, 3}) {
        Model m = build_model(c.model);
        add_train_step(m.graph, m.loss, {.name = optimizer, .attributes = {{"rate", 0.01}}});
        const Plan plan =
            make_plan(m.graph, {.model = c.model,
                                .devices = c.devices,
                                .parallel = c.devices == 1 ? Parallel::stand_alone : Parallel::auto_parallel,
                                .annotations = parse_annotations(c.annotations, "test"),
                                .optimizer_parallel = level});
        expect_sound(compile(m.graph, plan),
                     fmt::format("{} {} on {} level {}", c.model, optimizer, c.devices, level));
      }
}

TEST(AssignBuffers, keeps_every_value_of_transformers) {
  const Mesh dp{{{"dp", 4}}}, tp{{{"tp", 4}}}, both{{{"dp", 2}, {"tp", 2}}};
  const std::vector<testing::TransformerSplit> splits = {
      {dp, {0}, {}}, {tp, {}, {0}}, {tp, {}, {0}, true}, {both, {0}, {1}}, {both, {0}, {1}, true}};
  for (const auto& split : splits) {
    testing::Transformer t = testing::make_transformer({}, split);
    add_train_step(t.graph, t.loss, {.name = "adam", .attributes = {{"rate", 0.01}}});
    expect_sound(compile(PlannedGraph{t.graph, {}}),
                 to_text(split.mesh) + (split.is_sequence_parallel ? " by sequence" : ""));
  }
}

Program assigned(std::string_view text) {
  Program p{.graph = parse_graph(text), .offsets = {}};
  Redistributor redistributor(p.graph.meshes[0]);
  return assign_buffers(std::move(p), {redistributor});
}

std::int64_t place(const Program& p, std::string_view name) {
  return p.offsets[static_cast<std::size_t>(p.graph.find(name).index)];
}

TEST(AssignBuffers, writes_over_what_dies) {
  const Program p = assigned(R"(mesh []
%x = input f32[64] as [64] [-]
%a = relu %x {} : f32[64] as [64] [-]
%b = exp %a {} : f32[64] as [64] [-]
%c = add %a, %b {} : f32[64] as [64] [-]
output %c
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "a"), place(p, "x"));
  EXPECT_NE(place(p, "b"), place(p, "a"));
  EXPECT_EQ(p.arena_bytes, 512);
}

TEST(AssignBuffers, updates_a_leaf_in_its_place_unless_it_is_read_later) {
  const std::string head = R"(mesh []
%w = param f32[64] as [64] [-]
%v = param f32[64] as [64] [-]
update:
%w2 = exp %w {} : f32[64] as [64] [-]
%v2 = exp %v {} : f32[64] as [64] [-]
%late = add %v, %v2 {} : f32[64] as [64] [-]
output %late
)";
  const Program p = assigned(head + "update %w <- %w2\nupdate %v <- %v2\n");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "w2"), place(p, "w"));
  EXPECT_NE(place(p, "v2"), place(p, "v"));
}

// All leaves change at once: b gets the old w, so the new w must not stand in its place.
TEST(AssignBuffers, keeps_a_leaf_that_another_update_takes) {
  const Program p = assigned(R"(mesh []
%w = param f32[64] as [64] [-]
%b = param f32[64] as [64] [-]
update:
%w2 = exp %w {} : f32[64] as [64] [-]
output %w2
update %w <- %w2
update %b <- %w
)");
  EXPECT_NE(place(p, "w2"), place(p, "w"));
}

TEST(AssignBuffers, reshapes_in_place) {
  const Program p = assigned(R"(mesh []
%w = param f32[8, 8] as [8, 8] [-, -]
%r = reshape %w (shape=[64]) {} : f32[64] as [64] [-]
%y = exp %r {} : f32[64] as [64] [-]
%w2 = tanh %w {} : f32[8, 8] as [8, 8] [-, -]
output %y
output %r
update %w <- %w2
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_EQ(place(p, "r"), place(p, "w"));
  EXPECT_NE(place(p, "y"), place(p, "w"));
  EXPECT_NE(place(p, "w2"), place(p, "w"));
}

// One new value for two leaves: they differ until the step is done.
TEST(AssignBuffers, gives_two_leaves_two_places) {
  const Program p = assigned(R"(mesh []
%a = param f32[64] as [64] [-]
%b = param f32[64] as [64] [-]
%y = add %a, %b {} : f32[64] as [64] [-]
update:
%n = exp %y {} : f32[64] as [64] [-]
output %y
update %a <- %n
update %b <- %n
)");
  EXPECT_EQ(Walk(p).run(), "");
  EXPECT_NE(place(p, "a"), place(p, "b"));
}

TEST(AssignBuffers, sees_a_value_that_is_overwritten) {  // the checker itself
  Program p = assigned(R"(mesh []
%x = input f32[64] as [64] [-]
%a = exp %x {} : f32[64] as [64] [-]
%b = tanh %x {} : f32[64] as [64] [-]
%c = add %a, %b {} : f32[64] as [64] [-]
output %c
)");
  EXPECT_EQ(Walk(p).run(), "");
  testing::share_place(p, "b", "a");
  EXPECT_EQ(Walk(p).run(), "%a, read by c, was overwritten by %b");
}

}  // namespace
}  // namespace shardwright
