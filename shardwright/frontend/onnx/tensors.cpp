#include "shardwright/frontend/onnx/tensors.h"

#include <algorithm>
#include <cerrno>
#include <fstream>
#include <optional>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/onnx/limits.h"
#include "shardwright/frontend/onnx/part_of_file.h"
#include "shardwright/frontend/onnx/reading.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

// ---- external data ----

/// The file that `location` names. Throws: Error unless it is a regular file inside `folder`, links followed.
fs::path inside(const fs::path& folder, const std::string& location) {
  const fs::path relative(location);
  const bool climbs = std::find(relative.begin(), relative.end(), "..") != relative.end();
  if (location.empty() || relative.is_absolute() || climbs || location.find('\0') != std::string::npos)
    throw error("external data '{}' is not inside the model's folder", printable(location));
  std::error_code none;
  const fs::path home = fs::canonical(folder.empty() ? "." : folder, none);
  const fs::path file = fs::canonical(home / relative, none);
  if (none) throw io_error("external data '{}' cannot be read: {}", printable(location), none.message());
  const auto [end, rest] = std::mismatch(home.begin(), home.end(), file.begin(), file.end());
  if (end != home.end())
    throw error("external data '{}' is a link to outside the model's folder", printable(location));
  if (!fs::is_regular_file(file, none)) throw error("external data '{}' is no file", printable(location));
  return file;
}

std::int64_t offset_in(const std::string& key, const std::string& text) {
  const auto n = to_integer(text);
  if (!n || *n < 0) throw error("external data has {}='{}', which is no offset", key, printable(text));
  return *n;
}

/// Where the `bytes` bytes of an external tensor lie.
Extent extent_of(const onnx::TensorProto& tensor, std::int64_t bytes, const fs::path& folder) {
  std::string location;
  std::int64_t offset = 0;
  std::optional<std::int64_t> length;
  for (const auto& entry : tensor.external_data()) {
    if (entry.key() == "location")
      location = entry.value();
    else if (entry.key() == "offset")
      offset = offset_in("offset", entry.value());
    else if (entry.key() == "length")
      length = offset_in("length", entry.value());
    else if (entry.key() != "checksum")
      throw error("external data has a key '{}', which is unknown", printable(entry.key()));
  }
  if (length && *length != bytes) throw error("needs {} bytes but its external data has {}", bytes, *length);
  Extent extent{inside(folder, location), offset, bytes, 0};
  const std::int64_t all = readable_bytes(extent.path.string());
  if (offset > all || bytes > all - offset)
    throw error("needs {} bytes from offset {} on, but its external data '{}' has {}", bytes, offset,
                printable(location), all);
  extent.file_bytes = all;
  return extent;
}

void read_extent(const Extent& extent, std::span<std::byte> to) {
  std::ifstream in(extent.path, std::ios::binary);
  in.seekg(extent.offset);
  in.read(reinterpret_cast<char*>(to.data()), static_cast<std::streamsize>(to.size()));
  if (!in) throw unreadable(extent.path.string(), errno);
}

// ---- data in the file ----

/// Throws: Error of kind io if the file is another than it was.
void read_part(const PartOfFile& part, std::span<std::byte> to) {
  if (stamp_of(part.file.path) != part.file)
    throw io_error("{}: has changed since the model was read", part.file.path);
  read_extent({part.file.path, part.offset, part.bytes, part.file.bytes}, to);
}

/// Elements in the list that is for the type.
std::int64_t listed(const onnx::TensorProto& tensor, DType dtype) {
  switch (dtype) {
    case DType::f32: return tensor.float_data_size();
    case DType::f64: return tensor.double_data_size();
    case DType::i64: return tensor.int64_data_size();
    default: return tensor.int32_data_size();
  }
}

template <class T, class List>
void copy_list(const List& from, std::span<T> to) {
  std::transform(from.begin(), from.end(), to.begin(), [](auto x) {
    if constexpr (std::is_same_v<T, F16> || std::is_same_v<T, BF16>) {
      T half;
      half.bits = static_cast<std::uint16_t>(x);
      return half;
    } else {
      return static_cast<T>(x);
    }
  });
}

