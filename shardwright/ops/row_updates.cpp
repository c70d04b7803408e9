#include "shardwright/ops/row_updates.h"

#include <algorithm>
#include <array>
#include <deque>
#include <memory>
#include <mutex>
#include <shared_mutex>

#include "shardwright/base/text.h"
#include "shardwright/ops/bags.h"
#include "shardwright/ops/row_updates_in_python.h"

namespace shardwright::ops {

std::vector<OpDef> optimizers();  // ops/optimizers.cpp

namespace {

constexpr std::array<std::string_view, 3> with_rows{"sgd", "adagrad", "lazy_adam"};
constexpr std::string_view suffix = "_rows";

std::size_t ids_of(std::size_t operands, const Attributes& attributes) {
  return operands - (attributes.find("rate") ? 1 : 2);
}

/// `text` with `to` in the place of each `from`.
std::string replaced(std::string text, std::string_view from, std::string_view to) {
  for (std::size_t at = text.find(from); at != text.npos; at = text.find(from, at + to.size()))
    text.replace(at, from.size(), to);
  return text;
}

/// An optimizer's operator seen from its form by rows.
struct Whole {
  OpDef op;

  /// Weight, rows and states.
  std::size_t tensors(const Call& call) const { return 2 + states_of(*op.optimizer, call.attributes).size(); }

  /// The operands of the call on whole tensors, each tensor of `shape` if there is one, else of the weight's.
  std::vector<Type> operands(const Call& call, const std::optional<Shape>& shape = {}) const {
    std::vector<Type> out(call.operands.begin(), call.operands.end());
    for (std::size_t i = 0; i < tensors(call); ++i)
      if (i == 1 || shape) out[i].shape = shape.value_or(call.operands[0].shape);
    out.erase(out.begin() + static_cast<std::ptrdiff_t>(ids_of(out.size(), call.attributes)));
    return out;
  }
};

std::string rule_by_rows(const Whole& whole, const Call& call) {
  const std::size_t ids = ids_of(call.operands.size(), call.attributes), tensors = whole.tensors(call);
  const RowNames n = row_names(call.operands[0].shape, call.operands[ids].shape, is_bag(call.attributes));
  std::string left, right = n.table;
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    left += fmt::format("{}{}", i ? ", " : "",
                        i == 1        ? n.rows
                        : i < tensors ? n.table
                        : i == ids    ? n.ids
                                      : ".");
  for (std::size_t i = 2; i < tensors; ++i) right += ", " + n.table;
  return left + " -> " + right;
}

/// The optimizer's block on rows of so many elements.
BlockKernel block_of_rows(const Whole& whole, const Call& call, std::int64_t elements) {
  std::vector<Type> results(call.results.begin(), call.results.end());
  for (Type& t : results) t.shape = {elements};
  return whole.op.block({whole.operands(call, Shape{elements}), results, call.attributes});
}

std::vector<Type> infer_by_rows(const Whole& whole, const Call& call) {
  const std::size_t ids = ids_of(call.operands.size(), call.attributes);
  if (call.operands.size() < 4 - (call.attributes.find("rate") ? 1 : 0) || ids < whole.tensors(call))
    throw error(
        "has {} operands; it takes what {} takes, rows in the gradient's place, and their ids behind all but "
        "the rate",
        call.operands.size(), whole.op.name);
  const Shape &table = call.operands[0].shape, &of_ids = call.operands[ids].shape;
  check_integer(call.operands[ids].dtype);
  const bool has_bags = is_bag(call.attributes);
  if (table.empty() || (has_bags && (table.size() < 2 || of_ids.size() + 1 < table.size())))
    throw error("the table is {} and the ids {}; these should be [..., ids of a bag]",
                to_text(call.operands[0]), to_text(call.operands[ids]));
  Shape rows = of_ids;
  if (has_bags)
    rows.back() = table.back();
  else
    rows.insert(rows.end(), table.begin() + 1, table.end());
  if (call.operands[1].shape != rows)
    throw error("rows are {} but the table {} at ids {} has {}", to_text(call.operands[1]),
                to_text(call.operands[0]), to_text(call.operands[ids]), to_text(rows));
  std::vector<Type> out = whole.op.infer({whole.operands(call), {}, call.attributes});
  block_of_rows(whole, {call.operands, out, call.attributes},
                1);  // reads every setting: what is wrong is told here
  return out;
}

Bags bags_of(const KernelCall& call) {
  const TensorView &table = call.operands[0],
                   &ids = call.operands[ids_of(call.operands.size(), call.attributes)];
  const std::span<const std::int64_t> shape = table.shape, of_ids = ids.shape;
  const bool has_bags = is_bag(call.attributes);
  return {.v = call.loop("v"),
          .tables = has_bags ? element_count(shape.first(shape.size() - 2)) : 1,
          .inner = has_bags ? shape.back() : element_count(shape.subspan(1)),
          .count = has_bags ? element_count(of_ids.first(of_ids.size() - 1)) : ids.size(),
          .hot = has_bags ? of_ids.back() : 1,
          .is_mean = call.attributes.text("bag", "none") == "mean",
          .ids = Integers(ids)};
}

const TensorView& ids_view(const KernelCall& call) {
  return call.operands[ids_of(call.operands.size(), call.attributes)];
}

std::vector<Type> types_of(std::span<const TensorView> views) {
  std::vector<Type> out;
  for (const TensorView& v : views) out.push_back({v.dtype, Shape(v.shape.begin(), v.shape.end())});
  return out;
}

/// Blocks as calls of one operator need them. A kernel asks for no memory: it finds here what was bound when its workspace
/// was asked for.
class BoundBlocks {
 public:
  struct Bound {
    std::vector<DType> operands;
    std::int64_t elements = 0;
    Attributes attributes;
    std::size_t tensors = 0;
    BlockKernel block;

