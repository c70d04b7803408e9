#include "tests/support/transformer.h"

#include <cmath>

#include "shardwright/base/random.h"
#include "shardwright/graph/builder.h"

namespace shardwright::testing {
namespace {

/// Axes per dim of a node's result; dims that are reduced are named beside them.
using Split = std::vector<Axes>;

class Maker {
 public:
  Maker(const TransformerSizes& sizes, const TransformerSplit& split, DType dtype)
      : z_(sizes), split_(split), dtype_(dtype), builder_(graph_) {
    graph_.level = Level::planned;
    graph_.meshes = {split.mesh};
    dp_ = split.dp;
    tp_ = split.tp;
    seq_ = split.is_sequence_parallel ? split.tp : Axes{};
  }

  Transformer make() {
    const ValueId ids = input("ids"), labels = input("labels");
    const ValueId table = parameter("table", {z_.vocabulary, z_.hidden}, {tp_, {}});
    const ValueId hot =
        node("one_hot", {ids}, {dp_, {}, tp_}, {}, {{"depth", z_.vocabulary}, {"dtype", type_name()}});
    ValueId x = node("matmul", {hot, table}, {dp_, {}, {}}, {{"k", tp_}}, {}, "embed");
    for (std::int64_t l = 0; l < z_.layers; ++l) x = layer(x, l);
    x = norm(x, "normf");
    const ValueId head = z_.is_tied ? table : parameter("head", {z_.vocabulary, z_.hidden}, {tp_, {}});
    const ValueId logits = node("matmul", {x, head}, {dp_, {}, tp_}, {}, {{"transpose_b", true}}, "logits");
    const ValueId loss = cross_entropy(logits, labels);
    graph_.outputs = {loss};
    return {std::move(graph_), loss};
  }

 private:
  std::string type_name() const { return std::string(name_of(dtype_)); }

  ValueId input(const std::string& name) {
    const ValueId v = builder_.leaf(OpKind::input, name, {DType::i32, {z_.batch, z_.sequence}});
    graph_.value(v).layout = layout({dp_, {}});
    return v;
  }

  ValueId parameter(const std::string& name, Shape shape, const Split& split) {
    const ValueId v = builder_.leaf(OpKind::parameter, name, {dtype_, std::move(shape)},
                                    {{"init", std::string("normal")}, {"scale", 0.3}});
    graph_.value(v).layout = layout(split);
    return v;
  }

  static Layout layout(const Split& split) {
    Layout l;
    l.dims = split;
    return l;
  }

  /// Adds a call whose result is split so; `reduced` names loop dims that the result lacks.
  ValueId node(const std::string& op, std::vector<ValueId> operands, const Split& split,
               const std::map<std::string, Axes>& reduced = {}, Attributes attributes = {},
               const std::string& name = "") {
    const ValueId v = builder_.call(op, std::move(operands), std::move(attributes), name);
    Node& n = graph_.node(graph_.value(v).producer);
    const Rule rule = rule_of(graph_, n);
    Strategy s = whole(rule);
    for (std::size_t d = 0; d < split.size(); ++d)
      if (!rule.results[0].dims[d].empty())
        s.loops[static_cast<std::size_t>(rule.results[0].dims[d][0])] = split[d];
    for (const auto& [loop, axes] : reduced) s.loops[static_cast<std::size_t>(rule.loop(loop))] = axes;
    n.strategy = s;
    return v;
  }

  Split stream() const { return {dp_, seq_, {}}; }
  Split stream_column() const { return {dp_, seq_, {}}; }

  ValueId norm(ValueId x, const std::string& name) {
    const ValueId gamma = parameter(name + ".gamma", {z_.hidden}, {{}});
    const ValueId beta = parameter(name + ".beta", {z_.hidden}, {{}});
    const Attributes last{{"dims", std::vector<std::int64_t>{2}}, {"keep", true}};
    const ValueId mean = node("reduce_mean", {x}, stream_column(), {}, last);
    const ValueId centred = node("sub", {x, mean}, stream());
    const ValueId squared = node("mul", {centred, centred}, stream());
    const ValueId variance = node("shift", {node("reduce_mean", {squared}, stream_column(), {}, last)},
                                  stream_column(), {}, {{"value", 1e-3}});
    const ValueId scaled = node("mul", {centred, node("rsqrt", {variance}, stream_column())}, stream());
    return node("add", {node("mul", {scaled, gamma}, stream()), beta}, stream(), {}, {}, name);
  }

  ValueId heads(ValueId x, const std::string& name) {
    const std::int64_t width = z_.heads * z_.head;
    const ValueId w = parameter(name + ".weight", {z_.hidden, width}, {{}, tp_});
    const ValueId y = node("matmul", {x, w}, {dp_, {}, tp_}, {}, {}, name);
    const ValueId r = node("reshape", {y}, {dp_, {}, tp_, {}}, {},
                           {{"shape", Shape{z_.batch, z_.sequence, z_.heads, z_.head}}});
    return node("transpose", {r}, {dp_, tp_, {}, {}}, {}, {{"dims", std::vector<std::int64_t>{0, 2, 1, 3}}});
  }

