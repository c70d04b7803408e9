// What an imported model holds: names, initial values, sizes. Errors are goldens (tests/golden/errors/onnx_*), graphs too
// (tests/golden/show/onnx_*); losses are compared with PyTorch's by networks_test.py and operators_test.py.

#include "shardwright/frontend/onnx/importer.h"

#include <gtest/gtest.h>
#include <sys/stat.h>

#include <chrono>
#include <cstdlib>

#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "tests/support/draws.h"
#include "tests/support/evaluate.h"
#include "tests/support/onnx_text.h"
#include "tests/support/scratch.h"
#include "tests/support/training_run.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

const std::string head = "ir_version: 7 opset_import { version: 13 }\n";

/// An input x of [batch, 4].
const std::string input =
    R"(input { name: "x" type { tensor_type { elem_type: 1 shape { dim { dim_param: "batch" } dim { dim_value: 4 } } } } })";

/// y = x w with one initializer `w`, whose fields are `fields`.
std::string product(const std::string& fields) {
  return head + "graph {" + input + "initializer { name: \"w\" " + fields + "}" +
         R"(node { op_type: "MatMul" name: "product" input: "x" input: "w" output: "y" } output { name: "y" } })";
}

struct Imported {
  std::string folder = scratch_folder();

  std::string write(const std::string& text) const {
    const std::string path = folder + "/m.onnx";
    write_bytes(path, onnx_of_text(text));
    return path;
  }
  Model load(const std::string& text,
             const ModelOptions& options = {.global_batch = 2, .loss = "mean_squared_error"}) const {
    return build_model(write(text), options);
  }
};

TEST(Onnx, initializers_are_parameters_of_their_names_and_values) {
  const Imported at;
  const Model model = at.load(product("data_type: 1 dims: 4 dims: 1 float_data: [1, 2, 3, 4.5]"));
  const Value& w = model.graph.value(model.graph.find("w"));
  EXPECT_EQ(w.type, (Type{DType::f32, {4, 1}}));
  EXPECT_EQ(model.graph.node(w.producer).op->kind, OpKind::parameter);
  EXPECT_EQ(to_doubles(model.initial.at("w")()), (std::vector<double>{1, 2, 3, 4.5}));
}

/// A search imports a file many times: it is read once, but again when it has changed.
TEST(Onnx, a_file_that_has_changed_is_read_again) {
  const Imported at;
  const Model first = at.load(product("data_type: 1 dims: 4 dims: 1 float_data: [1, 2, 3, 4.5]"));
  const Model same = build_model(at.folder + "/m.onnx", {.global_batch = 4, .loss = "mean_squared_error"});
  EXPECT_EQ(to_doubles(same.initial.at("w")()), (std::vector<double>{1, 2, 3, 4.5}));
  const Model other = at.load(product("data_type: 1 dims: 4 dims: 2 float_data: [1, 2, 3, 4, 5, 6, 7, 8]"));
  EXPECT_EQ(other.graph.value(other.graph.find("w")).type, (Type{DType::f32, {4, 2}}));
  EXPECT_EQ(to_doubles(first.initial.at("w")()), (std::vector<double>{1, 2, 3, 4.5}));
}

TEST(Onnx, floating_types_become_the_precision) {
  const Imported at;
  // 1.5 and -2 as f16, in the list that the format has for them.
  const Model model = at.load(product("data_type: 10 dims: 4 dims: 1 int32_data: [15872, 49152, 0, 15360]"),
                              {.global_batch = 2, .precision = DType::f64, .loss = "mean_squared_error"});
  EXPECT_EQ(model.graph.value(model.graph.find("x")).type.dtype, DType::f64);
  const Tensor w = model.initial.at("w")();
  EXPECT_EQ(w.type(), (Type{DType::f64, {4, 1}}));
  EXPECT_EQ(to_doubles(w), (std::vector<double>{1.5, -2, 0, 1}));
}

const std::string external =
    R"(data_type: 1 dims: 4 dims: 1 data_location: EXTERNAL
       external_data { key: "location" value: "weights/w.bin" } external_data { key: "offset" value: "4" })";

