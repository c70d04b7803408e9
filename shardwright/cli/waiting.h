// What running commands say of waiting for ranks: --timeout, and where it is written what ranks did if one does not come.
#pragma once

#include <chrono>
#include <string>

#include "shardwright/cli/verb.h"
#include "shardwright/runtime/session.h"

namespace shardwright {

Flag timeout_flag();

/// Throws: Error if --timeout is no time.
std::chrono::nanoseconds timeout_of(const Arguments& arguments);

/// How a session waits.
struct Waiting {
  std::chrono::nanoseconds timeout = usual_timeout;
  std::string failures = {};
};
/// On so many devices; what each rank did last will lie in the `folder` of the run, or here. Throws: as timeout_of.
Waiting waiting_of(const Arguments& arguments, int devices, const std::string& folder = "");
SessionOptions with_waiting(SessionOptions options, const Waiting& waiting);

}  // namespace shardwright
