#include "shardwright/cli/waiting.h"

namespace shardwright {

Flag timeout_flag() {
  return {"--timeout", "S", "end if a rank that is waited for gives no sign for so long (default: 60s)", ""};
}

std::chrono::nanoseconds timeout_of(const Arguments& arguments) {
  return arguments.has("--timeout") ? timeout_of(arguments.given("--timeout")) : usual_timeout;
}

Waiting waiting_of(const Arguments& arguments, int devices, const std::string& folder) {
  if (devices == 1) arguments.idle("--timeout", "there is 1 device, which waits for nobody");
  return {timeout_of(arguments), folder.empty() ? "flight-record" : folder + "/flight-record"};
}

SessionOptions with_waiting(SessionOptions options, const Waiting& waiting) {
  options.timeout = waiting.timeout;
  options.failures = waiting.failures;
  return options;
}

}  // namespace shardwright
