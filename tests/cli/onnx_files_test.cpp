// Files that hold their weights, asked and trained beside held-out data.

#include <gtest/gtest.h>

#include <sstream>

#include "shardwright/runtime/safetensors.h"
#include "tests/support/onnx_text.h"
#include "tests/support/scratch.h"
#include "tests/support/verified_command.h"

namespace shardwright {
namespace {

struct Outcome {
  int status = 0;
  std::string text;
};

Outcome run(const std::vector<std::string>& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const int status = testing::run_verified(words, terminal);
  return {status, out.str() + err.str()};
}

/// y = 1 - x w with w = [1 0; 0 -2]: all elements of the constant 1 are alike.
constexpr const char* from_one = R"(ir_version: 7 opset_import { version: 13 } graph {
  input { name: "x" type { tensor_type { elem_type: 1
    shape { dim { dim_param: "batch" } dim { dim_value: 2 } } } } }
  initializer { name: "w" data_type: 1 dims: 2 dims: 2 float_data: [1, 0, 0, -2] }
  node { op_type: "Constant" output: "one" attribute { name: "value" type: TENSOR
         t { data_type: 1 dims: 2 float_data: [1, 1] } } }
  node { op_type: "MatMul" input: "x" input: "w" output: "h" }
  node { op_type: "Sub" input: "one" input: "h" output: "y" }
  output { name: "y" } })";

TEST(OnnxFiles, with_a_uniform_constant_are_asked) {
  const std::string folder = scratch_folder(), net = folder + "/m.onnx:batch=2",
                    data = folder + "/d.safetensors";
  write_bytes(folder + "/m.onnx", onnx_of_text(from_one));
  const Tensor x = make_tensor({DType::f32, {4, 2}}, std::vector<double>{1, 1, 2, 0, 0, -1, -1, 0.5});
  write_safetensors(data, {{"x", x}, {"label", x}});

  Outcome o = run({"train", net, "--loss", "mean_squared_error", "--data", data, "--eval", data, "--steps",
                   "1", "--lr", "0", "--save", folder + "/run"});
  ASSERT_EQ(o.status, 0) << o.text;
  o = run({"infer", net, "--loss", "mean_squared_error", "--checkpoint", folder + "/run", "--data", data,
           "--devices", "2", "--out", folder + "/out.safetensors"});
  ASSERT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(to_doubles(SafetensorsFile::open(folder + "/out.safetensors").read("y")),
            (std::vector<double>{0, 3, -1, 1, 1, -1, 2, 2}));
}

}  // namespace
}  // namespace shardwright
