#include "shardwright/graph/text.h"

#include <unordered_map>
#include <utility>

#include "shardwright/base/text.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/verify.h"

namespace shardwright {
namespace {

// ---- print ----

class Printer {
 public:
  Printer(const Graph& graph, const TextOptions& options) : graph_(graph), options_(options) {}

  std::string print() {
    if (options_.layouts)
      for (const Mesh& mesh : graph_.meshes) out_ += to_text(mesh) + "\n";
    Phase phase = Phase::forward;
    for (const Node& node : graph_.nodes) {
      if (node.phase != phase) out_ += fmt::format("{}:\n", name_of(phase = node.phase));
      add(node);
    }
    for (ValueId v : graph_.outputs) out_ += fmt::format("output %{}\n", graph_.value(v).name);
    for (ValueId v : graph_.sends) out_ += fmt::format("send %{}\n", graph_.value(v).name);
    for (const Update& u : graph_.updates)
      out_ += fmt::format("update %{} <- %{}\n", graph_.value(u.leaf).name, graph_.value(u.value).name);
    return std::move(out_);
  }

 private:
  std::string on_mesh(int mesh) const { return mesh > 0 ? fmt::format("@{}", mesh) : ""; }

  std::string layout_text(const Layout& layout) const {
    return to_text(layout, graph_.meshes[static_cast<std::size_t>(layout.mesh)]) + on_mesh(layout.mesh);
  }

  void add(const Node& node) {
    if (node.is_fused) out_ += "+ ";
    if (node.is_recomputed) out_ += "recomputed ";
    if (node.space == Space::host) out_ += "host ";
    for (std::size_t i = 0; i < node.results.size(); ++i)
      out_ += fmt::format("{}%{}", i ? ", " : "", graph_.value(node.results[i]).name);
    out_ += fmt::format(" = {}", node.op->name);
    if (node.op->kind == OpKind::step) {
      add_step(node);
    } else if (node.op->kind != OpKind::compute) {
      add_leaf(node);
    } else {
      add_compute(node);
    }
    out_ += "\n";
  }

  void add_operands(const Node& node) {
    for (std::size_t i = 0; i < node.operands.size(); ++i)
      out_ += fmt::format("{} %{}", i ? "," : "", graph_.value(node.operands[i]).name);
  }

  void add_attributes(const Node& node) {
    if (!node.attributes.empty()) out_ += " " + to_text(node.attributes);
  }

  void add_leaf(const Node& node) {
    const Value& v = graph_.value(node.results[0]);
    out_ += " " + to_text(v.type);
    add_attributes(node);
    add_place(v);
    add_gradient_of(v);
  }

  void add_compute(const Node& node) {
    add_operands(node);
    add_attributes(node);
    if (options_.layouts && node.strategy) {
      const Mesh& mesh = graph_.meshes[static_cast<std::size_t>(node.strategy->mesh)];
      out_ += " " + to_text(*node.strategy, rule_of(graph_, node), mesh) + on_mesh(node.strategy->mesh);
    }
    if (options_.gradients && node.forward.is_valid()) out_ += " of %" + graph_.name_of(node.forward);
    add_types(node);
  }

  void add_step(const Node& node) {
    add_operands(node);
    const std::int64_t dim = node.attributes.integer("dim", -1);
    const std::int64_t to = node.attributes.integer("to", -1);
    if (dim >= 0) out_ += fmt::format(" dim {}", dim);
    if (to >= 0) out_ += fmt::format(" to {}", to);
    const std::string axes = node.attributes.text("over", "");
    if (!axes.empty()) out_ += " over " + axes;
    if (const std::int64_t experts = node.attributes.integer("experts", 0); experts > 0)
      out_ += fmt::format(" for {} experts over {}", experts, node.attributes.text("among", "-"));
    add_types(node);
  }

  void add_types(const Node& node) {
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const Value& v = graph_.value(node.results[i]);
      out_ += (i ? ", " : " : ") + to_text(v.type);
      add_place(v);
      add_gradient_of(v);
    }
  }

  void add_gradient_of(const Value& v) {
    if (!options_.gradients || v.gradient_of.empty()) return;
    out_ += " grad";
    for (ValueId of : v.gradient_of) out_ += " %" + graph_.value(of).name;
  }

  /// How the value lies in memory and on the mesh.
  void add_place(const Value& v) {
    if (!v.format.is_row_major()) out_ += " in " + to_text(v.format);
    if (!options_.layouts || !v.layout) return;
    if (!v.global_shape.empty()) out_ += " as " + to_text(v.global_shape);
    out_ += " " + layout_text(*v.layout);
  }

  const Graph& graph_;
  const TextOptions& options_;
  std::string out_;
};

// ---- parse ----

class Parser {
 public:
  explicit Parser(Level level) { graph_.level = level; }

