#include "shardwright/runtime/communicator/threads.h"

#include <algorithm>
#include <map>
#include <mutex>
#include <numeric>

#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {
namespace {

/// A group and its memory.
struct OwnedGroup {
  struct alignas(64) Line {
    std::byte bytes[64];
  };
  explicit OwnedGroup(std::size_t size)
      : lines(Group::bytes(size) / sizeof(Line)), group(Group::make(lines.data(), size)) {}

  std::vector<Line> lines;
  Group& group;
};

/// What the communicators of one process share.
class Hub {
 public:
  /// The group of exactly these ranks.
  Group& group(const std::vector<int>& ranks) {
    const std::lock_guard lock(mutex_);
    std::unique_ptr<OwnedGroup>& owned = groups_[ranks];
    if (!owned) {
      owned = std::make_unique<OwnedGroup>(ranks.size());
      if (!failure_.empty()) owned->group.fail();
    }
    return owned->group;
  }

  bool fail(int rank, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return false;
    failure_ = fmt::format("rank {} failed: {}", rank, message);
    for (auto& [ranks, owned] : groups_) owned->group.fail();
    return true;
  }

  [[noreturn]] void throw_failure() {
    const std::lock_guard lock(mutex_);
    throw Error(failure_, ErrorKind::peer);
  }

 private:
  std::mutex mutex_;  // guards both
  std::map<std::vector<int>, std::unique_ptr<OwnedGroup>> groups_;
  std::string failure_;
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
  void barrier() override { check(all_->meet()); }
  bool fail(std::string message) override { return hub_->fail(rank_, message); }

  int prepare(const Transfer& t, DType dtype) override {
    const auto self = std::find(t.group.begin(), t.group.end(), rank_);
    require(self != t.group.end(), "rank {} is not in the group of its transfer", rank_);
    Group* group = t.group.size() > 1 ? &hub_->group(t.group) : nullptr;
    prepared_.push_back(
        shared_transfer(t, dtype, group, t.group, static_cast<std::size_t>(self - t.group.begin())));
    if (group) prepared_.back().order = orders_[group]++;
    return static_cast<int>(prepared_.size()) - 1;
  }

  void run(int prepared, const std::byte* from, std::byte* to) override {
    SharedTransfer& t = prepared_[static_cast<std::size_t>(prepared)];
    check(open(t, memory_, from, to));
    work(t, to);
    check(close(t));
  }

 private:
  void check(bool ok) {
    if (!ok) [[unlikely]]
      hub_->throw_failure();
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  int size_;
  Group* all_;
  SharedMemory memory_;                 // without regions: threads see the same addresses
  std::map<const Group*, int> orders_;  // how many transfers each group has prepared
  std::vector<SharedTransfer> prepared_;
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(int size) {
  const auto hub = std::make_shared<Hub>();
  std::vector<std::unique_ptr<Communicator>> out;
  for (int rank = 0; rank < size; ++rank) out.push_back(std::make_unique<Threads>(hub, rank, size));
  return out;
}

}  // namespace shardwright
