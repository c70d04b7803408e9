#include "shardwright/runtime/data/mnist.h"

#include <unistd.h>
#include <zlib.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <vector>

#include "shardwright/base/file.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t classes = 10;
constexpr std::int64_t largest_count = 1'000'000;
constexpr std::uint32_t images_magic = 0x00000803;
constexpr std::uint32_t labels_magic = 0x00000801;
/// Deflate cannot pack more than 1032 bytes into one.
constexpr std::int64_t largest_gzip_ratio = 1032;

struct PartNames {
  std::string_view folder;
  std::string_view images;
  std::string_view labels;
};

PartNames names_of(MnistPart part) {
  if (part == MnistPart::train) return {"train", "train-images-idx3-ubyte", "train-labels-idx1-ubyte"};
  return {"test", "t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
}

/// The places where a file called `name` may lie: as it is or `name`.gz, in the folder or in its `train` or `test`.
std::vector<std::string> places_of(const std::string& directory, std::string_view folder,
                                   std::string_view name) {
  std::vector<std::string> out;
  for (const fs::path& place : {fs::path(directory), fs::path(directory) / folder})
    for (const std::string_view ending : {"", ".gz"})
      out.push_back((place / fmt::format("{}{}", name, ending)).string());
  return out;
}

/// The first of them that is there.
std::string find_file(const std::string& directory, std::string_view folder, std::string_view name) {
  std::error_code why;
  const fs::file_status status = fs::status(directory, why);
  if (status.type() == fs::file_type::not_found)
    throw io_error("{}: no such folder; name the one that holds MNIST, or a file that ends in .safetensors",
                   directory);
  if (why) throw io_error("{}: cannot be read: {}", directory, why.message());
  if (!fs::is_directory(status))
    throw io_error("{}: is no folder; name the one that holds MNIST, or a file that ends in .safetensors",
                   directory);
  for (std::string& path : places_of(directory, folder, name)) {
    if (fs::is_regular_file(path, why)) return std::move(path);
    if (why == std::errc::permission_denied) throw io_error("{}: cannot be read: {}", path, why.message());
  }
  throw io_error("{}: has no {}, neither plain nor .gz, nor has {}/{}", directory, name, directory, folder);
}

struct Close {
  void operator()(gzFile_s* file) const { gzclose(file); }
};
using GzipFile = std::unique_ptr<gzFile_s, Close>;

/// Reads a plain or gzip file to its end, in the order in which the format has its parts.
class IdxFile {
 public:
  explicit IdxFile(std::string path)
      : path_(std::move(path)), bytes_(readable_bytes(path_)), file_(gzopen(path_.c_str(), "rb")) {
    if (!file_) throw unreadable(path_, errno);
    gzbuffer(file_.get(), 1U << 17U);
    if (path_.ends_with(".gz") && gzdirect(file_.get()) && bytes_ > 0)
      throw io_error("{}: is not gzip, as its name says", path_);
  }

  const std::string& path() const { return path_; }

  void expect_magic(std::uint32_t wanted) {
    const std::uint32_t magic = word("magic number");
    if (magic != wanted)
      throw io_error("{}: magic number is {:#010x}, must be {:#010x}; not an idx file of this kind", path_,
                     magic, wanted);
  }

  std::uint32_t word(std::string_view what) {
    std::array<std::byte, 4> b{};
    fill(b, what);
    std::uint32_t out = 0;
    for (const std::byte part : b) out = out << 8U | std::to_integer<std::uint32_t>(part);
    return out;
  }

  /// A tensor of the rest of the file, which must be of just this length.
  Tensor rest(Type type, std::string_view what) {
    if (type.shape[0] > largest_count)
      throw io_error("{}: claims {} {}, at most {} are read; damaged, or not MNIST", path_, type.shape[0],
                     what, largest_count);
    const std::int64_t at_most = gzdirect(file_.get()) ? bytes_ : bytes_ * largest_gzip_ratio;
    if (type.bytes() > at_most)
      throw io_error("{}: claims {} {}, which its {} bytes cannot hold; truncated or damaged", path_,
                     type.shape[0], what, bytes_);
    if (type.shape[0] == 0) throw io_error("{}: holds no {}", path_, what);
    Tensor t(std::move(type));
    fill(t.bytes(), what);
    std::byte beyond{};
    if (read(&beyond, 1) != 0)
      throw io_error("{}: goes on after its {} {}; damaged", path_, t.shape()[0], what);
    return t;
  }

 private:
  void fill(std::span<std::byte> to, std::string_view what) {
    std::size_t done = 0;
    while (done < to.size()) {
      const std::size_t got = read(to.data() + done, std::min(to.size() - done, std::size_t{1} << 30U));
      if (got == 0)
        throw io_error("{}: ends after {} of the {} bytes of its {}; truncated", path_, done, to.size(),
                       what);
      done += got;
    }
  }

  std::size_t read(std::byte* to, std::size_t bytes) {
    const int got = gzread(file_.get(), to, static_cast<unsigned>(bytes));
    int code = Z_OK;
    const char* why = gzerror(file_.get(), &code);
    if (code == Z_BUF_ERROR) throw io_error("{}: gzip data ends too early; truncated", path_);
    if (got < 0 || code < 0)
      throw io_error("{}: cannot be read: {}", path_, code == Z_ERRNO ? std::strerror(errno) : why);
    return static_cast<std::size_t>(got);
  }

  std::string path_;
  std::int64_t bytes_;
  GzipFile file_;
};

Tensor read_images(IdxFile& file) {
  file.expect_magic(images_magic);
  const std::int64_t count = file.word("count of images");
  const std::int64_t rows = file.word("number of rows");
  const std::int64_t columns = file.word("number of columns");
  if (rows != mnist_side || columns != mnist_side)
    throw io_error("{}: images of {}x{}, must be {}x{}", file.path(), rows, columns, mnist_side, mnist_side);
  return file.rest({DType::u8, {count, mnist_side, mnist_side, 1}}, "images");
}

Tensor read_labels(IdxFile& file) {
  file.expect_magic(labels_magic);
  const std::int64_t count = file.word("count of labels");
  Tensor labels = file.rest({DType::u8, {count}}, "labels");
  const auto values = labels.as<std::uint8_t>();
  const auto odd = std::ranges::find_if(values, [](std::uint8_t v) { return v >= classes; });
  if (odd != values.end())
    throw io_error("{}: label {} is {}, must be 0 to {}; damaged", file.path(), odd - values.begin(), *odd,
                   classes - 1);
  return labels;
}

/// Writes `path`, or `path`.gz: the words of the header, then the data.
NewFile written_idx(std::string path, std::initializer_list<std::int64_t> header,
                    std::span<const std::byte> data, const MnistWriteOptions& options) {
  if (options.gzip) path += ".gz";
  NewFile out(path);
  std::string start;
  for (const std::int64_t word : header)
    for (const unsigned shift : {24U, 16U, 8U, 0U}) start.push_back(static_cast<char>(word >> shift & 0xff));
  if (!options.gzip) {
    out.write(start);
    out.write(data);
    return out;
  }
  gzFile file = gzdopen(::dup(out.descriptor()), "wb6");
  if (!file) throw unwritable(path, errno);
  std::size_t written = gzfwrite(start.data(), 1, start.size(), file);
  written += gzfwrite(data.data(), 1, data.size(), file);
  if (gzclose(file) != Z_OK || written != start.size() + data.size()) throw unwritable(path, errno);
  return out;
}

/// Makes the folder. Throws: Error if one of the part's files is in it already.
void prepare_folder(const std::string& directory, const PartNames& names) {
  std::error_code bad;
  fs::create_directories(directory, bad);
  if (bad) throw io_error("{}: cannot be made: {}", directory, bad.message());
  for (const std::string_view name : {names.images, names.labels})
    for (const std::string_view ending : {"", ".gz"})
      if (const std::string path = fmt::format("{}/{}{}", directory, name, ending); fs::exists(path, bad))
        throw io_error("{}: is there already; remove it or choose another folder", path);
}

}  // namespace

