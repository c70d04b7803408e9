#include "shardwright/frontend/huggingface/config.h"

#include <algorithm>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"

namespace shardwright::huggingface {

Config::Config(std::string path, Json object, std::string prefix)
    : path_(std::move(path)), prefix_(std::move(prefix)), object_(std::move(object)) {}

Config Config::read(const std::string& path) {
  const std::string text = read_text(path, most_settings_bytes);
  try {
    Json json = parse_json(text);
    if (!json.is_object()) throw error("is {} but should be an object", short_text(json));
    return {path, std::move(json)};
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

Error Config::wrong(const std::string& key, const std::string& should) const {
  const auto it = object_.find(key);
  return error("{}: \"{}{}\" is {} but should be {}", path_, prefix_, key,
               it == object_.end() ? "missing" : short_text(*it), should);
}

const Json* Config::find(const std::string& key) const {
  read_->insert(key);
  const auto it = object_.find(key);
  return it == object_.end() || it->is_null() ? nullptr : &*it;
}

const Json& Config::at(const std::string& key) const {
  if (const Json* value = find(key)) return *value;
  throw error("{}: has no \"{}{}\"", path_, prefix_, key);
}

bool Config::has(const std::string& key) const { return find(key) != nullptr; }

std::int64_t Config::integer(const std::string& key, std::int64_t least, std::int64_t most) const {
  const auto value = integer_in(at(key));
  if (!value || *value < least || *value > most)
    throw wrong(key, fmt::format("an integer from {} to {}", least, most));
  return *value;
}

std::optional<std::int64_t> Config::given_integer(const std::string& key, std::int64_t least,
                                                  std::int64_t most) const {
  return has(key) ? std::optional(integer(key, least, most)) : std::nullopt;
}

std::int64_t Config::integer_or(const std::string& key, std::int64_t otherwise, std::int64_t least,
                                std::int64_t most) const {
  return given_integer(key, least, most).value_or(otherwise);
}

double Config::number(const std::string& key) const {
  const auto value = number_in(at(key));
  if (!value) throw wrong(key, "a number");
  return *value;
}

double Config::number_or(const std::string& key, double otherwise) const {
  return has(key) ? number(key) : otherwise;
}

bool Config::flag_or(const std::string& key, bool otherwise) const {
  const Json* value = find(key);
  if (value && !value->is_boolean()) throw wrong(key, "true or false");
  return value ? value->get<bool>() : otherwise;
}

std::string Config::text_or(const std::string& key, const std::string& otherwise) const {
  const Json* value = find(key);
  if (value && !value->is_string()) throw wrong(key, "a word");
  return value ? value->get<std::string>() : otherwise;
}

std::vector<std::string> Config::texts(const std::string& key) const {
  std::vector<std::string> out;
  const Json* value = find(key);
  if (!value) return out;
  if (!value->is_array() || !std::ranges::all_of(*value, [](const Json& one) { return one.is_string(); }))
    throw wrong(key, "a list of words");
  for (const Json& one : *value) out.push_back(one.get<std::string>());
  return out;
}

std::vector<double> Config::numbers(const std::string& key) const {
  std::vector<double> out;
  const Json& value = at(key);
  if (!value.is_array()) throw wrong(key, "a list of numbers");
  for (const Json& one : value) {
    const auto number = number_in(one);
    if (!number) throw wrong(key, "a list of numbers");
    out.push_back(*number);
  }
  return out;
}

std::optional<Config> Config::inside(const std::string& key) const {
  const Json* value = find(key);
  if (!value) return std::nullopt;
  if (!value->is_object()) throw wrong(key, "an object");
  return Config(path_, *value, prefix_ + key + ".");
}

Json Config::json_of(const std::string& key) const {
  const Json* value = find(key);
  return value ? *value : Json(nullptr);
}

std::optional<std::int64_t> Config::size_of_object(const std::string& key) const {
  const std::optional<Config> object = inside(key);
  return object ? std::optional(static_cast<std::int64_t>(object->object_.size())) : std::nullopt;
}

void Config::only(const std::string& key, const Json& value, const std::string& why) const {
  const Json* said = find(key);
  if (!said || *said == value) return;
  throw error("{}: \"{}{}\" is {}, which is not supported: {}; {} is", path_, prefix_, key, short_text(*said),
              why, short_text(value));
}

void Config::pass_over(const std::vector<std::string>& keys) const {
  read_->insert(keys.begin(), keys.end());
}

void Config::check_all_read() const {
  for (const auto& [key, value] : object_.items())
    if (!read_->contains(key) && !value.is_null())
      throw error(
          "{}: \"{}{}\" is {}, which is not understood; it may change what the network computes, so take the "
          "key out "
          "only if it does not",
          path_, prefix_, key, short_text(value));
}

}  // namespace shardwright::huggingface
