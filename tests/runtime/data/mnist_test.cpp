#include "shardwright/runtime/data/mnist.h"

#include <zlib.h>

#include "tests/support/scratch.h"

namespace shardwright {
namespace {

Mnist some_digits(std::int64_t count) {
  Mnist data{Tensor({DType::u8, {count, 28, 28, 1}}), Tensor({DType::u8, {count}})};
  for (std::int64_t i = 0; i < data.images.size(); ++i)
    data.images.bytes()[static_cast<std::size_t>(i)] = static_cast<std::byte>(i * 37 % 251);
  for (std::int64_t i = 0; i < count; ++i)
    data.labels.bytes()[static_cast<std::size_t>(i)] = static_cast<std::byte>(i % 10);
  return data;
}

void write_gzip(const std::string& path, std::string_view bytes) {
  gzFile file = gzopen(path.c_str(), "wb");
  gzwrite(file, bytes.data(), static_cast<unsigned>(bytes.size()));
  gzclose(file);
}

void expect_same(const Mnist& a, const Mnist& b) {
  EXPECT_EQ(a.images, b.images);
  EXPECT_EQ(a.labels, b.labels);
}

/// A folder with five training digits, whose files a test then damages.
class MnistFolder : public testing::Test {
 protected:
  MnistFolder() : folder_(scratch_folder()) { write_mnist(folder_, MnistPart::train, some_digits(5)); }
  std::string images() const { return folder_ + "/train-images-idx3-ubyte"; }
  std::string labels() const { return folder_ + "/train-labels-idx1-ubyte"; }
  /// Replaces the images by `bytes`, compressed, under the name that ends in .gz.
  void compress_images(std::string_view bytes) const {
    std::filesystem::remove(images());
    write_gzip(images() + ".gz", bytes);
  }
  std::string message() const {
    return error_of([&] { read_mnist(folder_); });
  }
  std::string folder_;
};

TEST_F(MnistFolder, reads_back_what_was_written) { expect_same(read_mnist(folder_), some_digits(5)); }

TEST_F(MnistFolder, is_big_endian) {
  EXPECT_EQ(read_bytes(images()).substr(0, 16),
            std::string("\0\0\x08\x03\0\0\0\x05\0\0\0\x1c\0\0\0\x1c", 16));
  EXPECT_EQ(read_bytes(labels()), std::string("\0\0\x08\x01\0\0\0\x05\0\1\2\3\4", 13));
}

TEST_F(MnistFolder, reads_gzip_of_either_part) {
  write_mnist(folder_, MnistPart::test, some_digits(3), {.gzip = true});
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/t10k-images-idx3-ubyte.gz"));
  expect_same(read_mnist(folder_, MnistPart::test), some_digits(3));
}

TEST_F(MnistFolder, may_have_the_files_in_train_as_mindspore_does) {
  std::filesystem::create_directory(folder_ + "/train");
  for (const std::string& name : {images(), labels()})
    std::filesystem::rename(name, folder_ + "/train" + name.substr(folder_.size()));
  expect_same(read_mnist(folder_), some_digits(5));
}

TEST_F(MnistFolder, does_not_overwrite) {
  EXPECT_EQ(error_of([&] { write_mnist(folder_, MnistPart::train, some_digits(1), {.gzip = true}); }),
            images() + ": is there already; remove it or choose another folder");
}

TEST_F(MnistFolder, must_exist_and_hold_the_files) {
  EXPECT_EQ(
      error_of([&] { read_mnist(folder_ + "/no"); }),
      folder_ + "/no: no such folder; name the one that holds MNIST, or a file that ends in .safetensors");
  std::filesystem::remove(labels());
  EXPECT_EQ(message(), folder_ + ": has no train-labels-idx1-ubyte, neither plain nor .gz, nor has " +
                           folder_ + "/train");
}

TEST_F(MnistFolder, truncated_images_are_an_error) {
  std::filesystem::resize_file(images(), 16 + 5 * 784 - 1);
  EXPECT_EQ(message(), images() + ": ends after 3919 of the 3920 bytes of its images; truncated");
  std::filesystem::resize_file(images(), 2000);
  EXPECT_EQ(message(),
            images() + ": claims 5 images, which its 2000 bytes cannot hold; truncated or damaged");
  std::filesystem::resize_file(images(), 6);
  EXPECT_EQ(message(), images() + ": ends after 2 of the 4 bytes of its count of images; truncated");
  std::filesystem::resize_file(images(), 0);
  EXPECT_EQ(message(), images() + ": ends after 0 of the 4 bytes of its magic number; truncated");
}

TEST_F(MnistFolder, bytes_behind_the_images_are_an_error) {
  write_bytes(images(), read_bytes(images()) + "x");
  EXPECT_EQ(message(), images() + ": goes on after its 5 images; damaged");
}

TEST_F(MnistFolder, wrong_magic_is_an_error) {
  write_bytes(labels(), read_bytes(images()));
  EXPECT_EQ(message(),
            labels() + ": magic number is 0x00000803, must be 0x00000801; not an idx file of this kind");
}

TEST_F(MnistFolder, absurd_sizes_take_no_memory) {
  std::string bytes = read_bytes(images());
  bytes.replace(4, 4, "\xff\xff\xff\xff", 4);
  write_bytes(images(), bytes);
  EXPECT_EQ(message(),
            images() + ": claims 4294967295 images, at most 1000000 are read; damaged, or not MNIST");
  bytes.replace(4, 4, std::string("\0\x0f\0\0", 4));
  compress_images(bytes);
  EXPECT_EQ(message(),
            fmt::format("{}.gz: claims 983040 images, which its {} bytes cannot hold; truncated or damaged",
                        images(), std::filesystem::file_size(images() + ".gz")));
}

TEST_F(MnistFolder, other_image_sizes_are_an_error) {
  std::string bytes = read_bytes(images());
  bytes[11] = 32;
  write_bytes(images(), bytes);
  EXPECT_EQ(message(), images() + ": images of 32x28, must be 28x28");
}

TEST_F(MnistFolder, no_images_is_an_error) {
  write_bytes(images(), std::string("\0\0\x08\x03\0\0\0\0\0\0\0\x1c\0\0\0\x1c", 16));
  EXPECT_EQ(message(), images() + ": holds no images");
}

TEST_F(MnistFolder, a_label_beyond_nine_is_an_error) {
  std::string bytes = read_bytes(labels());
  bytes[10] = 77;
  write_bytes(labels(), bytes);
  EXPECT_EQ(message(), labels() + ": label 2 is 77, must be 0 to 9; damaged");
}

TEST_F(MnistFolder, counts_must_agree) {
  write_bytes(labels(), std::string("\0\0\x08\x01\0\0\0\x02\0\1", 10));
  EXPECT_EQ(message(), images() + ": has 5 images, but " + labels() + " has 2 labels");
}

TEST_F(MnistFolder, damaged_gzip_is_an_error) {
  compress_images(read_bytes(images()));
  const std::string path = images() + ".gz";
  const std::string whole = read_bytes(path);
  write_bytes(path, whole.substr(0, whole.size() / 2));
  EXPECT_EQ(message(), path + ": gzip data ends too early; truncated");
  write_bytes(path, whole.substr(0, whole.size() - 2));
  EXPECT_EQ(message(), path + ": gzip data ends too early; truncated");
  std::string flipped = whole;
  flipped[flipped.size() - 6] ^= 1;
  write_bytes(path, flipped);
  EXPECT_EQ(message(), path + ": cannot be read: " + path + ": incorrect data check");
  write_bytes(path, "no gzip at all");
  EXPECT_EQ(message(), path + ": is not gzip, as its name says");
}

}  // namespace
}  // namespace shardwright
