#include "shardwright/cli/sample_flags.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/frontend/source.h"

namespace shardwright {

Flag tokenizer_flag() {
  return {"--tokenizer", "FOLDER|FILE", "tokenizer.json, or its folder: how texts become tokens", ""};
}

std::string tokenizer_of(const Arguments& arguments) {
  if (arguments.has("--tokenizer") || arguments.positionals.empty()) return arguments.text("--tokenizer");
  const Source& source = source_of_model(arguments.positionals[0]);
  return source.tokenizer ? source.tokenizer(arguments.positionals[0]) : "";
}

void complete_model(const Verb& verb, Arguments& arguments) {
  const bool takes_model =
      !verb.positionals.empty() && verb.positionals[0].find("MODEL") != std::string::npos;
  if (!takes_model || arguments.positionals.empty() || !arguments.flags.contains("--data")) return;
  std::string& spec = arguments.positionals[0];
  if (const Source& source = source_of_model(spec); source.inputs)
    spec = source.inputs(spec, arguments.flags["--data"]);
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
