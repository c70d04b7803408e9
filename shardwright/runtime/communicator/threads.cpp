#include "shardwright/runtime/communicator/threads.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <mutex>
#include <numeric>

#include "shardwright/runtime/communicator/reduce.h"
#include "shardwright/runtime/communicator/wait.h"

namespace shardwright {
namespace {

/// What a rank shows its group. Aligned so that ranks do not share cache lines.
struct alignas(64) Posted {
  const std::byte* from = nullptr;
  std::byte* to = nullptr;
  int order = 0;  // which of the group's transfers this is
};

/// A set of ranks that meet.
struct Group {
  explicit Group(std::size_t size) : posted(size) {}

  std::vector<Posted> posted;  // by position in the group
  alignas(64) std::atomic<std::uint32_t> arrived{0};
  alignas(64) std::atomic<std::uint32_t> phase{0};  // counts meetings by twos; odd once a rank has failed

  /// False if a rank has failed.
  bool meet() {
    const std::uint32_t now = phase.load(std::memory_order_acquire);
    if (now & 1U) return false;
    if (arrived.fetch_add(1, std::memory_order_acq_rel) + 1 < posted.size()) {
      wait_while(phase, now);
    } else {
      arrived.store(0, std::memory_order_relaxed);
      phase.fetch_add(2, std::memory_order_acq_rel);
      phase.notify_all();
    }
    return (phase.load(std::memory_order_acquire) & 1U) == 0;
  }

  void fail() {
    phase.fetch_or(1U, std::memory_order_acq_rel);
    phase.notify_all();
  }
};

/// What the communicators of one process share.
class Hub {
 public:
  /// The group of exactly these ranks.
  Group& group(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<Group>& group = groups_[ranks];
    if (!group) {
      group = std::make_unique<Group>(ranks.size());
      if (!failure_.empty()) group->fail();
    }
    return *group;
  }

  void fail(int rank, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return;
    failure_ = fmt::format("rank {} failed: {}", rank, message);
    for (auto& [ranks, group] : groups_) group->fail();
  }

  [[noreturn]] void throw_failure() {
    const std::lock_guard lock(mutex_);
    throw Error(failure_, ErrorKind::peer);
  }

 private:
  std::mutex mutex_;  // guards both
  std::map<std::vector<int>, std::unique_ptr<Group>> groups_;
  std::string failure_;
};

struct Prepared {
  StepKind kind;
  Group* group = nullptr;     // none if nobody else takes part
  std::size_t position = 0;   // of this rank in the group
  int order = 0;              // how many transfers the group prepared before
  std::vector<Piece> pieces;  // sources are positions in the group
  Reduce reduce = nullptr;
  bool clears = false;
  std::size_t element_bytes = 1;
  std::int64_t count = 0;                  // elements of the result
  std::vector<const std::byte*> operands;  // room for the addresses of a sum's operands
};

class Threads final : public Communicator {
 public:
  Threads(std::shared_ptr<Hub> hub, int rank, int size) : hub_(std::move(hub)), rank_(rank), size_(size) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    all_ = &hub_->group(all);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void barrier() override { meet(*all_); }
  void fail(std::string message) override { hub_->fail(rank_, message); }

  int prepare(const Transfer& t, DType dtype) override {
    const auto self = std::find(t.group.begin(), t.group.end(), rank_);
    require(self != t.group.end(), "rank {} is not in the group of its transfer", rank_);
    Prepared p{.kind = t.kind, .pieces = t.pieces};
    for (Piece& piece : p.pieces)
      piece.source =
          static_cast<int>(std::find(t.group.begin(), t.group.end(), piece.source) - t.group.begin());
    if (t.group.size() > 1) {
      p.group = &hub_->group(t.group);
      p.position = static_cast<std::size_t>(self - t.group.begin());
      p.order = orders_[p.group]++;
    }
    if (t.reduces) p.reduce = reduce_of(dtype, t.reduction);
    p.clears = t.clears;
    p.element_bytes = size_of(dtype);
    p.count = element_count(t.to_shape);
    p.operands.resize(t.group.size());
    prepared_.push_back(std::move(p));
    return static_cast<int>(prepared_.size()) - 1;
  }

