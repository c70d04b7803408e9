// Named tensors in a file: a strict reader and a writer of the safetensors format.
//
//   8 bytes   length of the header, little endian
//   header    JSON: {"name": {"dtype": "F32", "shape": [4, 8], "data_offsets": [0, 128]}, ...}, blanks at its
//   end data      the tensors, row-major, at their offsets
//
// The whole header is checked when a file is opened (types, shapes, offsets; no hole, no overlap), so what
// `type` says is what `read` gives. Data is read when asked for: a file of many steps is never in memory
// whole.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "shardwright/base/tensor.h"
#include "shardwright/layout/layout.h"

namespace shardwright {

/// A checked header; every read opens the file anew, so one object may serve many threads.
class SafetensorsFile {
 public:
  /// Throws: Error of kind io that names the file, the tensor and both values of the first defect.
  static SafetensorsFile open(const std::string& path);

  const std::string& path() const { return path_; }
  /// Sorted.
  std::vector<std::string> names() const;
  bool has(std::string_view name) const { return entries_.contains(name); }
  /// Throws: Error with near names if there is no such tensor.
  const Type& type(std::string_view name) const { return entry(name).type; }
  Tensor read(std::string_view name) const;
  /// Fills `to`, row-major, with the part `where`. Throws: Error of kind io.
  void read_part(std::string_view name, const Box& where, std::span<std::byte> to) const;
  /// Where its elements begin, in bytes from the start of the file.
  std::int64_t offset(std::string_view name) const { return data_start_ + entry(name).begin; }
  /// Row `index` of a tensor of shape [n, ...]: one step of [steps, batch, ...].
  /// Shapes: the result has the shape without its first dim.
  Tensor read_slice(std::string_view name, std::int64_t index) const;
  /// Of the header and its length.
  std::int64_t head_bytes() const { return data_start_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }

 private:
  friend class SafetensorsHeader;
  struct Entry {
    Type type;
    std::int64_t begin = 0;  // bytes from the start of the data
    std::int64_t end = 0;
  };

  const Entry& entry(std::string_view name) const;
  Tensor read_bytes(std::string_view name, Type type, std::int64_t begin) const;

  std::string path_;
  std::int64_t data_start_ = 0;
  std::map<std::string, Entry, std::less<>> entries_;
  std::map<std::string, std::string> metadata_;
};

struct NamedType {
  std::string name;
  Type type;
};
/// Brings tensors into the order in which files hold them: wide elements first, which aligns them all.
void order_in_file(std::vector<NamedType>& tensors);
/// What stands before the data of a file of these tensors in this order: the header and its length, a multiple of 8
/// bytes. Throws: Error if a name or text of the metadata cannot stand there.
std::string safetensors_head(const std::string& path, const std::vector<NamedType>& tensors,
                             const std::map<std::string, std::string>& metadata = {});

/// Writes as NewFile does: a reader sees the old file or the new one and nothing between.
/// Throws: Error of kind io.
void write_safetensors(const std::string& path, const std::map<std::string, Tensor>& tensors,
                       const std::map<std::string, std::string>& metadata = {});

}  // namespace shardwright
