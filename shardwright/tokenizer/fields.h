// What tokenizer.json says, read with its place in the file, so that a mistake is told as `normalizer.content: ...`.
#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/error.h"
#include "shardwright/base/unknown.h"

namespace shardwright {

/// Throws: Error if it is no JSON object, is nested too deep, or has a key twice in one object.
nlohmann::json parse_tokenizer_json(std::string_view text);

/// An object. It is read while the document lives.
class Fields {
 public:
  /// Throws: Error that begins with `where` if it is no object.
  Fields(const nlohmann::json& object, std::string where);

  const std::string& where() const { return where_; }
  /// `where.key`
  std::string place(std::string_view key) const;

  /// There, and not null.
  bool has(const std::string& key) const;
  std::string text(const std::string& key) const;
  std::string text(const std::string& key, std::string otherwise) const;
  bool flag(const std::string& key, bool otherwise) const;
  std::int64_t integer(const std::string& key, std::int64_t least, std::int64_t most) const;
  Fields object(const std::string& key) const;
  const nlohmann::json& array(const std::string& key) const;
  /// The elements of an array as objects.
  std::vector<Fields> objects(const std::string& key) const;
  const nlohmann::json& value(const std::string& key) const;
  const nlohmann::json& json() const { return *object_; }

  /// Throws: Error that names the first key that is not among these: it could change the tokens.
  void check_known(const std::vector<std::string>& keys) const;

  template <class... A>
  Error wrong(std::string_view key, fmt::format_string<A...> text, A&&... a) const {
    return error("{}: {}", place(key), fmt::format(text, std::forward<A>(a)...));
  }

 private:
  const nlohmann::json* object_;
  std::string where_;
};

/// What `kinds` makes of the object's `type`. Throws: Error that names a kind that is not among them.
template <class Kinds>
auto made_of_kind(const Kinds& kinds, const Fields& fields, std::string_view what) {
  const std::string kind = fields.text("type");
  const auto found = kinds.find(kind);
  if (found != kinds.end()) return found->second(fields);
  std::vector<std::string> known;
  for (const auto& [name, make] : kinds) known.push_back(name);
  throw with_context(unknown(what, kind, known), fields.place("type"));
}

}  // namespace shardwright
