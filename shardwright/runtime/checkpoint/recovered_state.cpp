#include "shardwright/runtime/checkpoint/recovered_state.h"

#include <algorithm>
#include <deque>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>

#include "shardwright/base/checksum.h"
#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/checkpoint/manifest.h"
#include "shardwright/runtime/checkpoint/memory_file.h"
#include "shardwright/runtime/checkpoint/shard.h"
#include "shardwright/runtime/checkpoint/state_copies.h"
#include "shardwright/runtime/communicator/host_messages.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

std::string manifest_at(const std::string& folder) { return fmt::format("{}/{}", folder, manifest_file); }

std::string file_at(const std::string& folder, std::size_t shard) {
  return fmt::format("{}/{}", folder, shard_file(static_cast<int>(shard)));
}

std::optional<Manifest> whole_manifest(const std::string& folder) try {
  return parse_manifest(read_text(manifest_at(folder)), folder);
} catch (const Error&) {
  return std::nullopt;
}

bool has_file(const std::string& folder, const Manifest& manifest, std::size_t shard) {
  const Shard& s = manifest.shards[shard];
  std::error_code failure;
  return is_here(s) && std::filesystem::file_size(file_at(folder, shard), failure) == at(s.bytes);
}

/// Of what is the same on all hosts that have taken part in a save; plans tell how long each has searched for its own.
std::string sum_of_save(Manifest manifest) {
  manifest.plan.clear();
  for (Shard& s : manifest.shards) std::ranges::fill(s.blocks, 0);
  return checksum_text(checksum(to_json(manifest)));
}

/// What lies with a keeper, for other hosts: of each place the step, which save it is of, and by shard whether it is there.
std::string places_of(const std::string& keeper) {
  Json out = Json::object();
  for (const char* place : copy_places) {
    const std::string folder = fmt::format("{}/{}", keeper, place);
    const auto manifest = whole_manifest(folder);
    if (!manifest) continue;
    std::string has;
    for (std::size_t i = 0; i < manifest->shards.size(); ++i)
      has += has_file(folder, *manifest, i) ? '1' : '0';
    out[place] = {{"step", manifest->run.step}, {"save", sum_of_save(*manifest)}, {"has", has}};
  }
  return out.dump();
}

/// By rank: the first of its host is the one that speaks for it.
bool is_first_of_host(const std::vector<int>& hosts, int rank) {
  return std::ranges::find(hosts, hosts[at(rank)]) - hosts.begin() == rank;
}

/// That all hosts have together of one place, if that is all.
std::optional<RecoveredState> in_place(const std::string& place, const std::vector<Json>& by_host) {
  RecoveredState out{.place = place, .folder = {}, .step = -1};
  Json save;
  for (const Json& host : by_host)
    if (host.contains(place) && host[place]["step"].get<std::int64_t>() > out.step) {
      out.step = host[place]["step"].get<std::int64_t>();
      save = host[place]["save"];
    }
  std::size_t shards = 0;
  for (const Json& host : by_host) {
    std::vector<bool> has;
    if (host.contains(place) && host[place]["save"] == save)
      for (const char c : host[place]["has"].get<std::string>()) has.push_back(c == '1');
    shards = std::max(shards, has.size());
    out.has.push_back(std::move(has));
  }
  for (auto& has : out.has) has.resize(shards);
  for (std::size_t i = 0; i < shards; ++i)
    if (std::ranges::none_of(out.has, [&](const std::vector<bool>& has) { return has[i]; }))
      return std::nullopt;
  return shards > 0 ? std::optional(out) : std::nullopt;
}

/// By shard: whether a rank holds some of what stands in it.
std::string needed_by(int rank, const Manifest& manifest, const KeptValues& kept) {
  std::map<std::string_view, const SavedTensor*> tensors;
  for (const SavedTensor& t : manifest.tensors) tensors[t.name] = &t;
  std::string out(manifest.shards.size(), '0');
  for (const NamedBox& held : kept.held_by(rank)) {
    const auto it = tensors.find(held.name);
    if (it == tensors.end()) continue;
    const SavedTensor& t = *it->second;
    for (std::size_t i = 0; i < t.shards.size(); ++i)
      if (t.type.shape == kept.type_of(kept.named(held.name)).shape &&
          !is_empty(intersect(t.part(i), held.where)))
        out[at(t.shards[i])] = '1';
  }
  return out;
}

/// A shard that goes from a rank to one of another host.
struct Fetched {
  std::size_t shard;
  int from, to;
};

