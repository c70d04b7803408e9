#include "shardwright/annotations/strategy_file.h"

#include <gtest/gtest.h>

#include <chrono>

#include "shardwright/annotations/strategy_annotations.h"
#include "shardwright/base/protobuf.h"
#include "shardwright/frontend/model.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

using Parts = std::vector<std::vector<std::int64_t>>;

std::string from_hex(std::string_view hex) {
  std::string out;
  for (std::size_t i = 0; i + 1 < hex.size();) {
    if (hex[i] == ' ' || hex[i] == '\n') {
      ++i;
      continue;
    }
    out.push_back(static_cast<char>(std::stoi(std::string(hex.substr(i, 2)), nullptr, 16)));
    i += 2;
  }
  return out;
}

MatrixLayout lying(const std::vector<std::int64_t>& sizes, const Parts& map) {
  return matrix_layout(sizes, {}, map);
}

TEST(StrategyFile, of_mindspore_in_protobuf_is_read) {
  // stage 0; matmul1: stage 0, (2, 1), (1, 4); w1: matrix [2, 1, 4], map [-1, 0], slice [16, 4], offset, field 0, step 2, size 2
  const StrategyFile file =
      parse_strategies(from_hex("0800 1219 0a07 6d61746d756c31 120e 0800 120408020801 120408010804"
                                "1a2b 0a027731 1225 0a06080208010804 120d08ffffffffffffffffff010800 "
                                "1a0408100804 2200 2800 3002 3802"),
                       false);
  ASSERT_EQ(file.operators.size(), 1U);
  EXPECT_EQ(file.operators[0].name, "matmul1");
  EXPECT_EQ(file.operators[0].parts, (Parts{{2, 1}, {1, 4}}));
  EXPECT_TRUE(file.operators[0].in.empty());
  ASSERT_EQ(file.parameters.size(), 1U);
  EXPECT_EQ(file.parameters[0].name, "w1");
  EXPECT_EQ(file.parameters[0].layout, lying({2, 1, 4}, {{-1}, {0}}));
  EXPECT_EQ(file.parameters[0].optimizer_shards, 2);
  EXPECT_EQ(file.stages(), 1);
}

TEST(StrategyFile, with_packed_numbers_and_fields_of_others_is_read) {
  // matmul1 with its numbers packed, and in front of it field 9 of 8 bytes and field 10, a text
  const StrategyFile file = parse_strategies(
      from_hex("4901020304050607085203616263 1219 0a07 6d61746d756c31 120e 0800 12040a020201 12040a020104"),
      false);
  ASSERT_EQ(file.operators.size(), 1U);
  EXPECT_EQ(file.operators[0].parts, (Parts{{2, 1}, {1, 4}}));
}

TEST(StrategyFile, is_the_same_when_it_is_read_again) {
  StrategyFile file{.stage = 1};
  file.operators.push_back({.name = "a.matmul", .stage = 1, .turn = 2, .parts = {{4, 2}, {2, 1}}, .in = {}});
  file.operators.push_back({.name = "b", .parts = {{8}}, .in = {lying({2, 2, 2}, {{2, 0, 1}})}});
  const MatrixLayout named = matrix_layout({2, 4}, {"dp", "tp"}, {{0}, {1}});
  file.operators.push_back({.name = "c",
                            .parts = {{4, 2}, {1, 1}},
                            .in = {named, matrix_layout({2, 4}, {"dp", "tp"}, {{-1}, {-1}})}});
  file.operators.push_back({.name = "scalar", .parts = {{}}, .in = {}});
  file.parameters.push_back({.name = "0-odd", .layout = lying({8}, {}), .shape = {}});
  file.parameters.push_back(
      {.name = "w", .stage = 1, .layout = lying({2, 4}, {{1, 0}}), .optimizer_shards = 1, .shape = {16}});
  file.parameters.push_back(
      {.name = "w", .stage = 0, .layout = named, .optimizer_shards = -1, .shape = {16, 4}});
  for (const bool is_json : {false, true}) {
    SCOPED_TRACE(is_json);
    const std::string bytes = to_bytes(file, is_json);
    const StrategyFile again = parse_strategies(bytes, is_json);
    EXPECT_EQ(to_bytes(again, is_json), bytes);
    EXPECT_EQ(again.stage, 1);
    ASSERT_EQ(again.operators.size(), 4U);
    EXPECT_EQ(again.operators[0].turn, 2);
    EXPECT_EQ(again.operators[1].in, file.operators[1].in);
    EXPECT_EQ(again.operators[2].in, file.operators[2].in);
    EXPECT_EQ(again.operators[3].parts, (Parts{{}}));
    ASSERT_EQ(again.parameters.size(), 3U);
    EXPECT_EQ(again.parameters[0].name, "0-odd");
    EXPECT_EQ(again.parameters[1].layout, file.parameters[1].layout);
    EXPECT_EQ(again.parameters[2].layout, named);
    EXPECT_EQ(again.parameters[2].optimizer_shards, -1);
  }
}

