#include "shardwright/runtime/safetensors.h"

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

/// The bytes of a file with this header and `data_bytes` bytes of data.
std::string file_text(std::string_view header, std::size_t data_bytes, char fill = '\0') {
  std::string out(8, '\0');
  for (std::size_t i = 0; i < 8; ++i) out[i] = static_cast<char>(header.size() >> (8 * i));
  return out.append(header) + std::string(data_bytes, fill);
}

std::map<std::string, Tensor> one_of_each_type() {
  std::map<std::string, Tensor> tensors;
  for (const DType dtype :
       {DType::f32, DType::f64, DType::f16, DType::bf16, DType::i32, DType::i64, DType::u8, DType::boolean})
    tensors[std::string(name_of(dtype))] = make_tensor({dtype, {3}}, std::vector<double>{0, 1, 1});
  tensors["scalar"] = make_tensor({DType::f32, {}}, std::vector<double>{7});
  tensors["empty"] = Tensor({DType::f32, {0, 4}});
  return tensors;
}

TEST(Safetensors, reads_back_what_it_wrote) {
  const std::string path = scratch_folder() + "/all.safetensors";
  const auto tensors = one_of_each_type();
  write_safetensors(path, tensors, {{"optimizer", "adam \"quoted\" \n"}});
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.names().size(), tensors.size());
  for (const auto& [name, tensor] : tensors) {
    EXPECT_EQ(file.type(name), tensor.type()) << name;
    EXPECT_EQ(file.read(name), tensor) << name;
  }
  EXPECT_EQ(file.metadata().at("optimizer"), "adam \"quoted\" \n");
}

TEST(Safetensors, reads_one_row_at_a_time) {
  const std::string path = scratch_folder() + "/steps.safetensors";
  write_safetensors(path,
                    {{"input", make_tensor({DType::i32, {3, 2}}, std::vector<double>{1, 2, 3, 4, 5, 6})},
                     {"one", make_tensor({DType::f32, {}}, std::vector<double>{1})}});
  const auto file = SafetensorsFile::open(path);
  EXPECT_EQ(file.read_slice("input", 2), make_tensor({DType::i32, {2}}, std::vector<double>{5, 6}));
  EXPECT_EQ(error_of([&] { file.read_slice("input", 3); }),
            path + ": tensor 'input' is i32[3, 2]: slice 3 asked for, there are 3");
  EXPECT_EQ(error_of([&] { file.read_slice("one", 0); }),
            path + ": tensor 'one' is a scalar; it has no slices");
  EXPECT_EQ(error_of([&] { file.read("inputs"); }), path + ": has no tensor 'inputs' (did you mean input?)");
}

TEST(Safetensors, leaves_no_unfinished_file_and_aligns_every_tensor) {
  const std::string folder = scratch_folder();
  write_safetensors(folder + "/a.safetensors", one_of_each_type());
  write_safetensors(folder + "/a.safetensors", one_of_each_type());
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder), {}), 1);
  const std::string bytes = read_bytes(folder + "/a.safetensors");
  EXPECT_EQ(static_cast<unsigned char>(bytes[0]) % 8, 0);
  EXPECT_LT(bytes.find("\"f64\""), bytes.size());
  EXPECT_NE(bytes.find(R"("f64":{"data_offsets":[0,24])"), std::string::npos);
}

TEST(Safetensors, says_why_it_cannot_write) {
  const std::string folder = scratch_folder();
  EXPECT_EQ(error_of([&] { write_safetensors(folder + "/no/a", {}); }),
            folder + "/no/a: cannot be written: No such file or directory");
  EXPECT_EQ(error_of([&] {
              write_safetensors("a", {{"__metadata__", Tensor()}});
            }),
            "a: __metadata__ cannot be the name of a tensor");
  EXPECT_EQ(error_of([&] {
              write_safetensors("a", {{"\xff", Tensor()}});
            }),
            "a: a name or a text of the metadata is not UTF-8");
}

struct Defect {
  std::string name;
  std::string bytes;
  std::string message;  // behind the file's name
};

void PrintTo(const Defect& d, std::ostream* out) { *out << d.name; }

class SafetensorsDefect : public testing::TestWithParam<Defect> {};

