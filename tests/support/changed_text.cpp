#include "tests/support/changed_text.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <cstdlib>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "tests/support/draws.h"

namespace shardwright::testing {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* numbers[] = {"0",
                                   "1",
                                   "-1",
                                   "2",
                                   "3",
                                   "7",
                                   "64",
                                   "1000",
                                   "65537",
                                   "1048576",
                                   "2147483647",
                                   "2147483648",
                                   "4294967296",
                                   "4611686018427387905",
                                   "9223372036854775807",
                                   "-9223372036854775808",
                                   "9223372036854775808",
                                   "18446744073709551615",
                                   "99999999999999999999",
                                   "0.5",
                                   "-0.0",
                                   "32.9",
                                   "1e-300",
                                   "1e30",
                                   "1e300",
                                   "1e999",
                                   "nan",
                                   "inf"};

std::string some_number(Random& random) { return numbers[below(random, std::size(numbers))]; }

struct Range {
  std::size_t begin = 0;
  std::size_t end = 0;
};

/// Runs of characters for which `belongs` holds.
template <class F>
std::vector<Range> runs(const std::string& text, F belongs) {
  std::vector<Range> out;
  for (std::size_t i = 0; i < text.size();) {
    std::size_t end = i;
    while (end < text.size() && belongs(text[end])) ++end;
    if (end > i) out.push_back({i, end});
    i = end + 1;
  }
  return out;
}

std::vector<Range> words_of(const std::string& text) {
  return runs(text,
              [](char c) { return std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; });
}

std::vector<Range> lines_of(const std::string& text) {
  return runs(text, [](char c) { return c != '\n'; });
}

std::string cut_out(const std::string& text, Range r) { return text.substr(r.begin, r.end - r.begin); }

/// Brackets of one kind, up to a hundred thousand deep, around nothing or closed by nobody.
std::string nest(Random& random) {
  static constexpr std::pair<const char*, const char*> brackets[] = {
      {"[", "]"}, {"{", "}"}, {"{\"a\":", "}"}, {"(", ")"}, {"- ", ""}, {"sum() ", ""}, {"&a [*a, ", "]"}};
  const auto [open, close] = brackets[below(random, std::size(brackets))];
  const std::size_t depths[] = {2, 40, 1000, 100000};
  const std::size_t depth = depths[below(random, std::size(depths))];
  std::string out;
  for (std::size_t i = 0; i < depth; ++i) out += open;
  if (random() % 2)
    for (std::size_t i = 0; i < depth; ++i) out += close;
  return out;
}

void change_bytes(Random& random, std::string& text) {
  const std::size_t at = below(random, text.size());
  const std::size_t n = 1 + below(random, std::min<std::size_t>(text.size() - at, 40));
  switch (random() % 5) {
    case 0: text[at] = static_cast<char>(random()); return;
    case 1: text.resize(at); return;
    case 2: text.erase(at, n); return;
    case 3: text.insert(at, text.substr(below(random, text.size()), n)); return;
    default: text.insert(at, nest(random)); return;
  }
}

void change_lines(Random& random, std::string& text) {
  const std::vector<Range> lines = lines_of(text);
  if (lines.empty()) return;
  const Range a = lines[below(random, lines.size())], b = lines[below(random, lines.size())];
  const std::string one = cut_out(text, a), other = cut_out(text, b);
  switch (random() % 3) {
    case 0: text.erase(a.begin, a.end - a.begin); return;
    case 1: text.insert(a.begin, other + "\n"); return;
    default:
      if (a.begin > b.begin) return;
      text.replace(b.begin, other.size(), one);
      text.replace(a.begin, one.size(), other);
  }
}

/// A word becomes another one of the text, or a number.
void change_word(Random& random, std::string& text) {
  std::vector<Range> words = words_of(text);
  if (words.empty()) return;
  const bool is_number = random() % 2;
  if (is_number)
    std::erase_if(words, [&](Range r) { return !std::isdigit(static_cast<unsigned char>(text[r.begin])); });
  if (words.empty()) return;
  const Range r = words[below(random, words.size())];
  const std::string other = cut_out(text, words[below(random, words.size())]);
  text.replace(r.begin, r.end - r.begin, is_number && random() % 3 ? some_number(random) : other);
}

// ---- JSON ----

void collect(Json& json, std::vector<Json*>& out) {
  out.push_back(&json);
  if (json.is_structured())
    for (auto& item : json.items()) collect(item.value(), out);
}

Json some_value(Random& random, const std::vector<Json*>& all) {
  switch (random() % 8) {
    case 0: return *all[below(random, all.size())];
    case 1: return nullptr;
    case 2: return random() % 2 == 0;
    case 3: return Json::array();
    case 4: return Json::object();
    case 5: return random() % 2 ? "" : "dp";
    default: {
      const Json number = Json::parse(some_number(random), nullptr, false);
      return number.is_discarded() ? Json("none") : number;
    }
  }
}

/// Of an object or a list: takes an element out, doubles it, or swaps two.
void change_elements(Random& random, Json& json) {
  if (json.empty()) return;
  const std::size_t a = below(random, json.size()), b = below(random, json.size());
  const auto first = std::next(json.begin(), static_cast<std::ptrdiff_t>(a));
  const auto second = std::next(json.begin(), static_cast<std::ptrdiff_t>(b));
  switch (random() % 3) {
    case 0: json.erase(first); return;
    case 1: std::swap(*first, *second); return;
    default:
      if (json.is_array())
        json.push_back(Json(*first));
      else
        json[second.key() + "_2"] = Json(*first);
  }
}

}  // namespace

Random random_of(std::uint64_t seed) {
  seed += further_seeds();
  return Random(seed);
}

std::size_t below(Random& random, std::size_t n) { return n == 0 ? 0 : random() % n; }

std::string changed_text(Random& random, std::string text) {
  for (bool is_first = true; !text.empty() && (is_first || random() % 2); is_first = false) {
    switch (random() % 4) {
      case 0: change_bytes(random, text); break;
      case 1: change_lines(random, text); break;
      default: change_word(random, text); break;
    }
  }
  return text;
}

std::string changed_json(Random& random, const std::string& text) {
  Json json = Json::parse(text, nullptr, false);
  if (json.is_discarded()) return changed_text(random, text);
  std::vector<Json*> all;
  collect(json, all);
  Json& place = *all[below(random, all.size())];
  switch (random() % 4) {
    case 0:
      if (place.is_structured()) {
        change_elements(random, place);
        break;
      }
      [[fallthrough]];
    case 1: {
      Json outer = Json::array({place});
      place = random() % 4 ? some_value(random, all) : outer;
      break;
    }
    default: place = some_value(random, all); break;
  }
  return json.dump(1);
}

}  // namespace shardwright::testing