  Graph parse(std::string_view text) {
    int line_number = 0;
    for (std::string_view line : split(text, '\n')) {
      ++line_number;
      line = trim(line.substr(0, line.find('#')));
      if (line.empty()) continue;
      try {
        parse_line(line);
      } catch (const Error& e) {
        throw with_context(e, fmt::format("line {}", line_number));
      }
    }
    verify(graph_);
    check_bytes(graph_);
    return std::move(graph_);
  }

 private:
  void parse_line(std::string_view line) {
    Scanner in(line, "graph");
    if (graph_.nodes.empty() && (in.accept("program") || in.accept("pipeline")))
      throw error("this is a program, which is lowered already; give a network or a planned graph");
    if (in.peek("mesh")) {
      graph_.meshes.push_back(parse_mesh(in));
      if (graph_.level == Level::network) graph_.level = Level::planned;
      if (graph_.meshes.back().size() != graph_.meshes.front().size())
        throw error("{} has {} ranks but {} has {}", to_text(graph_.meshes.back()),
                    graph_.meshes.back().size(), to_text(graph_.meshes.front()),
                    graph_.meshes.front().size());
    } else if (in.accept("forward") || in.accept("backward") || in.accept("weights")) {
      phase_ = line.starts_with("f")   ? Phase::forward
               : line.starts_with("b") ? Phase::backward
                                       : Phase::weights;
      in.expect(":");
    } else if (in.accept("output")) {
      parse_output(in);
    } else if (in.accept("send")) {
      graph_.sends.push_back(use(in));
    } else if (in.accept("update")) {
      if (in.accept(":")) {
        phase_ = Phase::update;
      } else {
        const ValueId leaf = use(in);
        in.expect("<-");
        graph_.updates.push_back({leaf, use(in)});
      }
    } else {
      parse_node(in);
    }
    if (!in.at_end()) in.fail("the end of the line");
  }

  ValueId use(Scanner& in) {
    in.expect("%");
    const std::string name = in.name("a value");
    const auto it = by_name_.find(name);
    if (it == by_name_.end()) throw error("%{} is not defined above", name);
    return it->second;
  }

  const Mesh& mesh(std::int64_t index) const {
    if (graph_.meshes.empty())
      throw error("layouts and strategies need a mesh; write for example mesh [dp=2] in the first line");
    if (index < 0 || index >= static_cast<std::int64_t>(graph_.meshes.size()))
      throw error("there is no mesh {}: {} mesh lines stand above", index, graph_.meshes.size());
    return graph_.meshes[static_cast<std::size_t>(index)];
  }

  static void skip_axes(Scanner& in, std::string_view open, std::string_view close) {
    in.expect(open);
    while (!in.accept(close)) {
      if (in.peek("~"))
        parse_window(in);
      else if (in.peek_name())
        in.name("a word");
      else if (!in.accept(",") && !in.accept(":") && !in.accept("+") && !in.accept("-"))
        in.fail("axes");
    }
  }

  /// The k of `@k` behind the brackets that start here, or 0: which mesh the axes inside belong to.
  static std::int64_t mesh_behind(Scanner ahead, std::string_view open, std::string_view close) {
    skip_axes(ahead, open, close);
    for (std::string_view partial : {"sum", "max"})
      if (ahead.accept(partial)) skip_axes(ahead, "(", ")");
    return ahead.accept("@") ? ahead.integer("a mesh") : 0;
  }

  static void skip_mesh(Scanner& in) {
    if (in.accept("@")) in.integer("a mesh");
  }

  Layout parse_layout_here(Scanner& in) {
    const std::int64_t index = mesh_behind(in, "[", "]");
    Layout layout = parse_layout(in, mesh(index));
    skip_mesh(in);
    layout.mesh = layout.used().empty() ? 0 : static_cast<int>(index);
    return layout;
  }

  static void check_shape(const Shape& shape) {
    for (std::int64_t d : shape)
      if (d < 1) throw error("shape {}: dims start at 1", to_text(shape));
    element_count(shape);
  }

  void parse_output(Scanner& in) {
    const ValueId v = use(in);
    graph_.outputs.push_back(v);
    if (in.peek("[")) graph_.value(v).layout = parse_layout_here(in);
  }

