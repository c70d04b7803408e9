// What flags say, and which of them had an effect.

#include <algorithm>
#include <cctype>
#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"

namespace shardwright {
namespace {

/// Written as an integer, however large.
bool is_digits(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return std::isdigit(static_cast<unsigned char>(c)) != 0;
  });
}

}  // namespace

bool Arguments::is_on(const std::string& flag) const {
  heed(flag);
  return has(flag);
}

std::string Arguments::text(const std::string& flag, const std::string& otherwise) const {
  heed(flag);
  const auto it = flags.find(flag);
  return it == flags.end() ? otherwise : it->second;
}

std::int64_t Arguments::integer(const std::string& flag, std::int64_t otherwise, std::int64_t least,
                                std::int64_t most) const {
  if (!has(flag)) return otherwise;
  const std::string given = text(flag);
  const auto n = to_integer(given);
  if (given.size() > 1 && given[0] == '0' && is_digits(given))  // octal to some readers
    throw error("{} {}: should be an integer without zeros in front", called(flag), given);
  if (n && *n >= least && *n <= most) return *n;
  const bool is_too_large = n ? *n > most : is_digits(given);
  throw error("{} {}: should be an integer from {} on{}", called(flag), given, least,
              is_too_large || most < 1LL << 40 ? fmt::format(", at most {}", most) : "");
}

double Arguments::number(const std::string& flag, double otherwise) const {
  if (!has(flag)) return otherwise;
  const auto x = to_number(text(flag));
  if (!x) throw error("{} {}: should be a number", called(flag), text(flag));
  return *x;
}

void Arguments::heed_all() const {
  for (const auto& [flag, value] : flags) heed(flag);
}

void Arguments::idle(const std::string& flag, std::string_view why) const {
  heed(flag);
  if (has(flag)) notices.push_back(fmt::format("{} has no effect: {}", called(flag), why));
}

void Arguments::tell_notices(std::ostream& err) const {
  for (const std::string& notice : notices) err << notice << "\n";
  notices.clear();
}

void Arguments::check_heeded(std::ostream& err) const {
  for (const auto& [flag, value] : flags) {
    if (heeded_.contains(flag)) continue;
    if (!of_config.contains(flag))
      throw error("{} has no effect on '{}'; leave it out", called(flag), join(words, " "));
    idle(flag, "this command has no use for it");
  }
  tell_notices(err);
}

std::string Arguments::called(const std::string& flag) const {
  const auto config = flags.find("--config");
  if (of_config.contains(flag) && config != flags.end())
    return fmt::format("config {}: {}", config->second, flag);
  const auto written = names.find(flag);
  return written == names.end() ? flag : written->second;
}

}  // namespace shardwright
