#include "shardwright/plan/json_text.h"

#include <algorithm>
#include <limits>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// Before anything is kept, as only then a key that stands twice can be told.
void check_sizes_and_keys(std::string_view text) {
  constexpr int deepest = 32;
  constexpr std::size_t most_keys = 65536;
  std::vector<std::set<std::string>> keys;  // per depth, of the object that is open there
  const auto check = [&](int depth, Json::parse_event_t event, Json& parsed) {
    const auto inside = static_cast<std::size_t>(depth);
    if (event == Json::parse_event_t::object_start || event == Json::parse_event_t::array_start) {
      if (depth >= deepest) throw error("is nested more than {} deep", deepest);
      keys.resize(inside + 1);
      keys.emplace_back();
    }
    if (event == Json::parse_event_t::key) {
      if (!keys.at(inside).insert(parsed.get<std::string>()).second)
        throw error("key {} stands twice in one object", short_text(parsed));
      if (keys.at(inside).size() > most_keys)
        throw error("an object has more than {} keys, which is the most that are read", most_keys);
    }
    return false;  // nothing is kept
  };
  [[maybe_unused]] const Json nothing = Json::parse(text, check);
}

/// Keeps what is read. The library's own looks through an object for every key that it puts into it.
class JsonKeeper {
 public:
  Json take() { return std::move(root_); }

  bool null() { return put(nullptr); }
  bool boolean(bool said) { return put(said); }
  bool number_integer(Json::number_integer_t number) { return put(number); }
  bool number_unsigned(Json::number_unsigned_t number) { return put(number); }
  bool number_float(Json::number_float_t number, const std::string&) { return put(number); }
  bool string(std::string& text) { return put(std::move(text)); }
  bool binary(Json::binary_t& bytes) { return put(std::move(bytes)); }
  bool key(std::string& name) { return key_ = std::move(name), true; }
  bool start_object(std::size_t) { return open(Json::object()); }
  bool start_array(std::size_t) { return open(Json::array()); }
  bool end_object() { return open_.pop_back(), true; }
  bool end_array() { return open_.pop_back(), true; }
  template <class Exception>
  bool parse_error(std::size_t, const std::string&, const Exception& e) {
    throw e;
  }

 private:
  Json& added(Json value) {
    if (open_.empty()) return root_ = std::move(value);
    Json& inside = *open_.back();  // it does not move while it is open: nothing is put beside it
    if (inside.is_array()) return inside.get_ref<Json::array_t&>().emplace_back(std::move(value));
    return inside.get_ref<Json::object_t&>().emplace_back(std::move(key_), std::move(value)).second;
  }
  bool put(Json value) { return added(std::move(value)), true; }
  bool open(Json value) { return open_.push_back(&added(std::move(value))), true; }

  Json root_;
  std::string key_;
  std::vector<Json*> open_;
};

}  // namespace

Json parse_json(std::string_view text) {
  try {
    check_sizes_and_keys(text);
    JsonKeeper keeper;
    Json::sax_parse(text, &keeper);
    return keeper.take();
  } catch (const Json::exception& e) {
    const std::string_view why = e.what();  // `[json...] parse error at line 1, column 2: ...`
    const std::size_t place = why.find("at line");
    throw error("not valid JSON {}", place == why.npos ? why : why.substr(place));
  }
}

std::optional<std::int64_t> integer_in(const Json& value) {
  if (!value.is_number_integer()) return std::nullopt;
  if (value.is_number_unsigned() &&
      value.get<std::uint64_t>() > static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max()))
    return std::nullopt;
  return value.get<std::int64_t>();
}

std::optional<double> number_in(const Json& value) {
  return value.is_number() ? std::optional(value.get<double>()) : std::nullopt;  // there is no NaN in JSON
}

void check_keys(const Json& object, const std::vector<std::string>& known) {
  for (const auto& [key, value] : object.items())
    if (std::find(known.begin(), known.end(), key) == known.end())
      throw error("key \"{}\" is unknown{}; there are {}", key, near_names(key, known), join(known, ", "));
}

void check_keys(const Json& object, std::string_view where, const std::vector<std::string>& known) try {
  check_keys(object, known);
} catch (const Error& e) {
  throw with_context(e, fmt::format("\"{}\"", where));
}

std::string short_text(const Json& value) {
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', true);
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

}  // namespace shardwright
