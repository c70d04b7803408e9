// What is proven trains: planned graphs and programs are changed, and those that the proof takes are run and compared
// with one device. SHARDWRIGHT_FULL=1 changes 500 of each instead of 60.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/verify/verify.h"
#include "tests/support/changed_text.h"
#include "tests/support/draws.h"
#include "tests/support/random_plan.h"
#include "tests/support/training_run.h"

namespace shardwright::testing {
namespace {

const TrainingRun run{.model = "ffn:widths=8-12-8,batch=8",
                      .file = "",
                      .optimizer = {"momentum", {{"rate", 0.1}, {"momentum", 0.9}}},
                      .precision = DType::f64,
                      .steps = 3};

int changes() { return testing::is_full() ? 500 : 60; }

void expect_losses_of_one_device(const std::optional<Outcome>& outcome) {
  static const std::optional<Outcome> alone = run_alone(run);
  expect_same(outcome, alone, {.losses = 1e-9, .weights = 1e-8});
}

// ---- planned graphs, as text ----

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Strategies, layouts and meshes of a planned graph's text: what may change without another network.
std::vector<Range> places_of(const std::string& text) {
  std::vector<Range> out;
  std::size_t line = 0;
  for (std::string_view part : split(text, '\n')) {
    // The first bracket of a type or mesh is its shape; what stands behind it in brackets says how it lies.
    const bool is_mesh = part.starts_with("mesh");
    for (std::size_t i = 0; i < part.size(); ++i) {
      if (part[i] != '{' && part[i] != '[') continue;
      const std::size_t end = std::min(part.find(part[i] == '{' ? '}' : ']', i), part.size());
      const bool says_how = part[i] == '{' || is_mesh || (i > 0 && part[i - 1] == ' ');
      if (says_how && end > i + 1) out.push_back({line + i + 1, line + end});
      i = end;
    }
    line += part.size() + 1;
  }
  return out;
}

/// Another one's place, an axis less, more, or another one.
std::string changed_place(Random& random, const std::string& text, const std::vector<Range>& places) {
  const auto cut_out = [&](Range r) { return text.substr(r.begin, r.end - r.begin); };
  const Range r = places[below(random, places.size())];
  const std::string have = cut_out(r), other = cut_out(places[below(random, places.size())]);
  std::string out = text;
  return out.replace(r.begin, r.end - r.begin, random() % 2 ? other : changed_text(random, have));
}

std::string planned_text(std::uint64_t seed) {
  const Model model = train_model(run);
  return to_text(apply(random_plan(model.graph, 4, seed), model.graph).stages[0].graph);
}

TEST(Attack, planned_graphs_that_are_proven_end_with_the_losses_of_one_device) {
  Random random = random_of(5);
  int taken = 0;
  for (int i = 0; i < changes() && !HasFailure(); ++i) {
    std::string text = planned_text(below(random, 20));
    for (std::size_t n = 1 + below(random, 3); n > 0; --n)
      text = changed_place(random, text, places_of(text));
    SCOPED_TRACE(text);
    std::optional<Outcome> outcome;
    try {
      const Graph graph = parse_graph(text);
      if (graph.meshes.empty() || graph.meshes.front().size() > 8) continue;
      outcome = run_pipeline(run, compile({.graph = graph, .update_layouts = {}}, {.formats = cpu_formats}));
    } catch (const Error& e) {
      continue;  // refused
    }
    ++taken;
    expect_losses_of_one_device(outcome);
  }
  EXPECT_GT(taken, changes() / 20);
}

// ---- programs ----

/// Changes one thing of a program, whatever comes of it.
class ProgramChange {
 public:
  ProgramChange(Pipeline& pipeline, Random& random)
      : pipeline_(pipeline),
        program_(pipeline.stages[below(random, pipeline.stages.size())]),
        graph_(program_.graph),
        random_(random) {}

  /// Says what it has changed; empty if nothing.
  std::string apply() {
    switch (random_() % 14) {
      case 0: return drop();
      case 1: return swap_operands();
      case 2: return swap_nodes();
      case 3: return change_axes();
      case 4: return change_dim();
      case 5: return change_operator();
      case 6: return change_layout();
      case 7: return change_strategy();
      case 8: return change_offset();
      case 9: return change_start();
      case 10: return change_update();
      case 11: return change_fusion();
      case 12: return change_crossing();
      default: return change_slot();
    }
  }