std::string floats(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

TEST(Onnx, external_data_are_read_when_they_are_asked_for) {
  const Imported at;
  fs::create_directories(at.folder + "/weights");
  write_bytes(at.folder + "/weights/w.bin", floats({9, 1, 2, 3, 4}));
  const Model model = at.load(product(external));
  EXPECT_EQ(to_doubles(model.initial.at("w")()), (std::vector<double>{1, 2, 3, 4}));
  write_bytes(at.folder + "/weights/w.bin", floats({9, 8, 7, 6, 5}));
  EXPECT_EQ(to_doubles(model.initial.at("w")()), (std::vector<double>{8, 7, 6, 5}));
  write_bytes(at.folder + "/weights/w.bin", floats({9}));
  EXPECT_NE(error_of([&] { model.initial.at("w")(); }).find("needs 16 bytes from offset 4 on"),
            std::string::npos);
}

TEST(Onnx, links_of_external_data_must_stay_inside_the_folder) {
  const Imported at;
  fs::create_directories(at.folder + "/weights");
  write_bytes(at.folder + "/real.bin", floats({9, 1, 2, 3, 4}));
  fs::create_symlink(at.folder + "/real.bin", at.folder + "/weights/w.bin");
  EXPECT_EQ(to_doubles(at.load(product(external)).initial.at("w")()), (std::vector<double>{1, 2, 3, 4}));

  const std::string outside = at.folder + ".outside";
  write_bytes(outside, floats({9, 1, 2, 3, 4}));
  fs::remove(at.folder + "/weights/w.bin");
  fs::create_symlink(outside, at.folder + "/weights/w.bin");
  EXPECT_NE(error_of([&] { at.load(product(external)); }).find("is a link to outside the model's folder"),
            std::string::npos);
  fs::remove(outside);
}

TEST(Onnx, a_pipe_beside_the_model_is_not_waited_for) {
  const Imported at;
  fs::create_directories(at.folder + "/weights");
  ASSERT_EQ(::mkfifo((at.folder + "/weights/w.bin").c_str(), 0600), 0);
  EXPECT_NE(error_of([&] { at.load(product(external)); }).find("is no file"), std::string::npos);
}

/// A length as the format writes it: 7 bits a byte, the last without the eighth.
std::string varint(std::size_t n) {
  std::string out;
  for (; n > 0x7f; n >>= 7) out += static_cast<char>((n & 0x7fU) | 0x80U);
  return out + static_cast<char>(n);
}

/// Field 7 of the model is its graph.
std::string with_graph(const std::string& graph) { return "\x3a" + varint(graph.size()) + graph; }

/// Of 4 x 8192 elements with the numbers 0, 1, ...: 131,072 bytes, which are left in the file.
std::string large_product() {
  std::vector<float> elements(4 * 8192);
  for (std::size_t i = 0; i < elements.size(); ++i) elements[i] = static_cast<float>(i);
  std::string raw;
  for (unsigned char c : floats(elements)) raw += fmt::format("\\{:03o}", c);
  return product("data_type: 1 dims: 4 dims: 8192 raw_data: \"" + raw + "\"");
}

TEST(Onnx, large_tensors_are_read_from_the_file_when_they_are_asked_for) {
  const Imported at;
  const Model model = at.load(large_product());
  const std::vector<double> values = to_doubles(model.initial.at("w")());
  ASSERT_EQ(values.size(), 4U * 8192U);
  for (std::size_t i = 0; i < values.size(); ++i) ASSERT_EQ(values[i], static_cast<double>(i));
  fs::last_write_time(at.folder + "/m.onnx",
                      fs::last_write_time(at.folder + "/m.onnx") + std::chrono::seconds(5));
  EXPECT_NE(error_of([&] { model.initial.at("w")(); }).find("has changed since the model was read"),
            std::string::npos);
}

// A file that says itself where elements are could name any other.
TEST(Onnx, no_file_says_where_its_elements_are) {
  const Imported at;
  const std::string place = "0 64 0 0 /etc/passwd", tag = "\xc2\x3e";  // field 1000
  const std::string tensor = tag + varint(place.size()) + place;
  write_bytes(at.folder + "/m.onnx", with_graph("\x2a" + varint(tensor.size()) + tensor));
  EXPECT_NE(error_of([&] { build_model(at.folder + "/m.onnx"); }).find("a tensor has a field 1000"),
            std::string::npos);
}

TEST(Onnx, what_is_asked_gives_all_outputs_by_their_names) {
  const Imported at;
  const std::string text = head + "graph {" + input +
                           R"(initializer { name: "w" data_type: 1 dims: 4 dims: 1 float_data: [1, 2, 3, 4] }
    node { op_type: "MatMul" name: "product" input: "x" input: "w" output: "y" }
    node { op_type: "ArgMax" name: "at" input: "x" output: "best" }
    node { op_type: "Identity" name: "same" input: "y" output: "z" }
    output { name: "y" } output { name: "best" } output { name: "z" } })";
  const Model model = at.load(text, {.global_batch = 2, .asks = true});
  EXPECT_EQ(model.answers, (std::vector<std::string>{"y", "best", "z"}));
  EXPECT_FALSE(model.loss.is_valid());
  ASSERT_EQ(model.graph.outputs.size(), 3U);
  EXPECT_EQ(model.graph.value(model.graph.outputs[1]).type.dtype, DType::i64);
}

