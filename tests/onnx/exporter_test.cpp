// What a file of PyTorch's default exporter shows of the network: its parameters, and what its optimizer has lost of them.

#include "shardwright/frontend/onnx/exporter.h"

#include <gtest/gtest.h>

#include "tests/support/onnx_text.h"

namespace shardwright {
namespace {

/// As PyTorch 2.15 writes them: a network of a linear layer and two layer norms, of which the second is the first.
onnx::ModelProto model_of(const std::string& producer, const std::string& node) {
  onnx::ModelProto out;
  out.ParseFromString(onnx_of_text(R"(ir_version: 10 opset_import { version: 17 } producer_name: ")" +
                                   producer + R"(" graph {
    node { op_type: "Gemm" name: ")" +
                                   node + R"(" input: "x" input: "a.weight" input: "a.bias" output: "linear" }
    initializer { name: "a.weight" data_type: 1 float_data: 1 } initializer { name: "a.bias" data_type: 1 float_data: 1 }
    initializer { name: "n.weight" data_type: 1 float_data: 1 } initializer { name: "val_2" data_type: 1 float_data: 3 }
    initializer { name: "val_4" data_type: 1 dims: 2 float_data: [3, 4] }
    initializer { name: "expand" data_type: 1 dims: 2 float_data: [3, 4] }
    initializer { name: "mask" data_type: 1 dims: 2 float_data: [0, 1] }
    value_info { name: "val_4" } value_info { name: "expand" } value_info { name: "mask" } })"));
  return out;
}

/// A field that newer messages have, of `message`.
void add_metadata(google::protobuf::Message& message, int field, const std::string& key,
                  const std::string& value) {
  onnx::StringStringEntryProto entry;
  entry.set_key(key);
  entry.set_value(value);
  message.GetReflection()->MutableUnknownFields(&message)->AddLengthDelimited(field,
                                                                              entry.SerializeAsString());
}

onnx::ModelProto with_signature(onnx::ModelProto model, const std::string& signature) {
  add_metadata(*model.mutable_graph(), 16, "pkg.torch.export.ExportedProgram.graph_signature", signature);
  onnx::ModelProto read;
  read.ParseFromString(model.SerializeAsString());
  return read;
}

const std::string whole =
    "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
    "p_n_weight: PARAMETER target='n.weight'\nb_scale: BUFFER target='scale' persistent=True\nx: "
    "USER_INPUT\n";

TEST(OnnxExporter, that_lists_parameters_is_told_which_are_missing) {
  const onnx::ModelProto model = model_of("pytorch", "node_linear");
  EXPECT_EQ(ExportedNetwork(with_signature(model, whole)).told_losses(), "");
  const std::string said =
      ExportedNetwork(with_signature(model, whole + "p_m_weight: PARAMETER target='m.weight'\n"))
          .told_losses();
  EXPECT_EQ(said.find("PyTorch's exporter has made one, folded or dropped 1 of the network's 4 parameters, "
                      "such as 'm.weight': it trains to other numbers"),
            0U)
      << said;
}

TEST(OnnxExporter, that_lists_none_is_known_by_its_nodes) {
  const auto told = [](const std::string& producer, const std::string& node) {
    return ExportedNetwork(model_of(producer, node)).told_losses();
  };
  EXPECT_EQ(told("pytorch", "node_linear").find("it is of PyTorch's default exporter"), 0U);
  EXPECT_EQ(told("pytorch", "/a/Gemm"), "");
  EXPECT_EQ(told("else", "node_linear"), "");
}

TEST(OnnxExporter, that_has_transposed_a_weight_has_not_lost_it) {
  onnx::ModelProto model = model_of("pytorch", "node_linear");
  const auto fold = [&](int i, const std::string& from) {
    add_metadata(*model.mutable_graph()->mutable_value_info(i), 4, "pkg.onnxscript.optimizer.folded_from",
                 from);
  };
  fold(0, "['m.weight']");
  fold(1, "['cls', 'val_7']");
  fold(2, "['val_8', 'val_9']");
  const ExportedNetwork network(with_signature(
      model, whole + "p_m_weight: PARAMETER target='m.weight'\np_cls: PARAMETER target='cls'\n"));
  EXPECT_TRUE(network.is_parameter("val_4", {2}, false));
  EXPECT_TRUE(network.is_parameter("expand", {2}, false));
  EXPECT_FALSE(network.is_parameter("mask", {2}, false));
  EXPECT_NE(network.told_losses().find("1 of the network's 5 parameters, such as 'cls'"), std::string::npos)
      << network.told_losses();
}

TEST(OnnxExporter, that_has_merged_batch_norms_is_told) {
  onnx::ModelProto model = model_of("pytorch", "node_linear");
  add_metadata(*model.mutable_graph()->mutable_node(0), 9, "pkg.onnxscript.rewriter.rule_name",
               "FuseBatchNormIntoConv");
  EXPECT_EQ(ExportedNetwork(with_signature(model, whole))
                .told_losses()
                .find("PyTorch's exporter has merged 1 batch norm into convolutions: it trains"),
            0U);
}

TEST(OnnxExporter, that_lists_none_makes_numbers_constants) {
  const ExportedNetwork listed(with_signature(model_of("pytorch", "node_linear"), whole)),
      older(model_of("pytorch", "/a/Gemm")), other(model_of("else", "a"));
  struct Case {
    const ExportedNetwork& network;
    const char* name;
    Shape shape;
    bool is_of_node, is_parameter;
  };
  for (const Case& c : {Case{listed, "a.bias", {}, false, true},      // however few it has
                        Case{listed, "scale", {3, 4}, false, false},  // a buffer
                        Case{listed, "val_2", {}, false, false},
                        Case{older, "scale", {}, false, true},  // it writes numbers as nodes
                        Case{older, "onnx::Mul_3", {1}, false, false}, Case{older, "c", {3, 4}, true, false},
                        Case{other, "scale", {}, false, false}, Case{other, "head.bias", {1}, false, true},
                        Case{other, "c", {3, 4}, true, true}, Case{other, "c", {1}, true, false}})
    EXPECT_EQ(c.network.is_parameter(c.name, c.shape, c.is_of_node), c.is_parameter) << c.name;
}

}  // namespace
}  // namespace shardwright
