#include "shardwright/frontend/adapters.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/rewrite.h"

namespace shardwright {
namespace {

/// `layers.0.attention.q` of `layers.0.attention.q.weight`.
std::string module_of(const std::string& weight) {
  constexpr std::string_view suffix = ".weight";
  return weight.ends_with(suffix) ? weight.substr(0, weight.size() - suffix.size()) : weight;
}

std::string last_part(const std::string& name) { return name.substr(name.rfind('.') + 1); }

/// What a weight that adapters can stand beside is called: ours first.
struct Adaptable {
  std::vector<std::string> words;
  bool makes_prediction = false;
};

class Adapting {
 public:
  Adapting(Model& model, const AdapterOptions& options)
      : model_(model),
        graph_(model.graph),
        options_(options),
        product_(&find_op("matmul")),
        adaptable_(find_adaptable()),
        chosen_(choose()) {}

  Adapters run() {
    const int count = static_cast<int>(graph_.nodes.size());
    Builder builder(graph_);
    std::vector<NodeId> order;
    std::vector<ValueId> adapted(graph_.values.size());  // what stands in the place of a value
    const auto now = [&](ValueId v) { return adapted[at(v.index)].is_valid() ? adapted[at(v.index)] : v; };
    for (int n = 0; n < count; ++n) {
      for (ValueId& v : graph_.nodes[at(n)].operands) v = now(v);
      order.push_back({n});
      if (!is_chosen(graph_.nodes[at(n)])) continue;
      const int begin = static_cast<int>(graph_.nodes.size());
      const ValueId y = graph_.nodes[at(n)].results.front();
      adapted[at(y.index)] = add_beside(builder, {n});
      for (int added = begin; added < static_cast<int>(graph_.nodes.size()); ++added)
        order.push_back({added});
    }
    for (ValueId& v : graph_.outputs) v = now(v);
    for (Update& u : graph_.updates) u.value = now(u.value);
    const bool loss_is_first = model_.loss.is_valid();
    const std::vector<ValueId> same(graph_.values.size());
    graph_ = rebuild(std::move(graph_), order, same);
    if (loss_is_first) model_.loss = graph_.outputs.front();
    return {.options = options_, .all = std::move(all_), .columns = std::move(columns_)};
  }

 private:
  const Node& producer(ValueId v) const { return graph_.node(graph_.value(v).producer); }

  /// A product of a value with a parameter of two dims.
  bool is_candidate(const Node& node) const {
    return node.op == product_ && !node.attributes.flag("transpose_a") && is_matrix(node.operands[1]) &&
           producer(node.operands[0]).op->kind != OpKind::parameter;
  }
  bool is_matrix(ValueId v) const {
    return producer(v).op->kind == OpKind::parameter && graph_.value(v).type.shape.size() == 2;
  }

  /// By weight; one that anything else reads, such as a table, is none of them.
  std::map<ValueId, Adaptable> find_adaptable() const {
    const Users users = users_of(graph_);
    std::map<ValueId, Adaptable> out;
    for (const Node& node : graph_.nodes) {
      if (!is_candidate(node)) continue;
      const ValueId weight = node.operands[1];
      const auto reads_as_weight = [&](NodeId id) {
        return is_candidate(graph_.node(id)) && graph_.node(id).operands[1] == weight;
      };
      if (!std::ranges::all_of(users[at(weight.index)], reads_as_weight)) continue;
      out[weight].words = {last_part(module_of(graph_.value(weight).name))};
    }
    if (model_.folder)
      for (const auto& [file, tensors] : model_.folder->files)
        for (const FolderTensor& t : tensors)
          for (const TensorPiece& piece : t.pieces)
            for (auto& [weight, found] : out)
              if (graph_.value(weight).name == piece.parameter &&
                  !std::ranges::count(found.words, last_part(module_of(t.name))))
                found.words.push_back(last_part(module_of(t.name)));
    if (const ValueId weight = weight_of_prediction(); out.contains(weight))
      out[weight].makes_prediction = true;
    return out;
  }

