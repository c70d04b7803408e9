// What a call throws, of whatever kind: faults of our own too, which are no Error.
#pragma once

#include <exception>
#include <string>

namespace shardwright::testing {

/// The message of what `call` throws, or `nothing`.
template <class F>
std::string message_of(F call) {
  try {
    call();
  } catch (const std::exception& e) {
    return e.what();
  }
  return "nothing";
}

}  // namespace shardwright::testing