TEST_P(SafetensorsDefect, is_named) {
  const std::string path = scratch_folder() + "/bad.safetensors";
  write_bytes(path, GetParam().bytes);
  const std::string message = error_of([&] {
    const auto file = SafetensorsFile::open(path);
    for (const std::string& name : file.names()) file.read(name);
  });
  EXPECT_EQ(message, path + ": " + GetParam().message);
}

std::string one_tensor(std::string_view entry, std::size_t data_bytes, char fill = '\0') {
  return file_text(fmt::format(R"({{"w":{}}})", entry), data_bytes, fill);
}

const Defect defects[] = {
    {"empty", "", "has 0 bytes, the header's length alone takes 8; truncated"},
    {"huge_header", std::string(16, '\x7f'),
     "header of 9187201950435737471 bytes, at most 100000000 are allowed; not a safetensors file"},
    {"truncated_header", file_text("{}", 0).substr(0, 9), "header of 2 bytes, but only 1 follow; truncated"},
    {"not_an_object", file_text("[1]", 0), "header does not start with '{'; not a safetensors file"},
    {"not_json", file_text("{\"w\":}", 0),
     "header is not JSON at byte 6 of 6; not a safetensors file, or damaged"},
    {"not_utf8", file_text("{\"\xff\":1}", 0),
     "header is not JSON at byte 3 of 7; not a safetensors file, or damaged"},
    {"twice", file_text(R"({"w":{},"w":{}})", 0), "header has the key 'w' twice"},
    {"deep", file_text(R"({"w":{"shape":[[1]]}})", 0),
     "header is nested more than 3 deep; not a safetensors file"},
    {"metadata_list", file_text(R"({"__metadata__":[1]})", 0), "__metadata__ is [1], must be an object"},
    {"metadata_number", file_text(R"({"__metadata__":{"lr":0.5}})", 0),
     "__metadata__ has 'lr': 0.5, must be a string"},
    {"number_for_a_tensor", one_tensor("3", 0), "tensor 'w' is 3, must be an object"},
    {"unknown_key", one_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4],"x":1})", 4),
     "tensor 'w' has the key 'x'; there are dtype, shape and data_offsets"},
    {"no_dtype", one_tensor(R"({"shape":[1],"data_offsets":[0,4]})", 4), "tensor 'w' has no dtype"},
    {"unknown_dtype", one_tensor(R"({"dtype":"F8","shape":[1],"data_offsets":[0,4]})", 4),
     "tensor 'w' has dtype \"F8\"; known are F32, F64, F16, BF16, I32, I64, U8, BOOL"},
    {"shape_number", one_tensor(R"({"dtype":"F32","shape":4,"data_offsets":[0,4]})", 4),
     "tensor 'w' has shape 4, must be a list"},
    {"negative", one_tensor(R"({"dtype":"F32","shape":[-1],"data_offsets":[0,4]})", 4),
     "tensor 'w' has -1 in its shape, must be an integer from 0 to 2^63-1"},
    {"fraction", one_tensor(R"({"dtype":"F32","shape":[1.5],"data_offsets":[0,4]})", 4),
     "tensor 'w' has 1.5 in its shape, must be an integer from 0 to 2^63-1"},
    {"beyond_63_bits", one_tensor(R"({"dtype":"F32","shape":[9223372036854775808],"data_offsets":[0,4]})", 4),
     "tensor 'w' has 9223372036854775808 in its shape, must be an integer from 0 to 2^63-1"},
    {"overflow", one_tensor(R"({"dtype":"F32","shape":[4294967296,4294967296],"data_offsets":[0,4]})", 4),
     "tensor 'w' has shape [4294967296, 4294967296]: more than 9007199254740992 elements (2^53), the "
     "most that a tensor can have"},
    {"one_offset", one_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4]})", 4),
     "tensor 'w' has 1 data_offsets, must have 2"},
    {"backward", one_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,0]})", 4),
     "tensor 'w' begins at byte 4 and ends before it, at 0"},
    {"outside", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,8]})", 4),
     "tensor 'w' ends at byte 8, but the file has 4 bytes of data; truncated"},
    {"size", one_tensor(R"({"dtype":"F32","shape":[2],"data_offsets":[0,4]})", 4),
     "tensor 'w' is f32[2] of 8 bytes, but its data_offsets span 4"},
    {"hole", one_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[4,8]})", 8),
     "tensor 'w' begins at byte 4, but the data before it ends at 0; there is a hole"},
    {"overlap",
     file_text(R"({"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},)"
               R"("b":{"dtype":"U8","shape":[4],"data_offsets":[2,6]}})",
               6),
     "tensor 'b' begins at byte 2, inside the tensor before it, which ends at 4"},
    {"trailing", one_tensor(R"({"dtype":"F32","shape":[1],"data_offsets":[0,4]})", 7),
     "tensors end at byte 4, but the file has 7 bytes of data; 3 belong to none"},
    {"not_a_bool", one_tensor(R"({"dtype":"BOOL","shape":[2],"data_offsets":[0,2]})", 2, '\2'),
     "tensor 'w' is BOOL but has the value 2 at 0; must be 0 or 1"},
    {"line_end_in_a_name", file_text(R"({"a\nb":1})", 0), "tensor 'a?b' is 1, must be an object"},
};
INSTANTIATE_TEST_SUITE_P(All, SafetensorsDefect, testing::ValuesIn(defects),
                         [](const auto& defect) { return defect.param.name; });

