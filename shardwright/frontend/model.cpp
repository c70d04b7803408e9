#include "shardwright/frontend/model.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/frontend/source.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

std::int64_t positive(const std::string& key, const std::string& text,
                      std::int64_t most = std::numeric_limits<std::int64_t>::max()) {
  const auto n = to_integer(text);
  if (n && *n > most) throw error("{}={}: should be at most {}", key, text, most);
  if (!n || *n < 1) throw error("{}={}: should be an integer from 1 on", key, text);
  return *n;
}

std::map<std::string, std::string> parse_keys(std::string_view text) {
  std::map<std::string, std::string> keys;
  for (std::string_view part : split(text, ',')) {
    const std::size_t eq = part.find('=');
    if (eq == std::string_view::npos || eq == 0) throw error("'{}' should be key=value", part);
    if (!keys.emplace(part.substr(0, eq), part.substr(eq + 1)).second)
      throw error("key '{}' is given twice", part.substr(0, eq));
  }
  return keys;
}

/// Where the keys of `spec` begin, behind what brackets hold; npos: it has none.
std::size_t colon_of(std::string_view spec) {
  const std::size_t bracket = spec.rfind(')');
  return spec.find(':', bracket == spec.npos ? 0 : bracket);
}

}  // namespace

ModelArguments arguments_of(const std::string& spec, const ModelOptions& options) {
  ModelArguments arguments{.keys = {},
                           .precision = options.precision,
                           .loss = options.loss,
                           .attention = options.attention,
                           .cached = options.cached,
                           .prompt = options.prompt,
                           .asks = options.asks};
  const std::size_t colon = colon_of(spec);
  if (colon != std::string::npos) arguments.keys = parse_keys(std::string_view(spec).substr(colon + 1));
  return arguments;
}

std::string without_keys(const std::string& spec) { return spec.substr(0, colon_of(spec)); }

const Source& source_of_model(const std::string& spec) {
  const Source* otherwise = nullptr;
  for (const Source& source : all_sources()) {
    if (!source.matches)
      otherwise = &source;
    else if (source.matches(spec))
      return source;
  }
  return *otherwise;
}

std::string innermost_model(std::string spec) {
  for (const Source* source = &source_of_model(spec); source->inner; source = &source_of_model(spec))
    spec = source->inner(spec);
  return spec;
}

std::int64_t ModelArguments::integer(const std::string& key, std::int64_t otherwise,
                                     std::int64_t most) const {
  const auto it = keys.find(key);
  return it == keys.end() ? otherwise : positive(key, it->second, most);
}

std::vector<std::int64_t> ModelArguments::widths(const std::string& otherwise) const {
  const std::string list = text("widths", otherwise);
  std::vector<std::int64_t> out;
  for (std::string_view part : split(list, '-')) out.push_back(positive("widths", std::string(part)));
  if (out.size() < 2) throw error("widths={}: at least two widths are needed, such as 784-10", list);
  return out;
}

std::string ModelArguments::text(const std::string& key, const std::string& otherwise) const {
  const auto it = keys.find(key);
  return it == keys.end() ? otherwise : it->second;
}

void ModelArguments::check_keys(const std::vector<std::string>& known) const {
  for (const auto& [key, value] : keys)
    if (std::ranges::find(known, key) == known.end())
      throw error("key '{}' is unknown{}; there are {}", key, near_names(key, known), join(known, ", "));
}

namespace {

Model built(const std::string& spec, const ModelOptions& options, std::string_view input) {
  Model model = source_of_model(spec).load(spec, options, input);
  model.name = spec;
  return model;
}

}  // namespace

bool says_batch(std::string_view said) {
  const std::string spec = innermost_model(std::string(said));
  const std::size_t colon = colon_of(spec);
  if (colon == spec.npos) return false;
  return std::ranges::any_of(split(std::string_view(spec).substr(colon + 1), ','),
                             [](std::string_view part) { return part.starts_with("batch="); });
}