    bool is_of(const KernelCall& call, std::int64_t of_row) const {
      return elements == of_row && attributes == call.attributes &&
             std::ranges::equal(operands, call.operands, {}, {}, &TensorView::dtype);
    }
  };

  const Bound& of(const Whole& whole, const KernelCall& call, std::int64_t elements) {
    {
      const std::shared_lock lock(mutex_);
      for (const Bound& b : all_)
        if (b.is_of(call, elements)) return b;
    }
    const std::vector<Type> types = types_of(call.operands), results = types_of(call.results);
    const Call own{types, results, call.attributes};
    Bound made{{}, elements, call.attributes, whole.tensors(own), block_of_rows(whole, own, elements)};
    for (const Type& t : types) made.operands.push_back(t.dtype);
    const std::unique_lock lock(mutex_);
    return all_.emplace_back(std::move(made));
  }

 private:
  std::shared_mutex mutex_;
  std::deque<Bound> all_;  // which stay where they are
};

/// The optimizer's block on each row that is in a bag, where it stands.
void kernel_by_rows(const Whole& whole, BoundBlocks& blocks, const KernelCall& call) {
  constexpr std::size_t most = 9;
  const Bags bags = bags_of(call);
  const std::size_t ids = ids_of(call.operands.size(), call.attributes), count = call.operands.size() - 1;
  bags.check_range(call, ids);
  const BoundBlocks::Bound& bound = blocks.of(whole, call, bags.inner);
  const std::size_t tensors = bound.tensors;
  require(count <= most, "{} operands", count);
  std::array<std::byte*, most> rows, start;  // of operands; results are the same memory
  std::array<std::int64_t, most> bytes{};
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t from = i < ids ? i : i + 1;
    start[i] = call.operands[from].data;
    if (i >= tensors) continue;
    bytes[i] = bags.inner * static_cast<std::int64_t>(size_of(bound.operands[i]));
    if (i == 1) continue;
    const TensorView& to = call.results[i == 0 ? 0 : i - 1];
    if (to.data != start[i])
      std::copy_n(start[i], to.size() * static_cast<std::int64_t>(size_of(to.dtype)), to.data);
    start[i] = to.data;
  }
  std::array<std::byte*, most> written;
  std::byte* const sum = call.workspace + bytes_before_row(ids_view(call));
  visit_floating(bound.operands[1], [&]<class T>(std::type_identity<T>) {
    const T* const dy = call.operands[1].as<T>().data();
    for_each_row(sorted_addends(bags, call.workspace), [&](std::int64_t row,
                                                           std::span<const Addend> addends) {
      sum_addends(bags, addends, dy, reinterpret_cast<T*>(sum));
      for (std::size_t i = 0; i < count; ++i) rows[i] = start[i] + row * bytes[i];
      rows[1] = sum;
      for (std::size_t r = 0; r < call.results.size(); ++r) written[r] = rows[r == 0 ? 0 : r + 1];
      // Of scalars blocks of optimizers read the first element alone.
      bound.block({std::span(rows).first(count), std::span(written).first(call.results.size()), bags.inner});
    });
  });
}

/// The line of the whole update as a function of a gradient and rows: `lambda g, w, s: adagrad(w, g, s, ...)`.
std::string line_by_rows(const Whole& whole, const Call& call) {
  const std::size_t ids = ids_of(call.operands.size(), call.attributes), tensors = whole.tensors(call);
  std::string update =
      replaced(whole.op.torch.line_for({whole.operands(call), {}, call.attributes}), "{in_place}", "");
  update = replaced(update, "{weight_decay}", "0");  // which there is none of
  std::string names = "its_gradient, its_weight", of_tensors = "{0}";
  update = replaced(replaced(update, "{0}", "its_weight"), "{1}", "its_gradient");
  for (std::size_t i = 2; i < tensors; ++i) {
    const std::string name = fmt::format("its_state{}", i - 2);
    update = replaced(update, fmt::format("{{{}}}", i), name);
    names += ", " + name;
    of_tensors += fmt::format(", {{{}}}", i);
  }
  if (!call.attributes.find("rate"))  // which stands behind the ids
    update = replaced(update, fmt::format("{{{}}}", ids), fmt::format("{{{}}}", ids + 1));
  return fmt::format("by_rows{{in_place}}(lambda {}: {}, [{}], {{1}}, {{{}}}, {{v.offset}}, {{bag}})", names,
                     update, of_tensors, ids);
}

std::vector<std::string> samples_of(const std::string& name) {
  const std::string adam = "f32[12,4], f32[6,4], f32[12,4], f32[12,4]>0, f32[]<5, ";
  if (name == "sgd")
    return {"f32[12,4], f32[6,4], i32[6]<12 (rate=0.5)",
            "f32[6,2,2], f32[2,3,2,2], i64[2,3]<6, f64[]<3",
            "f32[12,4], f32[6,4], i32[6,2]<12 (bag=sum, rate=0.5)",
            "f32[2,6,4], f32[3,2,4], i32[3,2,4]<6 (bag=mean, rate=0.5)",
            "f32[6,4], f32[1,4], f32[]<2, i32[1]<6 (guarded=true, rate=0.5)",
            "bf16[6,4], f32[3,4], f32[6,4], i32[3]<6 (master=true, rate=0.5)"};
  if (name == "adagrad")
    return {"f32[12,4], f32[6,4], f32[12,4]>0, i32[6]<12 (epsilon=0.5, rate=0.5)",
            "f32[12,4], f32[1,4], f32[12,4]>0, f32[]<2, i32[1,1]<12, f64[]<3 (bag=sum, guarded=true)",
            "bf16[12,4], f32[6,4], f32[12,4]>0, f32[12,4], i32[6]<12 (master=true, rate=0.5)"};
  return {
      adam + "i32[6]<12 (rate=0.5)",
      adam + "i32[6,2]<12, f64[]<3 (bag=mean, beta1=0.5, beta2=0.75, epsilon=0.001)",
      "f32[12,4], f32[1,4], f32[12,4], f32[12,4]>0, f32[]<5, f32[]<2, i32[1]<12 (guarded=true, rate=0.5)",
      "bf16[12,4], f32[6,4], f32[12,4], f32[12,4]>0, f32[12,4], f32[]<5, i32[6]<12 (master=true, rate=0.5)"};
}

OpDef form_by_rows(const OpDef& op) {
  const Whole whole{op};
  const auto blocks = std::make_shared<BoundBlocks>();
  OpDef out{.name = op.name + std::string(suffix),
            .doc = op.doc + "; of the rows that ids name, each with the sum of its gradients",
            .rule_for = [whole](const Call& c) { return rule_by_rows(whole, c); },
            .infer = [whole](const Call& c) { return infer_by_rows(whole, c); },
            .flops = flops_of_rows,
            .kernel = [whole, blocks](const KernelCall& c) { kernel_by_rows(whole, *blocks, c); },
            .workspace =
                [whole, blocks](const KernelCall& c) {
                  blocks->of(whole, c, bags_of(c).inner);
                  return bytes_before_row(ids_view(c)) +
                         bags_of(c).inner * static_cast<std::int64_t>(sizeof(double));
                },
            .samples = samples_of(op.name),
            .optimizer = op.optimizer,
            .overwrites = op.overwrites,
            .torch = {.line_for = [whole](const Call& c) { return line_by_rows(whole, c); },
                      .functions = op.torch.functions + by_rows_in_torch},
            .jax = {.functions = op.jax.functions + by_rows_in_jax}};
  for (const auto& [name, value] : op.defaults)
    if (name != "weight_decay") out.defaults.set(name, value);
  out.defaults.set("bag", std::string("none"));
  for (const std::string& name : op.attributes)
    if (name != "weight_decay") out.attributes.push_back(name);
  out.attributes.emplace_back("bag");
  return out;
}

}  // namespace

