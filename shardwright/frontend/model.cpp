#include "shardwright/frontend/model.h"

#include <algorithm>

#include "shardwright/autodiff/backward.h"
#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/frontend/mixed_precision.h"
#include "shardwright/frontend/onnx/importer.h"
#include "shardwright/frontend/planned_model.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/runtime/initial.h"

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

/// The keys behind the model's name or file.
ModelArguments arguments_of(const std::string& spec, const ModelOptions& options) {
  ModelArguments arguments{.keys = {},
                           .precision = options.precision,
                           .loss = options.loss,
                           .attention = options.attention,
                           .cached = options.cached,
                           .prompt = options.prompt};
  const std::size_t colon = spec.find(':');
  if (colon != std::string::npos) arguments.keys = parse_keys(std::string_view(spec).substr(colon + 1));
  return arguments;
}

Model model_of_onnx(const std::string& spec, const ModelOptions& options) {
  Model model =
      import_onnx(spec.substr(0, spec.find(':')), arguments_of(spec, options), options.global_batch);
  model.name = spec;
  return model;
}

/// The forward graph as it stands in a file; its first output is the loss.
Model model_of_text(const std::string& name, std::string_view text) {
  Model model{.name = name, .graph = parse_graph(text)};
  if (model.graph.outputs.empty()) throw error("the graph has no output");
  if (model.graph.level == Level::network) check_is_network(model.graph);
  for (const Node& node : model.graph.nodes)
    if (node.op->kind == OpKind::parameter || node.op->kind == OpKind::state) {
      check_start(model.graph.value(node.results.front()).name, node.attributes);
      master_type(model.graph, node.results.front());  // it can be one
    }
  model.loss = model.graph.outputs.front();
  model.own = ModelOptions{
      .global_batch = batch_of(model), .precision = precision_of(model.graph, model.loss), .loss = {}};
  return model;
}

/// What a name with an ending, or a folder, may be meant for; empty: it looks like a model's name.
std::string_view file_meant_by(std::string_view name) {
  if (name.ends_with(".json")) return "a plan is given by --plan, strategies by --annotate or --strategy";
  if (name.ends_with(".yaml") || name.ends_with(".yml")) return "a configuration is given by --config";
  for (std::string_view ending : {".pt", ".pth", ".bin", ".safetensors", ".py", ".ckpt", ".pb", ".h5"})
    if (name.ends_with(ending)) return "networks are read from .onnx and .graph files";
  return name.find('/') == name.npos ? "" : "networks are read from .onnx and .graph files";
}

const ModelDef& find_model(std::string_view name) {
  std::vector<std::string> known;
  for (const ModelDef& m : all_models()) {
    if (m.name == name) return m;
    known.push_back(m.name);
  }
  if (const auto hint = file_meant_by(name); !hint.empty()) throw error("is no model; {}", hint);
  throw unknown("model", name, known);
}

}  // namespace

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

namespace {

Model built(const std::string& spec, const ModelOptions& options, std::string_view input) {
  if (spec == "-") return model_of_text(spec, input);
  if (spec.ends_with(".graph")) return model_of_text(spec, read_text(spec));
  if (spec.ends_with(".onnx") || spec.find(".onnx:") != std::string::npos)
    return model_of_onnx(spec, options);
  const ModelDef& def = find_model(spec.substr(0, spec.find(':')));
  ModelArguments arguments = arguments_of(spec, options);
  std::vector<std::string> known;
  for (const auto& [key, value] : def.keys) known.push_back(key);
  for (const auto& [key, value] : arguments.keys)
    if (!def.keys.contains(key))
      throw error("key '{}' is unknown{}; there are {}", key, near_names(key, known), join(known, ", "));
  if (options.global_batch) arguments.keys["batch"] = std::to_string(*options.global_batch);
  Model model = def.build(arguments);
  model.name = spec;
  return model;
}

}  // namespace

bool says_batch(std::string_view spec) {
  const std::size_t colon = spec.find(':');
  if (colon == spec.npos) return false;
  return std::ranges::any_of(split(spec.substr(colon + 1), ','),
                             [](std::string_view part) { return part.starts_with("batch="); });
}

std::optional<std::int64_t> trained_batch(std::string_view spec) try {
  const std::size_t colon = spec.find(':');
  if (says_batch(spec)) return std::nullopt;
  const auto found = std::ranges::find(all_models(), spec.substr(0, colon), &ModelDef::name);
  if (found == all_models().end() || found->trained.samples == 0) return std::nullopt;
  const ModelArguments said{.keys = colon == spec.npos ? std::map<std::string, std::string>{}
                                                       : parse_keys(spec.substr(colon + 1))};
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
  if (spec == "-" || spec.ends_with(".graph"))
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
  if (what.starts_with("model '") || what.starts_with(spec.substr(0, spec.find(':')) + ":") ||
      e.kind() == ErrorKind::io)
    throw;
  throw with_context(e, spec);
}

Model finish_model(Trace& trace, Traced loss, Traced prediction) {
  Model model{
      .name = {}, .graph = std::move(trace.graph()), .loss = loss.id, .constraints = trace.constraints()};
  model.graph.outputs = {loss.id};
  if (prediction.id != loss.id) model.graph.outputs.push_back(prediction.id);
  model.graph = with_precision(std::move(model.graph), trace.all_precision());
  model.loss = model.graph.outputs.front();
  return model;
}

}  // namespace shardwright
