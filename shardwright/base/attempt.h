// What can be asked for and not be done: "no" is an answer, not a failure.
#pragma once

#include <optional>
#include <string>
#include <type_traits>
#include <utility>

#include "shardwright/base/error.h"

namespace shardwright {

/// What `work` returns; nothing if it cannot be done as it is asked for, and `why` is what it says of that. Only what the
/// asker could ask otherwise is a "no": a full disk, missing memory or a lost peer goes on up.
template <class F>
std::optional<std::invoke_result_t<F>> attempt(std::string& why, F&& work) {
  try {
    return std::forward<F>(work)();
  } catch (const Error& e) {
    if (e.kind() != ErrorKind::user) throw;
    why = e.what();
    return std::nullopt;
  }
}

}  // namespace shardwright