/// Shards go round over the ranks of a host, and over the hosts that have them.
std::vector<Fetched> fetched(const RecoveredState& state, const std::vector<std::string>& needs) {
  std::map<int, std::vector<int>> ranks;
  for (std::size_t r = 0; r < state.hosts.size(); ++r) ranks[state.hosts[r]].push_back(static_cast<int>(r));
  std::vector<Fetched> out;
  for (std::size_t shard = 0; shard < state.has.front().size(); ++shard) {
    std::vector<int> have;
    for (std::size_t h = 0; h < state.has.size(); ++h)
      if (state.has[h][shard]) have.push_back(static_cast<int>(h));
    for (std::size_t h = 0; h < state.has.size(); ++h) {
      const std::vector<int>& here = ranks[static_cast<int>(h)];
      const bool is_needed = std::ranges::any_of(here, [&](int r) { return needs[at(r)][shard] == '1'; });
      if (!is_needed || state.has[h][shard]) continue;
      const std::vector<int>& there = ranks[have[(h + shard) % have.size()]];
      out.push_back({shard, there[shard % there.size()], here[shard % here.size()]});
    }
  }
  return out;
}

void write_entry(const std::string& folder, std::size_t shard, std::span<const std::byte> bytes) {
  const Shard entry{.file = shard_file(static_cast<int>(shard)),
                    .bytes = static_cast<std::int64_t>(bytes.size()),
                    .blocks = sums_of(bytes, Manifest().block_bytes)};
  write_file(file_at(folder, shard) + ".json", to_json(entry));
}

/// With the checksums of what has come.
void complete_manifest(const RecoveredState& state, Manifest manifest, const std::vector<Fetched>& all,
                       int host) {
  for (const Fetched& f : all)
    if (state.hosts[at(f.to)] == host)
      manifest.shards[f.shard] =
          parse_shard(read_text(file_at(state.folder, f.shard) + ".json"), manifest.block_bytes);
  write_file(manifest_at(state.folder), to_json(manifest));
}

/// What one rank does, and what is wrong with it.
template <class F>
std::optional<std::string> failure_of(F work) {
  try {
    work();
  } catch (const Error& e) {
    return e.what();
  }
  return std::nullopt;
}

void agree(MpiProcess& process, const std::optional<std::string>& failure) {
  if (const auto why = process.first_error(failure)) throw io_error("copies of the state: {}", *why);
}

}  // namespace

std::optional<RecoveredState> recovered_state(MpiProcess& process, const std::string& keeper) {
  const std::vector<int> hosts = process.hosts();
  const bool speaks = is_first_of_host(hosts, process.rank());
  std::vector<Json> by_host;
  const std::vector<std::string> said = process.said_by_all(speaks ? places_of(keeper) : "");
  for (std::size_t r = 0; r < said.size(); ++r)
    if (is_first_of_host(hosts, static_cast<int>(r))) by_host.push_back(Json::parse(said[r]));
  std::optional<RecoveredState> out;
  for (const char* place : copy_places)
    if (auto state = in_place(place, by_host); state && (!out || state->step > out->step))
      out = std::move(state);
  if (!out) return std::nullopt;
  out->hosts = hosts;
  out->folder = fmt::format("{}/{}", keeper, out->place);
  // A host that has nothing of it, one that has come back, is told what there is.
  int teller = 0;
  while (!is_first_of_host(hosts, teller) || !std::ranges::count(out->has[at(hosts[at(teller)])], true))
    ++teller;
  const std::string told =
      process.said_by(teller, process.rank() == teller ? read_text(manifest_at(out->folder)) : "");
  agree(process, failure_of([&] {
          if (!speaks || std::ranges::count(out->has[at(hosts[at(process.rank())])], true)) return;
          std::error_code failure;
          std::filesystem::remove_all(out->folder, failure);
          std::filesystem::create_directory(out->folder, failure);
          Manifest manifest = parse_manifest(told, out->folder);
          for (Shard& s : manifest.shards) std::ranges::fill(s.blocks, 0);
          write_file(manifest_at(out->folder), to_json(manifest));
        }));
  return out;
}

void fetch(MpiProcess& process, const RecoveredState& state, const KeptValues& kept) {
  const int rank = process.rank();
  const Manifest manifest = parse_manifest(read_text(manifest_at(state.folder)), state.folder);
  const std::vector<Fetched> all = fetched(state, process.said_by_all(needed_by(rank, manifest, kept)));
  std::deque<MemoryFile> files;
  std::vector<HostMessage> messages;
  agree(process, failure_of([&] {
          for (const Fetched& f : all) {
            if (f.from != rank && f.to != rank) continue;
            const std::string path = file_at(state.folder, f.shard);
            if (f.from == rank)
              files.emplace_back(path);
            else
              files.emplace_back(path, at(manifest.shards[f.shard].bytes));
            messages.push_back({f.from == rank ? f.to : f.from, f.from == rank, files.back().bytes()});
          }
        }));
  HostMessages(messages).wait(process);
  agree(process, failure_of([&] {
          std::size_t next = 0;
          for (const Fetched& f : all) {
            if (f.from != rank && f.to != rank) continue;
            const std::span<const std::byte> bytes = files[next++].bytes();
            if (f.to == rank) write_entry(state.folder, f.shard, bytes);
          }
        }));
  agree(process, failure_of([&] {
          const int host = state.hosts[at(rank)];
          if (is_first_of_host(state.hosts, rank)) complete_manifest(state, manifest, all, host);
        }));
}

}  // namespace shardwright