  void parse_node(Scanner& in) {
    const bool is_fused = in.accept("+"), is_recomputed = in.accept("recomputed");
    const bool is_on_host = in.accept("host");
    std::vector<std::string> names;
    do {
      in.expect("%");
      names.push_back(in.name("a value"));
      if (by_name_.contains(names.back())) throw error("%{} is defined twice", names.back());
    } while (in.accept(","));
    in.expect("=");
    const OpDef& op = find_op(in.name("an operator"));
    Node node{.op = &op, .operands = {}, .results = {}, .attributes = {}, .phase = phase_};
    node.is_fused = is_fused;
    node.is_recomputed = is_recomputed;
    node.space = is_on_host ? Space::host : Space::device;
    std::vector<Value> results(names.size());
    for (std::size_t i = 0; i < names.size(); ++i) results[i].name = names[i];
    if (op.kind != OpKind::compute && names.size() != 1)
      throw error("{} has 1 result but {} are named", op.name, names.size());
    if (op.kind == OpKind::compute || op.kind == OpKind::step) {
      if (in.peek("%")) {
        do node.operands.push_back(use(in));
        while (in.accept(","));
      }
      if (op.kind == OpKind::step)
        parse_step(in, node, results);
      else
        parse_compute(in, node, results);
    } else {
      results[0].type = parse_type(in);
      check_shape(results[0].type.shape);
      if (in.peek("%")) throw error("{} has no operands", op.name);
      node.attributes = parse_attributes(in);
      check_attributes(op, node.attributes);
      parse_place(in, results[0]);
    }
    for (Value& v : results) parse_result(in, v, &v == &results[0] ? ":" : ",", op.kind == OpKind::compute);
    finish(std::move(node), std::move(results));
  }

  void parse_step(Scanner& in, Node& node, std::vector<Value>& results) {
    if (node.operands.empty() || node.operands.size() > 2)
      throw error("{} has 1 operand, or ids beside it, but {} are named", node.op->name,
                  node.operands.size());
    // Most steps keep the local shape; those that do not write the new one.
    results[0].type = graph_.value(node.operands[0]).type;
    if (in.accept("dim")) node.attributes.set("dim", in.integer("a dim"));
    if (in.accept("to")) node.attributes.set("to", in.integer("a dim"));
    if (in.accept("over")) node.attributes.set("over", in.name("axes"));
    if (in.accept("for")) {
      node.attributes.set("experts", in.integer("a number of experts"));
      in.expect("experts");
      in.expect("over");
      node.attributes.set("among", in.name("axes"));
    }
  }

  void parse_compute(Scanner& in, Node& node, std::vector<Value>& results) {
    node.attributes = parse_attributes(in);
    std::vector<Type> operands;
    for (ValueId v : node.operands) operands.push_back(graph_.value(v).global_type());
    const std::vector<Type> inferred = infer(*node.op, {operands, {}, node.attributes});
    if (inferred.size() != results.size())
      throw error("{} has {} results but {} are named", node.op->name, inferred.size(), results.size());
    for (std::size_t i = 0; i < results.size(); ++i) results[i].type = inferred[i];
    if (in.peek("{"))
      node.strategy = parse_strategy_here(in, rule_of(*node.op, {operands, inferred, node.attributes}));
    if (in.accept("of")) node.forward = graph_.value(use(in)).producer;
  }

  Strategy parse_strategy_here(Scanner& in, const Rule& rule) {
    const std::int64_t index = mesh_behind(in, "{", "}");
    Strategy s = parse_strategy(in, rule, mesh(index));
    skip_mesh(in);
    s.mesh = used_axes(s).empty() ? 0 : static_cast<int>(index);
    return s;
  }

  void parse_place(Scanner& in, Value& v) {
    if (in.accept("in")) v.format = parse_format(in.name("a format"));
    if (in.accept("as")) {
      v.global_shape = parse_shape(in);
      check_shape(v.global_shape);
    }
    if (in.peek("[")) v.layout = parse_layout_here(in);
  }

  void parse_result(Scanner& in, Value& v, std::string_view mark, bool is_inferred) {
    if (in.accept(mark)) {
      const Type expected = std::exchange(v.type, parse_type(in));
      check_shape(v.type.shape);
      parse_place(in, v);
      if (is_inferred && !v.layout && v.type != expected)
        throw error("%{} is {} but {} is written", v.name, to_text(expected), to_text(v.type));
    }
    if (!in.accept("grad")) return;
    do v.gradient_of.push_back(use(in));
    while (in.peek("%"));
  }

  void finish(Node node, std::vector<Value> results) {
    const NodeId id{static_cast<int>(graph_.nodes.size())};
    for (std::size_t i = 0; i < results.size(); ++i) {
      check_room(graph_);
      const ValueId v{static_cast<int>(graph_.values.size())};
      results[i].producer = id;
      results[i].result = static_cast<int>(i);
      by_name_.emplace(results[i].name, v);
      node.results.push_back(v);
      graph_.values.push_back(std::move(results[i]));
    }
    graph_.nodes.push_back(std::move(node));
  }

  Graph graph_;
  std::unordered_map<std::string, ValueId> by_name_;
  Phase phase_ = Phase::forward;
};

}  // namespace

std::string to_text(const Graph& graph, const TextOptions& options) {
  return Printer(graph, options).print();
}

Graph parse_graph(std::string_view text) { return Parser(Level::network).parse(text); }

Graph parse_program_graph(std::string_view text) { return Parser(Level::program).parse(text); }

}  // namespace shardwright