  void run(int prepared, const std::byte* from, std::byte* to) override {
    Prepared& p = prepared_[static_cast<std::size_t>(prepared)];
    if (!p.group) return run_alone(p, from, to);
    p.group->posted[p.position] = {from, to, p.order};
    meet(*p.group);
    for (const Posted& peer : p.group->posted)
      require(peer.order == p.order, "rank {} runs transfer {} of its group while a peer runs {}", rank_,
              p.order, peer.order);
    if (p.kind == StepKind::all_reduce)
      all_reduce(p);
    else if (p.reduce)
      reduce_scatter(p, to);
    else
      move(p, to);
    meet(*p.group);
  }

 private:
  void meet(Group& group) {
    if (!group.meet()) [[unlikely]]
      hub_->throw_failure();
  }

  static void run_alone(const Prepared& p, const std::byte* from, std::byte* to) {
    if (p.clears)
      std::memset(to, 0, static_cast<std::size_t>(p.count) * p.element_bytes);
    else
      for (const Piece& piece : p.pieces)
        if (from != to) copy_piece(piece, from, to, p.element_bytes);
  }

  static void move(const Prepared& p, std::byte* to) {
    for (const Piece& piece : p.pieces)
      copy_piece(piece, p.group->posted[static_cast<std::size_t>(piece.source)].from, to, p.element_bytes);
  }

  /// All operands have one shape, so the runs of one piece are those of all.
  static void reduce_scatter(Prepared& p, std::byte* to) {
    const auto bytes = [&](std::int64_t n) { return static_cast<std::size_t>(n) * p.element_bytes; };
    for_each_run(p.pieces.front(), [&](std::int64_t f, std::int64_t t, std::int64_t n) {
      for (std::size_t q = 0; q < p.operands.size(); ++q) p.operands[q] = p.group->posted[q].from + bytes(f);
      p.reduce(p.operands, to + bytes(t), n);
    });
  }

  /// This rank's part of the elements: sums it into its own result, block by block, and copies the block
  /// into the others' while it is in the cache. Nobody else touches these elements, so results may be the
  /// operands.
  static void all_reduce(Prepared& p) {
    constexpr std::int64_t line = 64, block = 4096;  // elements; ranks meet between cache lines
    const auto n = static_cast<std::int64_t>(p.operands.size());
    const Range lines = cut((p.count + line - 1) / line, n, static_cast<std::int64_t>(p.position));
    const std::int64_t end = std::min(lines.end * line, p.count);
    const auto& posted = p.group->posted;
    for (std::int64_t at = lines.begin * line; at < end; at += block) {
      const std::int64_t count = std::min(block, end - at);
      const std::size_t offset = static_cast<std::size_t>(at) * p.element_bytes;
      for (std::size_t q = 0; q < posted.size(); ++q) p.operands[q] = posted[q].from + offset;
      std::byte* own = posted[p.position].to + offset;
      p.reduce(p.operands, own, count);
      for (std::size_t q = 0; q < posted.size(); ++q)
        if (q != p.position)
          std::memcpy(posted[q].to + offset, own, static_cast<std::size_t>(count) * p.element_bytes);
    }
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  int size_;
  Group* all_;
  std::map<const Group*, int> orders_;  // how many transfers each group has prepared
  std::vector<Prepared> prepared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(int size) {
  const auto hub = std::make_shared<Hub>();
  std::vector<std::unique_ptr<Communicator>> out;
  for (int rank = 0; rank < size; ++rank) out.push_back(std::make_unique<Threads>(hub, rank, size));
  return out;
}

}  // namespace shardwright
