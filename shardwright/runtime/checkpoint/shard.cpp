#include "shardwright/runtime/checkpoint/shard.h"

#include <fcntl.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "shardwright/autodiff/accumulate.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/checksum.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/safetensors.h"

namespace shardwright {
namespace {

/// What stands in a checkpoint under its own name: no masters, which stand under their parameters', not what follows from the
/// step, and nothing that stays as it was given.
bool is_saved(const KeptValues& kept, const Kept& value) {
  return &kept.parameter_of(value) == &value && !follows_from_step(value.name) && !kept.is_cache(value) &&
         !kept.is_frozen(value);
}

}  // namespace

bool follows_from_step(std::string_view name) { return name == micro_batch_count || is_rate(name); }

std::vector<HeldPart> held_parts(const Pipeline& pipeline, const KeptValues& kept) {
  std::vector<const Kept*> values;
  for (const Kept& value : kept.all())
    if (is_saved(kept, value)) values.push_back(&value);
  std::ranges::stable_sort(values, std::greater<>(), [&](const Kept* k) { return kept.type_of(*k).bytes(); });
  std::vector<HeldPart> out;
  for (const Kept* value : values) {
    const auto [stage, v] = kept.place_of(*value);
    const Graph& graph = pipeline.stage(stage).graph;
    const int first = pipeline.first_rank(stage);
    const auto element = static_cast<std::int64_t>(size_of(kept.type_of(*value).dtype));
    std::map<Shape, HeldPart> holders;  // by where the part begins
    for (int r = 0; r < pipeline.stage(stage).rank_count(); ++r) {
      Box box = box_of(graph, v, r);
      if (is_empty(box)) continue;
      HeldPart& held = holders[box.offset];
      held.bytes = element_count(box.extent) * element;
      held.part = {value->name, std::move(box)};
      held.ranks.push_back(first + r);
    }
    for (auto& [begin, held] : holders) out.push_back(std::move(held));
  }
  return out;
}

std::vector<std::vector<NamedBox>> shares_of(const Pipeline& pipeline, const KeptValues& kept) {
  std::vector<std::vector<NamedBox>> out(at(pipeline.rank_count()));
  std::vector<std::int64_t> bytes(out.size());
  for (HeldPart& held : held_parts(pipeline, kept)) {
    const int rank = *std::ranges::min_element(held.ranks, {}, [&](int r) { return bytes[at(r)]; });
    bytes[at(rank)] += held.bytes;
    out[at(rank)].push_back(std::move(held.part));
  }
  return out;
}

std::vector<int> shard_numbers(const std::vector<std::vector<NamedBox>>& shares) {
  std::vector<int> out;
  int next = 0;
  for (const auto& share : shares) out.push_back(share.empty() ? -1 : next++);
  return out;
}

std::vector<SavedTensor> saved_tensors(const Pipeline& pipeline, const KeptValues& kept,
                                       const std::vector<std::vector<NamedBox>>& shares) {
  const std::vector<int> numbers = shard_numbers(shares);
  std::map<std::string_view, std::vector<std::pair<int, Box>>> parts;
  for (std::size_t r = 0; r < shares.size(); ++r)
    for (const NamedBox& part : shares[r]) parts[part.name].emplace_back(numbers[r], part.where);
  std::vector<SavedTensor> out;
  for (const Kept& value : kept.all()) {
    if (!is_saved(kept, value) || (!parts.contains(value.name) && kept.type_of(value).bytes() > 0)) continue;
    const auto [stage, v] = kept.place_of(value);
    const Graph& graph = pipeline.stage(stage).graph;
    const Layout layout = layout_of(graph.value(v));
    out.push_back({.name = value.name,
                   .type = kept.type_of(value),
                   .is_state = kept.is_state(value),
                   .layout = to_text(layout, graph.meshes[at(layout.mesh)]),
                   .cuts = {},
                   .shards = {}});
    set_parts(out.back(), parts[value.name]);
  }
  return out;
}

ShardForm::ShardForm(const KeptValues& kept, const std::vector<NamedBox>& share) : places(share.size()) {
  std::vector<NamedType> types;
  for (const NamedBox& part : share)
    types.push_back({part.name, {kept.type_of(kept.named(part.name)).dtype, part.where.extent}});
  order_in_file(types);
  head = safetensors_head("checkpoint", types);
  std::map<std::string_view, std::size_t> by_name;
  bytes = head.size();
  for (const NamedType& t : types) {
    by_name[t.name] = bytes;
    bytes += at(t.type.bytes());
  }
  for (std::size_t i = 0; i < share.size(); ++i) places[i] = by_name[share[i].name];
}

ShardImage::ShardImage(const KeptValues& kept, const std::vector<NamedBox>& share) {
  const ShardForm form(kept, share);
  places_ = form.places;
  bytes_.resize(form.bytes);  // and touched, so that the first copy into it is as fast as the others
  std::memcpy(bytes_.data(), form.head.data(), form.head.size());
}

SummedFile::SummedFile(const std::string& path, std::int64_t block_bytes)
    : file_(path), block_bytes_(at(block_bytes)) {}

void SummedFile::write(std::span<const std::byte> bytes) {
  bytes_ += static_cast<std::int64_t>(bytes.size());
  while (!bytes.empty()) {
    if (begun_.empty() && bytes.size() >= block_bytes_) {
      write_block(bytes.first(block_bytes_));
      bytes = bytes.subspan(block_bytes_);
      continue;
    }
    const auto taken = bytes.first(std::min(bytes.size(), block_bytes_ - begun_.size()));
    begun_.insert(begun_.end(), taken.begin(), taken.end());
    bytes = bytes.subspan(taken.size());
    if (begun_.size() < block_bytes_) continue;
    write_block(begun_);
    begun_.clear();
  }
}

void SummedFile::write_block(std::span<const std::byte> block) {
  const auto begin = static_cast<off_t>(sums_.size() * block_bytes_);
  sums_.push_back(checksum(block));
  file_.write(block);
  ::sync_file_range(file_.descriptor(), begin, static_cast<off_t>(block.size()), SYNC_FILE_RANGE_WRITE);
}

std::vector<std::uint64_t> SummedFile::keep() {
  if (!begun_.empty()) write_block(begun_);
  begun_.clear();
  file_.keep();
  return sums_;
}

std::vector<std::uint64_t> ShardImage::write(const std::string& path, std::int64_t block_bytes) const {
  SummedFile out(path, block_bytes);
  out.write(bytes_);
  return out.keep();
}

}  // namespace shardwright