TEST(StrategyFile, has_inputs_by_number_in_whatever_order_they_stand) {
  std::string inputs;
  for (const int i : {0, 1, 10, 2, 3, 4, 5, 6, 7, 8, 9})  // as who sorts by text writes them
    inputs +=
        fmt::format(R"({}"{}": {{"dev_matrix": [2, 4], "tensor_map": [{}]}})", inputs.empty() ? "" : ", ", i,
                    i == 2    ? 1
                    : i == 10 ? 0
                              : -1);
  const StrategyFile file =
      parse_strategies(fmt::format(R"({{"parallel_layout_value_item": {{"a": {{{}}}}}}})", inputs), true);
  const std::vector<MatrixLayout>& in = file.operators.at(0).in;
  ASSERT_EQ(in.size(), 11U);
  for (std::size_t i = 0; i < in.size(); ++i)
    EXPECT_EQ(in[i], lying({2, 4}, {{i == 2 ? 1 : i == 10 ? 0 : -1}})) << i;
}

TEST(StrategyFile, of_many_parameters_is_written_soon) {
  StrategyFile file;
  for (int i = 0; i < 30000; ++i)
    file.parameters.push_back(
        {.name = fmt::format("layers.{}.w", i), .layout = lying({2}, {{0}}), .shape = {2}});
  for (const bool is_json : {false, true}) {
    const auto before = std::chrono::steady_clock::now();
    to_bytes(file, is_json);
    EXPECT_LT(std::chrono::steady_clock::now() - before, std::chrono::seconds(5)) << is_json;
  }
}

TEST(StrategyFile, shards_of_the_optimizer_are_taken_from_the_right) {
  const auto tensor_map = [](const MatrixLayout& layout) { return tensor_map_of(layout); };
  const MatrixLayout all = with_optimizer_shards(lying({4, 2}, {{0}, {-1}}), -1);
  EXPECT_EQ(tensor_map(all), (Parts{{0, 1}, {-1}}));
  const MatrixLayout half =
      with_optimizer_shards(lying({4, 2}, {{0}, {-1}}), 2);  // the axis of 4 falls into two
  EXPECT_EQ(half.parts(), (std::vector<std::int64_t>{4, 1}));
  EXPECT_EQ(half.matrix.size_of(0), 2);
  EXPECT_EQ(tensor_map(half), (Parts{{0, 1}, {-1}}));
  const MatrixLayout both = with_optimizer_shards(lying({2, 2, 2}, {{0}, {-1}}), 4);
  EXPECT_EQ(tensor_map(both), (Parts{{0, 2, 1}, {-1}}));
  EXPECT_EQ(error_of([] {
              with_optimizer_shards(lying({2, 4}, {{0}}), 4);
            }),
            "the device matrix mesh [axis0=2, axis1=4] has no 4 replicas for the optimizer");
  EXPECT_EQ(error_of([] { with_optimizer_shards(lying({8}, {}), 2); }),
            "the device matrix mesh [axis0=8] has no 2 replicas for the optimizer");
}

