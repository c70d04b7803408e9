#include "shardwright/frontend/huggingface/folder.h"
#include "shardwright/frontend/model_keys.h"

#include <algorithm>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/text.h"
#include "shardwright/frontend/huggingface/family.h"
#include "shardwright/graph/op.h"

namespace shardwright::huggingface {
namespace {

namespace fs = std::filesystem;

/// Keys that say nothing about the numbers of a forward pass in training.
const std::vector<std::string> harmless{"architectures",
                                        "model_type",
                                        "transformers_version",
                                        "_name_or_path",
                                        "_attn_implementation_autoset",
                                        "torch_dtype",
                                        "dtype",
                                        "use_cache",
                                        "bos_token_id",
                                        "eos_token_id",
                                        "sep_token_id",
                                        "cls_token_id",
                                        "decoder_start_token_id",
                                        "initializer_range",
                                        "initializer_factor",
                                        "id2label",
                                        "label2id",
                                        "problem_type",
                                        "output_attentions",
                                        "output_hidden_states",
                                        "return_dict",
                                        "return_dict_in_generate",
                                        "gradient_checkpointing",
                                        "task_specific_params",
                                        "finetuning_task",
                                        "tokenizer_class",
                                        "max_length",
                                        "min_length",
                                        "do_sample",
                                        "temperature",
                                        "top_k",
                                        "top_p",
                                        "num_beams",
                                        "repetition_penalty",
                                        "length_penalty",
                                        "no_repeat_ngram_size",
                                        "bad_words_ids",
                                        "torchscript",
                                        "prefix",
                                        "is_encoder_decoder",
                                        "num_labels",
                                        "pretraining_tp",
                                        "cache_implementation"};

const Family& family_of(const Config& config) {
  std::vector<std::string> known;
  const std::string type = config.text_or("model_type", "");
  for (const Family& f : all_families()) {
    if (f.type == type) return f;
    known.push_back(f.type);
  }
  if (type.empty())
    throw error("{}: has no \"model_type\", so nothing says what network it is", config.path());
  throw error("{}: \"model_type\" \"{}\" is unknown{}; there are {}", config.path(), type,
              near_names(type, known), join(known, ", "));
}

void check_architecture(const Config& config, const Family& family) {
  for (const std::string& one : config.texts("architectures"))
    if (std::ranges::find(family.architectures, one) == family.architectures.end())
      throw error("{}: \"architectures\" says {}, which is not supported; of {} there is {}", config.path(),
                  one, family.type, join(family.architectures, ", "));
}

/// Whole parameters in the type in which they are kept, for whoever does not read them part by part.
std::map<std::string, InitialValue> initial_of(const Model& model) {
  std::map<std::string, InitialValue> out;
  if (!model.folder->weights) return out;
  for (const TensorSource::Item& item : model.folder->weights->items) {
    const ValueId v = model.graph.find(item.name);
    const Attributes& attributes = model.graph.node(model.graph.value(v).producer).attributes;
    const DType kept = dtype_of(attributes.text("master", "")).value_or(model.graph.value(v).type.dtype);
    out[item.name] = [folder = model.folder, name = item.name, type = Type{kept, item.type.shape}] {
      Tensor whole(type);
      const TensorSource& source = *folder->weights;
      source.read_as(type.dtype, *source.find(name), whole_box(type.shape), whole.bytes());
      return whole;
    };
  }
  return out;
}

const std::vector<std::string> keys_of_specs{"batch", "documents", "dropout", "inputs", "seq", "target"};

}  // namespace

std::string config_of(const std::string& path) {
  std::error_code none;
  if (fs::is_directory(path, none))
    return fs::exists(path + "/config.json", none) ? path + "/config.json" : "";
  return fs::path(path).filename() == "config.json" && fs::exists(path, none) ? path : "";
}

Model load_folder(const std::string& spec, const ModelOptions& options) {
  const std::string path = without_keys(spec);
  const Config config = Config::read(config_of(path));
  const Family& family = family_of(config);
  check_architecture(config, family);
  config.pass_over(harmless);
  ModelArguments arguments = arguments_of(spec, options);
  arguments.check_keys(keys_of_specs);
  if (options.global_batch) arguments.keys["batch"] = std::to_string(*options.global_batch);
  std::optional<WeightFiles> weights;
  if (fs::is_directory(path)) weights.emplace(WeightFiles::open(path));
  const FamilyCall call{config, arguments, weights ? &*weights : nullptr};
  // Documents are told apart by where elements stand.
  if (arguments.text("documents", "") == "apart" && !call.brings("position_ids"))
    arguments.keys["inputs"] += arguments.text("inputs", "").empty() ? "position_ids" : ".position_ids";
  const std::string said = arguments.text("inputs", "");
  for (std::string_view input : split(said, '.'))
    if (!input.empty() && std::ranges::find(family.inputs, input) == family.inputs.end())
      throw error("inputs={}: '{}' is no input of {} that is read{}", arguments.text("inputs", ""), input,
                  family.type, family.inputs.empty() ? "" : "; there are " + join(family.inputs, ", "));
  BuiltFamily built = family.build(call);
  config.check_all_read();
  built.model.folder = std::make_shared<const ModelFolder>(
      folder_of(built.model.graph, built.names, config.path(), weights ? &*weights : nullptr));
  built.model.initial = initial_of(built.model);
  return std::move(built.model);
}

namespace {

/// What the first input of families is called.
const SafetensorsFile* opened(const std::string& path, std::optional<SafetensorsFile>& file) {
  std::error_code none;
  if (!path.ends_with(".safetensors") || !fs::is_regular_file(path, none)) return nullptr;
  file = SafetensorsFile::open(path);
  return &*file;
}

}  // namespace

std::string spec_for_data(const std::string& spec, const std::string& path) {
  std::optional<SafetensorsFile> held;
  const SafetensorsFile* const file = opened(path, held);
  if (!file) return spec;
  const Config config = Config::read(config_of(without_keys(spec)));
  const Family& family = family_of(config);
  std::map<std::string, std::string> keys = arguments_of(spec, {}).keys;
  std::vector<std::string> inputs;
  for (const std::string& input : family.inputs)
    if (file->has(input)) inputs.push_back(input);
  for (const char* input : {"attention_mask", "position_ids", "token_type_ids"})
    if (file->has(input) && std::ranges::find(family.inputs, input) == family.inputs.end())
      throw error("{}: has '{}', which changes what {} computes and is not supported for it", path, input,
                  family.type);
  if (!inputs.empty()) keys.try_emplace("inputs", join(inputs, "."));
  for (const char* first : {"input_ids", "input"}) {
    if (!file->has(first) || is_floating(file->type(first).dtype)) continue;
    const Shape& shape = file->type(first).shape;
    if (shape.size() != 2 && shape.size() != 3) continue;
    keys.try_emplace("seq", std::to_string(shape.back()));
    if (shape.size() == 3) keys.try_emplace("batch", std::to_string(shape[1]));
    break;
  }
  const bool has_targets = std::ranges::find(family.inputs, "decoder_input_ids") != family.inputs.end();
  if (has_targets && file->has("labels"))
    keys.try_emplace("target", std::to_string(file->type("labels").shape.back()));
  if (file->has("input_features") && file->type("input_features").shape.size() == 4)
    keys.try_emplace("batch", std::to_string(file->type("input_features").shape[1]));
  if (file->has("pixel_values") && file->type("pixel_values").shape.size() == 5)
    keys.try_emplace("batch", std::to_string(file->type("pixel_values").shape[1]));
  return with_keys(spec, keys);
}

}  // namespace shardwright::huggingface
