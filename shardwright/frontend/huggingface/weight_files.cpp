#include "shardwright/frontend/huggingface/weight_files.h"

#include <filesystem>
#include <set>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/one_line.h"
#include "shardwright/base/text.h"
#include "shardwright/plan/json_text.h"

namespace shardwright::huggingface {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t most_index_bytes = std::int64_t{1} << 26;

using FileOf = std::map<std::string, std::string>;

FileOf read_index(const std::string& path) {
  const std::string text = read_text(path, most_index_bytes);
  try {
    const Json json = parse_json(text);
    if (!json.is_object()) throw error("is {} but should be an object", short_text(json));
    const auto map = json.find("weight_map");
    if (map == json.end() || !map->is_object())
      throw error("\"weight_map\" is {} but should be an object of files by tensors",
                  map == json.end() ? "missing" : short_text(*map));
    FileOf out;
    for (const auto& [name, file] : map->items()) {
      const std::string word = file.is_string() ? file.get<std::string>() : "";
      if (!word.ends_with(".safetensors") || word.find('/') != word.npos || word.find('\0') != word.npos)
        throw error(
            "\"weight_map.{}\" is {} but should be the name of a .safetensors file in the same folder",
            short_text(Json(name)), short_text(file));
      out[name] = word;
    }
    if (out.empty()) throw error("\"weight_map\" names no tensor");
    return out;
  } catch (const Error& e) {
    throw io_error("{}: {}", path, e.what());
  }
}

}  // namespace

void WeightFiles::add(const std::string& file) {
  files_.push_back(SafetensorsFile::open(folder_ + "/" + file));
  for (const std::string& name : files_.back().names())
    if (!file_of_.emplace(name, files_.size() - 1).second)
      throw io_error("{}/{}: has the tensor {}, which an earlier file has, too", folder_, file,
                     short_text(Json(name)));
}

WeightFiles WeightFiles::open(const std::string& folder) {
  WeightFiles out;
  out.folder_ = folder;
  std::error_code none;
  if (fs::exists(folder + "/model.safetensors", none)) {
    out.add("model.safetensors");
    return out;
  }
  const std::string index = folder + "/model.safetensors.index.json";
  if (!fs::exists(index, none))
    throw io_error(
        "{}: has neither model.safetensors nor model.safetensors.index.json; weights in other formats are "
        "not read",
        folder);
  const FileOf said = read_index(index);
  std::set<std::string> files;
  for (const auto& [name, file] : said) files.insert(file);
  for (const std::string& file : files) out.add(file);
  for (const auto& [name, file] : said)
    if (!out.has(name) || !out.file_of(name).path().ends_with("/" + file))
      throw io_error("{}/{}: has no tensor {}, which the index says it has", folder, file,
                     short_text(Json(name)));
  for (const auto& [name, at] : out.file_of_)
    if (!said.contains(name))
      throw io_error("{}: has the tensor {}, which the index does not know", out.files_[at].path(),
                     short_text(Json(name)));
  return out;
}

std::vector<std::string> WeightFiles::names() const {
  std::vector<std::string> out;
  for (const auto& [name, at] : file_of_) out.push_back(name);
  return out;
}

const SafetensorsFile& WeightFiles::file_of(const std::string& name) const {
  const auto it = file_of_.find(name);
  if (it == file_of_.end())
    throw io_error("{}: has no tensor '{}'{}", folder_, name, near_names(name, names()));
  return files_[it->second];
}

}  // namespace shardwright::huggingface