/// `{1: {1: 0}..}` of so many of `inner` behind a name.
std::string operator_of(std::string_view inner, int count) {
  std::string splits;
  for (int i = 0; i < count; ++i) protobuf::put(splits, 2, inner);
  std::string item, out;
  protobuf::put(item, 1, std::string_view("a"));
  protobuf::put(item, 2, splits);
  protobuf::put(out, 2, item);
  return out;
}

TEST(StrategyFile, with_more_inputs_or_dims_than_anything_has_is_refused_before_it_takes_room) {
  EXPECT_EQ(error_of([] { parse_strategies(operator_of("", 1000000), false); }),
            "operator 'a': there are more than 4096 inputs");
  EXPECT_EQ(error_of([] { parse_strategies(operator_of(std::string(200, '\x08'), 1), false); }),
            "operator 'a': there are more than 64 dims or axes");
  std::string many;
  for (int i = 0; i < 65537; ++i) {
    std::string item;
    protobuf::put(item, 1, fmt::format("o{}", i));
    protobuf::put(item, 2, std::string_view());
    protobuf::put(many, 2, item);
  }
  EXPECT_EQ(error_of([&] { parse_strategies(many, false); }), "there are more than 65536 operators");
  std::string lists = "[]";
  for (int i = 0; i < 5000; ++i) lists += ",[]";
  EXPECT_EQ(
      error_of([&] {
        parse_strategies(
            fmt::format(R"({{"parallel_strategy_item": {{"a": {{"parallel_strategy": [{}]}}}}}})", lists),
            true);
      }),
      "operator 'a': there are more than 4096 inputs");
}

struct Wrong {
  std::string bytes, error;
  bool is_json = true;
};