std::vector<OpDef> row_updates() {
  std::vector<OpDef> out;
  for (const OpDef& op : optimizers())
    if (std::ranges::find(with_rows, op.name) != with_rows.end()) out.push_back(form_by_rows(op));
  return out;
}

}  // namespace shardwright::ops

namespace shardwright {

void mark_sparse(Graph& graph, ValueId table) {
  graph.node(graph.value(table).producer).attributes.set(std::string(sparse_attribute), true);
}

std::optional<RowGradient> row_gradient(const Graph& graph, ValueId gradient) {
  const Node* node = &graph.node(graph.value(gradient).producer);
  while (node->op->name == "cast") node = &graph.node(graph.value(node->operands[0]).producer);
  const Attributes& said = node->attributes;
  if (node->op->name == "lookup_grad")
    return RowGradient{node->operands[0], node->operands[1], said.flag("mean") ? "mean" : "sum"};
  if (node->op->name != "unsorted_segment_sum" || said.integer("dim", 0) != 0) return std::nullopt;
  if (graph.value(node->operands[1]).type.shape.empty()) return std::nullopt;
  return RowGradient{node->operands[0], node->operands[1], "none"};
}

const OpDef* by_rows(const OpDef& optimizer, const Attributes& settings) {
  const bool decays = settings.number("weight_decay", 0) != 0;
  const auto& known = ops::with_rows;
  if (decays || std::ranges::find(known, optimizer.name) == known.end()) return nullptr;
  return &find_op(optimizer.name + std::string(ops::suffix));
}

std::vector<std::string> tables_updated_whole(const Graph& graph) {
  std::vector<std::string> out;
  for (const Node& node : graph.nodes) {
    if (!node.op->optimizer || updates_rows(node)) continue;
    const Value& table = graph.value(node.operands.front());
    if (!graph.node(table.producer).attributes.flag(sparse_attribute)) continue;
    const std::string_view why =
        by_rows(*node.op, node.attributes) ? "its gradient is not of the rows of one lookup"
        : node.attributes.number("weight_decay", 0) != 0
            ? "weight decay moves every row"
            : "which moves every row; sgd, adagrad and lazy_adam move those of the batch";
    const bool is_by_name = why.starts_with("which");
    out.push_back(fmt::format("{}: each step updates the whole table{}{}{}", table.name,
                              is_by_name ? fmt::format(" by {}", node.op->name) : "",
                              is_by_name ? ", " : ": ", why));
  }
  return out;
}

const OpDef& push_op() { return find_op("push"); }

std::optional<RowOperands> row_operands(const Node& node) {
  if (node.op->name == "row_squares") return RowOperands{0, 1};
  if (!updates_rows(node)) return std::nullopt;
  return RowOperands{1, ops::ids_of(node.operands.size(), node.attributes)};
}

}  // namespace shardwright
