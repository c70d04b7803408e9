// Where tensors come from that are written anew, compared or told: a checkpoint, or one plain safetensors file.
#pragma once

#include <functional>
#include <map>
#include <string>
#include <vector>

#include "shardwright/runtime/checkpoint/reader.h"

namespace shardwright {

struct TensorSource {
  struct Item {
    std::string name;
    Type type;
    bool is_state = false;
  };
  std::string path;
  std::vector<Item> items;
  /// Fills `to` with the part `where` of item `i`. Throws: Error of kind io.
  std::function<void(std::size_t i, const Box& where, std::span<std::byte> to)> read;
  RunState run;
  std::string plan;

  /// The place of an item; nothing if there is none of this name.
  const Item* find(std::string_view name) const;
  void read_of(const Item& item, const Box& where, std::span<std::byte> to) const;
  /// Converted to `dtype`.
  void read_as(DType dtype, const Item& item, const Box& where, std::span<std::byte> to) const;
};

TensorSource source_of(const CheckpointReader& reader);
/// A checkpoint's folder, a run's folder with its latest one, or a `.safetensors` file, all of which are parameters.
/// Throws: Error of kind io.
TensorSource open_source(const std::string& path);

/// New names by old ones. Throws: Error if one is not there, or two tensors would have one name.
void rename(TensorSource& source, const std::map<std::string, std::string>& names);
/// Of a JSON file `{"old": "new"}`.
std::map<std::string, std::string> read_names(const std::string& path);
void drop_states(TensorSource& source);

/// How two differ.
struct TensorDifference {
  std::string name;
  std::string types;          // if they differ, both
  std::int64_t elements = 0;  // that differ
  double largest = 0;         // absolute
};
struct SourceDifference {
  std::vector<std::string> only_in_first, only_in_second;
  std::vector<TensorDifference> tensors;  // those that differ
  std::int64_t compared = 0;
  bool is_none() const { return only_in_first.empty() && only_in_second.empty() && tensors.empty(); }
};
SourceDifference difference_of(const TensorSource& a, const TensorSource& b);

}  // namespace shardwright
