// What a network is made of, in a plan file: the value of its key "made_from".
#pragma once

#include "shardwright/plan/json_text.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

Json origin_json(const Origin& origin);
/// What is not said is as it is without flags. Throws: Error that names the key.
Origin origin_of(const Json& json);

}  // namespace shardwright
