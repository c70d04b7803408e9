#include "shardwright/cli/sample_flags.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/frontend/bucketed_steps.h"
#include "shardwright/frontend/source.h"

namespace shardwright {

Flag tokenizer_flag() {
  return {"--tokenizer", "FOLDER|FILE", "tokenizer.json, or its folder: how texts become tokens", ""};
}

Flag talks_flag() {
  return {
      "--chat", "",
      "texts are talks, JSON lines with messages, by the chat template of the tokenizer's folder; answers "
      "are learnt, what else is said is not",
      ""};
}

Flag end_flag() {
  return {"--end", "TOKEN|none",
          "what stands behind a document, as text or number (default: the tokenizer's own); where "
          "documents=apart "
          "parts files of tokens",
          ""};
}

Flag buckets_flag() {
  return {"--buckets", "L,L,...",
          "each document of --data is a sample, filled up to one of these lengths, which have a program each "
          "over "
          "the same weights",
          ""};
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
  if (arguments.has("--buckets")) spec = spec_of_longest(spec, bucket_lengths(arguments.text("--buckets")));
  if (arguments.is_on("--chat"))
    if (const Source& source = source_of_model(spec); source.asked) spec = source.asked(spec);
  if (const Source& source = source_of_model(spec); source.inputs)
    spec = source.inputs(spec, arguments.flags["--data"]);
}

SampleSource source_of(const Arguments& arguments, const std::string& flag) {
  SampleSource out(arguments.text(flag), tokenizer_of(arguments));
  out.end = arguments.text("--end");
  out.are_talks = arguments.is_on("--chat");
  return out;
}

void tell_idle_samples(const Arguments& arguments, const std::vector<std::string>& flags, bool are_apart) {
  const auto any = [&](const auto& is_so) {
    return std::ranges::any_of(flags, [&](const std::string& flag) {
      const SampleSource source = source_of(arguments, flag);
      return !source.path.empty() && is_so(source);
    });
  };
  const bool has_text = any([](const SampleSource& s) { return s.is_text(); });
  const bool has_tokens = any([](const SampleSource& s) { return !s.is_text(); });
  const std::string data = join(flags, " or ");
  if (arguments.has("--tokenizer") && !has_text && !(are_apart && has_tokens && !arguments.has("--end")))
    arguments.idle("--tokenizer", fmt::format("there is no text in {}", data));
  if (arguments.is_on("--chat") && !has_text)
    arguments.idle("--chat", fmt::format("there are no talks in {}", data));
  const bool are_documents = has_text && !arguments.is_on("--chat");
  if (arguments.has("--end") && !are_documents && !(are_apart && has_tokens))
    arguments.idle("--end", fmt::format("there is no text in {} that it could end, and no documents=apart of "
                                        "the model that it could part",
                                        data));
}

}  // namespace shardwright
