// Files of data changed at random: every one is read, or ends in a short Error, quickly and in bounded memory. What a file
// claims must not be believed; the same is run under the address sanitizer.
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>

#include <jpeglib.h>  // needs cstdio

#include "shardwright/runtime/data/cifar.h"
#include "shardwright/runtime/data/documents.h"
#include "shardwright/runtime/data/image_file.h"
#include "shardwright/runtime/data/mnist.h"
#include "shardwright/runtime/data/token_file.h"
#include "shardwright/runtime/data/token_writer.h"
#include "shardwright/runtime/data/written_columns.h"
#include "tests/support/changed_text.h"
#include "tests/support/draws.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;
using testing::below;
using testing::Random;

Tensor noise(const Shape& shape, Random& random) {
  Tensor t({DType::u8, shape});
  for (std::byte& b : t.bytes()) b = static_cast<std::byte>(random() % 10);
  return t;
}

std::string jpeg_of(const Tensor& image) {
  jpeg_compress_struct state{};
  jpeg_error_mgr errors{};
  state.err = jpeg_std_error(&errors);
  jpeg_create_compress(&state);
  unsigned char* bytes = nullptr;
  unsigned long size = 0;  // NOLINT(google-runtime-int): libjpeg's
  jpeg_mem_dest(&state, &bytes, &size);
  state.image_height = static_cast<JDIMENSION>(image.shape()[0]);
  state.image_width = static_cast<JDIMENSION>(image.shape()[1]);
  state.input_components = 3;
  state.in_color_space = JCS_RGB;
  jpeg_set_defaults(&state);
  jpeg_start_compress(&state, TRUE);
  Tensor rows = image;
  while (state.next_scanline < state.image_height) {
    auto* row =
        reinterpret_cast<unsigned char*>(rows.bytes().data()) + state.next_scanline * state.image_width * 3;
    jpeg_write_scanlines(&state, &row, 1);
  }
  jpeg_finish_compress(&state);
  std::string out(reinterpret_cast<const char*>(bytes), size);
  jpeg_destroy_compress(&state);
  std::free(bytes);  // NOLINT(cppcoreguidelines-no-malloc): libjpeg's
  return out;
}

/// Some bytes others, at their extremes, cut off, taken out or doubled.
std::string changed(std::string bytes, Random& random) {
  for (std::size_t n = 1 + below(random, 3); n > 0 && !bytes.empty(); --n) {
    const std::size_t at = below(random, bytes.size()), some = 1 + below(random, 8);
    switch (below(random, 5)) {
      case 0: bytes[at] = static_cast<char>(random()); break;
      case 1:
        for (std::size_t i = at; i < std::min(at + some, bytes.size()); ++i)
          bytes[i] = static_cast<char>(random() % 2 ? 0xff : random() % 2 ? 0x7f : 0);
        break;
      case 2: bytes.resize(at); break;
      case 3: bytes.erase(at, some); break;
      default: bytes.insert(at, bytes.substr(below(random, bytes.size()), some));
    }
  }
  return bytes;
}

/// Reads changed `bytes` so many times (a third of them, if not all is asked) by `read`, which refuses one at least. How many it takes.
template <class F>
int try_changed(const std::string& bytes, int times, F read) {
  Random random = testing::random_of(7);
  if (!testing::is_full()) times /= 3;
  read(bytes);
  int taken = 0, refused = 0;
  for (int i = 0; i < times; ++i) {
    const std::string other = changed(bytes, random);
    const auto start = std::chrono::steady_clock::now();
    try {
      read(other);
      ++taken;
    } catch (const Error& e) {
      ++refused;
      EXPECT_LT(std::string(e.what()).size(), 1000U) << e.what();
    }
    const std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - start;
    EXPECT_LT(seconds.count(), 10) << "file " << i;
  }
  EXPECT_GT(refused, 0);
  return taken;
}

class DamagedFiles : public ::testing::Test {
 protected:
  DamagedFiles() : folder_(scratch_folder()) {}
  std::string path(const std::string& name) const { return folder_ + "/" + name; }
  std::string text_of(const std::string& name) const {
    const Tensor all = read_whole(path(name), 1 << 24);
    return {reinterpret_cast<const char*>(all.bytes().data()), all.bytes().size()};
  }
  void write(const std::string& name, const std::string& bytes) const {
    fs::remove(path(name));
    write_file(path(name), bytes);
  }

  Random random_{1};
  std::string folder_;
};

TEST_F(DamagedFiles, images) {
  const Tensor image = noise({9, 7, 3}, random_);
  std::string pnm = "P6\n# a comment\n7 9\n255\n";
  pnm.append(reinterpret_cast<const char*>(image.bytes().data()), image.bytes().size());
  for (const std::string& bytes : {png_of(image), jpeg_of(image), pnm})
    EXPECT_GT(try_changed(bytes, 3000,
                          [](const std::string& b) { decoded_image(std::as_bytes(std::span(b)), "it"); }),
              0);
}

TEST_F(DamagedFiles, digits) {
  std::vector<double> labels(6, 3);
  write_mnist(folder_, MnistPart::train,
              {noise({6, 28, 28, 1}, random_), make_tensor({DType::u8, {6}}, labels)});
  for (const char* name : {"train-images-idx3-ubyte", "train-labels-idx1-ubyte"}) {
    const std::string whole = text_of(name), header = whole.substr(0, 8), rest = whole.substr(8);
    try_changed(whole, 300, [&](const std::string& b) {
      write(name, b);
      read_mnist(folder_);
    });
    try_changed(header, 300, [&](const std::string& b) {  // where its claims are
      write(name, b + rest);
      read_mnist(folder_);
    });
    write(name, whole);
  }
}

