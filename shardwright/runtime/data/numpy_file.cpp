#include "shardwright/runtime/data/numpy_file.h"

#include <array>
#include <cstring>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// What stands behind `'key': ` in a header of numpy's.
std::string numpy_value(const std::string& header, const std::string& key, char first, char last) {
  const std::size_t at = header.find("'" + key + "': ");
  const std::size_t start = at == std::string::npos ? at : header.find(first, at + key.size() + 4);
  const std::size_t end = start == std::string::npos ? start : header.find(last, start + 1);
  return end == std::string::npos ? "" : header.substr(start + 1, end - start - 1);
}

/// Throws: Error with the text of the dims if they are none, or are of more numbers than `most`.
Shape shape_of(const OpenFile& file, const std::string& dims, std::int64_t most) {
  Shape out;
  std::int64_t count = 1;
  for (const std::string_view part : split(std::string_view(dims), ',')) {
    if (trim(part).empty()) continue;
    const auto size = to_integer(trim(part));
    if (!size || *size < 0) throw io_error("{}: has dims ({}); damaged", file.path(), dims);
    if (*size > 0 && count > most / *size)
      throw io_error("{}: claims numbers of dims ({}), but holds {}; truncated or damaged", file.path(), dims,
                     most);
    count *= *size;
    out.push_back(*size);
  }
  return out;
}

}  // namespace

NumpyHead numpy_head(const OpenFile& file) {
  const auto refuse = [&](const std::string& why) { return io_error("{}: {}", file.path(), why); };
  std::array<std::byte, 12> start{};
  file.read(0, std::span(start).first(10));
  if (std::memcmp(start.data(), "\x93NUMPY", 6) != 0) throw refuse("is no file of numpy's, as its name says");
  const bool is_long = std::to_integer<int>(start[6]) > 1;
  if (is_long) file.read(0, start);
  std::uint32_t length = 0;
  for (std::size_t b = 0; b < (is_long ? 4U : 2U); ++b)
    length |= std::to_integer<std::uint32_t>(start[8 + b]) << 8 * b;
  if (length > 65536) throw refuse("has a header that is too long; damaged");
  std::string header(length, ' ');
  const std::int64_t header_at = is_long ? 12 : 10;
  file.read(header_at, std::as_writable_bytes(std::span(header)));
  NumpyHead out{.type = numpy_value(header, "descr", '\'', '\''), .start = header_at + length};
  out.is_fortran = header.find("'fortran_order': True") != std::string::npos;
  // `<f4`: how bytes are ordered, the kind, and bytes of a number
  const auto width = out.type.size() == 3 ? to_integer(std::string_view(out.type).substr(2)) : std::nullopt;
  if (!width || *width < 1) throw refuse(fmt::format("holds '{}', which are no numbers", out.type));
  out.width = *width;
  const std::int64_t held = (file.bytes() - out.start) / out.width;
  out.shape = shape_of(file, numpy_value(header, "shape", '(', ')'), held);
  if (element_count(out.shape) != held)
    throw refuse(
        fmt::format("claims {} numbers, but holds {}; truncated or damaged", element_count(out.shape), held));
  return out;
}

}  // namespace shardwright
