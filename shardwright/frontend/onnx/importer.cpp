#include "shardwright/frontend/onnx/importer.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/modules/losses.h"
#include "shardwright/frontend/onnx/constant_folding.h"
#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/exporter.h"
#include "shardwright/frontend/onnx/input_sizes.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/loops.h"
#include "shardwright/frontend/onnx/node.h"
#include "shardwright/frontend/onnx/reading.h"
#include "shardwright/frontend/onnx/sequences.h"
#include "shardwright/frontend/onnx/tensors.h"
#include "shardwright/frontend/onnx/values.h"

namespace shardwright {
namespace {

class Importer {
 public:
  Importer(const OnnxFile& file, const ModelArguments& arguments)
      : file_(file), arguments_(arguments), trace_(arguments.precision), values_(file, trace_) {}

  Model import(std::optional<std::int64_t> global_batch) {
    add_inputs(global_batch);
    for (const onnx::NodeProto& node : file_.model->graph().node()) add(node);
    return finish();
  }

 private:
  void add_inputs(std::optional<std::int64_t> global_batch) {
    std::vector<const onnx::ValueInfoProto*> inputs;  // older files list initializers among them
    for (const auto& input : file_.model->graph().input())
      if (!values_.is_initializer(input.name())) inputs.push_back(&input);
    if (std::ssize(inputs) > limits::values_of_a_node)
      throw error("has {} inputs but at most {} are read", inputs.size(), limits::values_of_a_node);
    const std::vector<Type> types =
        input_types(inputs, {.path = file_.path, .keys = arguments_.keys, .global_batch = global_batch});
    for (std::size_t i = 0; i < inputs.size(); ++i) {
      const Type type = in_precision(types[i], trace_.precision());
      const std::string& name = inputs[i]->name();
      values_.define(name, {.type = type});  // checks the name first
      values_.at(name).id = trace_.input(graph_name(name), type).id;
    }
  }

  void add(const onnx::NodeProto& proto) try {
    if (proto.input_size() + proto.output_size() > limits::values_of_a_node)
      throw error("has {} inputs and {} outputs; at most {} are read", proto.input_size(),
                  proto.output_size(), limits::values_of_a_node);
    if (!proto.domain().empty() && proto.domain() != "ai.onnx")
      throw error("operator '{}.{}' is not supported; there are ONNX's own", printable(proto.domain()),
                  printable(proto.op_type()));
    if (is_loop(proto)) return unroll(proto, around());
    if (Sequences::takes(proto)) return add_sequence(proto);
    const auto& conversion = onnx_operators::find(proto.op_type());
    std::vector<Known> results;
    try {
      results = converted(proto, conversion);
    } catch (const Error& e) {
      throw with_context(e, proto.op_type());
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty()) continue;
      const auto at = static_cast<std::size_t>(i);
      values_.define(proto.output(i),
                     at < results.size() ? std::move(results[at]) : Known{.is_missing = true});
    }
  } catch (const Error& e) {
    throw with_context(e, fmt::format("node '{}'", printable(name_of(proto))));
  }

  /// For nodes that others stand for.
  AroundNode around() {
    return {.opset = file_.opset,
            .at = [this](const std::string& name) -> const Known& { return values_.at(name); },
            .add = [this](const onnx::NodeProto& node) { add(node); },
            .budget = nodes_left_};
  }

  /// A list has a name that no value may have.
  void add_sequence(const onnx::NodeProto& proto) try {
    sequences_.add(proto, around());
    if (sequences_.has(proto.output(0))) values_.define(proto.output(0), {.is_missing = true});
  } catch (const Error& e) {
    throw with_context(e, proto.op_type());
  }

  std::vector<Known> converted(const onnx::NodeProto& proto, const onnx_operators::Conversion& conversion) {
    if (conversion.is_linear && is_known(proto))
      if (auto results = computed_now(proto, conversion)) return std::move(*results);
    OnnxNode node(proto, file_.opset, values_,
                  {.builder = trace_.builder(),
                   .enter = [this](Known& value) { return values_.enter(value); },
                   .enter_state = [this](const std::string& name,
                                         StateUse use) { return values_.enter_state(name, use); },
                   .enter_constant = [this](const auto& t) { return values_.enter_constant(t); }});
    conversion.convert(node);
    node.check_attributes_read();
    for (const Known& result : node.results()) check_limits(result.type.shape, result.constant ? 0 : 1);
    return std::move(node.results());
  }

  bool is_known(const onnx::NodeProto& proto) {
    for (const std::string& name : proto.input())
      if (!name.empty() && !values_.at(name).constant) return false;
    return true;
  }

  /// The results of a node of known operands; nothing if they are too large or need more than operands.
  std::optional<std::vector<Known>> computed_now(const onnx::NodeProto& proto,
                                                 const onnx_operators::Conversion& conversion) {
    Graph graph;
    Builder builder(graph);
    KnownLeaves leaves;
    const auto enter = [&](const std::shared_ptr<const Tensor>& tensor) {
      const ValueId v = builder.leaf(OpKind::input, fmt::format("{}_", leaves.size() + 1), tensor->type());
      leaves[v] = tensor;
      return v;
    };
    OnnxNode node(
        proto, file_.opset, values_,
        {.builder = builder,
         .enter = [&](Known& value) { return enter(value.constant); },
         .enter_state = [&](const std::string& name, StateUse) { return enter(values_.at(name).constant); },
         .enter_constant = enter});
    conversion.convert(node);
    node.check_attributes_read();
    std::vector<ValueId> wanted;
    for (const Known& result : node.results()) {
      check_limits(result.type.shape, 0);
      if (result.id.is_valid()) wanted.push_back(result.id);
    }
    if (!graph.updates.empty()) return std::nullopt;
    auto tensors = computed(graph, leaves, wanted, values_.budget());
    if (!tensors) return std::nullopt;
    std::size_t next = 0;
    for (Known& result : node.results()) {
      if (!result.id.is_valid()) continue;
      result.id = {};
      result.constant = std::make_shared<const Tensor>(std::move((*tensors)[next++]));
    }
    return std::move(node.results());
  }