TEST(StrategyFile, that_is_none_is_told_in_a_line) {
  const auto json_layout = [](std::string_view layout) {
    return fmt::format(R"({{"parallel_layout_item": {{"w": {}}}}})", layout);
  };
  const std::vector<Wrong> cases{
      {"",
       "not valid JSON at line 1, column 1: syntax error while parsing value - unexpected end of input; "
       "expected '[', "
       "'{', or a literal"},
      {"[]", "[] stands where an object should be"},
      {"{}", "it says nothing of operators or parameters"},
      {R"({"current_stage": -1})", "-1 stands where a stage should be"},
      {R"({"current_stage": 1e3})", "1000.0 stands where a whole number should be"},
      {R"({"parallel_strategy_item": 3})", "3 stands where an object should be"},
      {R"({"parallel_strategy_item": {"a": {}}})", "operator 'a': it has no parallel_strategy"},
      {R"({"parallel_strategy_item": {"a": {"parallel_strategy": [2]}}})",
       "operator 'a': 2 stands where a list of whole numbers should be"},
      {R"({"parallel_strategy_item": {"a": {"parallel_strategy": [[true]]}}})",
       "operator 'a': true stands where a whole number should be"},
      {R"({"parallel_layout_value_item": {"a": {"0": {"dev_matrix": [2], "tensor_map": [0]}, "1": {"dev_matrix": [4], "tensor_map": [0]}}}})",
       "operator 'a' has several device matrices"},
      {R"({"parallel_layout_value_item": {"a": {"0": {"dev_matrix": [2], "tensor_map": [0], "interleaved_parallel": true}}}})",
       "operator 'a': interleaved_parallel is true, which is not supported"},
      {R"({"parallel_layout_value_item": {"a": {"1": {"dev_matrix": [2], "tensor_map": [0]}}}})",
       "operator 'a': input '1' does not exist; inputs are 0 to 1 - 1"},
      {R"({"parallel_layout_value_item": {"a": {"0": {"dev_matrix": [2], "tensor_map": [0]}, "01": {"dev_matrix": [2], "tensor_map": [0]}}}})",
       "operator 'a': input '01' does not exist; inputs are 0 to 2 - 1"},
      {json_layout(R"({"dev_matrix": [2], "tensor_map": [0], "interleaved_parallel": 1})"),
       "parameter 'w': interleaved_parallel is 1, which is not supported"},
      {R"({"parallel_layout_value_item": {"a": {"0": {"dev_matrix": [2], "tensor_map": [0]}}, "b": {"0": {"dev_matrix": [4], "tensor_map": [0]}}}})",
       "device matrices of one stage have 2 and 4 devices"},
      {json_layout(R"({"dev_matrix": [2]})"), "parameter 'w': it has no tensor_map"},
      {json_layout(R"({"dev_matrix": [0], "tensor_map": []})"),
       "parameter 'w': the device matrix [0] is not valid: an axis has no such size"},
      {json_layout(R"({"dev_matrix": [1048576, 2], "tensor_map": []})"),
       "parameter 'w': the device matrix [1048576, 2] is not valid: no cluster has so many devices"},
      {json_layout(R"({"dev_matrix": [1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,1], "tensor_map": []})"),
       "parameter 'w': the device matrix [1, 1, 1, 1, 1, 1, 1, 1, 1, 1, ...] is not valid: it has more than "
       "15 "
       "axes"},
      {json_layout(R"({"dev_matrix": [2, 4], "tensor_map": [2]})"),
       "parameter 'w': the tensor map does not fit the device matrix [2, 4]: 2 is no axis"},
      {json_layout(R"({"dev_matrix": [2, 4], "tensor_map": [-9223372036854775808]})"),
       "parameter 'w': the tensor map does not fit the device matrix [2, 4]: -9223372036854775808 is no "
       "axis"},
      {json_layout(R"({"dev_matrix": [2, 4], "tensor_map": [1, 1]})"),
       "parameter 'w': the tensor map does not fit the device matrix [2, 4]: 1 is there twice"},
      {json_layout(R"({"dev_matrix": [2, 4], "tensor_map": [1], "alias_name": ["a"]})"),
       "parameter 'w': the device matrix [2, 4] is not valid: it has another number of names"},
      {json_layout(R"({"dev_matrix": [2, 4], "tensor_map": [1], "alias_name": ["a", "a"]})"),
       "parameter 'w': axis 'a' is twice in mesh [a=2, a=4]"},
      {R"({"parallel_layout_item": {"v": {"dev_matrix": [2], "tensor_map": []}, "w": {"dev_matrix": [4], "tensor_map": []}}})",
       "device matrices of one stage have 2 and 4 devices"},
      {R"({"parallel_layout_item": {"w": {"dev_matrix": [2], "tensor_map": []}, "0-w": {"dev_matrix": [2], "tensor_map": []}}})",
       "parameter 'w' is there twice"},
      {R"({"format": 2, "fingerprint": "a"})", "it is a plan, which --plan takes"},
      {"{}", "it begins as JSON does, but its name does not end with .json", false},
      {"", "it says nothing of operators or parameters", false},
      {from_hex("08"), "the file ends in the middle of a number", false},
      {from_hex("08ffffffffffffffffffffff"), "a number takes more than ten bytes", false},
      {from_hex("12ffffffff0f"), "the file ends in the middle of an entry", false},
      {from_hex("0b"), "field 1 is of wire type 3", false},
      {from_hex("00"), "a field has the number 0", false},
      {from_hex("1001"), "there is a number where a message should be", false},
      {from_hex("1200"), "an entry has no name or nothing beside it", false},
      {from_hex("12050a01ff1200"), "a name is not UTF-8", false},
      {from_hex("12050a01611200 12050a01611200"), "operator 'a' is there twice", false},
      {from_hex("1a050a01771200"), "parameter 'w': it has no device matrix or tensor map", false}};
  for (const Wrong& wrong : cases)
    EXPECT_EQ(error_of([&] { parse_strategies(wrong.bytes, wrong.is_json); }), wrong.error) << wrong.bytes;
}

