#include "shardwright/cli/outputs.h"

#include <filesystem>
#include <system_error>

#include "shardwright/base/error.h"

namespace shardwright {
namespace {

/// Without links and detours, as far as there is something.
std::filesystem::path place_written(const std::string& path) {
  namespace fs = std::filesystem;
  std::error_code failure;  // who writes tells it
  fs::path full = fs::absolute(path, failure);
  constexpr int most_links = 40;  // as the system follows
  for (int i = 0; i < most_links && fs::is_symlink(full, failure); ++i)
    full = full.parent_path() / fs::read_symlink(full, failure);  // there may be nothing yet where it leads
  const fs::path out = fs::weakly_canonical(full, failure);
  return failure ? full.lexically_normal() : out;
}

}  // namespace

void check_outputs(const Arguments& arguments) {
  std::map<std::filesystem::path, std::string> written;
  for (const char* flag : {"-o", "--html", "--trace", "--save-strategy"}) {
    const auto said = arguments.flags.find(flag);
    if (said == arguments.flags.end() || said->second.empty() || said->second == "/dev/null") continue;
    const std::string called = arguments.called(flag) + " " + said->second;
    const auto [other, is_new] = written.emplace(place_written(said->second), called);
    if (!is_new) throw error("{} and {} name one file", other->second, called);
  }
}

}  // namespace shardwright
