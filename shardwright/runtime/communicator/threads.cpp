#include "shardwright/runtime/communicator/threads.h"

#include <algorithm>
#include <deque>
#include <exception>
#include <map>
#include <mutex>
#include <new>
#include <numeric>
#include <system_error>
#include <thread>

#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {
namespace {

/// A group, and where its members meet for each of their transfers.
struct OwnedGroup {
  explicit OwnedGroup(std::size_t size) : group(size) {}

  Group group;
  std::deque<std::vector<Meeting>> meetings;  // each with its buffers behind it
};

/// Short enough for a string to hold it without memory.
constexpr const char* out_of_memory = "no memory left";

/// What the communicators of one process share.
class Hub {
 public:
  explicit Hub(int size) : seats_(static_cast<std::size_t>(size)) {}

  /// What a rank shows, and how many barriers it has come to.
  struct Seat {
    Presence presence;
    std::atomic<std::uint64_t> barriers{0};
  };
  std::deque<Seat>& seats() { return seats_; }

  /// The group of exactly these ranks on a channel.
  Group& group(const GroupKey& key) {
    const std::lock_guard lock(mutex_);
    return owned(key).group;
  }

  /// Where these ranks meet for the transfer that they prepare as their `order`-th.
  Meeting& meeting(const GroupKey& key, int order, std::size_t parts) {
    const std::lock_guard lock(mutex_);
    std::deque<std::vector<Meeting>>& meetings = owned(key).meetings;
    if (static_cast<std::size_t>(order) == meetings.size()) {
      meetings.emplace_back(Meeting::bytes(key.ranks.size(), parts) / sizeof(Meeting));
      meetings.back().front().open(key.ranks.size(), parts);
    }
    return meetings[static_cast<std::size_t>(order)].front();
  }

  bool fail(int rank, std::string_view message) {
    const std::lock_guard lock(mutex_);
    if (!failure_.empty()) return false;
    try {
      failure_ = fmt::format("rank {} failed: {}", rank, message);
    } catch (const std::bad_alloc&) {
      failure_ = out_of_memory;
    }
    for (auto& [key, owned] : groups_) owned->group.fail();
    return true;
  }

  [[noreturn]] void throw_failure() {
    const std::lock_guard lock(mutex_);
    throw Error(failure_, ErrorKind::peer);
  }

 private:
  OwnedGroup& owned(const GroupKey& key) {
    std::unique_ptr<OwnedGroup>& group = groups_[key];
    if (!group) {
      group = std::make_unique<OwnedGroup>(key.ranks.size());
      if (!failure_.empty()) group->group.fail();
    }
    return *group;
  }

