// What somebody's recipe takes on a cluster, whether it fits, what binds it, and what a search would change.
#pragma once

#include <optional>
#include <string>

#include "shardwright/explain/binding.h"
#include "shardwright/explain/remedies.h"
#include "shardwright/frontend/import_plan.h"
#include "shardwright/plan/json_text.h"

namespace shardwright {

struct Advice {
  std::string path;
  ImportedPlan recipe;
  Remedies remedies = {};  // where it does not fit
  std::optional<ImportedPlan> better =
      {};  // what a search finds for the same network, batch and cluster, if that is better
  Limit binding = Limit::time;
};

/// Of the file at `path`: it is imported, priced, and the same network, batch, precision and optimizer are searched with nothing
/// fixed. Throws: Error as import_plan does, or if the file is one of our plans.
Advice advise(const std::string& path, const ImportOptions& options);

/// A page of text, and the document that `advise --json` prints.
std::string to_text(const Advice& advice);
Json to_json(const Advice& advice);

}  // namespace shardwright
