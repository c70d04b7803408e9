// Files of images: what is read from them, and that nothing in a file does harm.
#include <algorithm>
#include <filesystem>

#include "shardwright/runtime/data/cifar.h"
#include "shardwright/runtime/data/image_file.h"
#include "shardwright/runtime/data/image_folder.h"
#include "shardwright/runtime/data/pictures.h"
#include "shardwright/runtime/data/token_file.h"
#include "tests/support/scratch.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

Tensor coloured(std::int64_t height, std::int64_t width) {
  Tensor t({DType::u8, {height, width, 3}});
  for (std::size_t i = 0; i < t.bytes().size(); ++i) t.bytes()[i] = static_cast<std::byte>(i * 31 % 253);
  return t;
}

Tensor decoded(const std::string& bytes) { return decoded_image(std::as_bytes(std::span(bytes)), "it"); }
std::string message_of(const std::string& bytes) {
  return error_of([&] { decoded(bytes); });
}

TEST(ImageFile, reads_back_a_png_that_was_written) {
  EXPECT_EQ(decoded(png_of(coloured(5, 7))), coloured(5, 7));
}

TEST(ImageFile, reads_grey_and_coloured_pnm) {
  EXPECT_EQ(to_doubles(decoded(std::string("P5\n# grey\n2 1\n255\n\x01\x02", 20))),
            (std::vector<double>{1, 1, 1, 2, 2, 2}));
  EXPECT_EQ(to_doubles(decoded("P6 1 1 15\n\x0f\x05\x01")), (std::vector<double>{255, 85, 17}));
}

TEST(ImageFile, says_what_is_wrong_with_it) {
  EXPECT_EQ(message_of("GIF89a"), "it: is no image that can be read; there are PNG, JPEG and PNM (P5, P6)");
  EXPECT_EQ(message_of(""), "it: is no image that can be read; there are PNG, JPEG and PNM (P5, P6)");
  EXPECT_EQ(message_of("P6\n100000 100000\n255\n"),
            "it: claims 100000x100000 pixels; there must be at least 1 and at most 67108864, and sides up to "
            "65536");
  EXPECT_EQ(message_of("P6\n2 2\n255\n\x01"), "it: claims 2x2 pixels, but 1 of 12 bytes follow; truncated");
  EXPECT_EQ(message_of("P6\n2"), "it: its header has no height; truncated or damaged");
  EXPECT_EQ(message_of("P5 1 1 65535 ab"), "it: values up to 65535; up to 255 are read");
  EXPECT_EQ(message_of("\xff\xd8\xff\xe0 nothing").substr(0, 33), "it: is no JPEG that can be read: ");
}

TEST(ImageFile, nothing_that_a_png_claims_takes_memory_that_it_does_not_fill) {
  std::string png = png_of(coloured(4, 4));
  png.replace(
      16, 8,
      std::string("\x00\x00\xff\xff\x00\x00\xff\xff", 8));  // 65535 x 65535; its checksum is wrong, too
  EXPECT_EQ(message_of(png).substr(0, 4), "it: ");
  const std::string whole = png_of(coloured(4, 4));
  for (std::size_t length = 0; length + 16 < whole.size(); ++length)  // the last 16 bytes hold no pixels
    EXPECT_EQ(message_of(whole.substr(0, length)).substr(0, 4), "it: ") << length;
}

/// A folder with classes `cat` and `dog`, of a picture each.
class Folders : public testing::Test {
 protected:
  Folders() : root_(scratch_folder()) {
    for (const char* name : {"/cat", "/dog"}) {
      fs::create_directory(root_ + name);
      write_bytes(root_ + name + "/1.png", png_of(coloured(3, 4)));
    }
  }
  std::string message() const {
    return error_of([&] {
      const Dataset data = image_folder_dataset(root_);
      for (std::int64_t i = 0; i < data.samples(); ++i) data.rows().row(0, i);
    });
  }
  std::string root_;
};

TEST_F(Folders, number_their_classes_by_name) {
  write_bytes(root_ + "/dog/2.ppm", "P6 1 1 255 abc");
  write_bytes(root_ + "/dog/notes.txt", "no image");
  const Dataset data = image_folder_dataset(root_);
  ASSERT_EQ(data.samples(), 3);
  EXPECT_EQ(data.rows().row(0, 0)->values[0], coloured(3, 4));
  EXPECT_EQ(to_doubles(data.rows().row(0, 2)->values[1]), std::vector<double>{1});
}

TEST_F(Folders, an_image_is_read_when_it_is_asked_for) {
  write_bytes(root_ + "/cat/2.png", "no png");
  const Dataset data = image_folder_dataset(root_);
  data.rows().row(0, 0);
  EXPECT_EQ(error_of([&] { data.rows().row(0, 1); }).substr(0, root_.size() + 11), root_ + "/cat/2.png:");
}

TEST_F(Folders, must_hold_images) {
  fs::create_directory(root_ + "/empty");
  EXPECT_EQ(message(), root_ + "/empty: holds no images (.png, .jpg, .ppm), but stands for a class");
  EXPECT_EQ(error_of([&] { image_folder_dataset(root_ + "/empty"); }),
            root_ + "/empty: has no folders; there must be one with images for each class");
}

