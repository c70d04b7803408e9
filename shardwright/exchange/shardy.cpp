#include "shardwright/exchange/shardy.h"

#include <cctype>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::string tensor_text(const Type& type) {
  std::string out = "tensor<";
  for (std::int64_t n : type.shape) out += fmt::format("{}x", n);
  switch (type.dtype) {
    case DType::u8: return out + "ui8>";
    case DType::boolean: return out + "i1>";
    default: return out + std::string(name_of(type.dtype)) + ">";
  }
}

std::string mlir_string(std::string_view text) {
  std::string out = "\"";
  for (char c : text) out += c == '"' || c == '\\' ? fmt::format("\\{}", c) : std::string(1, c);
  return out + "\"";
}

/// As Shardy calls factors: i, ..., z, z_1, z_2, ...
std::string factor_name(int number) {
  constexpr int letters = 'z' - 'i' + 1;
  return number < letters ? std::string(1, static_cast<char>('i' + number))
                          : fmt::format("z_{}", number - letters + 1);
}

/// The factors of an operator: its loop dims, and one for each dim that no loop is behind.
class ShardingRule {
 public:
  explicit ShardingRule(const Rule& rule) : rule_(rule), names_(rule.loops.size()) {}

  std::string text(const std::vector<Type>& operands, const std::vector<Type>& results) {
    std::string out = "#sdy.op_sharding_rule<(" + tensors(rule_.operands, operands) + ")->(" +
                      tensors(rule_.results, results) + ")";
    if (!sizes_.empty()) out += " {" + join(sizes_, ", ") + "}";
    if (!reduced_.empty()) out += " reduction={" + join(reduced_, ", ") + "}";
    if (!whole_.empty()) out += " need_replication={" + join(whole_, ", ") + "}";
    return out + ", custom>";
  }

 private:
  std::string tensors(const std::vector<RuleTensor>& all, const std::vector<Type>& types) {
    std::vector<std::string> out;
    for (std::size_t t = 0; t < types.size(); ++t) {
      std::vector<std::string> dims;
      for (std::size_t d = 0; d < types[t].shape.size(); ++d)
        dims.push_back(dim(all[t], d, types[t].shape[d]));
      out.push_back("[" + join(dims, ", ") + "]");
    }
    return join(out, ", ");
  }

  std::string dim(const RuleTensor& tensor, std::size_t d, std::int64_t size) {
    std::int64_t product = 1;
    const bool has_loops = d < tensor.dims.size() && !tensor.dims[d].empty();
    if (has_loops)
      for (int l : tensor.dims[d]) product *= rule_.loops[at(l)].size;
    if (!has_loops || product != size) {  // a window, too, reads more or less than its loop has
      const std::string name = factor_name(count_++);
      sizes_.push_back(fmt::format("{}={}", name, size));
      if (size > 1) whole_.push_back(name);
      return name;
    }
    std::string out;
    for (int l : tensor.dims[d])  // beside others one of size 1 is none
      if (rule_.loops[at(l)].size > 1 || tensor.dims[d].size() == 1) out += loop(l);
    return out.empty() ? loop(tensor.dims[d][0]) : out;
  }

  const std::string& loop(int l) {
    std::string& name = names_[at(l)];
    if (!name.empty()) return name;
    name = factor_name(count_++);
    const LoopDim& dim = rule_.loops[at(l)];
    sizes_.push_back(fmt::format("{}={}", name, dim.size));
    if (dim.kind == LoopKind::sum || dim.kind == LoopKind::max) reduced_.push_back(name);
    if (dim.stays_whole()) whole_.push_back(name);
    return name;
  }

  const Rule& rule_;
  std::vector<std::string> names_, sizes_, reduced_, whole_;
  int count_ = 0;
};

class ShardyWriter {
 public:
  explicit ShardyWriter(const Program& program) : program_(program), graph_(program.graph) {
    std::set<std::string, std::less<>> taken;
    for (const Value& value : graph_.values) {
      std::string name;
      for (char c : value.name)
        name += std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '.' ? c : '_';
      if (std::isdigit(static_cast<unsigned char>(name[0])) != 0)
        name.insert(0, "_");  // a number is none of ours
      while (!taken.insert(name).second) name += "_";
      names_.push_back("%" + name);
    }
  }

  std::string write(const std::string& summary) {
    std::string out = fmt::format("// {}\nmodule @plan {{\n", summary);
    for (std::size_t m = 0; m < graph_.meshes.size(); ++m) out += mesh_text(m);
    out += "  func.func public @step(" + arguments() + ") -> (" + result_types() + ") {\n";
    for (const Node& node : graph_.nodes)
      if (!is_argument(node)) out += line(node);
    std::vector<std::string> names, types;
    for (ValueId v : results()) {
      names.push_back(name(v));
      types.push_back(tensor_text(type(v)));
    }
    return out + fmt::format("    return {} : {}\n  }}\n}}\n", join(names, ", "), join(types, ", "));
  }

 private:
  const std::string& name(ValueId v) const { return names_[at(v.index)]; }
  Type type(ValueId v) const { return graph_.value(v).global_type(); }
  static bool is_argument(const Node& node) {
    return node.op->kind != OpKind::compute && node.op->kind != OpKind::step;
  }

