// Families of Hugging Face's folders: one file in frontend/huggingface/families each, with what its config.json says as a network of
// ours and the table of its names.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "shardwright/frontend/huggingface/config.h"
#include "shardwright/frontend/huggingface/names.h"
#include "shardwright/frontend/modules/decoder.h"

namespace shardwright::huggingface {

/// What is asked of a family: keys behind the folder's name, flags.
struct FamilyCall {
  const Config& config;
  const ModelArguments& arguments;       // their `batch` is set where --global-batch says it
  const WeightFiles* weights = nullptr;  // null: a config alone

  /// Of the key `seq`; as many as there are places, but at most 4096, where it is not there. Throws: Error if there are not so many,
  /// where places are learned.
  std::int64_t sequence(std::int64_t places, Positions positions = Positions::learned) const;
  /// Whether the folder's files have it; `otherwise` where there are none.
  bool has_tensor(const std::string& name, bool otherwise) const;
  std::int64_t batch() const { return arguments.integer("batch", 8); }
  /// Whether data bring this input. Others than those in `possible` are refused by `check_inputs`.
  bool brings(const std::string& input) const;
  /// The rate that the config says; 0 where the key dropout=0 leaves it out, and where tokens are generated.
  double dropout(const std::string& key, double otherwise) const;
  /// Throws: Error if the config leaves out whole layers by chance, unless the key dropout=0 says that it is not done.
  void check_layers_stay(const std::string& key) const;
};

struct BuiltFamily {
  Model model;
  Names names;
};

struct Family {
  std::string type;                        // `model_type`
  std::vector<std::string> architectures;  // what is built; the first, where the config says none
  std::vector<std::string> inputs;         // that data may bring beside the first and the labels
  std::function<BuiltFamily(const FamilyCall&)> build;
};

/// A decoder of language: its train step's network, or with `cached` one step of generation.
Model decoder_model(const FamilyCall& call, DecoderOptions options);
/// A loss over the labels of `scores` [batch, sequence, classes] that are not -100, of the whole batch: finishes the model.
/// `label` is its input of that name, if there is one yet.
Model language_model(const FamilyCall& call, Trace& trace, Traced scores, bool is_of_next,
                     std::optional<Traced> label = {});

/// The mean loss over labels of samples, of scores [batch, classes]: finishes the model, whose input `called` is named so in data.
Model class_model(const FamilyCall& call, Trace& trace, Traced scores, const std::string& called);

/// What most decoders have in common: sizes, heads, rotary positions; what a key that is missing means differs by family.
struct DecoderDefaults {
  std::int64_t vocabulary = 32000, hidden = 4096, ffn = 11008, layers = 32, heads = 32;
  std::int64_t kv_heads = 0;  // 0: heads
  std::int64_t places = 2048;
  double base = 10000;
  std::int64_t features = 0;  // of a head; 0: hidden / heads
  bool tied = false;
  double epsilon = 1e-6;
  std::string epsilon_key = "rms_norm_eps";
  double rotary_share = 1;
  std::optional<std::int64_t> padding = {};
  bool rotary_by_layer = false;  // rope_parameters are of each type of layers: who asks sets them
};
/// Rotary positions of heads of `options`, as `said` has them.
void set_rotary(const FamilyCall& call, const DecoderOptions& options, SelfAttention::Options& heads,
                const Config& said, const DecoderDefaults& defaults);
DecoderOptions decoder_options(const FamilyCall& call, const DecoderDefaults& defaults);
/// One window, if it is above 0, for layers that `layer_types` calls sliding_attention; without it, for those that `by_layer` says,
/// which is all where it says nothing.
void read_windows(const FamilyCall& call, DecoderOptions& options, std::int64_t window,
                  const std::function<bool(std::int64_t layer)>& by_layer = {});
/// `hidden_act` as a gated or plain activation.
Activation activation_of(const Config& config, const std::string& key, const std::string& otherwise,
                         bool is_gated);

/// The names that llama and its like share.
Names llama_names(const std::string& network = "mlp");

/// The same with experts, one by one: a router, and of each expert what it is made of.
Names expert_names(const std::string& router, const std::string& experts, const std::string& gate,
                   const std::string& up, const std::string& down);

}  // namespace shardwright::huggingface

namespace shardwright {

/// Every family there is; written by CMake from the files in frontend/huggingface/families/.
std::span<const huggingface::Family> all_families();

}  // namespace shardwright