 private:
  NodeId node() { return {static_cast<int>(below(random_, graph_.nodes.size()))}; }
  ValueId value() { return {static_cast<int>(below(random_, graph_.values.size()))}; }
  /// A redistribution step; any node where there is none.
  NodeId step() {
    std::vector<NodeId> steps;
    for (NodeId id : graph_.node_ids())
      if (graph_.node(id).op->kind == OpKind::step) steps.push_back(id);
    return steps.empty() ? node() : steps[below(random_, steps.size())];
  }
  std::string axis() {
    const Mesh& mesh = graph_.meshes[below(random_, graph_.meshes.size())];
    return mesh.axes.empty() ? "a" : mesh.axes[below(random_, mesh.axes.size())].name;
  }
  const std::string& name(NodeId id) const { return graph_.name_of(id); }
  const std::string& name(ValueId v) const { return graph_.value(v).name; }

  /// Readers of a step's result read its operand instead.
  std::string drop() {
    const NodeId id = step();
    const Node dropped = graph_.node(id);
    if (dropped.op->kind != OpKind::step) return "";  // another network
    for (Node& user : graph_.nodes)
      for (ValueId& v : user.operands)
        if (v == dropped.results.front()) v = dropped.operands.front();
    for (Update& u : graph_.updates)
      if (u.value == dropped.results.front()) u.value = dropped.operands.front();
    return fmt::format("%{} dropped", name(id));
  }
  std::string swap_operands() {
    Node& a = graph_.node(random_() % 2 ? step() : node());
    if (a.operands.empty()) return "";
    ValueId& v = a.operands[below(random_, a.operands.size())];
    const ValueId other = value();
    if (other == v || graph_.value(other).producer.index >= graph_.value(a.results.front()).producer.index)
      return "";
    // Two values of one type by another name: only what is computed tells them apart.
    if (graph_.value(other).gradient_of == graph_.value(v).gradient_of &&
        graph_.value(other).global_type() == graph_.value(v).global_type() &&
        graph_.value(other).layout == graph_.value(v).layout)
      return "";
    if (a.op->kind != OpKind::step) return "";
    if (source(other) != source(v)) return "";  // another network
    v = other;
    return fmt::format("%{} reads %{}", graph_.value(a.results.front()).name, name(other));
  }
  /// What a value is, whatever steps have moved it.
  ValueId source(ValueId v) const {
    while (graph_.node(graph_.value(v).producer).op->kind == OpKind::step)
      v = graph_.node(graph_.value(v).producer).operands.front();
    return v;
  }
  /// Neighbours change places, with all that names them.
  std::string swap_nodes() {
    const NodeId a = random_() % 2 ? step() : node(), b{a.index + 1};
    if (b.index >= static_cast<int>(graph_.nodes.size())) return "";
    for (ValueId v : graph_.node(b).operands)
      if (graph_.value(v).producer == a) return "";
    const std::string what = fmt::format("%{} behind %{}", name(a), name(b));
    std::swap(graph_.node(a), graph_.node(b));
    for (NodeId id : {a, b})
      for (ValueId v : graph_.node(id).results) graph_.value(v).producer = id;
    return what;
  }
  std::string change_axes() {
    const NodeId id = step();
    graph_.node(id).attributes.set("over", random_() % 3 ? axis() : axis() + "." + axis());
    return fmt::format("%{} over {}", name(id), graph_.node(id).attributes.text("over", ""));
  }
  std::string change_dim() {
    const NodeId id = step();
    const auto dim = static_cast<std::int64_t>(below(random_, 4)) - 1;
    graph_.node(id).attributes.set(random_() % 2 ? "dim" : "to", dim);
    return fmt::format("%{} of dim {}", name(id), dim);
  }
  std::string change_operator() {
    const NodeId id = step();
    if (graph_.node(id).op->kind != OpKind::step) return "";
    std::vector<const OpDef*> steps;
    for (const OpDef& op : all_ops())
      if (op.kind == OpKind::step) steps.push_back(&op);
    graph_.node(id).op = steps[below(random_, steps.size())];
    return fmt::format("%{} = {}", name(id), graph_.node(id).op->name);
  }
  std::string change_layout() {
    const ValueId v = value();
    auto& layout = graph_.value(v).layout;
    if (!layout) return "";
    const Mesh& mesh = graph_.meshes[static_cast<std::size_t>(layout->mesh)];
    const int axes = static_cast<int>(below(random_, static_cast<std::size_t>(mesh.axis_count()) + 1));
    if (random_() % 2)
      layout = graph_.value(value()).layout;
    else
      (random_() % 2 ? layout->sum : layout->max) = mesh.all_axes().prefix(axes);
    if (!layout) layout.emplace();
    return fmt::format("%{} lies as {}", name(v),
                       to_text(*layout, graph_.meshes[static_cast<std::size_t>(layout->mesh)]));
  }
  std::string change_strategy() {
    const NodeId a = node(), b = node();
    if (!graph_.node(a).strategy || graph_.node(a).op != graph_.node(b).op) return "";
    std::swap(graph_.node(a).strategy, graph_.node(b).strategy);
    return fmt::format("strategies of %{} and %{}", name(a), name(b));
  }
  std::string change_offset() {
    const ValueId a = value(), b = value();
    if (!program_.buffer(a) || !program_.buffer(b)) return "";
    Buffer moved = *program_.buffer(a);
    moved.offset = random_() % 2 ? program_.buffer(b)->offset
                                 : moved.offset + 64 * (static_cast<std::int64_t>(below(random_, 5)) - 2);
    return give(a, moved);
  }
  std::string change_start() {
    if (program_.starts.empty()) program_.starts = graph_.node_ids();
    const NodeId id = step();
    program_.starts[static_cast<std::size_t>(id.index)] = {
        static_cast<int>(below(random_, static_cast<std::size_t>(id.index) + 1))};
    return fmt::format("%{} starts at node {}", name(id),
                       program_.starts[static_cast<std::size_t>(id.index)].index);
  }
  std::string change_update() {
    if (graph_.updates.empty()) return "";
    Update& u = graph_.updates[below(random_, graph_.updates.size())];
    const ValueId other = value();
    if (source(other) != source(u.value) || other == u.value) return "";
    u.value = other;
    return fmt::format("%{} <- %{}", name(u.leaf), name(other));
  }
  std::string change_fusion() {
    const NodeId id = node();
    graph_.node(id).is_fused = !graph_.node(id).is_fused;
    return fmt::format("%{} fused: {}", name(id), graph_.node(id).is_fused);
  }
  std::string change_crossing() {
    if (pipeline_.crossings.empty()) return "";
    PlacedCrossing& c = pipeline_.crossings[below(random_, pipeline_.crossings.size())];
    const PlacedCrossing other = pipeline_.crossings[below(random_, pipeline_.crossings.size())];
    switch (random_() % 5) {
      case 0: c.channel = other.channel; return fmt::format("a crossing on channel {}", c.channel);
      case 1: c.time = other.time; return "a crossing at another time";
      case 2: c.phase = other.phase; return "a crossing in another phase";
      case 3: c.sent = other.sent; return "a crossing of another value";
      default: c.received = other.received; return "a crossing to another value";
    }
  }
  std::string change_slot() {
    const ValueId v = value();
    if (program_.lanes.slots[0] == 1 || !program_.buffer(v)) return "";
    Buffer other = *program_.buffer(v);
    other.slots = other.slots == 1 ? program_.lanes.slots[0] : 1;
    return give(v, other);
  }
  /// A buffer of its own.
  std::string give(ValueId v, const Buffer& buffer) {
    program_.buffer_of[static_cast<std::size_t>(v.index)] = static_cast<int>(program_.buffers.size());
    program_.buffers.push_back(buffer);
    return fmt::format("%{} at {} in {} slots", name(v), buffer.offset, buffer.slots);
  }

