#include "shardwright/frontend/onnx/part_of_file.h"

#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/onnx/fields.h"

namespace shardwright {

namespace fs = std::filesystem;

FileStamp stamp_of(const std::string& path) {
  std::error_code none;
  const auto written = fs::last_write_time(path, none);
  const auto bytes = fs::file_size(path, none);
  return {path, none ? 0 : static_cast<std::int64_t>(written.time_since_epoch().count()),
          none ? 0 : static_cast<std::int64_t>(bytes)};
}

std::string place_in_file(const FileStamp& file, std::int64_t offset, std::int64_t bytes) {
  return fmt::format("{} {} {} {} {}", offset, bytes, file.written, file.bytes, file.path);
}

std::optional<PartOfFile> part_of_file(const onnx::TensorProto& tensor) {
  const auto fields = newer_fields(tensor, part_of_file_field);
  if (fields.empty()) return std::nullopt;
  std::string_view rest = fields.back();  // as of a field that is given twice
  const auto number = [&] {
    const std::size_t end = rest.find(' ');
    const auto n = to_integer(std::string(rest.substr(0, end)));
    require(n.has_value() && end != rest.npos, "a tensor's place in its file is no number");
    rest.remove_prefix(end + 1);
    return *n;
  };
  PartOfFile out;
  out.offset = number();
  out.bytes = number();
  out.file.written = number();
  out.file.bytes = number();
  out.file.path = rest;
  return out;
}

}  // namespace shardwright