TEST(Onnx, what_show_prints_is_the_same_graph) {
  const Imported at;
  const Model model = at.load(product("data_type: 1 dims: 4 dims: 1 float_data: [1, 2, 3, 4]"));
  verify(model.graph);
  EXPECT_EQ(to_text(parse_graph(to_text(model.graph))), to_text(model.graph));
}

TEST(Onnx, nested_messages_end_in_an_error) {
  const Imported at;
  std::string graph;
  for (int depth = 0; depth < 600; ++depth) {
    static constexpr char tags[] = {'\x32', '\x2a',
                                    '\x0a'};  // an attribute's graph, a node's attribute, a graph's node
    graph = tags[depth % 3] + varint(graph.size()) + graph;
  }
  write_bytes(at.folder + "/m.onnx", with_graph(graph));
  EXPECT_NE(error_of([&] { build_model(at.folder + "/m.onnx"); }).find("nested more than 32 deep"),
            std::string::npos);
}

TEST(Onnx, empty_messages_are_counted_before_they_are_made) {
  const Imported at;
  std::string graph;  // 5 million nodes of two bytes each would be more than a gigabyte
  for (int i = 0; i < 5'000'000; ++i) graph += std::string("\x0a\x00", 2);
  write_bytes(at.folder + "/m.onnx", with_graph(graph));
  EXPECT_NE(error_of([&] { build_model(at.folder + "/m.onnx"); }).find("more than 2000000 nodes"),
            std::string::npos);
}

/// x w, then its squares' sum, all in one output; x has 8192 rows.
std::string with_own_loss() {
  return head + "graph {" + input + R"(
    initializer { name: "w" data_type: 1 dims: 4 dims: 4 float_data: [1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1] }
    node { op_type: "MatMul" name: "product" input: "x" input: "w" output: "y" }
    node { op_type: "Constant" name: "c" output: "c" attribute { name: "value_float" type: FLOAT f: 0.0625 } }
    node { op_type: "Mul" name: "squares" input: "y" input: "y" output: "s" }
    node { op_type: "ReduceSum" name: "sum" input: "s" output: "t" attribute { name: "keepdims" type: INT i: 0 } }
    node { op_type: "Mul" name: "loss" input: "t" input: "c" output: "l" }
    output { name: "l" } })";
}

