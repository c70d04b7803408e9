#include "shardwright/search/planning/expert.h"

#include <array>
#include <set>
#include <vector>

#include "shardwright/base/text.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/search/planning/expert_keys.h"

namespace shardwright {
namespace {

void read(Expert& out, std::string_view key, const Given& value) {
  const auto degree = [&] { return static_cast<int>(value.integer(1, most_devices)); };
  if (key == "dp") out.data = degree();
  if (key == "tp") out.tensor = degree();
  if (key == "pp") out.stages = degree();
  if ((key == "cp" || key == "ep") && value.integer(1, most_devices) != 1)
    throw value.wrong(fmt::format("there is no {} parallelism yet; leave {} at 1",
                                  key == "cp" ? "context" : "expert", key));
  if (key == "micro_batch") out.micro_batch = value.integer();
  if (key == "global_batch") out.global_batch = value.integer();
  if (key == "zero") out.zero = static_cast<int>(value.integer(0, 3));
  if (key == "recompute") {
    constexpr std::array<std::string_view, 3> words{"none", "selected", "full"};
    using enum RecomputeMode;
    out.recompute = std::array{none, selected, full}[value.word(words)];
  }
  if (key == "schedule") out.schedule = schedule_called(value.text);
  if (key == "sequence_parallel") {
    constexpr std::array<std::string_view, 2> words{"0", "1"};
    out.sequence = value.word(words) == 1;
  }
}

}  // namespace

Expert parse_expert(const Given& given) {
  Expert out;
  std::set<std::string_view> seen;
  const std::vector<std::string> known(expert_keys.begin(), expert_keys.end());
  for (std::string_view part : split(std::string_view(given.text), ',')) {
    const std::size_t equals = part.find('=');
    const std::string_view key = trim(part.substr(0, equals));
    if (equals == part.npos) throw error("{} '{}': should be KEY=VALUE,...", given.called, part);
    if (std::find(expert_keys.begin(), expert_keys.end(), key) == expert_keys.end())
      throw error("{}: '{}' is unknown{}; there are {}", given.called, key, near_names(key, known),
                  join(known, ", "));
    if (!seen.insert(key).second) throw error("{}: '{}' is given twice", given.called, key);
    read(out, key, {fmt::format("{} {}", given.called, key), std::string(trim(part.substr(equals + 1)))});
  }
  return out;
}

RecomputeOptions recompute_options(RecomputeMode mode, bool sequence) {
  RecomputeOptions out = default_options(mode);
  if (mode == RecomputeMode::selected && sequence) out.communication = true;
  return out;
}

}  // namespace shardwright
