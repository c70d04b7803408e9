// A folder that a model's weights lie in under names and in layouts of their own, and how parameters are made of them.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "shardwright/frontend/adapters.h"
#include "shardwright/frontend/model.h"
#include "shardwright/runtime/checkpoint/tensor_source.h"

namespace shardwright {

/// A part of a tensor in the folder that is a part of a parameter. Both boxes have the same elements; those of `ours` may have
/// dims of size 1 in front. `is_transposed`: the last two dims stand the other way round.
struct TensorPiece {
  std::string parameter;
  Box ours, theirs;
  bool is_transposed = false;
};

struct FolderTensor {
  std::string name;
  Type type;                        // as the folder has it; where it has none: as a new one would
  std::vector<TensorPiece> pieces;  // none: no parameter is made of it, and it stays as it is
};

struct ModelFolder {
  std::string path;
  std::string config;  // the path of config.json
  /// By file, in the order in which they are written.
  std::map<std::string, std::vector<FolderTensor>> files;
  /// Parameters by their own names; nothing where the folder has no weights.
  std::optional<TensorSource> weights;
  /// What names of the network begin with where those of the folder do not, all but `outside`.
  std::string prefix = {};
  std::vector<std::string> outside = {};
  std::optional<Adapters> adapters = {};  // beside its weights

  /// What `tensor` of the folder is called in the network that transformers makes of it.
  std::string in_network(const std::string& tensor) const;
};

/// Writes a folder that the readers of the first one open: the same files with the tensors that parameters make now, in the type in
/// which they are kept; config.json, which says that type, and what the first has of a tokenizer. `folder` empty: nothing is
/// written, and only `read` is called, as where another process writes.
/// Throws: Error of kind io.
void save_folder(const ModelFolder& model, const ReadParameter& read, const std::string& folder);
/// The adapters alone, as PEFT keeps them. `folder` empty: as save_folder.
/// Throws: Error of kind io.
void save_adapters(const ModelFolder& model, const ReadParameter& read, const std::string& folder);
/// Whether a safetensors file holds PEFT's adapters.
bool has_peft_names(const std::string& path);
/// Parameters of adapters that such a file has, by our names.
/// Throws: Error if it is of other modules or another rank, or of another scale as the adapter_config.json beside it says.
std::map<std::string, Tensor> read_adapters(const ModelFolder& model, const std::string& path);
/// Parameters with adapters as they are when these are merged into them: W + (alpha / rank) A B.
ReadParameter merged(const Adapters& adapters, ReadParameter read);
/// Throws: Error, before any training, if nothing can be written there.
void check_saves(const ModelFolder& model, const std::string& flag, const std::string& folder);

}  // namespace shardwright