  /// That of the last product in front of the prediction.
  ValueId weight_of_prediction() const {
    ValueId v = graph_.outputs.back();
    while (producer(v).op->kind == OpKind::compute && !producer(v).operands.empty()) {
      if (is_candidate(producer(v))) return producer(v).operands[1];
      if (producer(v).op == product_) return {};
      v = producer(v).operands.front();
    }
    return {};
  }

  std::set<ValueId> choose() const {
    if (adaptable_.empty())
      throw error("it has no product with a weight of its own that adapters could stand beside");
    std::vector<std::string> known;
    for (const auto& [weight, found] : adaptable_)
      for (const std::string& word : found.words)
        if (!std::ranges::count(known, word)) known.push_back(word);
    std::set<ValueId> out;
    for (const std::string& target : options_.targets) {
      const std::size_t before = out.size();
      bool is_known = false;
      for (const auto& [weight, found] : adaptable_) {
        if (!is_meant(target, found)) continue;
        is_known = true;
        out.insert(weight);
      }
      if (!is_known || (out.size() == before && target == "all" && before == 0)) {
        known.push_back("all");
        throw unknown("target", target, known);
      }
    }
    return out;
  }

  static bool is_meant(const std::string& target, const Adaptable& weight) {
    if (target == "all" || target == "all-linear") return !weight.makes_prediction;
    constexpr std::string_view suffix = "_proj";  // of names in many folders
    const std::string brief =
        target.ends_with(suffix) ? target.substr(0, target.size() - suffix.size()) : target;
    return std::ranges::count(weight.words, target) > 0 || weight.words.front() == brief;
  }

  bool is_chosen(const Node& node) const { return is_candidate(node) && chosen_.contains(node.operands[1]); }

  /// Adds what stands beside the product `id`; the sum of both.
  ValueId add_beside(Builder& builder, NodeId id) {
    const ValueId x = graph_.node(id).operands[0], weight = graph_.node(id).operands[1],
                  y = graph_.node(id).results.front();
    const std::string module = module_of(graph_.value(weight).name);
    const Pair& pair = pair_of(builder, weight, graph_.node(id).attributes.flag("transpose_b"));
    Attributes transposed;
    if (pair.is_transposed) transposed.set("transpose_b", true);
    ValueId low = builder.call("matmul", {x, pair.a}, transposed, module + ".lora_A.matmul");
    const double scale = options_.alpha / static_cast<double>(options_.rank);
    if (scale != 1) low = builder.call("scale", {low}, {{"factor", scale}}, module + ".lora.scale");
    const ValueId high = builder.call("matmul", {low, pair.b}, transposed, module + ".lora_B.matmul");
    return builder.call("add", {y, high}, {}, module + ".lora.add");
  }

  struct Pair {
    ValueId a, b;
    bool is_transposed = false;
  };

  /// One for each weight, however many products read it.
  const Pair& pair_of(Builder& builder, ValueId weight, bool is_transposed) {
    if (const auto known = pairs_.find(weight); known != pairs_.end()) {
      if (known->second.is_transposed != is_transposed)
        throw error("'{}' is read as it is and transposed, so adapters cannot stand beside it",
                    graph_.value(weight).name);
      return known->second;
    }
    const Type type = graph_.value(weight).type;
    const std::string name = graph_.value(weight).name, module = module_of(name);
    const std::int64_t in = type.shape[is_transposed ? 1 : 0], out = type.shape[is_transposed ? 0 : 1];
    Attributes start{{"init", "uniform"}, {"scale", 1 / std::sqrt(static_cast<double>(in))}},
        zero{{"init", "zeros"}};
    if (const Attribute* master = producer(weight).attributes.find("master")) {
      start.set("master", *master);
      zero.set("master", *master);
    }
    const auto leaf = [&](const char* which, std::int64_t rows, std::int64_t columns,
                          const Attributes& attributes) {
      if (is_transposed) std::swap(rows, columns);
      const std::string called = fmt::format("{}.lora_{}.weight", module, which);
      return builder.leaf(OpKind::parameter, called, {type.dtype, {rows, columns}}, attributes);
    };
    Pair pair{leaf("A", in, options_.rank, start), leaf("B", options_.rank, out, zero), is_transposed};
    all_.push_back({name, graph_.value(pair.a).name, graph_.value(pair.b).name, is_transposed});
    columns_[name] = out;
    return pairs_[weight] = pair;
  }

