#include "tests/fuzz/commands.h"

#include <fmt/format.h>

#include <ctime>
#include <nlohmann/json.hpp>
#include <sstream>

#include "shardwright/base/text.h"
#include "shardwright/cli/verb.h"

namespace shardwright::fuzzing {

Run run(const Words& words) {
  std::istringstream in;
  std::ostringstream out, err;
  Terminal terminal{in, out, err};
  const std::clock_t start = std::clock();  // of the processor: another program's turn is none of ours
  const int status = run_command(words, terminal);
  const double seconds = static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC;
  const std::string told = err.str(), command = join(words, " ");
  if (status != 0 && status != 2) throw Fault(fmt::format("{}: status {}: {}", command, status, told));
  const std::size_t at = told.find("shardwright: ");
  if (status == 2 && (at == std::string::npos || told.find('\n', at) + 1 != told.size()))
    throw Fault(fmt::format("{}: not one line of error: {}", command, told));
  if (status == 2 && told.size() - at > 2100)
    throw Fault(fmt::format("{}: a line of {} bytes", command, told.size() - at));
  if (seconds > slowest_seconds) throw Fault(fmt::format("{}: took {:.1f} seconds", command, seconds));
  return {status, out.str()};
}

Words operator+(Words words, const Words& more) {
  words.insert(words.end(), more.begin(), more.end());
  return words;
}

bool prove_and_train(const Words& words) {
  const Run proven = run(Words{"verify"} + words + Words{"--json"});
  if (proven.status != 0) return false;
  const auto proof = nlohmann::json::parse(proven.out);
  if (proof.at("arena_bytes").get<double>() < 1e6 && proof.at("ranks").get<int>() <= 8 &&
      proof.at("instructions").get<double>() < 3000)
    run(Words{"train"} + words + Words{"--steps", "1", "--json"});
  return true;
}

}  // namespace shardwright::fuzzing