TEST(StrategyFile, of_another_network_or_another_number_of_devices_does_not_fit) {
  const Graph graph = build_model("matmul_chain:widths=16-16-16,batch=8").graph;
  const auto misfit = [&](StrategyFile file) {
    return error_of([&] { check_fits(file, "s.json", graph, 4); });
  };
  const FileOperator two{.name = "matmul1",
                         .parts = {{2, 1}, {1, 1}},
                         .in = {lying({2}, {{0}, {-1}}), lying({2}, {{-1}, {-1}})}};
  EXPECT_EQ(misfit({.operators = {two}, .parameters = {}}),
            "s.json: operator 'matmul1' lies on 2 devices (mesh [axis0=2]) but there are 4");
  EXPECT_EQ(
      misfit({.operators = {{.name = "matmul1"}, {.name = "matmull"}}, .parameters = {}}),
      "s.json: operator 'matmull': the network has no such operator (did you mean matmul1 or matmul2?)");
  EXPECT_EQ(misfit({.operators = {{.name = "conv1"}, {.name = "conv2"}}, .parameters = {}}),
            "s.json: the network has none of its 2 operators, as 'conv1'; the file is of another network");
  EXPECT_EQ(misfit({.operators = {}, .parameters = {{.name = "w9", .layout = lying({4}, {{0}, {-1}})}}}),
            "s.json: parameter 'w9': the network has no such parameter (did you mean w1 or w2?)");
  EXPECT_EQ(misfit({.operators = {}, .parameters = {{.name = "w1", .layout = lying({8}, {{0}, {-1}})}}}),
            "s.json: parameter 'w1' lies on 8 devices (mesh [axis0=8]) but there are 4");
}

TEST(StrategyFile, what_planning_does_not_heed_is_told) {
  const Graph graph = build_model("matmul_chain:widths=16-16-16,batch=8").graph;
  StrategyFile file;
  for (const char* name : {"moments.w1", "w2.momentum", "optimizer.step"})
    file.parameters.push_back({.name = name, .layout = lying({4}, {{-1}, {-1}})});
  file.parameters.push_back({.name = "w1", .layout = lying({4}, {{-1}, {-1}}), .optimizer_shards = 4});
  check_fits(file, "s.json", graph, 4);
  EXPECT_EQ(not_heeded(file, graph),
            (std::vector<std::string>{
                "the layout of states 'moments.w1' and 2 others is not read: it follows from parameters and "
                "--optimizer-parallel",
                "the optimizer's shards of 'w1' are not read: --optimizer-parallel sets them"}));
}

TEST(StrategyFile, whose_parts_and_layouts_differ_is_told_with_both) {
  StrategyFile file;
  file.operators.push_back({.name = "a", .parts = {{4}}, .in = {lying({2}, {{0}})}});
  EXPECT_EQ(error_of([&] { annotations_of(file, "s.json"); }),
            "s.json: operator 'a': its parts are ((4,),) but its layouts cut ((2,),)");
  file.operators = {{.name = "a", .stage = 1, .parts = {{4}}, .in = {}}};
  EXPECT_EQ(error_of([&] { annotations_of(file, "s.json"); }),
            "s.json: it has operators of stage 1 but none of stage 0; merge the files of all stages");
  const auto of_parameter = [](const char* name) {
    return parse_strategies(
        fmt::format(
            R"({{"current_stage": 1, "parallel_layout_item": {{"{}": {{"dev_matrix": [4], "tensor_map": [0]}}}}}})",
            name),
        true);
  };
  EXPECT_EQ(error_of([&] { annotations_of(of_parameter("w1"), "s.json"); }),
            "s.json: it is of stage 1 alone (current_stage); merge the files of all stages");
  EXPECT_EQ(annotations_of(of_parameter("0-w1"), "s.json").tensors.count("w1"), 1U);  // that is a merged one
}

}  // namespace
}  // namespace shardwright
