#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/planning.h"
#include "shardwright/frontend/evaluation.h"
#include "shardwright/frontend/table.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright::verbs {
namespace {

/// Predictions of all batches, row behind row.
class Collected {
 public:
  Collected(std::int64_t samples, const AskedNetwork& network) : samples_(samples) {
    const Graph& graph = network.model.graph;
    const std::size_t first = network.has_labels() ? 1 : 0;
    for (std::size_t i = first; i < graph.outputs.size(); ++i)
      names_.push_back(graph.value(graph.outputs[i]).name);
    // A network of ours has no name for it; one that was imported has.
    if (network.model.labels.classes > 0 && network.model.initial.empty()) names_.front() = "logits";
    parts_.resize(names_.size());
  }

  void add(const std::vector<Tensor>& predictions, std::int64_t rows) {
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const Tensor& part = predictions[i];
      if (part.shape().empty()) continue;  // of a batch, not of samples
      if (parts_[i].shape().empty()) {
        Shape shape = part.shape();
        shape[0] = samples_;
        parts_[i] = Tensor({part.dtype(), std::move(shape)});
        done_.resize(parts_.size());
      }
      const std::size_t bytes =
          part.bytes().size() / static_cast<std::size_t>(part.shape()[0]) * static_cast<std::size_t>(rows);
      std::memcpy(parts_[i].bytes().data() + done_[i], part.bytes().data(), bytes);
      done_[i] += bytes;
    }
  }

  std::map<std::string, Tensor> outputs() const {
    std::map<std::string, Tensor> out;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!parts_[i].shape().empty()) out[names_[i]] = parts_[i];
    return out;
  }

 private:
  std::int64_t samples_;
  std::vector<std::string> names_;
  std::vector<Tensor> parts_;
  std::vector<std::size_t> done_;  // bytes
};

void tell(const Evaluated& e, bool has_labels, const std::map<std::string, Tensor>& outputs, bool is_json,
          Terminal& terminal) {
  if (is_json) {
    nlohmann::ordered_json line{{"outputs", nlohmann::ordered_json::object()}, {"samples", e.samples}};
    for (const auto& [name, t] : outputs) line["outputs"][name] = t.shape();
    if (has_labels && std::isfinite(e.loss)) line["loss"] = e.loss;
    if (e.accuracy) line["accuracy"] = *e.accuracy;
    if (e.perplexity && has_labels && std::isfinite(e.loss)) line["perplexity"] = *e.perplexity;
    line["seconds"] = e.seconds;
    terminal.out << line.dump() << "\n";
    return;
  }
  for (const auto& [name, t] : outputs) terminal.out << fmt::format("{}: {}\n", name, to_text(t.type()));
  terminal.out << fmt::format("{} samples in {}", e.samples, seconds_text(e.seconds));
  if (has_labels && std::isfinite(e.loss)) terminal.out << fmt::format(", loss {:.6g}", e.loss);
  if (e.accuracy) terminal.out << fmt::format(", accuracy {:.4g}", *e.accuracy);
  terminal.out << "\n";
}

bool is_weight(const Node& node) {
  return node.op->kind == OpKind::parameter || node.op->kind == OpKind::state;
}

/// Throws: Error if the model's file does not hold all of its weights.
void check_own_weights(const Model& model) {
  for (NodeId id : model.graph.node_ids())
    if (const std::string& name = model.graph.name_of(id);
        is_weight(model.graph.node(id)) && !model.initial.contains(name))
      throw error("infer needs --checkpoint: {} has no weights of its own, such as '{}'", model.name, name);
}

/// Those of the checkpoint, or what the model's file holds.
void set_weights(Session& session, const std::optional<TensorSource>& weights, const Model& model,
                 Terminal& terminal) {
  if (weights) {
    for (const std::string& line : load(session, *weights, Restored::network)) terminal.err << line << "\n";
    return;
  }
  for (NodeId id : model.graph.node_ids())
    if (is_weight(model.graph.node(id)))
      session.set(model.graph.name_of(id), model.initial.at(model.graph.name_of(id))());
}

/// What has an effect on a network that is only asked.
bool is_of_inference(const SettingRow& row) {
  return row.part == SettingPart::machine || row.part == SettingPart::network || row.flag == "--parallel" ||
         row.flag == "--search";
}

std::vector<Flag> flags() {
  std::vector<Flag> out{{"--checkpoint", "DIR|FILE",
                         "the weights, if the model's file has none: a checkpoint, or safetensors", ""},
                        {"--data", "DIR|FILE", "samples: safetensors, or MNIST's folder", ""},
                        {"--out", "FILE", "where predictions go, safetensors", ""},
                        timeout_flag(),
                        {"--json", "", "one JSON document", ""}};
  for (const SettingRow& row : all_settings())
    if (is_of_inference(row)) out.push_back({row.flag, row.value, row.doc, row.alias});
  return out;
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (!arguments.has("--data")) throw error("infer needs --data");
  const Model model = model_of(arguments, terminal);
  if (!arguments.has("--checkpoint")) check_own_weights(model);
  PlanRequest request = asked_of(arguments);
  for (const SettingRow& row : all_settings())
    if (is_of_inference(row)) arguments.heed(row.flag);
  tell_idle(arguments, request);
  tell_assumed(arguments, model, false);
  request.formats = default_devices().formats;
  request.search = splitting_search(request.search).name;
  std::optional<TensorSource> weights;
  if (arguments.has("--checkpoint")) weights = open_source(arguments.text("--checkpoint"));
  const AskedNetwork network = asked_network(model, arguments.text("--data"), request);
  const std::string out = arguments.text("--out");
  const bool is_json = arguments.is_on("--json");
  const Waiting waiting = waiting_of(arguments, request.devices);
  arguments.check_heeded(terminal.err);
  if (!out.empty()) require_writable(out);
  Session session(network.pipeline, with_waiting({}, waiting));
  set_weights(session, weights, network.model, terminal);
  Collected collected(network.data->samples(), network);
  AskOptions options = ask_options_of(network);
  options.take = [&](const std::vector<Tensor>& predictions, std::int64_t rows) {
    collected.add(predictions, rows);
  };
  options.progress = arguments.progress;
  const Evaluated e = ask(session, *network.data, options);
  if (!out.empty()) write_safetensors(out, collected.outputs());
  tell(e, network.has_labels(), collected.outputs(), is_json, terminal);
  return 0;
}

}  // namespace

std::vector<Verb> infer() {
  return {
      {.name = "infer",
       .doc = "ask a trained network about data: predictions, and where there are labels how good they are",
       .positionals = {"MODEL"},
       .flags = flags(),
       .example = "shardwright infer ffn --checkpoint run1 --data digits --devices 4",
       .run = run}};
}

}  // namespace shardwright::verbs
