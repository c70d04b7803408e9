#include "shardwright/runtime/checkpoint/saver.h"

#include <unistd.h>

#include <chrono>
#include <optional>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/index.h"
#include "shardwright/runtime/checkpoint/background.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/shard.h"

namespace shardwright {
namespace {

using Clock = std::chrono::steady_clock;

double since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

/// Where a process leaves a shard's entry for the one that writes the manifest.
std::string entry_file(const std::string& folder, int shard) {
  return fmt::format("{}/{}.json", folder, shard_file(shard));
}

}  // namespace

struct CheckpointSaver::State {
  struct Save {
    Saved saved;
    Clock::time_point start;
    bool is_best = false;
    bool is_finishing = false;  // all have written
    std::optional<Background> work;
  };

  Session& session;
  SaveOptions options;
  std::vector<std::vector<NamedBox>> shares;
  std::vector<int> numbers;
  std::vector<int> own_ranks;
  bool is_alone, is_first;
  std::map<int, ShardImage> images;  // by rank of this process
  Manifest manifest;                 // of the first process: but for the step and the checksums
  std::optional<Save> save;          // that has not ended
  std::vector<Saved> ended;

  State(Session& s, SaveOptions o)
      : session(s),
        options(std::move(o)),
        shares(shares_of(s.pipeline(), s.kept())),
        numbers(shard_numbers(shares)),
        own_ranks(s.ranks()),
        is_alone(own_ranks.size() == shares.size()),
        is_first(own_ranks.front() == 0) {
    take_lock();
    for (int rank : own_ranks)
      if (numbers[at(rank)] >= 0) images.try_emplace(rank, s.kept(), shares[at(rank)]);
    manifest.plan = options.plan;
    if (is_first) manifest.tensors = saved_tensors(s.pipeline(), s.kept(), shares);
  }

  /// All or none of the processes go on.
  void take_lock() {
    std::optional<Error> failure;
    if (is_first && !options.lock) try {
        options.lock.emplace(options.folder);
      } catch (const Error& e) {
        failure = e;
      }
    if (!session.any(failure.has_value())) return;
    throw failure ? Error(*failure) : io_error("{}: the first rank cannot save there", options.folder);
  }

  void begin(const RunState& run, bool is_best) {
    while (save) advance(true);
    manifest.run = run;
    const std::int64_t step = run.step;
    save.emplace();
    save->start = Clock::now();
    save->is_best = is_best;
    save->saved = {.folder = finished_folder(options.folder, step), .step = step};
    std::string failure;
    if (is_first) try {
        start_unfinished(options.folder, step);
      } catch (const Error& e) {
        failure = e.what();
      }
    if (session.any(!failure.empty())) return end(failure.empty() ? "the first rank cannot write" : failure);
    session.copy_out(shares, [this](int rank, std::size_t i) { return images.at(rank).part(i); });
    save->saved.pause_seconds = since(save->start);
    save->work.emplace([this, step] {
      write_shards(step);
      if (is_alone) finish(step);
    });
  }

  void write_shards(std::int64_t step) {
    const std::string folder = unfinished_folder(options.folder, step);
    std::vector<std::unique_ptr<Background>> writers;
    for (auto& [rank, image] : images)
      writers.push_back(std::make_unique<Background>([&, shard = numbers[at(rank)]] {
        Shard written{.file = shard_file(shard), .bytes = image.bytes(), .blocks = {}};
        written.blocks = image.write(fmt::format("{}/{}", folder, written.file), manifest.block_bytes);
        write_file(entry_file(folder, shard), to_json(written));
      }));
    std::string failure;
    for (auto& writer : writers)
      if (failure.empty()) failure = writer->result();
    if (!failure.empty()) throw io_error("{}", failure);
  }

  /// All shards are there.
  void finish(std::int64_t step) {
    const std::string folder = unfinished_folder(options.folder, step);
    manifest.shards.clear();
    save->saved.bytes = 0;
    for (int number : numbers) {
      if (number < 0) continue;
      const std::string path = entry_file(folder, number);
      manifest.shards.push_back(parse_shard(read_text(path), manifest.block_bytes));
      save->saved.bytes += manifest.shards.back().bytes;
      ::unlink(path.c_str());
    }
    write_file(fmt::format("{}/{}", folder, manifest_file), to_json(manifest));
    shardwright::finish(options.folder, step);
    if (save->is_best) link_to(options.folder, std::string(best_link), step);
    if (options.keep > 0) remove_older(options.folder, options.keep);
  }

  /// What there is to do for the save that has not ended; `waits` for what processes do of it by themselves.
  void advance(bool waits) {
    if (waits && save->work) save->work->result();
    if (session.any(save->work && !save->work->has_ended())) return;
    const std::string failure = save->work ? save->work->result() : "";
    if (session.any(!failure.empty())) return end(failure.empty() ? "another rank cannot write" : failure);
    if (is_alone || save->is_finishing) return end("");
    save->is_finishing = true;
    save->work.reset();
    if (is_first) save->work.emplace([this, step = save->saved.step] { finish(step); });
  }

  void end(const std::string& failure) {
    save->work.reset();
    save->saved.failure = failure;
    save->saved.seconds = since(save->start);
    if (is_first && !failure.empty()) remove_unfinished(options.folder, save->saved.step);
    ended.push_back(std::move(save->saved));
    save.reset();
  }
};

CheckpointSaver::CheckpointSaver(Session& session, SaveOptions options)
    : state_(std::make_unique<State>(session, std::move(options))) {}
CheckpointSaver::~CheckpointSaver() = default;

void CheckpointSaver::save(const RunState& run, bool is_best) { state_->begin(run, is_best); }

std::vector<Saved> CheckpointSaver::ended() {
  if (state_->save) state_->advance(false);
  return std::exchange(state_->ended, {});
}

std::vector<Saved> CheckpointSaver::wait() {
  while (state_->save) state_->advance(true);
  return std::exchange(state_->ended, {});
}

}  // namespace shardwright
