// Named constants of a call: `(transpose_b=true, dims=[0, 1])`.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace shardwright {

using Attribute = std::variant<bool, std::int64_t, double, std::string, std::vector<std::int64_t>>;

/// A handful of (name, value), sorted by name.
class Attributes {
 public:
  Attributes() = default;
  Attributes(std::initializer_list<std::pair<std::string, Attribute>> list);

  bool empty() const { return entries_.empty(); }
  auto begin() const { return entries_.begin(); }
  auto end() const { return entries_.end(); }
  const Attribute* find(std::string_view name) const;
  void set(std::string name, Attribute value);

  /// The value, or `otherwise` when it is not there. An integer is also a double.
  /// Throws: Error if it has another type.
  bool flag(std::string_view name, bool otherwise = false) const;
  std::int64_t integer(std::string_view name, std::int64_t otherwise) const;
  double number(std::string_view name, double otherwise) const;
  std::string text(std::string_view name, std::string_view otherwise) const;
  std::vector<std::int64_t> integers(std::string_view name) const;

  bool operator==(const Attributes&) const = default;

 private:
  std::vector<std::pair<std::string, Attribute>> entries_;
};

/// `(dims=[0, 1], keep=true)`, nothing when empty.
std::string to_text(const Attributes& attributes);
std::string to_text(const Attribute& attribute);

}  // namespace shardwright
