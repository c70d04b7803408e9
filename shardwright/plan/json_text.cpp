#include "shardwright/plan/json_text.h"

#include <set>

#include "shardwright/base/error.h"

namespace shardwright {

Json parse_json(std::string_view text) {
  std::vector<std::set<std::string>> keys;  // of the objects that are open
  const auto check = [&](int, Json::parse_event_t event, Json& parsed) {
    if (event == Json::parse_event_t::object_start) keys.emplace_back();
    if (event == Json::parse_event_t::object_end) keys.pop_back();
    if (event == Json::parse_event_t::key && !keys.back().insert(parsed.get<std::string>()).second)
      throw error("key {} stands twice in one object", short_text(parsed));
    return true;
  };
  try {
    return Json::parse(text, check);
  } catch (const Json::exception& e) {
    const std::string_view why = e.what();  // `[json...] parse error at line 1, column 2: ...`
    const std::size_t place = why.find("at line");
    throw error("not valid JSON {}", place == why.npos ? why : why.substr(place));
  }
}

std::string short_text(const Json& value) {
  constexpr std::size_t longest = 60;
  std::string text = value.dump(-1, ' ', true);
  return text.size() > longest ? text.substr(0, longest) + "..." : text;
}

}  // namespace shardwright
