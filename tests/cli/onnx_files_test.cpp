// Files that hold their weights: asked as they are, trained beside held-out data, and in stages.

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

class OnnxFiles : public ::testing::Test {
 protected:
  std::string at(const std::string& name) const { return folder_ + "/" + name; }

  /// A model of x [batch, 2] with `nodes` to y and the initializers w = [1 0; 0 -2] and three = 3.
  std::string model(const std::string& nodes) const {
    write_bytes(at("m.onnx"), onnx_of_text(R"(ir_version: 7 opset_import { version: 13 } graph {
      input { name: "x" type { tensor_type { elem_type: 1
        shape { dim { dim_param: "batch" } dim { dim_value: 2 } } } } }
      initializer { name: "w" data_type: 1 dims: 2 dims: 2 float_data: [1, 0, 0, -2] }
      initializer { name: "three" data_type: 1 float_data: 3 }
      )" + nodes + R"( output { name: "y" } })"));
    return at("m.onnx") + ":batch=2";
  }

  std::string data(const Shape& label = {4, 2}) const {
    const Tensor x = make_tensor({DType::f32, {4, 2}}, std::vector<double>{1, 1, 2, 0, 0, -1, -1, 0.5});
    write_safetensors(at("d.safetensors"), {{"x", x}, {"label", Tensor({DType::f32, label})}});
    return at("d.safetensors");
  }

  Outcome run(const std::vector<std::string>& words) const {
    std::istringstream in;
    std::ostringstream out, err;
    Terminal terminal{in, out, err};
    const int status = testing::run_verified(words, terminal);
    return {status, out.str() + err.str()};
  }

  std::vector<double> predictions() const {
    return to_doubles(SafetensorsFile::open(at("out.safetensors")).read("y"));
  }

 private:
  std::string folder_ = scratch_folder();
};

const std::string cube = R"(node { op_type: "MatMul" input: "x" input: "w" output: "h" }
                            node { op_type: "Pow" input: "h" input: "three" output: "y" })";

/// 1 - x w: the 1 is a constant of all its elements.
const std::string from_one = R"(
  node { op_type: "Constant" output: "one" attribute { name: "value" type: TENSOR
         t { data_type: 1 dims: 2 float_data: [1, 1] } } }
  node { op_type: "MatMul" input: "x" input: "w" output: "h" }
  node { op_type: "Sub" input: "one" input: "h" output: "y" })";

TEST_F(OnnxFiles, are_asked_with_their_own_weights) {
  const Outcome o = run({"infer", model(cube), "--loss", "mean_squared_error", "--data", data(), "--out",
                         at("out.safetensors")});
  ASSERT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(predictions(), (std::vector<double>{1, -8, 8, 0, 0, 8, -1, -1}));
}

TEST_F(OnnxFiles, with_a_uniform_constant_are_asked) {
  const std::string net = model(from_one);
  Outcome o = run({"infer", net, "--loss", "mean_squared_error", "--data", data(), "--out",
                   at("out.safetensors"), "--devices", "2"});
  ASSERT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(predictions(), (std::vector<double>{0, 3, -1, 1, 1, -1, 2, 2}));
  o = run({"train", net, "--loss", "mean_squared_error", "--data", data(), "--eval", data(), "--steps", "1"});
  EXPECT_EQ(o.status, 0) << o.text;
}

/// Of 1, -2; 2, 0; 0, 2; -1, -1: from the end where they are negative.
TEST_F(OnnxFiles, with_one_hot_of_negative_indices_count_from_the_end) {
  const std::string net = model(R"(
    initializer { name: "depth" data_type: 7 int64_data: 3 }
    initializer { name: "values" data_type: 1 dims: 2 float_data: [0, 1] }
    node { op_type: "MatMul" input: "x" input: "w" output: "h" }
    node { op_type: "Cast" input: "h" output: "i" attribute { name: "to" type: INT i: 7 } }
    node { op_type: "OneHot" input: "i" input: "depth" input: "values" output: "y" })");
  const Outcome o = run({"infer", net, "--loss", "mean_squared_error", "--data", data({4, 2, 3}), "--out",
                         at("out.safetensors")});
  ASSERT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(predictions(), (std::vector<double>{0, 1, 0, 0, 1, 0, 0, 0, 1, 1, 0, 0,  //
                                                1, 0, 0, 0, 0, 1, 0, 0, 1, 0, 0, 1}));
}

/// Trained, the exponent would leave 3, and a power of a negative number would be NaN.
TEST_F(OnnxFiles, with_a_cube_train) {
  const Outcome o = run({"train", model(cube), "--loss", "mean_squared_error", "--data", data(), "--steps",
                         "3", "--lr", "0.001"});
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_EQ(o.text.find("nan"), o.text.npos) << o.text;
}

/// As BERT's kinds of tokens, of which there are two where there are many words.
TEST_F(OnnxFiles, with_a_small_table_beside_a_large_one_train_on_drawn_data) {
  write_bytes(at("m.onnx"), onnx_of_text(R"(ir_version: 7 opset_import { version: 13 } graph {
    input { name: "word" type { tensor_type { elem_type: 7 shape { dim { dim_value: 8 } dim { dim_value: 3 } } } } }
    input { name: "kind" type { tensor_type { elem_type: 7 shape { dim { dim_value: 8 } dim { dim_value: 3 } } } } }
    initializer { name: "words" data_type: 1 dims: 5 dims: 2 float_data: [1, 0, 0, -2, 1, 1, 2, 3, 4, 5] }
    initializer { name: "kinds" data_type: 1 dims: 2 dims: 2 float_data: [1, 0, 0, -2] }
    node { op_type: "Gather" input: "words" input: "word" output: "w" }
    node { op_type: "Gather" input: "kinds" input: "kind" output: "k" }
    node { op_type: "Add" input: "w" input: "k" output: "h" }
    node { op_type: "ReduceMean" input: "h" output: "y" attribute { name: "axes" type: INTS ints: 1 }
      attribute { name: "keepdims" type: INT i: 0 } } output { name: "y" } })"));
  const Outcome o = run({"train", at("m.onnx"), "--loss", "mean_squared_error", "--steps", "4"});
  EXPECT_EQ(o.status, 0) << o.text;
}

/// The gradient that a stage sends is another name of what has been written over its relu.
TEST_F(OnnxFiles, that_are_cut_in_front_of_a_reshape_keep_what_they_send) {
  const std::string net = model(R"(
    initializer { name: "shape" data_type: 7 dims: 3 int64_data: [-1, 2, 1] }
    node { op_type: "MatMul" name: "first" input: "x" input: "w" output: "h" }
    node { op_type: "Reshape" name: "cut" input: "h" input: "shape" output: "r" }
    node { op_type: "Relu" name: "relu" input: "r" output: "a" }
    node { op_type: "Sigmoid" name: "last" input: "a" output: "y" })");
  write_bytes(at("a.json"), R"({"first": {"stage": 0}, "cut": {"stage": 1}})");
  const Outcome o = run({"verify", net, "--loss", "mean_squared_error", "--devices", "2", "--stages", "2",
                         "--micro-batches", "2", "--annotate", at("a.json")});
  EXPECT_EQ(o.status, 0) << o.text;
  EXPECT_NE(o.text.find("proven for 2 ranks in 2 stages"), o.text.npos) << o.text;
}

}  // namespace
}  // namespace shardwright