  ValueId attention(ValueId x, const std::string& name) {
    const ValueId q = heads(x, name + ".q"), k = heads(x, name + ".k"), v = heads(x, name + ".v");
    const Split by_head{dp_, tp_, {}, {}};
    const ValueId scores = node("matmul", {q, k}, by_head, {}, {{"transpose_b", true}});
    const ValueId scaled =
        node("scale", {scores}, by_head, {}, {{"factor", 1 / std::sqrt(static_cast<double>(z_.head))}});
    const ValueId context = node("matmul", {node("softmax", {scaled}, by_head), v}, by_head);
    const ValueId back = node("transpose", {context}, {dp_, {}, tp_, {}}, {},
                              {{"dims", std::vector<std::int64_t>{0, 2, 1, 3}}});
    const ValueId joined = node("reshape", {back}, {dp_, {}, tp_}, {},
                                {{"shape", Shape{z_.batch, z_.sequence, z_.heads * z_.head}}});
    const ValueId w = parameter(name + ".out.weight", {z_.heads * z_.head, z_.hidden}, {tp_, {}});
    return node("matmul", {joined, w}, {dp_, {}, {}}, {{"k", tp_}}, {}, name + ".out");
  }

  ValueId feed_forward(ValueId x, const std::string& name) {
    const ValueId w1 = parameter(name + ".1.weight", {z_.hidden, z_.ffn}, {{}, tp_});
    const ValueId b1 = parameter(name + ".1.bias", {z_.ffn}, {tp_});
    const ValueId w2 = parameter(name + ".2.weight", {z_.ffn, z_.hidden}, {tp_, {}});
    const ValueId b2 = parameter(name + ".2.bias", {z_.hidden}, {{}});
    const Split wide{dp_, {}, tp_};
    const ValueId a = node("add", {node("matmul", {x, w1}, wide, {}, {}, name + ".1"), b1}, wide);
    const ValueId y =
        node("matmul", {node("relu", {a}, wide), w2}, {dp_, {}, {}}, {{"k", tp_}}, {}, name + ".2");
    return node("add", {y, b2}, stream());
  }

  ValueId layer(ValueId x, std::int64_t l) {
    const std::string name = fmt::format("layer{}", l);
    x = node("add", {x, attention(norm(x, name + ".norm1"), name + ".attention")}, stream());
    return node("add", {x, feed_forward(norm(x, name + ".norm2"), name + ".ffn")}, stream());
  }

  /// log(sum(exp(z - max))) - (z - max)[label], with the classes split: a max and two sums across devices.
  ValueId cross_entropy(ValueId z, ValueId labels) {
    const Split wide{dp_, {}, tp_}, column{dp_, {}, {}};
    const std::map<std::string, Axes> over_classes{{"i2", tp_}};
    const Attributes last{{"dims", std::vector<std::int64_t>{2}}, {"keep", true}};
    const ValueId top = node("stop_gradient", {node("reduce_max", {z}, column, over_classes, last)}, column);
    const ValueId shifted = node("sub", {z, top}, wide);
    const ValueId sum = node("reduce_sum", {node("exp", {shifted}, wide)}, column, over_classes, last);
    const ValueId hot =
        node("one_hot", {labels}, wide, {}, {{"depth", z_.vocabulary}, {"dtype", type_name()}});
    const ValueId picked =
        node("reduce_sum", {node("mul", {shifted, hot}, wide)}, column, over_classes, last);
    const ValueId nll = node("sub", {node("log", {sum}, column), picked}, column);
    return node("reduce_mean", {nll}, {}, {{"i0", dp_}}, {}, "loss");
  }

  TransformerSizes z_;
  TransformerSplit split_;
  DType dtype_;
  Graph graph_;
  Builder builder_;
  Axes dp_, tp_, seq_;
};

}  // namespace

Transformer make_transformer(const TransformerSizes& sizes, const TransformerSplit& split, DType dtype) {
  return Maker(sizes, split, dtype).make();
}

std::map<std::string, Tensor> transformer_values(const Graph& graph, std::int64_t vocabulary,
                                                 std::uint64_t seed) {
  std::map<std::string, Tensor> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind == OpKind::compute || node.op->kind == OpKind::step) continue;
    const Value& v = graph.value(node.results[0]);
    const RandomStream random(seed, v.name);
    std::vector<double> values(static_cast<std::size_t>(element_count(v.global_type().shape)));
    for (std::size_t i = 0; i < values.size(); ++i) {
      if (node.op->kind == OpKind::input) values[i] = static_cast<double>(random.below(i, vocabulary));
      if (node.op->kind == OpKind::parameter) values[i] = 0.3 * random.normal(i);
    }
    out[v.name] = make_tensor(v.global_type(), values);
  }
  return out;
}

}  // namespace shardwright::testing
