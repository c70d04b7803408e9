#include "shardwright/base/attributes.h"

#include <fmt/format.h>

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/shape.h"

namespace shardwright {
namespace {

template <class T>
T get(const Attributes& attributes, std::string_view name, T otherwise, std::string_view kind) {
  const Attribute* a = attributes.find(name);
  if (!a) return otherwise;
  if (const T* value = std::get_if<T>(a)) return *value;
  throw error("attribute {}={} should be {}", name, to_text(*a), kind);
}

}  // namespace

Attributes::Attributes(std::initializer_list<std::pair<std::string, Attribute>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

const Attribute* Attributes::find(std::string_view name) const {
  for (const auto& [key, value] : entries_)
    if (key == name) return &value;
  return nullptr;
}

void Attributes::set(std::string name, Attribute value) {
  const auto at = std::lower_bound(entries_.begin(), entries_.end(), name,
                                   [](const auto& entry, const std::string& n) { return entry.first < n; });
  if (at != entries_.end() && at->first == name)
    at->second = std::move(value);
  else
    entries_.insert(at, {std::move(name), std::move(value)});
}

bool Attributes::flag(std::string_view name, bool otherwise) const {
  return get(*this, name, otherwise, "true or false");
}

std::int64_t Attributes::integer(std::string_view name, std::int64_t otherwise) const {
  return get(*this, name, otherwise, "an integer");
}

double Attributes::number(std::string_view name, double otherwise) const {
  const Attribute* a = find(name);
  if (a && std::holds_alternative<std::int64_t>(*a)) return static_cast<double>(std::get<std::int64_t>(*a));
  return get(*this, name, otherwise, "a number");
}

std::string Attributes::text(std::string_view name, std::string_view otherwise) const {
  return get(*this, name, std::string(otherwise), "a word");
}

std::vector<std::int64_t> Attributes::integers(std::string_view name) const {
  return get(*this, name, std::vector<std::int64_t>{}, "a list of integers");
}

std::string to_text(const Attribute& attribute) {
  if (const auto* list = std::get_if<std::vector<std::int64_t>>(&attribute)) return to_text(Shape(*list));
  if (const auto* b = std::get_if<bool>(&attribute)) return *b ? "true" : "false";
  if (const auto* i = std::get_if<std::int64_t>(&attribute)) return fmt::format("{}", *i);
  if (const auto* s = std::get_if<std::string>(&attribute)) return *s;
  const std::string number = fmt::format("{}", std::get<double>(attribute));
  // A double stays a double when it is read again.
  return number.find_first_of(".en") == std::string::npos ? number + ".0" : number;
}

std::string to_text(const Attributes& attributes) {
  std::string out;
  for (const auto& [name, value] : attributes)
    out += fmt::format("{}{}={}", out.empty() ? "" : ", ", name, to_text(value));
  return out.empty() ? out : "(" + out + ")";
}

}  // namespace shardwright
