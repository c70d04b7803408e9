// What flags say, and which of them had an effect.

#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"

namespace shardwright {

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
  return has(flag) ? given(flag).integer(least, most) : otherwise;
}

Given Arguments::given(const std::string& flag) const { return {called(flag), text(flag)}; }

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
  const auto written = names.find(flag);
  return written == names.end() ? flag : written->second;
}

}  // namespace shardwright
