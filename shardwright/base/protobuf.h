// Messages of protobuf as they lie in bytes, field by field, for formats of a few messages: no class is made of a schema.
//
// What is read is checked against the length of what holds it, so that no number in a file makes anything large.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace shardwright::protobuf {

struct Field {
  enum class Kind : std::uint8_t { number, bytes, fixed };
  int id = 0;
  Kind kind = Kind::number;
  std::uint64_t value = 0;  // of a number
  std::string_view bytes;   // of a message, a text, packed numbers, or a fixed width of 4 or 8

  /// Throws: Error where it is of another kind.
  std::int64_t number() const;
  std::string_view message() const;
  /// Throws: Error also where it is not UTF-8.
  std::string text() const;
  /// Of one occurrence of a repeated number: itself, or several that are packed.
  std::vector<std::int64_t> numbers() const;
};

/// Walks over the fields of a message, which outlives it.
class Reader {
 public:
  explicit Reader(std::string_view message) : left_(message) {}
  /// Nothing at the end. Throws: Error of what is no message.
  std::optional<Field> next();

 private:
  std::string_view left_;
};

/// Adds a field to a message.
void put(std::string& message, int id, std::int64_t number);
void put(std::string& message, int id, std::string_view bytes);

}  // namespace shardwright::protobuf
