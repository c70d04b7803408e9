#include "shardwright/plan/optimizer_parallel.h"

#include <set>
#include <utility>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"

namespace shardwright {

std::string to_text(const OptimizerParallel& options) {
  std::string out = fmt::format("{}", options.level);
  char separator = ':';
  if (options.level > 0 && options.threshold != OptimizerParallel{}.threshold)
    out += fmt::format("{}threshold={}", std::exchange(separator, ','), options.threshold);
  if (options.group > 0) out += fmt::format("{}group={}", separator, options.group);
  return out;
}

OptimizerParallel parse_optimizer_parallel(const Given& given) {
  const std::size_t colon = given.text.find(':');
  OptimizerParallel out;
  const auto level = to_integer(given.text.substr(0, colon));
  if (!level || *level < 0 || *level > 3)
    throw given.wrong("should be LEVEL or LEVEL:threshold=BYTES,group=G, the level 0, 1, 2 or 3");
  out.level = static_cast<int>(*level);
  if (colon == std::string::npos) return out;
  if (out.level == 0) throw given.wrong("level 0 shards nothing, so it has no settings");
  std::set<std::string_view> keys;
  for (std::string_view part : split(std::string_view(given.text).substr(colon + 1), ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = part.substr(0, equals);
    const std::string_view value = equals == part.npos ? "" : part.substr(equals + 1);
    if (!keys.insert(key).second) throw given.wrong(fmt::format("'{}' is given twice", key));
    if (key == "threshold") {
      const auto bytes = value == "0" ? std::optional<std::int64_t>(0) : to_bytes(value);
      if (!bytes) throw given.wrong("the threshold should be bytes, such as 64KiB or 0");
      out.threshold = *bytes;
    } else if (key == "group") {
      const auto group = to_integer(value);
      if (!group || *group < 1 || *group > most_devices)
        throw given.wrong("the group should be how many replicas share a state, from 1 on");
      out.group = static_cast<int>(*group);
    } else {
      throw given.wrong(fmt::format("'{}' is unknown; there are threshold=BYTES and group=G", key));
    }
  }
  return out;
}

}  // namespace shardwright
