// Equal steps share a transfer: whoever breaks one for a test breaks a copy.
#pragma once

#include "shardwright/lower/step.h"

namespace shardwright::testing {

/// The transfer of `part` alone, to change.
inline Transfer& own_transfer(Part& part) {
  auto own = std::make_shared<Transfer>(*part.transfer);
  part.transfer = own;
  return *own;
}

}  // namespace shardwright::testing
