#include "shardwright/cli/recipes.h"

#include <ostream>

#include "shardwright/base/text.h"
#include "shardwright/cli/programs.h"

namespace shardwright {

std::vector<Flag> recipe_flags(std::vector<Flag> more) {
  std::vector<Flag> out{
      {"--from", "NAME", join(read_formats(), ", ") + " (default: as the file looks)", ""},
      {"--model", "MODEL", "the network, where the file does not say it, or says its sizes only", ""},
      {"--cluster", "C", "the machine: PRESET:N, PRESET:NODESxPER_NODE or a YAML file", ""}};
  out.insert(out.end(), more.begin(), more.end());
  return out;
}

ImportOptions import_options_of(const Arguments& arguments) {
  return {.cluster = arguments.text("--cluster"),
          .from = arguments.text("--from"),
          .model = arguments.text("--model"),
          .formats = device_of(arguments).formats,
          .progress = arguments.progress};
}

void tell(const std::vector<std::string>& lines, Terminal& terminal) {
  for (const std::string& line : lines) terminal.err << line << "\n";
}

}  // namespace shardwright
