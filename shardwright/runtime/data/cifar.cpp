#include "shardwright/runtime/data/cifar.h"

#include <algorithm>
#include <array>
#include <filesystem>
#include <memory>

#include "shardwright/base/error.h"
#include "shardwright/runtime/data/open_file.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t side = 32, plane = side * side, image_bytes = 3 * plane;

struct CifarFormat {
  std::string_view name;
  std::string_view folder;
  std::int64_t labels;
  std::array<int, 2> classes;  // of each label
};

CifarFormat format_of(Cifar kind) {
  if (kind == Cifar::ten) return {"CIFAR-10", "cifar-10-batches-bin", 1, {10, 0}};
  return {"CIFAR-100", "cifar-100-binary", 2, {20, 100}};
}

bool is_of_part(Cifar kind, CifarPart part, const std::string& name) {
  const bool is_test = name == (kind == Cifar::ten ? "test_batch.bin" : "test.bin");
  const bool is_train =
      kind == Cifar::ten ? name.starts_with("data_batch") && name.ends_with(".bin") : name == "train.bin";
  return (is_test && part != CifarPart::train) || (is_train && part != CifarPart::test);
}

std::vector<std::string> files_in(const fs::path& folder, Cifar kind, CifarPart part) {
  std::vector<std::string> files;
  std::error_code why;
  for (fs::directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why))
    if (is_of_part(kind, part, entry->path().filename())) files.push_back(entry->path());
  std::ranges::sort(files);
  return files;
}

std::vector<std::string> find_files(const std::string& directory, Cifar kind, CifarPart part) {
  const std::vector<std::string> files = files_in(directory, kind, part);
  return files.empty() ? files_in(fs::path(directory) / format_of(kind).folder, kind, part) : files;
}

/// Records of several files, as if they were one.
class Records {
 public:
  Records(const std::vector<std::string>& files, const CifarFormat& format)
      : format_(format), bytes_(format.labels + image_bytes) {
    for (const std::string& path : files) {
      auto file = std::make_unique<OpenFile>(path);
      if (file->bytes() == 0 || file->bytes() % bytes_ != 0)
        throw io_error(
            "{}: has {} bytes, which is not a multiple of {}'s {} bytes an image; cut off or damaged", path,
            file->bytes(), format.name, bytes_);
      count_ += file->bytes() / bytes_;
      ends_.push_back(count_);
      files_.push_back(std::move(file));
    }
  }

  std::int64_t count() const { return count_; }

  /// The image, then its labels.
  std::vector<Tensor> read(std::int64_t index) const {
    const auto f = static_cast<std::size_t>(std::ranges::upper_bound(ends_, index) - ends_.begin());
    const std::int64_t in_file = index - (f == 0 ? 0 : ends_[f - 1]);
    std::array<std::byte, 2 + image_bytes> record{};
    const std::span<std::byte> used(record.data(), static_cast<std::size_t>(bytes_));
    files_[f]->read(in_file * bytes_, used);
    std::vector<Tensor> values{image_of(used.subspan(static_cast<std::size_t>(format_.labels)))};
    for (std::size_t l = 0; l < static_cast<std::size_t>(format_.labels); ++l) {
      const int label = std::to_integer<int>(record[l]);
      if (label >= format_.classes[l])
        throw io_error("{}: label of image {} is {}, must be 0 to {}; damaged, or not {}", files_[f]->path(),
                       in_file, label, format_.classes[l] - 1, format_.name);
      Tensor t({DType::i32, {}});
      t.as<std::int32_t>()[0] = label;
      values.push_back(std::move(t));
    }
    return values;
  }

 private:
  static Tensor image_of(std::span<const std::byte> planes) {
    Tensor image({DType::u8, {side, side, 3}});
    std::byte* to = image.bytes().data();
    for (std::size_t p = 0; p < plane; ++p)
      for (std::size_t c = 0; c < 3; ++c) *to++ = planes[c * plane + p];
    return image;
  }

  CifarFormat format_;
  std::int64_t bytes_;
  std::int64_t count_ = 0;
  std::vector<std::int64_t> ends_;
  std::vector<std::unique_ptr<OpenFile>> files_;
};

}  // namespace

bool has_cifar(const std::string& directory, Cifar kind, CifarPart part) {
  return !find_files(directory, kind, part).empty();
}

Dataset cifar_dataset(const std::string& directory, Cifar kind, CifarPart part) {
  const CifarFormat format = format_of(kind);
  std::error_code why;
  if (!fs::is_directory(directory, why))
    throw io_error("{}: no such folder; name the one that holds {}", directory, format.name);
  const std::vector<std::string> files = find_files(directory, kind, part);
  if (files.empty())
    throw io_error("{}: has no {} of {}, nor has {}/{}", directory,
                   kind == Cifar::ten ? (part == CifarPart::test ? "test_batch.bin" : "data_batch_1.bin")
                                      : (part == CifarPart::test ? "test.bin" : "train.bin"),
                   format.name, directory, format.folder);
  const auto records = std::make_shared<const Records>(files, format);
  DataRows rows;
  rows.columns.push_back({"image", Type{DType::u8, {side, side, 3}}});
  for (const char* name :
       kind == Cifar::ten ? std::vector{"label"} : std::vector{"coarse_label", "fine_label"})
    rows.columns.push_back({name, Type{DType::i32, {}}});
  rows.count = [records] { return records->count(); };
  rows.row = [records](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= records->count()) return std::nullopt;
    return DataRow{.values = records->read(index), .epoch = epoch, .sample = index};
  };
  return Dataset::reading(std::move(rows));
}

NewFile written_cifar(const std::string& path, const CifarImages& data) {
  std::error_code why;
  if (fs::exists(path, why)) throw io_error("{}: is there already; remove it or choose another folder", path);
  NewFile out(path);
  std::string records;
  const std::byte* pixels = data.images.bytes().data();
  for (std::size_t i = 0; i < data.labels.size(); ++i, pixels += image_bytes) {
    if (data.kind == Cifar::hundred) records.push_back(static_cast<char>(data.coarse[i]));
    records.push_back(static_cast<char>(data.labels[i]));
    for (std::size_t c = 0; c < 3; ++c)
      for (std::size_t p = 0; p < plane; ++p) records.push_back(static_cast<char>(pixels[3 * p + c]));
  }
  out.write(records);
  return out;
}

}  // namespace shardwright
