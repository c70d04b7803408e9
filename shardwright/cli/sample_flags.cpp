#include "shardwright/cli/sample_flags.h"

#include <algorithm>
#include <filesystem>

#include "shardwright/base/text.h"

namespace shardwright {

Flag tokenizer_flag() {
  return {"--tokenizer", "FOLDER|FILE", "tokenizer.json, or its folder: how texts become tokens", ""};
}

std::string tokenizer_of(const Arguments& arguments) {
  if (arguments.has("--tokenizer") || arguments.positionals.empty()) return arguments.text("--tokenizer");
  std::error_code none;
  const std::string& model = arguments.positionals[0];
  return std::filesystem::exists(model + "/tokenizer.json", none) ? model : "";
}

SampleSource source_of(const Arguments& arguments, const std::string& flag) {
  return {arguments.text(flag), tokenizer_of(arguments)};
}

void tell_idle_tokenizer(const Arguments& arguments, const std::vector<std::string>& flags) {
  const bool has_text = std::ranges::any_of(
      flags, [&](const std::string& flag) { return source_of(arguments, flag).is_text(); });
  if (arguments.has("--tokenizer") && !has_text)
    arguments.idle("--tokenizer", fmt::format("there is no text in {}", join(flags, " or ")));
}

}  // namespace shardwright