  Model finish() {
    const auto& graph = file_.model->graph();
    if (graph.output_size() == 0) throw error("the graph has no output");
    const std::string& name = graph.output(0).name();
    if (!values_.has(name)) throw error("its output '{}' is made by no node", printable(name));
    Known& output = values_.at(name);
    if (output.is_missing) throw error("its output '{}' is a result that is not supported", printable(name));
    const Traced prediction{&trace_, values_.enter(output)};
    Labels labels;
    if (!arguments_.loss.empty()) labels = checked_labels(name, prediction.type());
    const Traced loss = arguments_.loss.empty()
                            ? own_loss(name, prediction)
                            : loss_called(arguments_.loss, prediction, trace_.input("label", labels.type));
    Model model = finish_model(trace_, loss, prediction);  // takes over the graph
    model.labels = std::move(labels);
    for (const auto& input : graph.input())
      if (const std::int64_t classes = values_.classes_of(values_.at(input.name()).id); classes > 0)
        model.classes[graph_name(input.name())] = classes;
    if (arguments_.loss.empty())
      model.notices.push_back(fmt::format("no --loss: its first output '{}' is the loss", printable(name)));
    model.has_uneven_loss = values_.has_uneven_loss();
    for (std::string warning : {warning_of_inference(), warning_of_exporter(*file_.model)})
      if (!warning.empty()) model.notices.push_back(std::move(warning));
    for (std::string& notice : model.notices) notice.insert(0, file_.path + ": ");
    model.initial = std::move(values_.initial());
    for (const Node& node : model.graph.nodes) {
      const Value& leaf = model.graph.value(node.results.front());
      if (const auto it = model.initial.find(leaf.name);
          node.op->kind == OpKind::state && it != model.initial.end())
        it->second = [read = std::move(it->second), dtype = leaf.type.dtype] {
          return convert(read(), dtype);
        };
    }
    return model;
  }

  /// What tells that the file was exported as the network is outside of training; empty if nothing does. What was
  /// left out without a trace, such as dropout, cannot be told.
  std::string warning_of_inference() const {
    std::vector<std::string> signs;
    for (const auto& [op, count] : values_.inactive())
      signs.push_back(fmt::format("{} {} as outside of training", count, op));
    const auto& initializers = file_.model->graph().initializer();
    // PyTorch's exporter names so the weights of convolutions that it has merged with the batch norms behind them.
    const auto folded =
        std::ranges::find_if(initializers, [](const auto& t) { return t.name().starts_with("onnx::Conv_"); });
    if (folded != initializers.end() && file_.model->producer_name() == "pytorch")
      signs.push_back(
          fmt::format("a convolution of weight '{}', merged with its batch norm", printable(folded->name())));
    if (signs.empty()) return "";
    return fmt::format(
        "it has {}: it seems to be exported for inference, and is trained as it stands; to train the network "
        "as its "
        "framework does, export it with training=TrainingMode.TRAINING and do_constant_folding=False",
        join(signs, " and "));
  }

  static Traced own_loss(const std::string& name, Traced output) {
    if (!output.type().shape.empty() || !is_floating(output.type().dtype))
      throw error("its output '{}' is {} and no loss; give one by --loss, such as --loss cross_entropy",
                  printable(name), to_text(output.type()));
    return output;
  }

  /// Of the loss that was asked for.
  Labels checked_labels(const std::string& name, const Type& output) const {
    if (is_floating(output.dtype) && output.shape.empty())
      throw error("its output '{}' is a scalar, the loss itself; leave out --loss {}", printable(name),
                  arguments_.loss);
    const bool has_classes = arguments_.loss == "cross_entropy";
    if (!is_floating(output.dtype) || (has_classes && output.shape.size() < 2))
      throw error("its output '{}' is {}, which --loss {} cannot take", printable(name), to_text(output),
                  arguments_.loss);
    if (has_classes && output.shape.back() > INT32_MAX)
      throw error("its output '{}' has {} classes", printable(name), output.shape.back());
    return labels_of(arguments_.loss, output);
  }

  const OnnxFile& file_;
  const ModelArguments& arguments_;
  Trace trace_;
  Values values_;
  Sequences sequences_;
  std::int64_t nodes_left_ = limits::nodes;  // that loops may become
};

}  // namespace

Model import_onnx(const std::string& path, const ModelArguments& arguments,
                  std::optional<std::int64_t> global_batch) try {
  const OnnxFile file = read_onnx(path);
  return Importer(file, arguments).import(global_batch);
} catch (const Error& e) {
  if (std::string_view(e.what()).starts_with(path + ":")) throw;
  throw with_context(e, path);
}

}  // namespace shardwright
