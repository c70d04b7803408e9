#include "shardwright/runtime/checkpoint/state_copies.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>
#include <filesystem>
#include <map>
#include <optional>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/checkpoint/background.h"
#include "shardwright/runtime/checkpoint/memory_file.h"
#include "shardwright/runtime/communicator/host_messages.h"
#include "shardwright/runtime/communicator/mpi.h"

namespace shardwright {
namespace {

using CopyClock = std::chrono::steady_clock;

double seconds_from(CopyClock::time_point start) {
  return std::chrono::duration<double>(CopyClock::now() - start).count();
}

}  // namespace

struct StateCopies::State {
  /// A shard as this rank has it.
  struct Own {
    std::size_t shard;
    CopyPlace place;
    ShardForm form;
  };
  struct Place {
    std::string folder;
    bool is_open = false;               // this run has made it
    std::deque<MemoryFile> files = {};  // as `own`
  };
  struct Save {
    CopyClock::time_point start;
    std::optional<HostMessages> messages = {};
    std::deque<Background> work = {};
  };

  Session& session;
  MpiProcess& process;
  CopyOptions options;
  std::vector<Own> own;
  std::vector<std::vector<NamedBox>> parts;  // by rank, here of this one: what it gives
  std::vector<std::pair<std::size_t, std::size_t>>
      parts_at;                         // of them: the own shard, and which of its parts
  std::vector<std::size_t> file_bytes;  // by shard
  std::deque<Place> places;
  std::size_t next = 0;
  bool is_first_here = false;
  Manifest manifest;
  std::optional<Save> save;
  CopyFigures figures;

  State(Session& s, MpiProcess& p, CopyOptions o) : session(s), process(p), options(std::move(o)) {
    const int rank = process.rank();
    parts.resize(options.hosts.size());
    is_first_here = std::ranges::find(options.hosts, options.hosts[at(rank)]) - options.hosts.begin() == rank;
    for (std::size_t i = 0; i < options.shards.size(); ++i) {
      const CopiedShard& shard = options.shards[i];
      const ShardForm form(session.kept(), shard.parts);
      file_bytes.push_back(form.bytes);
      for (const CopyPlace& place : shard.places)
        if (place.rank == rank) add({i, place, form});
    }
    describe_shards();
    for (const char* name : copy_places) places.push_back({fmt::format("{}/{}", options.folder, name)});
    next = options.resumed == copy_places.front() ? 1 : 0;
  }

  void add(Own one) {
    own.push_back(std::move(one));
    if (own.back().place.from != process.rank()) return;
    const std::vector<NamedBox>& given = options.shards[own.back().shard].parts;
    for (std::size_t p = 0; p < given.size(); ++p) {
      parts[at(process.rank())].push_back(given[p]);
      parts_at.emplace_back(own.size() - 1, p);
    }
  }

  /// All of the manifest that is the same at each save.
  void describe_shards() {
    if (!is_first_here) return;
    std::vector<std::vector<NamedBox>> by_shard;
    for (const CopiedShard& shard : options.shards) by_shard.push_back(shard.parts);
    manifest.plan = options.plan;
    manifest.tensors = saved_tensors(session.pipeline(), session.kept(), by_shard);
    for (std::size_t i = 0; i < file_bytes.size(); ++i) {
      const std::size_t blocks = (file_bytes[i] + at(manifest.block_bytes) - 1) / at(manifest.block_bytes);
      manifest.shards.push_back({.file = shard_file(static_cast<int>(i)),
                                 .bytes = static_cast<std::int64_t>(file_bytes[i]),
                                 .blocks = std::vector<std::uint64_t>(blocks)});
    }
  }

  std::string file_of(const Place& place, std::size_t shard) const {
    return fmt::format("{}/{}", place.folder, shard_file(static_cast<int>(shard)));
  }
  std::string entry_of(const Place& place, std::size_t shard) const {
    return file_of(place, shard) + ".json";
  }

  /// From here on what was there counts no more, on any host, before the first of them has all of the next.
  void clear(Place& place) {
    if (is_first_here) {
      std::error_code failure;
      std::filesystem::remove(fmt::format("{}/{}", place.folder, manifest_file), failure);
      if (!place.is_open) {
        std::filesystem::remove_all(place.folder, failure);
        std::filesystem::create_directory(place.folder, failure);
      }
    }
    session.any(false);
  }

  void open(Place& place) {
    for (const Own& one : own) {
      place.files.emplace_back(file_of(place, one.shard), one.form.bytes);
      if (one.place.from == process.rank())
        std::memcpy(place.files.back().bytes().data(), one.form.head.data(), one.form.head.size());
    }
  }