void read_list(const onnx::TensorProto& tensor, Tensor& out) {
  visit(out.dtype(), [&]<class T>(std::type_identity<T>) {
    if constexpr (std::is_same_v<T, float>)
      copy_list(tensor.float_data(), out.as<T>());
    else if constexpr (std::is_same_v<T, double>)
      copy_list(tensor.double_data(), out.as<T>());
    else if constexpr (std::is_same_v<T, std::int64_t>)
      copy_list(tensor.int64_data(), out.as<T>());
    else
      copy_list(tensor.int32_data(), out.as<T>());
  });
}

/// A byte that is neither 0 nor 1 is no bool.
void make_booleans(std::span<std::byte> bytes) {
  for (std::byte& b : bytes) b = b == std::byte{0} ? std::byte{0} : std::byte{1};
}

}  // namespace

bool is_external(const onnx::TensorProto& tensor) {
  return tensor.data_location() == onnx::TensorProto::EXTERNAL;
}

DType dtype_of_onnx(std::int32_t type) {
  switch (type) {
    case onnx::TensorProto::FLOAT: return DType::f32;
    case onnx::TensorProto::DOUBLE: return DType::f64;
    case onnx::TensorProto::FLOAT16: return DType::f16;
    case onnx::TensorProto::BFLOAT16: return DType::bf16;
    case onnx::TensorProto::INT32: return DType::i32;
    case onnx::TensorProto::INT64: return DType::i64;
    case onnx::TensorProto::UINT8: return DType::u8;
    case onnx::TensorProto::BOOL: return DType::boolean;
    default: break;
  }
  const bool is_known = onnx::TensorProto::DataType_IsValid(type);
  throw error("the element type {} is not supported",
              is_known ? onnx::TensorProto::DataType_Name(static_cast<onnx::TensorProto::DataType>(type))
                       : std::to_string(type));
}

void check_limits(const Shape& shape, std::int64_t least) {
  if (shape.size() > limits::rank)
    throw error("has {} dims but at most {} are supported", shape.size(), limits::rank);
  for (std::int64_t d : shape)
    if (d < least) throw error("is of shape {}, but dims start at {}", to_text(shape), least);
  if (element_count(shape) > limits::elements)
    throw error("is of shape {}, which is more than {} elements", to_text(shape), limits::elements);
}

Type checked_type(const onnx::TensorProto& tensor, const fs::path& folder) {
  Type type{dtype_of_onnx(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}};
  if (tensor.has_segment()) throw error("is stored in segments, which is not supported");
  check_limits(type.shape, 0);
  if (is_external(tensor)) {
    extent_of(tensor, type.bytes(), folder);
  } else if (const auto part = part_of_file(tensor); part || tensor.has_raw_data()) {
    const std::int64_t bytes = part ? part->bytes : std::ssize(tensor.raw_data());
    if (bytes != type.bytes())
      throw error("is {}, {} bytes, but the file holds {}", to_text(type), type.bytes(), bytes);
  } else if (listed(tensor, type.dtype) != element_count(type.shape)) {
    throw error("is {}, {} elements, but the file holds {}", to_text(type), element_count(type.shape),
                listed(tensor, type.dtype));
  }
  return type;
}

std::optional<Extent> external_extent(const onnx::TensorProto& tensor, const fs::path& folder) {
  if (!is_external(tensor)) return std::nullopt;
  const Type type{dtype_of_onnx(tensor.data_type()), {tensor.dims().begin(), tensor.dims().end()}};
  return extent_of(tensor, type.bytes(), folder);
}

Tensor read_tensor(const onnx::TensorProto& tensor, const fs::path& folder) {
  Tensor out(checked_type(tensor, folder));
  if (is_external(tensor))
    read_extent(extent_of(tensor, out.type().bytes(), folder), out.bytes());
  else if (const auto part = part_of_file(tensor))
    read_part(*part, out.bytes());
  else if (tensor.has_raw_data())
    std::ranges::copy(std::as_bytes(std::span(tensor.raw_data())), out.bytes().begin());
  else
    read_list(tensor, out);
  if (out.dtype() == DType::boolean) make_booleans(out.bytes());
  return out;
}

}  // namespace shardwright
