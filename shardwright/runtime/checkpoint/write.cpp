#include "shardwright/runtime/checkpoint/write.h"

#include <unistd.h>

#include <algorithm>
#include <filesystem>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/runtime/checkpoint/shard.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

struct WrittenPart {
  const TensorSource::Item* item = nullptr;
  Type type;  // of the whole, as it is written
  Box where;
};

/// Calls `write(bytes)` for what a safetensors file of these parts is made of.
template <class F>
void for_bytes_of(const TensorSource& source, const std::vector<WrittenPart>& parts, const std::string& path,
                  F write) {
  std::vector<NamedType> types;
  for (const WrittenPart& p : parts) types.push_back({p.item->name, {p.type.dtype, p.where.extent}});
  order_in_file(types);
  const std::string head = safetensors_head(path, types);
  write(std::as_bytes(std::span(head)));
  for (const NamedType& t : types) {
    const WrittenPart& part =
        *std::ranges::find(parts, t.name, [](const WrittenPart& p) { return p.item->name; });
    for_each_block(part.where, elements_at_once, [&](const Box& block) {
      Tensor values({t.type.dtype, block.extent});
      source.read_as(t.type.dtype, *part.item, block, values.bytes());
      write(std::span<const std::byte>(values.bytes()));
    });
  }
}

std::vector<WrittenPart> whole_parts(const TensorSource& source) {
  std::vector<WrittenPart> out;
  for (const TensorSource::Item& item : source.items)
    out.push_back({&item, item.type, whole_box(item.type.shape)});
  return out;
}

/// Writes `parts` by shard, and the manifest, whose tensors are there already.
void write_shards(const TensorSource& source, std::string folder,
                  const std::vector<std::vector<WrittenPart>>& shards, Manifest manifest) {
  while (folder.size() > 1 && folder.ends_with('/')) folder.pop_back();
  const std::string unfinished = fmt::format("{}.unfinished.{}", folder, ::getpid());
  std::error_code failure;
  if (fs::exists(folder, failure)) throw io_error("{}: is there already; give another folder", folder);
  if (!fs::create_directory(unfinished, failure))
    throw io_error("{}: cannot be made: {}", unfinished,
                   failure ? failure.message() : std::string("is there already"));
  try {
    for (const auto& parts : shards) {
      const std::string file = shard_file(static_cast<int>(manifest.shards.size()));
      SummedFile out(fmt::format("{}/{}", unfinished, file), manifest.block_bytes);
      for_bytes_of(source, parts, folder, [&](std::span<const std::byte> bytes) { out.write(bytes); });
      manifest.shards.push_back({.file = file, .bytes = out.bytes(), .blocks = out.keep()});
    }
    write_file(fmt::format("{}/{}", unfinished, manifest_file), to_json(manifest));
    fs::rename(unfinished, folder, failure);
    if (failure) throw io_error("{}: cannot be written: {}", folder, failure.message());
  } catch (...) {
    fs::remove_all(unfinished, failure);
    throw;
  }
}

}  // namespace

void write_plain(const TensorSource& source, const std::string& path) {
  NewFile out(path);
  for_bytes_of(source, whole_parts(source), path,
               [&](std::span<const std::byte> bytes) { out.write(bytes); });
  out.keep();
}

void write_checkpoint(const TensorSource& source, const std::string& folder) {
  Manifest manifest{.run = source.run, .plan = {}};
  for (const TensorSource::Item& item : source.items) {
    SavedTensor t{.name = item.name, .type = item.type, .is_state = item.is_state};
    std::vector<std::pair<int, Box>> parts;
    if (item.type.bytes() > 0) parts.emplace_back(0, whole_box(item.type.shape));
    t.layout = "whole";
    set_parts(t, parts);
    manifest.tensors.push_back(std::move(t));
  }
  write_shards(source, folder, {whole_parts(source)}, std::move(manifest));
}

void write_checkpoint(const TensorSource& source, const std::string& folder, const Pipeline& pipeline,
                      const std::string& plan) {
  const KeptValues kept(pipeline);
  std::vector<std::vector<NamedBox>> shares = shares_of(pipeline, kept);
  const std::vector<SavedTensor> known = saved_tensors(pipeline, kept, shares);
  for (const SavedTensor& t : known) {
    const TensorSource::Item* const item = source.find(t.name);
    if (!item && !t.is_state)
      throw error("{}: has no parameter '{}', which the plan's network has", source.path, t.name);
    if (item && item->type.shape != t.type.shape)
      throw error("{}: '{}' is {} but {} in the plan's network", source.path, t.name, to_text(item->type),
                  to_text(t.type));
  }
  for (const TensorSource::Item& item : source.items)
    if (std::ranges::find(known, item.name, &SavedTensor::name) == known.end())
      throw error("{}: the plan has no place for '{}'; it is of another network or optimizer", source.path,
                  item.name);
  // A source without states becomes a checkpoint without.
  for (auto& share : shares)
    std::erase_if(share, [&](const NamedBox& part) { return !source.find(part.name); });
  Manifest manifest{.run = source.run, .plan = plan};
  manifest.tensors = saved_tensors(pipeline, kept, shares);
  std::vector<std::vector<WrittenPart>> shards;
  for (const auto& share : shares) {
    if (share.empty()) continue;
    shards.emplace_back();
    for (const NamedBox& part : share)
      shards.back().push_back({source.find(part.name), kept.type_of(kept.named(part.name)), part.where});
  }
  write_shards(source, folder, shards, std::move(manifest));
}

}  // namespace shardwright