TEST(Safetensors, says_that_a_file_is_missing_or_a_folder) {
  const std::string folder = scratch_folder();
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder + "/no"); }),
            folder + "/no: cannot be read: No such file or directory");
  EXPECT_EQ(error_of([&] { SafetensorsFile::open(folder); }), folder + ": cannot be read: Is a directory");
}

TEST(Safetensors, notices_that_a_file_shrank_after_it_was_opened) {
  const std::string path = scratch_folder() + "/w.safetensors";
  write_safetensors(path, {{"w", Tensor({DType::u8, {64}})}});
  const auto file = SafetensorsFile::open(path);
  std::filesystem::resize_file(path, std::filesystem::file_size(path) - 4);
  EXPECT_EQ(error_of([&] { file.read("w"); }),
            path + ": tensor 'w': 60 of 64 bytes could be read; the file has changed since it was opened");
}

TEST(Safetensors, survives_any_single_damaged_byte) {
  const std::string path = scratch_folder() + "/w.safetensors";
  write_safetensors(path, {{"a", Tensor({DType::f32, {2}})}, {"b", Tensor({DType::u8, {3}})}}, {{"k", "v"}});
  const std::string whole = read_bytes(path);
  for (std::size_t i = 0; i < whole.size(); ++i) {
    for (const char c : {'9', '"'}) {
      std::string damaged = whole;
      damaged[i] = c;
      write_bytes(path, damaged);
      try {
        const auto file = SafetensorsFile::open(path);
        for (const std::string& name : file.names()) file.read(name);
      } catch (const Error& e) {
        EXPECT_EQ(std::string_view(e.what()).find('\n'), std::string_view::npos);
        EXPECT_EQ(e.kind(), ErrorKind::io);
      }
    }
  }
}

TEST(Safetensors, reads_what_pytorch_trained) {
  const std::string folder = "tests/reference/";
  const auto ffn = SafetensorsFile::open(folder + "ffn.safetensors");
  EXPECT_EQ(to_text(ffn.type("input")), "f32[20, 32, 784]");
  EXPECT_EQ(to_text(ffn.type("label")), "i32[20, 32]");
  EXPECT_EQ(to_text(ffn.type("init.dense1.weight")), "f32[784, 512]");
  EXPECT_EQ(ffn.metadata().at("optimizer"), "momentum");
  const std::vector<double> loss = to_doubles(ffn.read("loss"));
  EXPECT_GT(loss.front(), loss.back());
  const std::vector<double> labels = to_doubles(ffn.read_slice("label", 19));
  EXPECT_EQ(labels.size(), 32U);
  for (const double label : labels) EXPECT_TRUE(label >= 0 && label <= 9);
  for (const char* name : {"three_layer_mae", "three_layer_sgd", "matmul_chain"})
    EXPECT_TRUE(SafetensorsFile::open(folder + name + ".safetensors").has("loss")) << name;
}

}  // namespace
}  // namespace shardwright
