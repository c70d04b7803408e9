#include "shardwright/frontend/assumed.h"

#include <fmt/format.h>

#include "shardwright/frontend/model.h"
#include "shardwright/search/planning/settings.h"

namespace shardwright {

Origin usual_origin(std::string_view spec, const std::optional<Cluster>& cluster) {
  Origin out;
  const auto type = cluster ? short_type_of(*cluster) : std::nullopt;
  if (!type) return out;
  set_precision(out, Precision::mixed(*type));
  out.optimizer.name = "adamw";
  out.global_batch = trained_batch(spec);
  return out;
}

std::string assumed_text(const Assumed& assumed, const Origin& origin,
                         const std::optional<Cluster>& cluster) {
  if (!cluster || !short_type_of(*cluster)) return "";
  std::string said;
  if (assumed.precision) said += " --precision " + to_text(origin.precision);
  if (assumed.optimizer) said += " --optimizer " + origin.optimizer.name;
  if (assumed.batch && origin.global_batch) said += fmt::format(" --global-batch {}", *origin.global_batch);
  return said.empty() ? "" : fmt::format("assumed on {}:{}", cluster->name, said);
}

}  // namespace shardwright