TEST_F(Folders, links_that_go_round_end_in_an_error_or_are_not_followed) {
  fs::create_directory_symlink(root_, root_ + "/cat/round");
  EXPECT_EQ(message(), "no error");
  fs::create_symlink("self.png", root_ + "/cat/self.png");
  EXPECT_EQ(message(), root_ + "/cat/self.png: cannot be read: Too many levels of symbolic links");
}

TEST_F(Folders, of_many_sizes_are_brought_to_one) {
  write_bytes(root_ + "/cat/2.png", png_of(coloured(9, 5)));
  const Dataset data = image_folder_dataset(root_);
  EXPECT_EQ(error_of([&] { data.batch(3).get(0, 0); }).substr(0, 39),
            "batch: column 'image' has samples of u8");
  EXPECT_EQ(to_text(data.map("image", {resize({2, 2}), hwc_to_chw()}).batch(3).type("image")),
            "u8[3, 3, 2, 2]");
}

TEST(Cifar, reads_what_it_drew) {
  const std::string folder = scratch_folder();
  write_drawn_cifar(folder, {.train = 23, .test = 6});
  const Dataset data = cifar_dataset(folder, Cifar::ten);
  ASSERT_EQ(data.samples(), 23);
  EXPECT_EQ(cifar_dataset(folder, Cifar::ten, CifarPart::all).samples(), 29);
  const std::string second = read_bytes(folder + "/data_batch_2.bin");  // begins with image 4
  const std::optional<DataRow> row = data.rows().row(0, 4);
  EXPECT_EQ(to_doubles(row->values[1])[0], second[0]);
  for (const std::size_t pixel : {0, 33, 1023})
    for (std::size_t c = 0; c < 3; ++c)
      EXPECT_EQ(std::to_integer<int>(row->values[0].bytes()[3 * pixel + c]),
                static_cast<unsigned char>(second[1 + 1024 * c + pixel]));
}

TEST(Cifar, says_what_is_wrong_with_its_files) {
  const std::string folder = scratch_folder();
  EXPECT_EQ(error_of([&] { cifar_dataset(folder, Cifar::hundred); }),
            folder + ": has no train.bin of CIFAR-100, nor has " + folder + "/cifar-100-binary");
  write_bytes(folder + "/train.bin", std::string(3074, '\x7f'));
  EXPECT_EQ(error_of([&] { cifar_dataset(folder, Cifar::hundred).rows().row(0, 0); }),
            folder + "/train.bin: label of image 0 is 127, must be 0 to 19; damaged, or not CIFAR-100");
  write_bytes(folder + "/train.bin", std::string(3073, '\x01'));
  EXPECT_EQ(
      error_of([&] { cifar_dataset(folder, Cifar::hundred); }),
      folder +
          "/train.bin: has 3073 bytes, which is not a multiple of CIFAR-100's 3074 bytes an image; cut off "
          "or damaged");
}

TEST(Cifar, a_file_that_shrinks_while_it_is_read_is_told) {
  const std::string folder = scratch_folder();
  write_drawn_cifar(folder, {.train = 10, .test = 1});
  const Dataset data = cifar_dataset(folder, Cifar::ten);
  fs::resize_file(folder + "/data_batch_1.bin", 3073);
  EXPECT_EQ(error_of([&] { data.rows().row(0, 1); }),
            folder + "/data_batch_1.bin: ends at byte 3073, where 3073 more are expected");
}

TEST(Tokens, a_label_is_the_input_moved_on_by_one) {
  const std::string path = scratch_folder() + "/t.bin";
  write_bytes(path, std::string("\1\0\2\0\3\0\4\0\5\1\6\0", 12));
  const Dataset data = token_dataset(path, {.length = 2});
  ASSERT_EQ(data.samples(), 2);
  EXPECT_EQ(to_doubles(data.rows().row(0, 1)->values[0]), (std::vector<double>{3, 4}));
  EXPECT_EQ(to_doubles(data.rows().row(0, 1)->values[1]), (std::vector<double>{4, 261}));
  EXPECT_EQ(token_dataset(path, {.length = 2, .bytes = 4}).samples(), 1);
}

TEST(Tokens, a_header_must_say_what_the_file_holds) {
  const std::string path = scratch_folder() + "/t.bin";
  std::string header(1024, '\0');
  const std::int32_t words[] = {20240520, 1, 5};
  std::memcpy(header.data(), words, sizeof words);
  write_bytes(path, header + std::string("\1\0\2\0\3\0\4\0\5\0", 10));
  EXPECT_EQ(to_doubles(token_dataset(path, {.length = 4}).rows().row(0, 0)->values[1]),
            (std::vector<double>{2, 3, 4, 5}));
  write_bytes(path, header + std::string("\1\0\2\0", 4));
  EXPECT_EQ(error_of([&] { token_dataset(path, {.length = 1}); }),
            path + ": claims 5 tokens, but holds 2; truncated or damaged");
}

}  // namespace
}  // namespace shardwright