  Pipeline& pipeline_;
  Program& program_;
  Graph& graph_;
  Random& random_;
};

Pipeline some_pipeline(std::uint64_t seed) {
  const int micro_batches = seed % 3 == 0 ? 2 : 1;
  const Model model = train_model(run, micro_batches);
  const Plan plan = seed % 3 == 2 ? random_plan(model.graph, 4, seed)
                                  : random_pipeline(model.graph, 4, micro_batches, seed);
  return compile_pipeline(model.graph, plan, {.formats = cpu_formats});
}

TEST(Attack, programs_that_are_proven_end_with_the_losses_of_one_device) {
  Random random = random_of(6);
  int taken = 0, refused = 0;
  while (taken + refused < changes() && !HasFailure()) {
    const std::uint64_t seed = below(random, 24);
    Pipeline pipeline = some_pipeline(seed);
    const std::string what = ProgramChange(pipeline, random).apply();
    if (what.empty()) continue;
    std::string text;
    for (const Program& p : pipeline.stages) text += to_text(p.graph, {.layouts = false, .gradients = false});
    SCOPED_TRACE(fmt::format("seed {}: {}\n{}", seed, what, text));
    try {
      prove(pipeline);
    } catch (const std::exception&) {  // a program that is none may break what is required of one, too
      ++refused;
      continue;
    }
    ++taken;
    try {
      expect_losses_of_one_device(run_pipeline(run, pipeline));
    } catch (const std::exception& e) {
      ADD_FAILURE() << "it was proven: " << e.what();
    }
  }
  EXPECT_GT(taken, changes() / 20);
  EXPECT_GT(refused, changes() / 4);
}

}  // namespace
}  // namespace shardwright::testing
