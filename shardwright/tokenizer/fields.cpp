#include "shardwright/tokenizer/fields.h"

#include <algorithm>
#include <unordered_set>

#include "shardwright/base/text.h"

namespace shardwright {

namespace {

constexpr int deepest = 32;

std::string shown(const nlohmann::json& value) {
  const std::string text = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

nlohmann::json parsed(std::string_view text) {
  std::vector<std::unordered_set<std::string>> keys;  // of the objects that are open
  const auto look = [&](int depth, nlohmann::json::parse_event_t event, nlohmann::json& part) {
    if (event == nlohmann::json::parse_event_t::object_start ||
        event == nlohmann::json::parse_event_t::array_start) {
      if (depth >= deepest) throw error("is nested more than {} deep", deepest);
      keys.resize(static_cast<std::size_t>(depth) + 1);
      keys.emplace_back();
    }
    if (event == nlohmann::json::parse_event_t::key &&
        !keys.at(static_cast<std::size_t>(depth)).insert(part.get<std::string>()).second)
      throw error("key {} stands twice in one object", shown(part));
    return true;
  };
  return nlohmann::json::parse(text, look);
}

}  // namespace

nlohmann::json parse_tokenizer_json(std::string_view text) try {
  return parsed(text);
} catch (const nlohmann::json::parse_error& e) {
  const std::size_t end = std::min(e.byte, text.size());
  const auto line = 1 + std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(end), '\n');
  throw error("is no JSON: line {}, byte {} is not what should stand there", line, e.byte);
} catch (const nlohmann::json::exception& e) {
  throw error("is no JSON: {}", e.what());
}

Fields::Fields(const nlohmann::json& object, std::string where) : object_(&object), where_(std::move(where)) {
  if (!object.is_object())
    throw error("{}: is {}, must be an object", where_.empty() ? "it" : where_, shown(object));
}

std::string Fields::place(std::string_view key) const {
  return where_.empty() ? std::string(key) : fmt::format("{}.{}", where_, key);
}

bool Fields::has(const std::string& key) const {
  const auto found = object_->find(key);
  return found != object_->end() && !found->is_null();
}

const nlohmann::json& Fields::value(const std::string& key) const {
  if (!has(key)) throw wrong(key, "is missing");
  return object_->at(key);
}

std::string Fields::text(const std::string& key) const {
  const nlohmann::json& v = value(key);
  if (!v.is_string()) throw wrong(key, "is {}, must be a text", shown(v));
  return v.get<std::string>();
}

std::string Fields::text(const std::string& key, std::string otherwise) const {
  return has(key) ? text(key) : otherwise;
}

bool Fields::flag(const std::string& key, bool otherwise) const {
  if (!has(key)) return otherwise;
  const nlohmann::json& v = value(key);
  if (!v.is_boolean()) throw wrong(key, "is {}, must be true or false", shown(v));
  return v.get<bool>();
}

std::int64_t Fields::integer(const std::string& key, std::int64_t least, std::int64_t most) const {
  const nlohmann::json& v = value(key);
  const bool fits = v.is_number_unsigned() ? v.get<std::uint64_t>() <= static_cast<std::uint64_t>(most)
                                           : v.is_number_integer() && v.get<std::int64_t>() <= most;
  if (!fits || v.get<std::int64_t>() < least)
    throw wrong(key, "is {}, must be an integer from {} to {}", shown(v), least, most);
  return v.get<std::int64_t>();
}

Fields Fields::object(const std::string& key) const { return {value(key), place(key)}; }

const nlohmann::json& Fields::array(const std::string& key) const {
  const nlohmann::json& v = value(key);
  if (!v.is_array()) throw wrong(key, "is {}, must be an array", shown(v));
  return v;
}

std::vector<Fields> Fields::objects(const std::string& key) const {
  std::vector<Fields> out;
  for (const nlohmann::json& element : array(key))
    out.emplace_back(element, fmt::format("{}[{}]", place(key), out.size()));
  return out;
}

void Fields::check_known(const std::vector<std::string>& keys) const {
  for (const auto& [key, v] : object_->items())
    if (std::ranges::find(keys, key) == keys.end())
      throw error("{}: is not understood{}; there are {}", place(key), near_names(key, keys),
                  join(keys, ", "));
}

}  // namespace shardwright
