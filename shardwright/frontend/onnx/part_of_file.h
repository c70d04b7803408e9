// Elements of large tensors stay in the ONNX file until they are asked for. The parsed message of such a tensor has a field
// that no file has, which says where they are.
#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "shardwright/frontend/onnx/messages.h"

namespace shardwright {

constexpr int part_of_file_field = 1000;

/// A file as it was when it was read.
struct FileStamp {
  std::string path;
  std::int64_t written = 0, bytes = 0;
  bool operator==(const FileStamp&) const = default;
};
FileStamp stamp_of(const std::string& path);

struct PartOfFile {
  FileStamp file;
  std::int64_t offset = 0, bytes = 0;
};

/// The bytes of that field.
std::string place_in_file(const FileStamp& file, std::int64_t offset, std::int64_t bytes);
/// Nothing if the elements are in the message, or nowhere.
std::optional<PartOfFile> part_of_file(const onnx::TensorProto& tensor);

}  // namespace shardwright
