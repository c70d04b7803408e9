#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/frontend/huggingface/pieces.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

constexpr const char* copied[] = {"tokenizer.json",
                                  "tokenizer_config.json",
                                  "special_tokens_map.json",
                                  "added_tokens.json",
                                  "vocab.json",
                                  "merges.txt",
                                  "tokenizer.model",
                                  "chat_template.jinja",
                                  "generation_config.json",
                                  "preprocessor_config.json"};

/// All of theirs that parameters make, in the type in which these are kept.
Tensor made(const FolderTensor& tensor, DType dtype, const ReadParameter& read) {
  Tensor out({dtype, tensor.type.shape});
  const Box whole{Shape(tensor.type.shape.size()), tensor.type.shape};
  for (const TensorPiece& piece : tensor.pieces) {
    const Tensor part = read(piece.parameter, piece.ours);
    copy_piece(huggingface::turned_round(huggingface::copy_of(piece, piece.ours, whole, piece.ours)),
               part.bytes().data(), out.bytes().data(), size_of(dtype));
  }
  return out;
}

/// In which the parameter is kept: read off an element of it.
DType kept_type(const TensorPiece& piece, const ReadParameter& read) {
  return read(piece.parameter, {piece.ours.offset, Shape(piece.ours.extent.size(), 1)}).dtype();
}

void write_config(const ModelFolder& model, const std::string& folder, DType dtype) {
  Json json = parse_json(read_text(model.config, most_settings_bytes));
  const char* const key = json.contains("torch_dtype") && !json.contains("dtype") ? "torch_dtype" : "dtype";
  json[key] = short_dtype(dtype);
  write_file(folder + "/config.json", json.dump(2) + "\n");
}

}  // namespace

std::string ModelFolder::in_network(const std::string& tensor) const {
  return std::ranges::find(outside, tensor) == outside.end() ? prefix + tensor : tensor;
}

void check_saves(const ModelFolder& model, const std::string& flag, const std::string& folder) {
  std::error_code why;
  if (fs::exists(folder, why) && fs::equivalent(folder, model.path, why))
    throw error("{} {}: is the folder that the weights are read from; name another", flag, folder);
  fs::create_directories(folder, why);
  if (why || !fs::is_directory(folder))
    throw io_error("{}: cannot be made: {}", folder, why ? why.message() : "it is no folder");
}

void save_folder(const ModelFolder& model, const ReadParameter& read, const std::string& folder) {
  const bool writes = !folder.empty();
  Json weight_map = Json::object();
  std::int64_t bytes = 0;
  std::optional<DType> of_all;
  for (const auto& [name, tensors] : model.files) {
    std::vector<NamedType> types;
    for (const FolderTensor& t : tensors) {
      const DType dtype = t.pieces.empty() ? t.type.dtype : kept_type(t.pieces.front(), read);
      if (!t.pieces.empty() && !of_all) of_all = dtype;
      types.push_back({t.name, {dtype, t.type.shape}});
    }
    order_in_file(types);
    std::optional<NewFile> file;
    if (writes) file.emplace(folder + "/" + name);
    if (writes) file->write(safetensors_head(folder + "/" + name, types, {{"format", "pt"}}));
    for (const NamedType& type : types) {
      const auto& t = *std::ranges::find(tensors, type.name, &FolderTensor::name);
      bytes += type.type.bytes();
      weight_map[type.name] = name;
      if (t.pieces.empty() && !writes) continue;
      const Tensor tensor = t.pieces.empty() ? SafetensorsFile::open(model.path + "/" + name).read(t.name)
                                             : made(t, type.type.dtype, read);
      if (writes) file->write(tensor.bytes());
    }
    if (writes) file->keep();
  }
  if (!writes) return;
  if (model.files.size() > 1)
    write_file(folder + "/model.safetensors.index.json",
               Json{{"metadata", {{"total_size", bytes}}}, {"weight_map", weight_map}}.dump(2) + "\n");
  std::error_code none;
  for (const char* name : copied)
    if (fs::is_regular_file(model.path + "/" + name, none))
      fs::copy_file(model.path + "/" + name, folder + "/" + name, fs::copy_options::overwrite_existing, none);
  write_config(model, folder, of_all.value_or(DType::f32));
}

}  // namespace shardwright
