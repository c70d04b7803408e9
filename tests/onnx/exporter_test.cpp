// What is said of files whose exporter has made another network than it was given.

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
    initializer { name: "n.weight" data_type: 1 float_data: 1 } initializer { name: "val_2" data_type: 1 float_data: 3 } })"));
  return out;
}

/// Newer messages have this field of a graph.
onnx::ModelProto with_signature(onnx::ModelProto model, const std::string& signature) {
  onnx::StringStringEntryProto entry;
  entry.set_key("pkg.torch.export.ExportedProgram.graph_signature");
  entry.set_value(signature);
  model.mutable_graph()->mutable_unknown_fields()->AddLengthDelimited(16, entry.SerializeAsString());
  onnx::ModelProto read;
  read.ParseFromString(model.SerializeAsString());
  return read;
}

TEST(OnnxExporter, that_lists_parameters_is_told_which_are_missing) {
  const std::string whole =
      "\n# inputs\np_a_weight: PARAMETER target='a.weight'\np_a_bias: PARAMETER target='a.bias'\n"
      "p_n_weight: PARAMETER target='n.weight'\nb_scale: BUFFER target='scale' persistent=True\nx: "
      "USER_INPUT\n";
  const onnx::ModelProto model = model_of("pytorch", "node_linear");
  EXPECT_EQ(warning_of_exporter(with_signature(model, whole)), "");
  const std::string said =
      warning_of_exporter(with_signature(model, whole + "p_m_weight: PARAMETER target='m.weight'\n"));
  EXPECT_EQ(
      said.find("PyTorch's exporter has merged, folded or dropped 1 of the network's 4 parameters, such as "
                "'m.weight': it trains to other numbers"),
      0U)
      << said;
}

TEST(OnnxExporter, that_lists_none_is_known_by_its_nodes) {
  EXPECT_EQ(
      warning_of_exporter(model_of("pytorch", "node_linear")).find("it is of PyTorch's default exporter"),
      0U);
  EXPECT_EQ(warning_of_exporter(model_of("pytorch", "/a/Gemm")), "");
  EXPECT_EQ(warning_of_exporter(model_of("else", "node_linear")), "");
}

}  // namespace
}  // namespace shardwright
