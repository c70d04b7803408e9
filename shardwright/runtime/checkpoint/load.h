// Brings a checkpoint into a session, whatever plans the two were made by: each rank reads its own parts.
#pragma once

#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/tensor_source.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

enum class Restored {
  all,         // parameters and states, of which neither side has others
  parameters,  // states begin anew
  network      // what the session has; the source may have more states
};

/// Sets parameters and states to what the checkpoint has. Values are converted to the precision of the session. Returns
/// what users should know: of the states of a loss scale, those that begin anew or are dropped.
/// Throws: Error, before anything is set, if the checkpoint is of another model or, with `all`, of another optimizer;
/// of kind io if it is damaged: then the session holds some of it.
std::vector<std::string> load(Session& session, const TensorSource& source, Restored what);

}  // namespace shardwright
