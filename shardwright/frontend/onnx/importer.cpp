#include "shardwright/frontend/onnx/importer.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/modules/losses.h"
#include "shardwright/frontend/onnx/constant_folding.h"
#include "shardwright/frontend/onnx/conversions.h"
#include "shardwright/frontend/onnx/input_sizes.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/loops.h"
#include "shardwright/frontend/onnx/node.h"
#include "shardwright/frontend/onnx/reading.h"
#include "shardwright/frontend/onnx/scope.h"
#include "shardwright/frontend/onnx/sequences.h"
#include "shardwright/frontend/onnx/tensors.h"
#include "shardwright/frontend/onnx/values.h"
#include "shardwright/graph/node_kinds.h"

namespace shardwright {
namespace {

class Importer {
 public:
  Importer(const OnnxFile& file, const ModelArguments& arguments)
      : file_(file),
        arguments_(arguments),
        said_(said_of_training(file.model->graph().input(), arguments_.keys)),
        trace_(arguments.precision),
        values_(file, trace_, said_, arguments_.asks) {}

  Model import(std::optional<std::int64_t> global_batch) {
    add_inputs(global_batch);
    for (const onnx::FunctionProto& function : file_.model->functions())
      functions_[{function.domain(), function.name()}] = &function;
    add_all(file_.model->graph().node(), Scope(file_.opset));
    values_.check_frozen();
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
      values_.at(name).id = trace_.input(values_.input_name(name), type).id;
    }
  }

  using Nodes = google::protobuf::RepeatedPtrField<onnx::NodeProto>;

  /// Functions and branches that stand in many places are counted as often.
  void add_all(const Nodes& nodes, const Scope& scope) {
    for (const onnx::NodeProto& node : nodes) {
      if (++nodes_ > limits::nodes)
        throw error("has more than {} nodes, functions taken in where they are called", limits::nodes);
      add(node, scope);
    }
  }

  void add(const onnx::NodeProto& proto, const Scope& scope) try {
    if (proto.input_size() + proto.output_size() > limits::values_of_a_node)
      throw error("has {} inputs and {} outputs; at most {} are read", proto.input_size(),
                  proto.output_size(), limits::values_of_a_node);
    if (const auto it = functions_.find({proto.domain(), proto.op_type()}); it != functions_.end())
      return call(proto, *it->second, scope);
    if (!proto.domain().empty() && proto.domain() != "ai.onnx")
      throw error("operator '{}.{}' is not supported; there are ONNX's own and the file's functions",
                  printable(proto.domain()), printable(proto.op_type()));
    if (proto.op_type() == "If") return choose(proto, scope);
    if (is_loop(proto)) return unroll(settled(proto, scope), around(scope));
    if (Sequences::takes(proto)) return add_sequence(settled(proto, scope), scope);
    const auto& conversion = onnx_operators::find(proto.op_type());
    std::vector<Known> results;
    try {
      results = converted(proto, conversion, scope);
    } catch (const Error& e) {
      throw with_context(e, proto.op_type());
    }
    for (int i = 0; i < proto.output_size(); ++i) {
      if (proto.output(i).empty()) continue;
      const auto at = static_cast<std::size_t>(i);
      values_.define(scope.value(proto.output(i)),
                     at < results.size() ? std::move(results[at]) : Known{.is_missing = true});
    }
  } catch (const Error& e) {
    if (std::string_view(e.what()).starts_with("node '")) throw;  // one inside
    throw with_context(e, fmt::format("node '{}'", printable(scope.prefix() + name_of(proto))));
  }

  /// The node by the names of the whole model, its attributes those of the function's call where it refers to them.
  static onnx::NodeProto settled(const onnx::NodeProto& proto, const Scope& scope) {
    onnx::NodeProto out = proto;
    out.set_name(scope.prefix() + name_of(proto));
    for (std::string& name : *out.mutable_input()) name = scope.value(name);
    for (std::string& name : *out.mutable_output()) name = scope.value(name);
    settle_attributes(out, scope);
    return out;
  }

  static void settle_attributes(onnx::NodeProto& node, const Scope& scope) {
    auto* attributes = node.mutable_attribute();
    for (int i = attributes->size(); i-- > 0;) {
      if (attributes->at(i).ref_attr_name().empty()) continue;
      const std::string name = attributes->at(i).name();
      const onnx::AttributeProto* said = scope.attribute(node, name);
      if (said) {
        onnx::AttributeProto copy = *said;
        copy.set_name(name);
        attributes->at(i) = copy;
      } else {
        attributes->DeleteSubrange(i, 1);
      }
    }
  }

