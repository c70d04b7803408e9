// Models by name: `ffn`, `matmul_chain:batch=8192,widths=4096-1`, or a file. One file in frontend/models
// each.
#pragma once

#include <cstdint>
#include <functional>
#include <limits>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/annotations/annotations.h"
#include "shardwright/base/precision.h"
#include "shardwright/frontend/modules/losses.h"
#include "shardwright/frontend/trace.h"
#include "shardwright/plan/plan.h"

namespace shardwright {

/// The value that a parameter or state starts with, read when it is asked for. Throws: Error of kind io.
using InitialValue = std::function<Tensor()>;
/// The part `where` of what is called `name`, a parameter as it stands now.
using ReadParameter = std::function<Tensor(const std::string& name, const Box& where)>;

struct ModelOptions {
  std::optional<std::int64_t> global_batch;  // overrides `batch=`
  Precision precision;
  std::string loss;
  Attention attention = Attention::flash;
  int micro_batches = 1;  // the model is for one of so many parts of the batch
  int interleave = 1;     // of which so many stand in one micro-batch
  /// Above 0: of a decoder one step, which takes a token of each sequence and keeps keys and values of so many.
  std::int64_t cached = 0;
  std::int64_t prompt = 0;  // above 0: of these the first step, which takes so many tokens of each
  bool asks = false;  // the model of a file is only asked: for all that it gives, and its loss is one of them
};

struct ModelFolder;  // frontend/model_folder.h

/// What an input is called in data, where that is not its own name.
struct DataName {
  std::string name;
  bool is_of_next =
      false;  // along the last dim an element stands where the one before it is predicted: labels of decoders
};

/// A network with its loss, not yet differentiated. Output 0 of the graph is the loss, 1 the prediction.
struct Model {
  std::string name;  // as the user wrote it
  Graph graph;
  ValueId loss;
  Constraints constraints;                           // its own, if it has any
  Labels labels = {};                                // of the input called label
  std::map<std::string, std::int64_t> classes = {};  // integers of other inputs are below theirs
  std::vector<std::string> notices = {};             // what to tell who trains it, a line each
  std::vector<std::string> warnings = {};            // and what to tell who does anything with it
  std::vector<std::string> answers =
      {};  // what its outputs behind the loss are called, where not as their nodes
  bool has_uneven_loss =
      false;                // it sums, weighs or leaves out: the mean over micro-batches is another number
  std::int64_t tokens = 0;  // of sequences in a batch; 0: its inputs are no sequences
  bool wants_mnist = false;
  std::int64_t places = 0;                      // of a sequence, of a decoder: as many as it was trained for
  bool has_attention = false;                   // which ModelOptions::attention says how to do
  std::map<std::string, InitialValue> initial;  // by name; others start as their leaves say
  std::map<std::string, DataName> data_names = {};  // by input
  /// The input that says how much each sample's labels count; who feeds the model makes it of those (frontend/label_weights.h).
  std::string label_weights = {};
  std::shared_ptr<const ModelFolder> folder = {};  // that its weights lie in, if they lie in one
  std::optional<ModelOptions>
      own;  // of a graph as text: batch and precision that it says itself, whatever options say
};

/// What stands behind the model's name, and what flags change.
class ModelArguments {
 public:
  std::map<std::string, std::string> keys;
  Precision precision;
  std::string loss;  // empty: the model's own
  Attention attention = Attention::flash;
  std::int64_t cached = 0, prompt = 0;  // as in ModelOptions
  bool asks = false;                    // likewise

  /// The value of `key`. Throws: Error if it is not an integer from 1 to `most`.
  std::int64_t integer(const std::string& key, std::int64_t otherwise,
                       std::int64_t most = std::numeric_limits<std::int64_t>::max()) const;
  /// `784-512-10`. Throws: Error if there are fewer than two numbers, or one below 1.
  std::vector<std::int64_t> widths(const std::string& otherwise) const;
  std::string text(const std::string& key, const std::string& otherwise) const;
  /// Throws: Error with near ones if there is a key that is not in `known`.
  void check_keys(const std::vector<std::string>& known) const;
};

/// Samples of a step that a model was published with.
struct TrainedBatch {
  std::int64_t samples = 0;  // 0: nobody has said it
  std::string source;
  std::int64_t tokens = 0;  // above 0: as many samples as have so many, of whatever length the key `seq` says
};

struct ModelDef {
  std::string name;
  std::string doc;
  std::map<std::string, std::string> keys;  // key -> default, as `models` prints them
  TrainedBatch trained = {};
  std::function<Model(const ModelArguments&)> build;
};

/// Every model there is; written by CMake from the files in frontend/models/.
std::span<const ModelDef> all_models();

/// The arguments of the keys behind `spec`, of whatever source. Throws: Error on what is no key=value.
ModelArguments arguments_of(const std::string& spec, const ModelOptions& options);
/// `spec` without its keys.
std::string without_keys(const std::string& spec);

/// The model that `spec` names: `name:key=value,...`, a `.graph` file, an `.onnx` file (`FILE:dim=size,...` where it
/// leaves sizes open), a folder of Hugging Face's kind, or `-` for `input` (a graph as text). Each kind is a source
/// (frontend/source.h).
/// Throws: Error on an unknown model or key, or a value that is no number.
Model build_model(const std::string& spec, const ModelOptions& options = {}, std::string_view input = "");

/// Whether the keys of `spec` say the batch.
bool says_batch(std::string_view spec);

/// Samples of a step that the model called `spec` is trained with; nothing where that is not known, or `spec` says `batch=`.
std::optional<std::int64_t> trained_batch(std::string_view spec);

/// Samples of its batch: dim 0 of the first input that has dims; nothing if there is none.
std::optional<std::int64_t> batch_of(const Model& model);

/// What a network's file does at its end: marks loss and prediction as outputs and takes over the trace.
Model finish_model(Trace& trace, Traced loss, Traced prediction);
/// The same of a network without a loss; each output is another value.
Model finish_model(Trace& trace, const std::vector<Traced>& outputs);

}  // namespace shardwright
