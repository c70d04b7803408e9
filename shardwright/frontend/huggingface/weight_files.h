// The tensors of a Hugging Face folder: one model.safetensors, or several files that an index names.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "shardwright/runtime/safetensors.h"

namespace shardwright::huggingface {

class WeightFiles {
 public:
  /// Opens every file and compares it with the index; no tensor is read.
  /// Throws: Error of kind io if there are none, one is missing or damaged, or the index is of other files.
  static WeightFiles open(const std::string& folder);

  const std::string& folder() const { return folder_; }
  bool has(const std::string& name) const { return file_of_.contains(name); }
  /// Sorted.
  std::vector<std::string> names() const;
  /// Throws: Error of kind io, with near names, if there is no such tensor.
  const SafetensorsFile& file_of(const std::string& name) const;
  const Type& type(const std::string& name) const { return file_of(name).type(name); }
  /// Files in the order of their names, with what is in each.
  const std::vector<SafetensorsFile>& files() const { return files_; }

 private:
  void add(const std::string& file);

  std::string folder_;
  std::vector<SafetensorsFile> files_;
  std::map<std::string, std::size_t> file_of_;
};

}  // namespace shardwright::huggingface