  /// For nodes that others stand for, which have the names of the whole model.
  AroundNode around(const Scope& scope) {
    return {.opset = scope.opset(),
            .at = [this](const std::string& name) -> const Known& { return values_.at(name); },
            .add =
                [this, &scope](const onnx::NodeProto& node) {
                  for (const std::string& output : node.output()) values_.tell_read(output);
                  add(node, Scope(scope.opset()));
                },
            .name = [&scope](const std::string& name) { return scope.value(name); },
            .settle = [&scope](onnx::NodeProto& node) { settle_attributes(node, scope); },
            .budget = nodes_left_};
  }

  /// A list has a name that no value may have.
  void add_sequence(const onnx::NodeProto& proto, const Scope& scope) try {
    sequences_.add(proto, around(scope));
    if (sequences_.has(proto.output(0))) values_.define(proto.output(0), {.is_missing = true});
  } catch (const Error& e) {
    throw with_context(e, proto.op_type());
  }

  /// The nodes of a function, for those of its call.
  void call(const onnx::NodeProto& proto, const onnx::FunctionProto& function, const Scope& scope) {
    const Scope inside(scope, proto, function, opset_of(function.opset_import()).value_or(scope.opset()));
    add_all(function.node(), inside);
    for (int i = 0; i < proto.output_size(); ++i) {
      const std::string name = scope.value(proto.output(i));
      if (name.empty() || values_.has(name)) continue;
      give_as(name, inside.value(function.output(i)));  // it is one of the function's inputs
    }
  }

  /// Of an If the branch whose condition is known.
  void choose(const onnx::NodeProto& proto, const Scope& scope) {
    if (proto.input_size() != 1) throw error("has {} inputs; an If has its condition", proto.input_size());
    const auto condition = values_.elements(values_.at(scope.value(proto.input(0))));
    if (!condition)
      throw error("its condition '{}' depends on the model's inputs, which is not supported",
                  printable(proto.input(0)));
    if (condition->dtype() != DType::boolean || condition->size() != 1)
      throw error("its condition is {} but should be one bool", to_text(condition->type()));
    const bool is_so = condition->as<bool>()[0];
    const auto* branch = scope.attribute(proto, is_so ? "then_branch" : "else_branch");
    if (!branch || !branch->has_g()) throw error("lacks its {}_branch", is_so ? "then" : "else");
    const onnx::GraphProto& graph = branch->g();
    if (graph.output_size() != proto.output_size())
      throw error("has {} outputs but its branch has {}", proto.output_size(), graph.output_size());
    const Scope inside(scope, proto, graph);
    values_.add_initializers(graph, inside.prefix());
    add_all(graph.node(), inside);
    for (int i = 0; i < proto.output_size(); ++i)
      if (!proto.output(i).empty())
        give_as(scope.value(proto.output(i)), inside.value(graph.output(i).name()));
  }

  /// `name` is the value called `made`, too.
  void give_as(const std::string& name, const std::string& made) {
    values_.define(name, {.type = values_.at(made).type, .alias = made});
  }

  std::vector<Known> converted(const onnx::NodeProto& proto, const onnx_operators::Conversion& conversion,
                               const Scope& scope) {
    if (conversion.is_linear && is_known(proto, scope))
      if (auto results = computed_now(proto, conversion, scope)) return std::move(*results);
    OnnxNode node(proto, scope, values_,
                  {.builder = trace_.builder(),
                   .enter = [this](Known& value) { return values_.enter(value); },
                   .enter_state = [this](const std::string& name,
                                         StateUse use) { return values_.enter_state(name, use); },
                   .enter_constant = [this](const auto& t) { return values_.enter_constant(t); }});
    conversion.convert(node);
    node.check_attributes_read();
    for (const Known& result : node.results()) check_limits(result.type.shape, result.id.is_valid() ? 1 : 0);
    return std::move(node.results());
  }

  bool is_known(const onnx::NodeProto& proto, const Scope& scope) {
    for (const std::string& name : proto.input())
      if (const std::string value = scope.value(name); !value.empty() && !values_.at(value).constant)
        return false;
    return true;
  }

