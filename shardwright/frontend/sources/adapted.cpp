// Models with adapters: `lora(MODEL):rank=16,alpha=32,targets=q.v`, where MODEL is of any other source, with its own keys.

#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/frontend/adapters.h"
#include "shardwright/frontend/source.h"

namespace shardwright::sources {
namespace {

constexpr std::string_view opening = "lora(";

/// What stands in the brackets; where the last is missing, all behind the first.
std::string inner_of(const std::string& spec) {
  const std::size_t end = spec.rfind(')');
  return spec.substr(opening.size(), end == spec.npos ? end : end - opening.size());
}

std::string behind(const std::string& spec) { return spec.substr(spec.rfind(')') + 1); }

AdapterOptions options_of(const ModelArguments& arguments) {
  arguments.check_keys({"alpha", "rank", "targets"});
  AdapterOptions out;
  out.rank = arguments.integer("rank", out.rank, 1 << 20);
  const std::string alpha = arguments.text("alpha", "32");
  const auto number = to_number(alpha);
  if (!number || !std::isfinite(*number) || *number <= 0)
    throw error("alpha={}: should be a number above 0", alpha);
  out.alpha = *number;
  if (!arguments.keys.contains("targets")) return out;
  out.targets.clear();
  const std::string targets = arguments.text("targets", "");
  for (std::string_view word : split(targets, '.')) {
    if (word.empty())
      throw error("targets={}: should be names of modules with dots between them, such as q.v, or all",
                  targets);
    out.targets.emplace_back(word);
  }
  return out;
}

Model load(const std::string& spec, const ModelOptions& options, std::string_view input) {
  const std::string rest = spec.find(')') == spec.npos ? "" : behind(spec);
  if (spec.find(')') == spec.npos || (!rest.empty() && !rest.starts_with(':')) || inner_of(spec).empty())
    throw error("should be lora(MODEL) or lora(MODEL):rank=16,alpha=32,targets=q.v");
  const std::string inner = inner_of(spec);
  if (inner == "-") throw error("a graph from standard input cannot be adapted; save it as NAME.graph");
  const AdapterOptions adapters = options_of(arguments_of(spec, options));
  Model model = source_of_model(inner).load(inner, options, input);
  model.name = inner;
  return with_adapters(std::move(model), adapters);
}

}  // namespace

std::vector<Source> adapted() {
  return {{.name = "adapted",
           .matches = [](const std::string& spec) { return spec.starts_with(opening); },
           .load = load,
           .inputs =
               [](const std::string& spec, const std::string& data) {
                 const std::string inner = inner_of(spec);
                 const Source& source = source_of_model(inner);
                 return source.inputs
                            ? fmt::format("{}{}){}", opening, source.inputs(inner, data), behind(spec))
                            : spec;
               },
           .tokenizer =
               [](const std::string& spec) {
                 const std::string inner = inner_of(spec);
                 const Source& source = source_of_model(inner);
                 return source.tokenizer ? source.tokenizer(inner) : "";
               },
           .inner = inner_of}};
}

}  // namespace shardwright::sources
