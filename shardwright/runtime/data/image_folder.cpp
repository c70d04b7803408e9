#include "shardwright/runtime/data/image_folder.h"

#include <algorithm>
#include <filesystem>
#include <memory>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/runtime/data/image_file.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// The folders that a folder holds, or that links in it name, in the order of their names.
std::vector<fs::path> folders_in(const std::string& directory) {
  std::vector<fs::path> folders;
  std::error_code why, unknown;
  for (fs::directory_iterator entry(directory, why), end; !why && entry != end; entry.increment(why))
    if (fs::is_directory(entry->path(), unknown) && !entry->path().filename().string().starts_with("."))
      folders.push_back(entry->path());
  if (why) throw io_error("{}: cannot be read: {}", directory, why.message());
  std::ranges::sort(folders);
  return folders;
}

/// All images below; links to folders are not followed, so there is an end.
std::vector<std::string> images_below(const fs::path& folder) {
  std::vector<std::string> files;
  std::error_code why;
  for (fs::recursive_directory_iterator entry(folder, why), end; !why && entry != end; entry.increment(why)) {
    std::error_code unknown;
    if (is_image_name(entry->path().filename()) && !entry->is_directory(unknown))
      files.push_back(entry->path());
  }
  if (why) throw io_error("{}: cannot be read: {}", folder.string(), why.message());
  std::ranges::sort(files);
  return files;
}

}  // namespace

ImageFolder list_images(const std::string& directory) {
  std::error_code why;
  if (!fs::is_directory(directory, why))
    throw io_error("{}: no such folder; name the one that holds a folder of images for each class",
                   directory);
  ImageFolder out;
  for (const fs::path& folder : folders_in(directory)) {
    const std::vector<std::string> files = images_below(folder);
    if (files.empty())
      throw io_error("{}: holds no images (.png, .jpg, .ppm), but stands for a class", folder.string());
    for (const std::string& file : files) out.files.emplace_back(file, static_cast<int>(out.classes.size()));
    out.classes.push_back(folder.filename());
  }
  if (out.classes.empty())
    throw io_error("{}: has no folders; there must be one with images for each class", directory);
  return out;
}

bool has_image_folders(const std::string& directory) {
  std::error_code why;
  if (!fs::is_directory(directory, why)) return false;
  const std::vector<fs::path> folders = folders_in(directory);
  return !folders.empty() && !images_below(folders[0]).empty();
}

Dataset image_folder_dataset(const std::string& directory, Decoding decoding) {
  const auto listed = std::make_shared<const ImageFolder>(list_images(directory));
  const bool is_decoded = decoding == Decoding::now;
  DataRows rows;
  rows.columns = {{"image", Type{DType::u8, is_decoded ? Shape{any_size, any_size, 3} : Shape{any_size}}},
                  {"label", Type{DType::i32, {}}}};
  const auto count = static_cast<std::int64_t>(listed->files.size());
  rows.count = [count] { return count; };
  rows.row = [listed, count, is_decoded](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= count) return std::nullopt;
    const auto& [path, label] = listed->files[static_cast<std::size_t>(index)];
    Tensor of_class({DType::i32, {}});
    of_class.as<std::int32_t>()[0] = label;
    DataRow row{.values = {}, .epoch = epoch, .sample = index};
    row.values.push_back(is_decoded ? read_image(path) : read_whole(path, most_file_bytes));
    row.values.push_back(std::move(of_class));
    return row;
  };
  return Dataset::reading(std::move(rows));
}

}  // namespace shardwright
