// A checkpoint that is read: any part of any tensor, from whatever shards have it. Of a file only those blocks are read
// that hold something of what is asked for, and each is proven by its checksum as it comes in.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/manifest.h"

namespace shardwright {

class CheckpointReader {
 public:
  /// Opens `folder`, which holds a manifest. Shards are opened when something of them is wanted.
  /// Throws: Error of kind io if the manifest is damaged, or if files are missing or of another size.
  explicit CheckpointReader(std::string folder);
  ~CheckpointReader();
  CheckpointReader(CheckpointReader&&) noexcept;
  CheckpointReader& operator=(CheckpointReader&&) noexcept;

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return manifest_; }
  bool has(std::string_view name) const { return index_.contains(name); }
  /// Throws: Error with near names if there is none.
  const SavedTensor& tensor(std::string_view name) const;

  /// Fills `to`, row-major, with the part `where` of a tensor. Several threads may call.
  /// Throws: Error of kind io that names the file, if it is damaged.
  void read(const SavedTensor& tensor, const Box& where, std::span<std::byte> to) const;
  Tensor read(std::string_view name) const;

  /// Reads all. Throws: Error of kind io that names the first file that is damaged.
  void verify() const;

 private:
  class File;
  const File& file(int shard) const;

  std::string folder_;
  Manifest manifest_;
  std::map<std::string_view, std::size_t, std::less<>> index_;  // of tensors, by name
  std::vector<std::unique_ptr<File>> files_;
};

/// A checkpoint in `path`: itself one, or the latest of a run's. Throws: Error of kind io if there is none.
CheckpointReader open_checkpoint(const std::string& path);

}  // namespace shardwright