  Model& model_;
  Graph& graph_;
  const AdapterOptions& options_;
  const OpDef* product_;
  std::map<ValueId, Adaptable> adaptable_;
  std::set<ValueId> chosen_;
  std::map<ValueId, Pair> pairs_;
  std::vector<Adapter> all_;
  std::map<std::string, std::int64_t> columns_;
};

/// Nothing updates it, so it needs no longer form of itself.
void freeze(Node& parameter) {
  Attributes kept;
  for (const auto& [key, value] : parameter.attributes)
    if (key != "master") kept.set(key, value);
  kept.set(std::string(frozen_attribute), true);
  parameter.attributes = std::move(kept);
}

}  // namespace

Model with_adapters(Model model, const AdapterOptions& options) {
  if (model.graph.level != Level::network)
    throw error("it says itself how it is split; adapt the network that it was made of");
  if (std::ranges::any_of(model.graph.nodes, is_frozen)) throw error("it has adapters already");
  const Adapters adapters = Adapting(model, options).run();
  if (model.folder) {
    ModelFolder with = *model.folder;
    with.adapters = adapters;
    model.folder = std::make_shared<const ModelFolder>(std::move(with));
  }
  std::set<std::string> trained;
  for (const Adapter& one : adapters.all) trained.insert({one.a, one.b});
  for (Node& node : model.graph.nodes) {
    const Value& v = model.graph.value(node.results.front());
    if (node.op->kind != OpKind::parameter || trained.contains(v.name)) continue;
    freeze(node);
    if (const auto own = model.initial.find(v.name); own != model.initial.end())
      own->second = [value = own->second, dtype = v.type.dtype] { return convert(value(), dtype); };
  }
  const ParameterCount count = parameters_of(model.graph);
  model.notices.push_back(fmt::format("lora: {:.0f} of {:.0f} parameters are trained, of {} adapters",
                                      count.trained, count.all, adapters.all.size()));
  return model;
}

ReadParameter merged(const Adapters& adapters, ReadParameter read) {
  return [&adapters, read = std::move(read)](const std::string& name, const Box& where) {
    Tensor weight = read(name, where);
    const auto one = std::ranges::find(adapters.all, name, &Adapter::weight);
    if (one == adapters.all.end()) return weight;
    // w: [m, n]; not transposed A: [m, rank], B: [rank, n]; else A: [rank, n], B: [m, rank]
    const std::int64_t m = where.extent[0], n = where.extent[1], rank = adapters.options.rank;
    const Box left{{where.offset[0], 0}, {m, rank}}, right{{0, where.offset[1]}, {rank, n}};
    const Tensor l = convert(read(one->is_transposed ? one->b : one->a, left), DType::f64),
                 r = convert(read(one->is_transposed ? one->a : one->b, right), DType::f64);
    Tensor sum = convert(weight, DType::f64);
    const auto x = l.as<double>(), y = r.as<double>();
    const std::span<double> w = sum.as<double>();
    for (std::int64_t i = 0; i < m; ++i)
      for (std::int64_t k = 0; k < rank; ++k) {
        const double factor = adapters.scale() * x[at(i * rank + k)];
        for (std::int64_t j = 0; j < n; ++j) w[at(i * n + j)] += factor * y[at(k * n + j)];
      }
    return convert(sum, weight.dtype());
  };
}

ParameterCount parameters_of(const Graph& graph) {
  ParameterCount out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const auto elements = static_cast<double>(element_count(graph.value(node.results[0]).type.shape));
    out.all += elements;
    if (!is_frozen(node)) out.trained += elements;
  }
  return out;
}

}  // namespace shardwright