TEST_F(DamagedFiles, cifar) {
  const std::string name = "data_batch_1.bin";
  written_cifar(path(name), {.images = noise({5, 32, 32, 3}, random_), .labels = {0, 1, 2, 3, 9}}).keep();
  for (int i = 2; i <= 5; ++i) fs::copy(path(name), path(fmt::format("data_batch_{}.bin", i)));
  try_changed(text_of(name), 300, [&](const std::string& b) {
    write(name, b);
    const Dataset data = cifar_dataset(folder_, Cifar::ten).batch(5);
    for (const Batch& batch : data.epoch(0)) to_doubles(batch["label"]);
  });
}

/// As bytes of a file.
template <class T>
std::string bytes_of(const std::vector<T>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(T)};
}

TEST_F(DamagedFiles, tokens) {
  const std::vector<std::uint16_t> tokens(200, 5);
  std::vector<std::int32_t> header(256);
  header[0] = 20240520, header[1] = 1, header[2] = 200;  // as llm.c writes them
  std::string of_numpy = "{'descr': '<u2', 'fortran_order': False, 'shape': (200,), }";
  of_numpy.resize(117, ' ');
  const std::string npy = std::string("\x93NUMPY\x01\x00\x76\x00", 10) + of_numpy + "\n" + bytes_of(tokens);
  const std::pair<std::string, std::string> files[] = {
      {"raw.bin", bytes_of(tokens)}, {"header.bin", bytes_of(header) + bytes_of(tokens)}, {"t.npy", npy}};
  for (const auto& [name, bytes] : files)
    try_changed(bytes, 300, [&, name = name](const std::string& b) {
      write(name, b);
      const Dataset data =
          token_dataset(path(name), {.length = 8, .bytes = 2, .vocabulary = 1 << 12}).batch(2);
      for (const Batch& batch : data.epoch(0)) to_doubles(batch["label"]);
    });
}

TEST_F(DamagedFiles, indexes_of_tokens) {
  TokenWriter writer(path("i.bin"), {.vocabulary = 1 << 12, .has_index = true});
  for (std::int32_t token = 0; token < 40; ++token) writer.write(std::vector<std::int32_t>(5, token));
  writer.keep();
  try_changed(read_bytes(path("i.idx")), 600, [&](const std::string& index) {
    write("i.idx", index);
    const Dataset data = token_dataset(path("i.bin"), {.length = 8, .vocabulary = 1 << 12}).batch(2);
    for (const Batch& batch : data.epoch(0)) to_doubles(batch["label"]);
  });
}

/// What a recommender reads, of so many ids a bag.
WrittenInputs columns_of_bags(std::int64_t hot) {
  return {{"dense", {.type = {DType::f32, {2, 2}}}},
          {"ids", {.type = {DType::i32, {2, 1, hot}}, .lowest = -1, .below = 100, .are_bags = true}}};
}

TEST_F(DamagedFiles, columns_of_text) {
  const std::string text =
      "dense.1,\"dense.2\",ids\r\n1.5,-2e3,1|2\r\n\"7\",0,\r\n\n0,\" 1\",\"12|13|14\"\n" +
      std::string(900, '1') + ",0,1\n";
  EXPECT_EQ(error_of([&] {  // the last is no number of 32 bits
              write("c.csv", text);
              written_columns(path("c.csv"), columns_of_bags(3));
            })
                .find("c.csv:6: column 'dense.1'"),
            folder_.size() + 1);
  const int taken = try_changed(text.substr(0, text.size() - 905), 3000, [&](const std::string& bytes) {
    write("c.csv", bytes);
    const Dataset data = written_columns(path("c.csv"), columns_of_bags(3));
    for (std::int64_t i = 0; i < data.samples(); ++i) to_doubles(data.rows().row(0, i)->values[1]);
  });
  EXPECT_GT(taken, 0);
}

TEST_F(DamagedFiles, columns_of_numpy) {
  const auto npy = [](std::string head, const std::string& numbers) {
    head.resize(117, ' ');
    return std::string("\x93NUMPY\x01\x00\x76\x00", 10) + head + "\n" + numbers;
  };
  const std::string ids = npy("{'descr': '<i8', 'fortran_order': False, 'shape': (20, 1, 3), }",
                              bytes_of(std::vector<std::int64_t>(60, 5)));
  write("dense.npy", npy("{'descr': '<f8', 'fortran_order': False, 'shape': (20, 2), }",
                         bytes_of(std::vector<double>(40, 0.5))));
  EXPECT_GT(try_changed(ids, 1000,
                        [&](const std::string& bytes) {
                          write("ids.npy", bytes);
                          const Dataset data = written_columns(folder_, columns_of_bags(3)).batch(4);
                          for (const Batch& batch : data.epoch(0)) to_doubles(batch["ids"]);
                        }),
            0);
}

TEST_F(DamagedFiles, json_lines) {
  const std::string lines = R"({"text": "caf\u00e9", "n": [1, {"a": null}]})"
                            "\n\n"
                            R"({"id": 1, "text": ""})"
                            "\n";
  try_changed(lines, 600, [&](const std::string& bytes) {
    write("t.jsonl", bytes);
    for_each_document(path("t.jsonl"), {}, [](std::string_view) {});
  });
}

}  // namespace
}  // namespace shardwright
