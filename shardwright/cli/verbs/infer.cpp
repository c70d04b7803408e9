#include <algorithm>
#include <cstring>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/checksum.h"
#include "shardwright/base/file.h"
#include "shardwright/cli/agreements.h"
#include "shardwright/cli/asked.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/sample_flags.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/evaluation.h"
#include "shardwright/frontend/inference.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/frontend/table.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/lower/program_text.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright::verbs {
namespace {

/// Predictions of all batches, row behind row; of one step as they are.
class Collected {
 public:
  explicit Collected(const AskedNetwork& network)
      : samples_(network.data->samples()),
        batch_(network.data->batch()),
        is_one_step_(network.data->is_one_step()),
        names_(network.model.answers) {
    const Graph& graph = network.model.graph;
    const std::size_t first = network.has_labels() ? 1 : 0;
    for (std::size_t i = first; i < graph.outputs.size() && network.model.answers.empty(); ++i)
      names_.push_back(graph.value(graph.outputs[i]).name);
    // A network of ours has no name for it; one that was imported has.
    if (network.model.answers.empty() && network.model.labels.classes > 0 &&
        (network.model.initial.empty() || network.model.folder))
      names_.front() = "logits";
    parts_.resize(names_.size());
    done_.resize(names_.size());
  }

  void add(const std::vector<Tensor>& predictions, std::int64_t rows) {
    for (std::size_t i = 0; i < predictions.size(); ++i) {
      const Tensor& part = predictions[i];
      if (is_one_step_) {
        parts_[i] = part;
        continue;
      }
      if (!is_of_samples(part)) continue;
      if (parts_[i].shape().empty()) {
        Shape shape = part.shape();
        shape[0] = samples_;
        parts_[i] = Tensor({part.dtype(), std::move(shape)});
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
      if (is_one_step_ || !parts_[i].shape().empty()) out[names_[i]] = parts_[i];
    return out;
  }

  /// What is said of the outputs that are not there.
  std::vector<std::string> left_out() const {
    std::vector<std::string> out;
    for (std::size_t i = 0; i < names_.size(); ++i)
      if (!is_one_step_ && parts_[i].shape().empty())
        out.push_back(fmt::format(
            "output '{}' has no row for each sample of a batch and is left out; give data of one batch",
            names_[i]));
    return out;
  }

 private:
  /// Else it is of a batch.
  bool is_of_samples(const Tensor& part) const { return !part.shape().empty() && part.shape()[0] == batch_; }

  std::int64_t samples_, batch_;
  bool is_one_step_;
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
    for (NodeId id : model.graph.node_ids()) {  // which checkpoints of adapters do not have
      const std::string& name = model.graph.name_of(id);
      if (!is_frozen(model.graph.node(id)) || weights->find(name)) continue;
      const auto own = model.initial.find(name);
      if (own == model.initial.end())
        throw error("{}: holds what was trained beside '{}', of which {} has no weights of its own",
                    weights->path, name, model.name);
      session.set(name, own->second());
    }
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
         row.flag == "--search" || row.flag == "--stages";
}

std::vector<Flag> flags() {
  std::vector<Flag> out{{"--checkpoint", "DIR|FILE",
                         "the weights, if the model's file has none: a checkpoint, or safetensors", ""},
                        {"--data", "DIR|FILE",
                         "samples: safetensors, columns (.csv, .tsv, or a folder with a .npy for each "
                         "input), or MNIST's folder",
                         ""},
                        tokenizer_flag(),
                        talks_flag(),
                        end_flag(),
                        {"--out", "FILE", "where predictions go, safetensors", ""},
                        timeout_flag(),
                        runtime_flag(),
                        {"--json", "", "one JSON document", ""}};
  for (const SettingRow& row : all_settings())
    if (is_of_inference(row)) out.push_back({row.flag, row.value, row.doc, row.alias});
  return out;
}

/// What is asked, before ranks start.
struct Asking {
  AskedNetwork network;
  std::optional<TensorSource> weights;
  std::string out;
  Waiting waiting;  // for ranks
  bool is_json = false;
};

/// Of whole batches, which stages do not cut.
Model whole_model_of(const Arguments& arguments, Terminal& terminal) {
  Arguments whole = arguments;
  whole.flags.erase("--stages");
  Model out = model_of(whole, terminal, true);
  arguments.notices = whole.notices;
  return out;
}

Asking prepare_asking(const Arguments& arguments, Terminal& terminal) {
  if (!arguments.has("--data")) throw error("infer needs --data");
  const Model model = whole_model_of(arguments, terminal);
  const bool has_folder = model.folder && model.folder->weights;
  if (!arguments.has("--checkpoint")) check_own_weights(inference_of(model, false));  // training has more
  const PlanRequest request = asked_of(arguments);
  for (const SettingRow& row : all_settings())
    if (is_of_inference(row)) arguments.heed(row.flag);
  arguments.heed("--runtime");
  tell_idle(arguments, request);
  tell_idle_samples(arguments, {"--data"}, takes_places(model));
  tell_assumed(arguments, model, false);
  std::optional<TensorSource> weights;
  if (arguments.has("--checkpoint"))
    weights = open_source(arguments.text("--checkpoint"));
  else if (has_folder)
    weights = *model.folder->weights;
  PrepareOptions options = prepare_options_of(arguments);
  options.proves = is_first_rank();  // for all
  const SampleSource source = source_of(arguments, "--data");
  Asking asking{.network = asked_network(model, source, request, options),
                .weights = std::move(weights),
                .out = arguments.text("--out"),
                .waiting = waiting_of(arguments, request.devices),
                .is_json = arguments.is_on("--json")};
  if (is_first_rank()) tell_unread_columns(model, source, SamplePart::test, terminal.err);
  arguments.check_heeded(terminal.err);
  if (!asking.out.empty() && is_first_rank()) require_writable(asking.out);
  return asking;
}

int ask_with(const SessionStart& start, const Asking& asking, const Arguments& arguments,
             Terminal& terminal) {
  const AskedNetwork& network = asking.network;
  if (is_first_rank())
    for (const std::string& notice : network.program.notices()) terminal.err << notice << "\n";
  Session session = start(network.program, with_waiting({}, asking.waiting));
  set_weights(session, asking.weights, network.model, terminal);
  Collected collected(network);
  AskOptions options = ask_options_of(network);
  options.take = [&](const std::vector<Tensor>& predictions, std::int64_t rows) {
    collected.add(predictions, rows);
  };
  options.progress = arguments.progress;
  const Evaluated e = ask(session, *network.data, options);
  if (!is_first_rank()) return 0;
  if (!network.model.answers.empty())
    for (const std::string& line : collected.left_out()) terminal.err << line << "\n";
  if (!asking.out.empty()) write_safetensors(asking.out, collected.outputs());
  tell(e, network.has_labels(), collected.outputs(), asking.is_json, terminal);
  return 0;
}

int ask_as_rank(const Arguments& arguments, Terminal& terminal) {
  std::optional<Asking> asking;
  const auto prepare = [&](MpiProcess& process) {
    check_ranks(arguments, process);
    asking.emplace(prepare_asking(arguments, terminal));
    std::vector<Agreement> out = agreements_of(arguments);
    out.push_back({"program", checksum_text(checksum(to_text(asking->network.program.pipeline()))),
                   "another plan; --search recursive finds the same everywhere"});
    return out;
  };
  return run_as_mpi_rank(
      {prepare,
       [&](MpiProcess& process) { return ask_with(start_on(process), *asking, arguments, terminal); },
       timeout_of(arguments)},
      terminal);
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (runtime_of(arguments) == Runtime::mpi)
    return run_over_mpi(arguments, terminal, [&] { return ask_as_rank(arguments, terminal); });
  return ask_with(start_threads, prepare_asking(arguments, terminal), arguments, terminal);
}

}  // namespace

std::vector<Verb> infer() {
  return {
      {.name = "infer",
       .doc = "ask a trained network about data: predictions, and where there are labels how good they are",
       .positionals = {"MODEL"},
       .flags = flags(),
       .example = "shardwright infer ffn --checkpoint run1 --data digits --devices 4",
       .run = run,
       .joins_mpirun = true}};
}

}  // namespace shardwright::verbs