std::optional<std::int64_t> trained_batch(std::string_view said_spec) try {
  const std::string spec = innermost_model(std::string(said_spec));
  const std::size_t colon = colon_of(spec);
  if (says_batch(spec)) return std::nullopt;
  const auto found = std::ranges::find(all_models(), spec.substr(0, colon), &ModelDef::name);
  if (found == all_models().end() || found->trained.samples == 0) return std::nullopt;
  const ModelArguments said{.keys = colon == spec.npos
                                        ? std::map<std::string, std::string>{}
                                        : parse_keys(std::string_view(spec).substr(colon + 1))};
  if (found->trained.tokens == 0 || !said.keys.contains("seq")) return found->trained.samples;
  return std::max<std::int64_t>(found->trained.tokens / said.integer("seq", 1), 1);
} catch (const Error&) {  // who builds the model tells it with its name
  return std::nullopt;
}

std::optional<std::int64_t> batch_of(const Model& model) { return batch_of(model.graph); }

namespace {

/// Throws: Error that says what the batch is of, where the user has asked for another.
Model of_micro_batch(const std::string& spec, const ModelOptions& options, std::string_view input) try {
  Model model = built(spec, options, input);
  if (batch_of(model) != options.global_batch) throw error("its batch is fixed");
  return model;
} catch (const Error& e) {
  throw Error(fmt::format("{}, as micro-batches of {} need it", e.what(), *options.global_batch), e.kind());
}

/// Throws: Error unless micro-batches of `interleave` parts, so many in all, have equally many samples.
void check_parts(std::int64_t batch, int parts, int interleave) {
  const int micro_batches = parts / interleave;
  if (batch % micro_batches)
    throw error(
        "a batch of {} cannot be cut into {} micro-batches; choose another number of them, or a "
        "--global-batch that is a multiple of {}",
        batch, micro_batches, parts);
  if (batch % parts)
    throw error(
        "a micro-batch of {} cannot be cut into {} parts that run side by side; choose another "
        "--micro-batch-interleave, or a --global-batch that is a multiple of {}",
        batch / micro_batches, interleave, parts);
}

}  // namespace

Model build_model(const std::string& spec, const ModelOptions& options, std::string_view input) try {
  if (options.micro_batches == 1) return built(spec, options, input);
  if (innermost_source(spec).has_fixed_batch)
    throw error("a graph as text has fixed shapes and cannot be cut into micro-batches; use 1");
  const std::optional<std::int64_t> whole = batch_of(built(spec, options, input));
  if (!whole) throw error("it has no input with a batch to cut into micro-batches");
  const std::int64_t batch = *whole;
  check_parts(batch, options.micro_batches, options.interleave);
  ModelOptions of_one = options;
  of_one.global_batch = batch / options.micro_batches;
  return of_micro_batch(spec, of_one, input);
} catch (const Error& e) {
  const std::string_view what = e.what();
  if (what.starts_with("model '") || what.starts_with(without_keys(spec) + ":") ||
      what.starts_with(without_keys(spec) + "/") || e.kind() == ErrorKind::io)
    throw;
  throw with_context(e, spec);
}

Model finish_model(Trace& trace, Traced loss, Traced prediction) {
  if (const auto& beside = trace.losses_beside())
    loss = trace.call("add", {loss, *beside}, {}, "loss.with_beside");
  std::vector<Traced> outputs{loss};
  if (prediction.id != loss.id) outputs.push_back(prediction);
  Model model = finish_model(trace, outputs);
  model.loss = model.graph.outputs.front();
  return model;
}

Model finish_model(Trace& trace, const std::vector<Traced>& outputs) {
  Model model{.name = {}, .graph = std::move(trace.graph()), .loss = {}, .constraints = trace.constraints()};
  for (const Traced& t : outputs) model.graph.outputs.push_back(t.id);
  model.graph = with_precision(std::move(model.graph), trace.all_precision());
  return model;
}

}  // namespace shardwright
