// Recompute as JSON, in plans and annotations:
//
//   "recompute": "full"                                         a mode
//   "recompute": ["layers.0", {"module": "layers.1", "communication": false}]       modules
//   "recompute": {"mode": "full", "shard_kept": true, "modules": [{"module": "layers.0", "on": false}]}
//   "layers.0": {"recompute": true}, {"recompute": {"communication": false}}        an annotation
#pragma once

#include "shardwright/plan/json_text.h"
#include "shardwright/plan/recompute.h"

namespace shardwright {

Json recompute_json(const Recompute& recompute);
/// Throws: Error naming the key.
Recompute recompute_of(const Json& json);

/// What an annotation says of the module called `name`. Throws: Error naming the key.
RecomputedModule recomputed_module(const std::string& name, const Json& json);

}  // namespace shardwright
