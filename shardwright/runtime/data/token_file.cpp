#include "shardwright/runtime/data/token_file.h"

#include <array>
#include <cstring>
#include <limits>
#include <memory>
#include <optional>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/data/open_file.h"

namespace shardwright {
namespace {

/// How tokens lie in a file.
struct Lay {
  std::int64_t start = 0;
  std::int64_t count = 0;
  std::int64_t bytes = 2;
  bool is_signed = false;
};

constexpr std::int32_t header_magic = 20240520;
constexpr std::int64_t header_bytes = 1024;

std::optional<Lay> lay_of_header(const OpenFile& file) {
  std::array<std::int32_t, 3> header{};
  if (file.bytes() < header_bytes) return std::nullopt;
  file.read(0, std::as_writable_bytes(std::span(header)));
  if (header[0] != header_magic) return std::nullopt;
  if (header[1] != 1) throw io_error("{}: is of version {}; version 1 is read", file.path(), header[1]);
  const std::int64_t count = (file.bytes() - header_bytes) / 2;
  if (header[2] != count || file.bytes() % 2 != 0)
    throw io_error("{}: claims {} tokens, but holds {}; truncated or damaged", file.path(), header[2], count);
  return Lay{header_bytes, count, 2};
}

/// What stands behind `'key': ` in a header of numpy's.
std::string numpy_value(const std::string& header, const std::string& key, char first, char last) {
  const std::size_t at = header.find("'" + key + "': ");
  const std::size_t start = at == std::string::npos ? at : header.find(first, at + key.size() + 4);
  const std::size_t end = start == std::string::npos ? start : header.find(last, start + 1);
  return end == std::string::npos ? "" : header.substr(start + 1, end - start - 1);
}

Lay lay_of_numpy(const OpenFile& file) {
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
  const std::string type = numpy_value(header, "descr", '\'', '\''),
                    dims = numpy_value(header, "shape", '(', ')');
  if (type != "|u1" && type != "<u2" && type != "<u4" && type != "<i4" && type != "<i8")
    throw refuse(
        fmt::format("holds numbers of type '{}'; tokens are uint8, uint16, uint32, int32 or int64", type));
  const std::size_t comma = dims.find(',');
  const auto count = to_integer(dims.substr(0, comma));
  if (comma == std::string::npos || comma + 1 != dims.size() || !count || *count < 0)
    throw refuse(fmt::format("has dims ({}); tokens lie along one", dims));
  const Lay lay{header_at + length, *count, type[2] - '0', type[1] == 'i'};
  if (lay.count != (file.bytes() - lay.start) / lay.bytes)
    throw refuse(fmt::format("claims {} tokens, but holds {}; truncated or damaged", lay.count,
                             (file.bytes() - lay.start) / lay.bytes));
  return lay;
}

Lay lay_of(const OpenFile& file, std::int64_t bytes) {
  if (file.path().ends_with(".npy")) return lay_of_numpy(file);
  if (const auto lay = lay_of_header(file)) return *lay;
  if (bytes != 2 && bytes != 4) throw error("tokens of {} bytes are not read; they take 2 or 4", bytes);
  if (file.bytes() % bytes != 0)
    throw io_error(
        "{}: has {} bytes, which is not a multiple of the {} bytes of a token; cut off, or its tokens have "
        "another size",
        file.path(), file.bytes(), bytes);
  return {0, file.bytes() / bytes, bytes};
}

std::int64_t token_at(const std::byte* at, const Lay& lay) {
  std::uint64_t bits = 0;
  std::memcpy(&bits, at, static_cast<std::size_t>(lay.bytes));
  return lay.is_signed && lay.bytes == 4 ? static_cast<std::int32_t>(bits) : static_cast<std::int64_t>(bits);
}

class Tokens {
 public:
  Tokens(const std::string& path, const TokenOptions& options)
      : file_(path), lay_(lay_of(file_, options.bytes)), options_(options) {
    if (options.length < 1) throw error("tokens: samples of {} tokens; must be at least 1", options.length);
    if (count() < 1)
      throw io_error("{}: holds {} tokens; a sample of {} takes one more than that", path, lay_.count,
                     options.length);
  }
  std::int64_t count() const { return (lay_.count - 1) / options_.length; }

  std::vector<Tensor> read(std::int64_t index) const {
    const std::int64_t length = options_.length, first = index * length;
    std::vector<std::byte> bytes(static_cast<std::size_t>((length + 1) * lay_.bytes));
    file_.read(lay_.start + first * lay_.bytes, bytes);
    Tensor input({DType::i32, {length}}), label({DType::i32, {length}});
    std::int32_t *in = input.as<std::int32_t>().data(), *next = label.as<std::int32_t>().data();
    const std::int64_t most =
        options_.vocabulary > 0 ? options_.vocabulary : std::numeric_limits<std::int32_t>::max();
    for (std::int64_t i = 0; i <= length; ++i) {
      const std::int64_t token = token_at(bytes.data() + i * lay_.bytes, lay_);
      if (token < 0 || token >= most)
        throw io_error("{}: token {} is {}, must be 0 to {}", file_.path(), first + i, token, most - 1);
      if (i < length) in[i] = static_cast<std::int32_t>(token);
      if (i > 0) next[i - 1] = static_cast<std::int32_t>(token);
    }
    return {std::move(input), std::move(label)};
  }

 private:
  OpenFile file_;
  Lay lay_;
  TokenOptions options_;
};

}  // namespace

Dataset token_dataset(const std::string& path, const TokenOptions& options) {
  const auto tokens = std::make_shared<const Tokens>(path, options);
  DataRows rows;
  for (const char* name : {"input", "label"})
    rows.columns.push_back({name, Type{DType::i32, {options.length}}});
  rows.count = [tokens] { return tokens->count(); };
  rows.row = [tokens](std::int64_t epoch, std::int64_t index) -> std::optional<DataRow> {
    if (index >= tokens->count()) return std::nullopt;
    return DataRow{.values = tokens->read(index), .epoch = epoch, .sample = index};
  };
  return Dataset::reading(std::move(rows));
}

}  // namespace shardwright