  /// The results of a node of known operands; nothing if they are too large or need more than operands.
  std::optional<std::vector<Known>> computed_now(const onnx::NodeProto& proto,
                                                 const onnx_operators::Conversion& conversion,
                                                 const Scope& scope) {
    Graph graph;
    Builder builder(graph);
    KnownLeaves leaves;
    const auto enter = [&](const std::shared_ptr<const Tensor>& tensor) {
      const ValueId v = builder.leaf(OpKind::input, fmt::format("{}_", leaves.size() + 1), tensor->type());
      leaves[v] = tensor;
      return v;
    };
    OnnxNode node(
        proto, scope, values_,
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
    const Traced prediction = output_called(name);
    Labels labels;
    if (!arguments_.loss.empty()) labels = checked_labels(name, prediction.type());
    std::optional<Traced> loss;
    if (!arguments_.loss.empty())
      loss = loss_called(arguments_.loss, prediction, trace_.input("label", labels.type));
    else if (!arguments_.asks)
      loss = own_loss(name, prediction);
    Model model = arguments_.asks ? finish_asked(loss) : finish_model(trace_, *loss, prediction);
    if (said_.trains && values_.told_to_train() == 0)
      throw error("{}=1: it has no batch norms and dropouts that are those outside of training",
                  training_key);
    model.labels = std::move(labels);
    for (const auto& input : graph.input())
      if (const std::int64_t classes = values_.classes_of(values_.at(input.name()).id); classes > 0)
        model.classes[values_.input_name(input.name())] = classes;
    if (arguments_.loss.empty() && !arguments_.asks)
      model.notices.push_back(fmt::format("no --loss: its first output '{}' is the loss", printable(name)));
    model.has_uneven_loss = values_.has_uneven_loss();
    if (std::string warning = warning_of_inference(); !warning.empty())
      model.notices.push_back(std::move(warning));
    if (std::string warning = values_.exported().told_losses(); !warning.empty())
      model.warnings.push_back(std::move(warning));
    for (auto* lines : {&model.notices, &model.warnings})
      for (std::string& line : *lines) line.insert(0, file_.path + ": ");
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

  Traced output_called(const std::string& name) {
    if (!values_.has(name)) throw error("its output '{}' is made by no node", printable(name));
    Known& output = values_.at(name);
    if (output.is_missing) throw error("its output '{}' is a result that is not supported", printable(name));
    return {&trace_, values_.enter(output)};
  }

  /// Its outputs are all that the file gives, behind the loss if there is one.
  Model finish_asked(std::optional<Traced> loss) {
    std::vector<Traced> outputs;
    std::vector<std::string> names;
    if (loss) outputs.push_back(*loss);
    for (const auto& output : file_.model->graph().output()) {
      Traced t = output_called(output.name());
      const Graph& graph = trace_.graph();
      const bool is_known = std::ranges::find(outputs, t.id, &Traced::id) != outputs.end() ||
                            is_leaf(graph.node(graph.value(t.id).producer));
      if (is_known) t = trace_.call("reshape", {t}, {{"shape", t.type().shape}}, output.name());
      outputs.push_back(t);
      names.push_back(output.name());
    }
    Model model = finish_model(trace_, outputs);
    model.answers = std::move(names);
    if (loss) model.loss = model.graph.outputs.front();
    return model;
  }

  /// What tells that the file was exported as the network is outside of training; empty if nothing does. What was
  /// left out without a trace, such as dropout, cannot be told.
  std::string warning_of_inference() const {
    std::vector<std::string> signs;
    for (const auto& [op, count] : values_.inactive())
      signs.push_back(fmt::format("{} {} as outside of training", count, op));
    const std::string remedy =
        signs.empty() ? "" : fmt::format("write {}:{}=1, or ", file_.path, training_key);
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
        "as its framework does, {}export it with training=TrainingMode.TRAINING and "
        "do_constant_folding=False, which of PyTorch's exporters heeds the one with dynamo=False",
        join(signs, " and "), remedy);
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
  ModelArguments arguments_;
  SaidOfTraining said_;
  Trace trace_;
  Values values_;
  Sequences sequences_;
  std::int64_t nodes_left_ = limits::nodes;  // that loops may become
  std::map<std::pair<std::string, std::string>, const onnx::FunctionProto*> functions_;  // by domain and name
  std::int64_t nodes_ = 0;
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