// 32,768 squares of 3.0625 make 307,328: f16 ends at 65504, and bf16 has no number nearer than 640 to a sixteenth of it.
TEST(Onnx, losses_of_their_own_are_whole_in_mixed_precision) {
  const Imported at;
  for (const DType brief : {DType::bf16, DType::f16}) {
    const Model model =
        at.load(with_own_loss(), {.global_batch = 8192, .precision = Precision::mixed(brief), .loss = ""});
    EXPECT_EQ(model.graph.value(model.graph.find("product")).type.dtype, brief);
    EXPECT_EQ(model.graph.value(model.loss).type, (Type{DType::f32, {}}));
    const Type x{brief, {8192, 4}};
    std::vector<double> identity(16, 0);
    for (std::size_t i = 0; i < 4; ++i) identity[5 * i] = 1;
    const std::vector<Tensor> values =
        evaluate(model.graph, {{"x", make_tensor(x, std::vector<double>(4 * 8192, 3.0625))},
                               {"w", make_tensor({brief, {4, 4}}, identity)}});
    EXPECT_EQ(to_doubles(values[static_cast<std::size_t>(model.loss.index)])[0],
              3.0625 * 3.0625 * 32768 / 16);
  }
}

// A batch norm by the statistics in the file: the deviation is a hundredth of the mean, so that a short mean, slope or
// offset would be off by more than one of them.
TEST(Onnx, statistics_of_inference_are_whole_in_mixed_precision) {
  const Imported at;
  const auto of_four = [](const std::string& name, double value) {
    return fmt::format(
        "initializer {{ name: \"{0}\" data_type: 1 dims: 4 float_data: [{1}, {1}, {1}, {1}] }}", name, value);
  };
  const std::string text = head + "graph {" + input + of_four("gamma", 1.001) + of_four("beta", 0.5) +
                           of_four("mean", 100.3) + of_four("variance", 1) + R"(
    initializer { name: "w" data_type: 1 dims: 4 dims: 4 float_data: [1,0,0,0, 0,1,0,0, 0,0,1,0, 0,0,0,1] }
    node { op_type: "BatchNormalization" name: "norm" input: ["x", "gamma", "beta", "mean", "variance"] output: "n" }
    node { op_type: "MatMul" name: "product" input: "n" input: "w" output: "y" }
    output { name: "y" } })";
  const Type x{DType::f32, {2, 4}};  // only the norm reads it
  const Model model = at.load(
      text, {.global_batch = 2, .precision = Precision::mixed(DType::bf16), .loss = "mean_squared_error"});
  const auto value = [&](const char* name) { return model.graph.value(model.graph.find(name)); };
  std::map<std::string, Tensor> leaves{{"x", make_tensor(x, std::vector<double>(8, 100.5))},
                                       {"label", Tensor(x)},
                                       {"w", Tensor({DType::bf16, {4, 4}})}};
  for (const char* name : {"gamma", "beta", "mean", "variance"}) {
    EXPECT_EQ(value(name).type, (Type{DType::f32, {4}})) << name;
    leaves[name] = model.initial.at(name)();
  }
  const ValueId read = model.graph.node(value("product").producer).operands[0];
  EXPECT_EQ(model.graph.value(read).type, (Type{DType::bf16, x.shape}));
  const std::vector<Tensor> values = evaluate(model.graph, leaves);
  EXPECT_NEAR(to_doubles(values[static_cast<std::size_t>(read.index)])[0], 0.7002, 0x1p-9);
}

// The model that docs/onnx.md trains: convolutions, batch norms, dropout.
TEST(EndToEndOnnx, random_plans_agree_with_one_device) {
  const testing::TrainingRun run{.model = "examples/models/digits.onnx:batch=8",
                                 .file = "",
                                 .optimizer = {"momentum", {{"rate", 0.05}, {"momentum", 0.9}}},
                                 .precision = DType::f64,
                                 .steps = 4,
                                 .loss = "cross_entropy"};
  const auto alone = testing::run_alone(run);
  const int plans = testing::is_full() ? 10 : 2;
  for (int devices : {2, 4, 8})
    for (int seed = 0; seed < plans; ++seed) {
      SCOPED_TRACE(fmt::format("{} devices, seed {}", devices, seed));
      const auto split = testing::run_random(run, devices, static_cast<std::uint64_t>(seed));
      testing::expect_same(split, alone, {.losses = 1e-9, .weights = 1e-7});
    }
}

}  // namespace
}  // namespace shardwright
