// A checkpoint that is read: any part of any tensor, from whatever shards have it. Of a file only those blocks are read
// that hold something of what is asked for, and each is proven by its checksum as it comes in.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/manifest.h"

namespace shardwright {

class Progress;

class CheckpointReader {
 public:
  /// Opens `folder`, which holds a manifest. Shards are opened when something of them is wanted.
  /// Throws: Error of kind io if the manifest is damaged, or if files are missing or of another size.
  explicit CheckpointReader(std::string folder);

  const std::string& folder() const { return folder_; }
  const Manifest& manifest() const { return *manifest_; }

  /// Fills `to`, row-major, with the part `where` of a tensor. Several threads may call.
  /// Throws: Error of kind io that names the file, if it is damaged.
  void read(const SavedTensor& tensor, const Box& where, std::span<std::byte> to) const;
  Tensor read(std::string_view name) const;

  /// Reads all. Throws: Error of kind io that names the first file that is damaged.
  void verify(Progress* progress = nullptr) const;

 private:
  class File;

  std::string folder_;  // copies share what follows
  std::shared_ptr<const Manifest> manifest_;
  std::vector<std::shared_ptr<const File>> files_;
};

/// A checkpoint in `path`: itself one, or the latest of a run's. Throws: Error of kind io if there is none.
CheckpointReader open_checkpoint(const std::string& path);

}  // namespace shardwright
