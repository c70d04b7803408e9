#include "shardwright/base/given.h"

#include <algorithm>
#include <cctype>

#include "shardwright/base/text.h"

namespace shardwright {
namespace {

/// Written as an integer, however large.
bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

std::int64_t Given::integer(std::int64_t least, std::int64_t most) const {
  const auto n = to_integer(text);
  if (text.size() > 1 && text[0] == '0' && is_digits(text))  // octal to some readers
    throw wrong("should be an integer without zeros in front");
  if (n && *n >= least && *n <= most) return *n;
  const bool is_too_large = n ? *n > most : is_digits(text);
  throw wrong(fmt::format("should be an integer from {} on{}", least,
                          is_too_large || most < 1LL << 40 ? fmt::format(", at most {}", most) : ""));
}

double Given::number() const {
  const auto x = to_number(text);
  if (!x) throw wrong("should be a number");
  return *x;
}

std::size_t Given::word(std::span<const std::string_view> words) const {
  const auto it = std::find(words.begin(), words.end(), text);
  if (it != words.end()) return static_cast<std::size_t>(it - words.begin());
  const std::vector<std::string> all(words.begin(), words.end());
  throw wrong(fmt::format("there are {}", join(all, ", ")));
}

}  // namespace shardwright
