#include "shardwright/base/protobuf.h"

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright::protobuf {
namespace {

enum Wire : std::uint64_t { wire_number = 0, wire_fixed64 = 1, wire_bytes = 2, wire_fixed32 = 5 };

/// Takes it from the front.
std::uint64_t take_number(std::string_view& from) {
  std::uint64_t out = 0;
  for (int shift = 0; shift < 70; shift += 7) {
    if (from.empty()) throw error("the file ends in the middle of a number");
    const auto byte = static_cast<unsigned char>(from.front());
    from.remove_prefix(1);
    if (shift < 64) out |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
    if (byte < 0x80) return out;
  }
  throw error("a number takes more than ten bytes");
}

std::string_view take_bytes(std::string_view& from, std::uint64_t size) {
  if (size > from.size()) throw error("the file ends in the middle of an entry");
  const std::string_view out = from.substr(0, size);
  from.remove_prefix(size);
  return out;
}

void put_number(std::string& to, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) to.push_back(static_cast<char>(value | 0x80));
  to.push_back(static_cast<char>(value));
}

void put_key(std::string& to, int id, Wire wire) {
  put_number(to, static_cast<std::uint64_t>(id) << 3 | wire);
}

}  // namespace

std::int64_t Field::number() const {
  if (kind != Kind::number) throw error("there are bytes where a number should be");
  return static_cast<std::int64_t>(value);
}

std::string_view Field::message() const {
  if (kind != Kind::bytes) throw error("there is a number where a message should be");
  return bytes;
}

std::string Field::text() const {
  if (kind != Kind::bytes) throw error("there is a number where a text should be");
  if (end_of_utf8(bytes)) throw error("a name is not UTF-8");
  return std::string(bytes);
}

std::vector<std::int64_t> Field::numbers() const {
  if (kind != Kind::bytes) return {number()};
  std::vector<std::int64_t> out;
  for (std::string_view left = bytes; !left.empty();)
    out.push_back(static_cast<std::int64_t>(take_number(left)));
  return out;
}

std::optional<Field> Reader::next() {
  if (left_.empty()) return std::nullopt;
  const std::uint64_t key = take_number(left_);
  if (key >> 3 == 0 || key >> 32 != 0) throw error("a field has the number {}", key >> 3);
  Field out{.id = static_cast<int>(key >> 3)};
  switch (key & 7) {
    case wire_number: out.value = take_number(left_); return out;
    case wire_bytes: out.kind = Field::Kind::bytes; break;
    case wire_fixed32:
    case wire_fixed64: out.kind = Field::Kind::fixed; break;
    default: throw error("field {} is of wire type {}", out.id, key & 7);
  }
  const bool is_bytes = out.kind == Field::Kind::bytes;
  out.bytes = take_bytes(left_, is_bytes ? take_number(left_) : (key & 7) == wire_fixed32 ? 4 : 8);
  return out;
}

void put(std::string& message, int id, std::int64_t number) {
  put_key(message, id, wire_number);
  put_number(message, static_cast<std::uint64_t>(number));
}

void put(std::string& message, int id, std::string_view bytes) {
  put_key(message, id, wire_bytes);
  put_number(message, bytes.size());
  message.append(bytes);
}

}  // namespace shardwright::protobuf