  static std::string mesh_name(std::size_t m) { return m == 0 ? "@mesh" : fmt::format("@mesh_{}", m); }
  std::string mesh_text(std::size_t m) const {
    std::vector<std::string> axes;
    for (const Axis& axis : graph_.meshes[m].axes)
      axes.push_back(fmt::format("\"{}\"={}", axis.name, axis.size));
    return fmt::format("  sdy.mesh {} = <[{}]>\n", mesh_name(m), join(axes, ", "));
  }

  std::string axes_text(const Axes& axes, const Mesh& mesh) const {
    std::vector<std::string> out;
    for (int a : axes) out.push_back(fmt::format("\"{}\"", mesh.axes[at(a)].name));
    return "{" + join(out, ", ") + "}";
  }

  /// `<@mesh, [{"dp"}, {}]>`. What takes the largest says nothing of it: Shardy has sums alone.
  std::string sharding(ValueId v) const {
    const Layout layout = layout_of(graph_.value(v));
    const Mesh& mesh = graph_.meshes[at(layout.mesh)];
    std::vector<std::string> dims;
    for (std::size_t d = 0; d < type(v).shape.size(); ++d) {
      if (d < layout.dims.size() && layout.dims[d].is_by_shares())
        throw error("{} is cut by shares ({}), which Shardy has no word for: leave batch_shares out", name(v),
                    to_text(layout, mesh));
      if (d < layout.dims.size() && layout.dims[d].grain() > 0)
        throw error("{} is cut at runs of {} ({}), which Shardy has no word for: split by a divisor", name(v),
                    layout.dims[d].grain(), to_text(layout, mesh));
      dims.push_back(d < layout.dims.size() ? axes_text(layout.dims[d], mesh) : "{}");
    }
    const std::string sums = layout.sum.empty() ? "" : ", unreduced=" + axes_text(layout.sum, mesh);
    return fmt::format("<{}, [{}]{}>", mesh_name(at(layout.mesh)), join(dims, ", "), sums);
  }

  std::string arguments() const {
    std::vector<std::string> out;
    for (const Node& node : graph_.nodes)
      if (is_argument(node))
        for (ValueId v : node.results)
          out.push_back(fmt::format("{}: {} {{sdy.sharding = #sdy.sharding{}}}", name(v),
                                    tensor_text(type(v)), sharding(v)));
    return join(out, ", ");
  }

  /// Outputs, then the new values of leaves.
  std::vector<ValueId> results() const {
    std::vector<ValueId> out = graph_.outputs;
    for (const Update& u : graph_.updates) out.push_back(u.value);
    return out;
  }

  std::string result_types() const {
    std::vector<std::string> out;
    for (ValueId v : results())
      out.push_back(fmt::format("{} {{sdy.sharding = #sdy.sharding{}}}", tensor_text(type(v)), sharding(v)));
    return join(out, ", ");
  }

  std::string line(const Node& node) {
    if (node.op->kind == OpKind::step) {
      const ValueId x = node.operands[0], y = node.results[0];
      return fmt::format("    {} = sdy.sharding_constraint {} {} : {}\n", name(y), name(x), sharding(y),
                         tensor_text(type(x)));
    }
    const std::vector<Type> from = operand_types(graph_, node), to = result_types_of(node);
    std::vector<std::string> operands, operand_texts, results, shardings;
    for (ValueId v : node.operands) {
      operands.push_back(name(v));
      operand_texts.push_back(tensor_text(type(v)));
    }
    for (ValueId v : node.results) {
      results.push_back(tensor_text(type(v)));
      shardings.push_back(sharding(v));
    }
    const Rule rule = rule_of(graph_, node);
    const std::string made = name(node.results[0]);
    const std::string how = from.empty() ? "" : ", sdy.sharding_rule = " + ShardingRule(rule).text(from, to);
    const std::string type = results.size() == 1 ? results[0] : "(" + join(results, ", ") + ")";
    const std::string count = results.size() == 1 ? "" : fmt::format(":{}", results.size());
    std::string out = fmt::format(
        "    {}{} = stablehlo.custom_call @{}({}) {{backend_config = {}, sdy.sharding = "
        "#sdy.sharding_per_value<[{}]>{}}} : ({}) -> {}\n",
        made, count, node.op->name, join(operands, ", "), mlir_string(attributes(node)),
        join(shardings, ", "), how, join(operand_texts, ", "), type);
    if (results.size() > 1)
      for (std::size_t r = 0; r < results.size(); ++r)
        names_[at(node.results[r].index)] = fmt::format("{}#{}", made, r);
    return out;
  }

  std::vector<Type> result_types_of(const Node& node) const {
    return shardwright::result_types(graph_, node);
  }

  std::string attributes(const Node& node) const {
    const std::vector<Type> from = operand_types(graph_, node), to = result_types_of(node);
    std::vector<std::string> out;
    for (const auto& [key, value] : with_defaults(*node.op, {from, to, node.attributes}))
      out.push_back(fmt::format("{}={}", key, python_literal(value)));
    return join(out, ", ");
  }

  const Program& program_;
  const Graph& graph_;
  std::vector<std::string> names_;
};

}  // namespace

std::string shardy_text(const Pipeline& pipeline, const std::string& summary) {
  if (pipeline.stage_count() > 1)
    throw error("the plan has {} stages, and a function of Shardy's is one program: take --stages 1",
                pipeline.stage_count());
  return ShardyWriter(pipeline.stage(0)).write(summary);
}

}  // namespace shardwright