  std::deque<Seat> seats_;  // by rank
  std::mutex mutex_;        // guards what follows
  std::map<GroupKey, std::unique_ptr<OwnedGroup>> groups_;
  std::string failure_;
};

class Threads final : public Communicator {
 public:
  Threads(std::shared_ptr<Hub> hub, int rank, int size, std::chrono::nanoseconds timeout)
      : hub_(std::move(hub)),
        rank_(rank),
        size_(size),
        vigil_(presences_of(*hub_), rank, timeout, Vigil::In::thread) {
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    all_ = &hub_->group({all});
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  void act() override { vigil_.act(); }
  void barrier() override {
    std::deque<Hub::Seat>& seats = hub_->seats();
    const std::uint64_t round = all_->arrive();
    seats[static_cast<std::size_t>(rank_)].barriers = round;
    check(all_->wait(round, vigil_.pause(), [&] {
      std::vector<int>& missing = vigil_.missing();
      for (std::size_t r = 0; r < seats.size(); ++r)
        if (seats[r].barriers < round) missing.push_back(static_cast<int>(r));
      vigil_.look_for("barrier");
    }));
  }
  bool fail(std::string message) override { return hub_->fail(rank_, message); }

  int prepare(std::span<const BoundTransfer> transfers) override {
    const std::vector<int>& ranks = transfers.front().transfer.group;
    const auto self = std::find(ranks.begin(), ranks.end(), rank_);
    require(self != ranks.end(), "rank {} is not in the group of its transfer", rank_);
    Membership* membership = nullptr;
    Meeting* meeting = nullptr;
    if (ranks.size() > 1) {
      const GroupKey key{ranks, transfers.front().transfer.channel};
      membership = &memberships_[key];
      if (!membership->group) membership->group = &hub_->group(key);
      meeting = &hub_->meeting(key, membership->prepared, transfers.size());
    }
    prepared_.emplace_back(transfers, membership, meeting, ranks,
                           static_cast<std::size_t>(self - ranks.begin()), memory_);
    started_.reserve(prepared_.size());
    return static_cast<int>(prepared_.size()) - 1;
  }

  void start(int prepared) override {
    check(!all_->has_failed());
    SharedTransfer& t = prepared_[static_cast<std::size_t>(prepared)];
    t.start();
    if (t.can_work_early()) started_.add(prepared);
  }

  void progress() override {
    started_.move_on([&](int prepared) {
      SharedTransfer& t = prepared_[static_cast<std::size_t>(prepared)];
      if (!t.has_opened()) return false;
      t.work();
      return true;
    });
  }

  void finish(int prepared) override {
    SharedTransfer& t = prepared_[static_cast<std::size_t>(prepared)];
    check(t.open(vigil_));
    t.work();
    started_.erase(prepared);
    check(t.close(vigil_));
  }

 private:
  static std::vector<Presence*> presences_of(Hub& hub) {
    std::vector<Presence*> out;
    for (Hub::Seat& seat : hub.seats()) out.push_back(&seat.presence);
    return out;
  }

  /// Behind waiting.
  void check(bool ok) {
    vigil_.end();
    if (!ok) [[unlikely]]
      hub_->throw_failure();
  }

  std::shared_ptr<Hub> hub_;
  int rank_;
  int size_;
  Group* all_;
  SharedMemory memory_;  // without regions: threads see the same addresses
  std::map<GroupKey, Membership> memberships_;
  std::vector<SharedTransfer> prepared_;
  Started started_;  // whose work may be done before they are finished
  Vigil vigil_;
};

/// What ranks have thrown.
class Thrown {
 public:
  explicit Thrown(int ranks) : causes_(static_cast<std::size_t>(ranks)), told_(causes_) {}

  /// In the handler of an exception on the rank of `own`.
  void add(Communicator& own, const char* what, bool is_of_peer) {
    (is_of_peer ? told_ : causes_)[static_cast<std::size_t>(own.rank())] = std::current_exception();
    try {
      own.fail(what);
    } catch (const std::bad_alloc&) {
      own.fail(out_of_memory);
    }
  }
  void rethrow() const {
    for (const auto* thrown : {&causes_, &told_})
      for (const std::exception_ptr& e : *thrown)
        if (e) std::rethrow_exception(e);
  }

 private:
  std::vector<std::exception_ptr> causes_, told_;  // by rank
};

}  // namespace

std::vector<std::unique_ptr<Communicator>> thread_communicators(int size, std::chrono::nanoseconds timeout) {
  const auto hub = std::make_shared<Hub>(size);
  std::vector<std::unique_ptr<Communicator>> out;
  for (int rank = 0; rank < size; ++rank) out.push_back(std::make_unique<Threads>(hub, rank, size, timeout));
  return out;
}

void on_threads(int size, const std::function<void(Communicator&)>& work) {
  const auto communicators = thread_communicators(size);
  Thrown thrown(size);
  const auto live = [&](Communicator& own) {
    try {
      work(own);
    } catch (const Error& e) {
      thrown.add(own, e.what(), e.kind() == ErrorKind::peer);
    } catch (const std::exception& e) {
      thrown.add(own, e.what(), false);
    }
  };
  {
    std::vector<std::jthread> threads;
    try {
      for (const auto& own : communicators) threads.emplace_back([&] { live(*own); });
    } catch (const std::system_error& e) {
      communicators.back()->fail("it could not be started");
      throw io_error("only {} of {} devices could be started ({}); use fewer", threads.size(), size,
                     e.what());
    }
  }
  thrown.rethrow();
}

}  // namespace shardwright