  /// Whether there is memory for it on all hosts.
  bool make(Place& place) {
    std::string failure;
    try {
      open(place);
    } catch (const Error& e) {
      failure = e.what();
    }
    place.is_open = !session.any(!failure.empty());
    if (place.is_open) return true;
    place.files.clear();
    options.notice(failure.empty() ? "copies of the state are not kept: another rank has no memory for them"
                                   : fmt::format("copies of the state are not kept: {}", failure));
    return false;
  }

  void begin(const RunState& run) {
    const auto start = CopyClock::now();
    Place& place = places[next];
    clear(place);
    if (!place.is_open && !make(place)) return;
    manifest.run = run;
    session.copy_out(parts, [&](int, std::size_t i) {
      const auto [o, part] = parts_at[i];
      return place.files[o].bytes().data() + own[o].form.places[part];
    });
    save.emplace();
    save->start = start;
    exchange(place);
    sum(place, true);
    figures.pause_seconds += seconds_from(start);
  }

  /// In the order of the shards, so that both ends have one.
  void exchange(Place& place) {
    std::vector<HostMessage> messages;
    for (std::size_t o = 0; o < own.size(); ++o) {
      const std::span<std::byte> bytes = place.files[o].bytes();
      const CopyPlace& mine = own[o].place;
      if (mine.from != mine.rank) {
        messages.push_back({.rank = mine.from, .is_sent = false, .bytes = bytes});
        continue;
      }
      for (const CopyPlace& other : options.shards[own[o].shard].places)
        if (other.from == mine.rank && other.rank != mine.rank)
          messages.push_back({.rank = other.rank, .is_sent = true, .bytes = bytes});
    }
    if (!messages.empty()) save->messages.emplace(messages);
  }

  /// Of shards that this rank gives, or that it gets.
  void sum(Place& place, bool of_given) {
    save->work.emplace_back([this, &place, of_given] {
      for (std::size_t o = 0; o < own.size(); ++o) {
        if ((own[o].place.from == own[o].place.rank) != of_given) continue;
        const std::span<const std::byte> bytes = place.files[o].bytes();
        const Shard written{.file = shard_file(static_cast<int>(own[o].shard)),
                            .bytes = static_cast<std::int64_t>(bytes.size()),
                            .blocks = sums_of(bytes, Manifest().block_bytes)};
        write_file(entry_of(place, own[o].shard), to_json(written));
      }
    });
  }

  /// This rank has done all it has to for the save.
  bool has_ended(bool waits) {
    if (save->messages) {
      if (waits) save->messages->wait(process);
      if (!save->messages->have_ended()) return false;
      save->messages.reset();
      sum(places[next], false);
    }
    return std::ranges::all_of(save->work, [&](Background& b) {
      if (waits) b.result();
      return b.has_ended();
    });
  }

  void advance(bool waits) {
    const bool is_done = has_ended(waits);
    if (session.any(!is_done)) return;
    std::string failure;
    for (Background& b : save->work)
      if (failure.empty()) failure = b.result();
    if (failure.empty() && is_first_here) try {
        write_manifest(places[next]);
      } catch (const Error& e) {
        failure = e.what();
      }
    const bool is_whole = !session.any(!failure.empty());
    if (!failure.empty()) options.notice(fmt::format("copies of the state are not kept: {}", failure));
    figures.seconds += seconds_from(save->start);
    save.reset();
    if (!is_whole) return;
    ++figures.saves;
    next = 1 - next;
  }

  void write_manifest(const Place& place) {
    for (std::size_t i = 0; i < options.shards.size(); ++i)
      for (const CopyPlace& lies : options.shards[i].places)
        if (lies.host == options.hosts[at(process.rank())])
          manifest.shards[i] = parse_shard(read_text(entry_of(place, i)), manifest.block_bytes);
    write_file(fmt::format("{}/{}", place.folder, manifest_file), to_json(manifest));
  }
};

StateCopies::StateCopies(Session& session, MpiProcess& process, CopyOptions options)
    : state_(std::make_unique<State>(session, process, std::move(options))) {}

// What has failed may have left messages on their way, which MPI goes on writing to.
StateCopies::~StateCopies() {
  if (state_ && state_->save && state_->save->messages) {
    state_->save->work.clear();
    [[maybe_unused]] const State* kept = state_.release();
  }
}

void StateCopies::behind(const RunState& run) {
  const bool is_due = run.step % state_->options.every == 0;
  if (state_->save) {
    const auto start = CopyClock::now();
    state_->advance(is_due);
    state_->figures.pause_seconds += seconds_from(start);
  }
  if (is_due) state_->begin(run);
}

void StateCopies::end() {
  if (state_->save) state_->advance(true);
}

const CopyFigures& StateCopies::figures() const { return state_->figures; }

}  // namespace shardwright