bool has_mnist(const std::string& directory, MnistPart part) {
  const PartNames names = names_of(part);
  return std::ranges::any_of(places_of(directory, names.folder, names.images), [](const std::string& path) {
    std::error_code none;
    return fs::is_regular_file(path, none);
  });
}

Mnist read_mnist(const std::string& directory, MnistPart part) {
  const PartNames names = names_of(part);
  IdxFile image_file(find_file(directory, names.folder, names.images));
  IdxFile label_file(find_file(directory, names.folder, names.labels));
  Mnist data{read_images(image_file), read_labels(label_file)};
  if (data.images.shape()[0] != data.labels.shape()[0])
    throw io_error("{}: has {} images, but {} has {} labels", image_file.path(), data.images.shape()[0],
                   label_file.path(), data.labels.shape()[0]);
  return data;
}

std::vector<NewFile> written_mnist(const std::string& directory, MnistPart part, const Mnist& data,
                                   const MnistWriteOptions& options) {
  const std::int64_t count = data.labels.size();
  require(data.images.type() == Type{DType::u8, {count, mnist_side, mnist_side, 1}}, "images are {}",
          to_text(data.images.type()));
  require(data.labels.type() == Type{DType::u8, {count}}, "labels are {}", to_text(data.labels.type()));
  const PartNames names = names_of(part);
  prepare_folder(directory, names);
  std::vector<NewFile> out;
  out.push_back(written_idx(fmt::format("{}/{}", directory, names.images),
                            {images_magic, count, mnist_side, mnist_side}, data.images.bytes(), options));
  out.push_back(written_idx(fmt::format("{}/{}", directory, names.labels), {labels_magic, count},
                            data.labels.bytes(), options));
  return out;
}

void write_mnist(const std::string& directory, MnistPart part, const Mnist& data,
                 const MnistWriteOptions& options) {
  for (NewFile& file : written_mnist(directory, part, data, options)) file.keep();
}

}  // namespace shardwright
