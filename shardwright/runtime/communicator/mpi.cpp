#include "shardwright/runtime/communicator/mpi_communicator.h"

#include <sched.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstring>
#include <deque>
#include <exception>
#include <map>
#include <vector>

#include "shardwright/base/index.h"
#include "shardwright/runtime/communicator/mpi_control.h"
#include "shardwright/runtime/communicator/mpi_transfer.h"
#include "shardwright/runtime/communicator/mpi_window.h"

namespace shardwright {
namespace {

constexpr int tag_offset = 1, tag_network = 2, tag_none = 3;

class Mpi final : public Communicator {
 public:
  Mpi(MPI_Comm all, std::size_t transfers, Heartbeat& heartbeat, std::span<const int> ranks,
      std::shared_ptr<SharedMemory> memory)
      : all_(all),
        transfers_(transfers),
        heartbeat_(heartbeat),
        ranks_(ranks.begin(), ranks.end()),
        vigil_(heartbeat.presences(ranks), rank_of(all), heartbeat.timeout(), Vigil::In::process,
               heartbeat.elsewhere(ranks)),
        memory_(std::move(memory)) {
    vigil_.tell_by([this](int rank) { return heartbeat_.last_place(ranks_[at(rank)]); });
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host_);
    int first = rank_;
    MPI_Bcast(&first, 1, MPI_INT, 0, host_);
    first_of_host_.resize(at(size_));
    MPI_Allgather(&first, 1, MPI_INT, first_of_host_.data(), 1, MPI_INT, all_);
    int here = 0;
    MPI_Comm_size(host_, &here);
    const std::size_t groups = 1000 + transfers;  // what crosses between stages has one each
    const std::size_t bytes =
        sizeof(Control) + groups * sizeof(Group) + transfers * Meeting::bytes(at(here), 1);
    const MpiWindow control = make_window(host_, bytes);
    windows_.push_back(control.window);
    const std::vector<std::byte*> begins = by_rank(control.begins);
    for (std::byte* begin : begins) controls_.push_back(reinterpret_cast<Control*>(begin));
    new (controls_[at(rank_)]) Control(bytes);
    MPI_Barrier(host_);
    for (int r = 0; r < size_; ++r)
      if (is_here(r)) here_.push_back(r);
    everyone_here_ = here_.size() > 1 ? membership_of({here_}).group : nullptr;
    session_ = heartbeat.add(this, [this](const std::string& why) { fail_here(why); });
  }

  ~Mpi() override {
    heartbeat_.remove(this);
    // Freeing needs all ranks; after a failure they do not come, and the run ends anyway.
    if (std::uncaught_exceptions() > 0 || has_failed()) {
      // Nor can messages to and from ranks that are gone be ended for certain: their buffers stay as the windows do.
      [[maybe_unused]] const auto* kept = new std::deque<MpiTransfer>(std::move(prepared_));
      return;
    }
    const Heartbeat::Call call(heartbeat_, "leaving", Heartbeat::Busy::for_ever);
    for (auto& [ranks, network] : networks_) MPI_Comm_free(&network.members);
    for (const std::byte* own : allocated_) memory_->remove(rank_, own);
    for (MPI_Win& window : windows_) MPI_Win_free(&window);
    MPI_Comm_free(&host_);
    MPI_Comm_free(&all_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Memory allocate(std::int64_t bytes, Backend&) override {
    const Heartbeat::Call call(heartbeat_, "making memory");
    const MpiWindow window = make_window(host_, static_cast<std::size_t>(bytes));
    windows_.push_back(window.window);
    memory_->add(by_rank(window.begins), static_cast<std::size_t>(bytes));
    std::byte* own = by_rank(window.begins)[at(rank_)];
    allocated_.push_back(own);
    std::memset(own, 0, static_cast<std::size_t>(bytes));
    return {{own, {[](std::byte*, std::int64_t) {}, bytes}}};
  }

  void barrier() override {
    if (everyone_here_) {
      const std::uint64_t round = everyone_here_->arrive();
      controls_[at(rank_)]->barriers = round;
      const auto look = [&] {
        std::vector<int>& missing = vigil_.missing();
        for (int r : here_)
          if (controls_[at(r)]->barriers < round) missing.push_back(r);
        vigil_.look_for("barrier");
      };
      attend([&] { return everyone_here_->have_all_come(round); }, look);
      check(everyone_here_->wait(round, vigil_.pause(), look));
    }
    if (at(size_) == here_.size()) return;
    MPI_Request request = MPI_REQUEST_NULL;
    MPI_Ibarrier(all_, &request);
    const auto has_ended = [&] {
      int all = 0;
      MPI_Test(&request, &all, MPI_STATUS_IGNORE);
      return all != 0;
    };
    attend_network(has_ended, [&] {
      std::vector<int>& missing = vigil_.missing();
      for (int r = 0; r < size_; ++r)
        if (!is_here(r)) missing.push_back(r);
      vigil_.look_for("barrier");
    });
    check(!has_failed());
  }

  bool fail(std::string message) override {
    const std::string why = fmt::format("rank {} failed: {}", rank_, message);
    const bool is_first = fail_here(why);
    if (is_first && at(size_) > here_.size()) heartbeat_.pass_on(why);
    return is_first;
  }

  void act() override { vigil_.act(); }
  void enter(const StepPlace& place) override {
    StepPlace own = place;
    own.session = session_;
    vigil_.enter(own);
  }
  void describe_by(StepPlaceWords words) override { heartbeat_.describe_by(this, std::move(words)); }

  int prepare(std::span<const BoundTransfer> transfers) override {
    const Heartbeat::Call call(heartbeat_, "preparing a transfer");
    const std::vector<int>& ranks = transfers.front().transfer.group;
    std::vector<int> members;
    for (int r : ranks)
      if (is_here(r)) members.push_back(r);
    const auto self = std::find(members.begin(), members.end(), rank_);
    require(self != members.end(), "rank {} is not in the group of its transfer", rank_);
    const auto position = static_cast<std::size_t>(self - members.begin());
    const GroupKey key{members, transfers.front().transfer.channel};
    Membership* membership = members.size() > 1 ? &membership_of(key) : nullptr;
    Meeting* meeting = membership ? &new_meeting(members, transfers.size()) : nullptr;
    MpiTransfer& p =
        prepared_.emplace_back(SharedTransfer(transfers, membership, meeting, members, position, *memory_),
                               std::vector<NetworkTransfer>(), ranks);
    if (members.size() < ranks.size())
      for (std::size_t i = 0; i < transfers.size(); ++i)
        p.network.emplace_back(network_of(ranks), buffers_, transfers[i].transfer, p.shared.parts()[i]);
    p.receives_for_others =
        membership && !p.network.empty() && std::ranges::any_of(transfers, [](const BoundTransfer& t) {
          return NetworkTransfer::receives_for_others(t.transfer);
        });
    started_.reserve(prepared_.size());
    return static_cast<int>(prepared_.size()) - 1;
  }

  void start(int prepared) override {
    check(!has_failed());
    const bool goes_on = prepared_[at(prepared)].start();
    if (started_.is_empty()) last_progress_ = std::chrono::steady_clock::now();
    if (goes_on) started_.add(prepared);
  }

  /// MPI takes a few microseconds to look at its sockets, and then one fragment of 128 KiB from each. So it is
  /// asked seldom between short kernels, and behind a long one for a sixteenth of the time that it took: about what
  /// handing over takes that a link of 10 Gbit/s can carry in that time.
  void progress() override {
    constexpr auto pause = std::chrono::microseconds(50);
    constexpr int fragments = 8;
    const auto now = std::chrono::steady_clock::now();
    if (started_.is_empty() || now - last_progress_ < pause) return;
    const auto until = now + (now - last_progress_) / 16;
    for (int i = 0; !started_.is_empty() && (i < fragments || last_progress_ < until); ++i) {
      advance_all();
      last_progress_ = std::chrono::steady_clock::now();
    }
  }

  void finish(int prepared) override {
    MpiTransfer& p = prepared_[at(prepared)];
    if (p.network.empty()) {
      attend([&] { return p.shared.has_opened(); }, [&] { look_for_members(p); });
      check(p.shared.open(vigil_));
      p.shared.work();
      started_.erase(prepared);
    } else {
      attend([&] { return !started_.contains(prepared); }, [&] { look_for_members(p); });
      p.finish();
      if (p.receives_for_others) take_from_others(p);
      p.shared.leave();
    }
    attend([&] { return p.shared.has_closed(); }, [&] { look_for_members(p); });
    check(p.shared.close(vigil_));
  }

 private:
  bool is_here(int rank) const { return first_of_host_[at(rank)] == first_of_host_[at(rank_)]; }
  Control& first_control() const { return *controls_[at(first_of_host_[at(rank_)])]; }
  bool has_failed() const { return first_control().failure != 0; }

  static int rank_of(MPI_Comm all) {
    int rank = 0;
    MPI_Comm_rank(all, &rank);
    return rank;
  }

  /// Any thread may.
  bool fail_here(const std::string& why) {
    Control& control = first_control();
    int none = 0;
    if (!control.failure.compare_exchange_strong(none, 1)) return false;
    why.copy(control.message, sizeof control.message - 1);
    control.failure = 2;
    for (int r : here_)
      for (std::size_t i = 0; i < controls_[at(r)]->groups; ++i) controls_[at(r)]->group(i).fail();
    return true;
  }

  /// Behind waiting.
  void check(bool ok) {
    vigil_.end();
    if (ok) [[likely]]
      return;
    while (first_control().failure != 2) __builtin_ia32_pause();
    throw Error(first_control().message, ErrorKind::peer);
  }

  void advance_all() {
    started_.move_on([&](int prepared) { return prepared_[at(prepared)].advance(); });
  }

  /// Waits, if there are other hosts, and looks after messages meanwhile. They move only while MPI is called, and even
  /// one that counts as sent may still lie in a queue of this process; a rank elsewhere may need it to let on the
  /// neighbour that this one waits for. So only where there is no network, a rank may sleep.
  template <class F, class L>
  void attend(F is_over, L look) {
    if (!networks_.empty()) attend_network(is_over, look);
  }
  template <class F, class L>
  void attend_network(F is_over, L look) {
    std::int64_t last_look = 0;
    for (int tries = 1; !is_over(); ++tries) {
      int has_come = 0;
      MPI_Iprobe(MPI_ANY_SOURCE, tag_none, all_, &has_come, MPI_STATUS_IGNORE);
      advance_all();
      if (has_failed()) check(false);
      if (tries <= 100) continue;
      sched_yield();  // on a busy machine each may take long
      const std::int64_t now = machine_time();
      if (last_look > 0 && now - last_look < vigil_.pause().count()) continue;
      if (last_look > 0) look();
      last_look = now;
    }
  }

  /// Of a transfer on its way: those of this host that have not come, or, once they have, what is left of both kinds.
  void look_for_members(const MpiTransfer& p) {
    std::vector<int>& missing = vigil_.missing();
    p.shared.add_missing(missing, &Meeting::Rounds::started);
    if (missing.empty()) p.add_missing_elsewhere(missing);
    if (missing.empty()) p.shared.add_missing(missing, &Meeting::Rounds::done);
    std::ranges::sort(missing);
    missing.erase(std::ranges::unique(missing).begin(), missing.end());
    vigil_.look_for(name_of(p.shared.kind()));
  }

  /// What has come for this rank lies in the results of others, once they have said so.
  void take_from_others(MpiTransfer& p) {
    p.shared.receive();
    const auto look = [&] {
      p.shared.add_missing(vigil_.missing(), &Meeting::Rounds::received);
      vigil_.look_for(name_of(p.shared.kind()));
    };
    attend([&] { return p.shared.have_received(); }, look);
    check(p.shared.wait_for_received(vigil_));
    p.take_from_others();
  }

  /// Of values by rank on this host: by rank among all, null for other hosts.
  std::vector<std::byte*> by_rank(const std::vector<std::byte*>& here) const {
    std::vector<std::byte*> out(at(size_), nullptr);
    auto next = here.begin();
    for (int r = 0; r < size_; ++r)
      if (is_here(r)) out[at(r)] = *next++;
    return out;
  }

  /// What the first of `ranks`, all of this host, has made in its control window: all see it there. `make` returns null
  /// if there is no room left.
  template <class T, class F>
  T& made_by_first(const std::vector<int>& ranks, F make) {
    auto* window = reinterpret_cast<std::byte*>(controls_[at(ranks[0])]);
    std::uint64_t offset = 0;  // none
    if (ranks[0] == rank_) {
      if (std::byte* made = make(*controls_[at(rank_)])) offset = static_cast<std::uint64_t>(made - window);
      for (int r : ranks)
        if (r != rank_) MPI_Send(&offset, 1, MPI_UINT64_T, r, tag_offset, all_);
    } else {
      MPI_Recv(&offset, 1, MPI_UINT64_T, ranks[0], tag_offset, all_, MPI_STATUS_IGNORE);
    }
    if (offset == 0)
      throw error("rank {} has no room for more than {} transfers; ask for a communicator with room for more",
                  ranks[0], transfers_);
    return *reinterpret_cast<T*>(window + offset);
  }

  /// The group of exactly these ranks, all of this host.
  Membership& membership_of(const GroupKey& key) {
    const std::vector<int>& ranks = key.ranks;
    Membership& membership = memberships_[key];
    if (membership.group) return membership;
    membership.group = &made_by_first<Group>(ranks, [&](Control& control) -> std::byte* {
      if (!control.has_room(sizeof(Group))) return nullptr;
      auto* group = new (&control.group(control.groups)) Group(ranks.size());
      ++control.groups;
      if (has_failed()) group->fail();
      return reinterpret_cast<std::byte*>(group);
    });
    return membership;
  }

  Meeting& new_meeting(const std::vector<int>& ranks, std::size_t parts) {
    return made_by_first<Meeting>(ranks, [&](Control& control) -> std::byte* {
      const std::size_t bytes = Meeting::bytes(ranks.size(), parts);
      if (!control.has_room(bytes)) return nullptr;
      control.meeting_bytes += bytes;
      auto* meeting = new (control.end() - control.meeting_bytes) Meeting;
      meeting->open(ranks.size(), parts);
      return reinterpret_cast<std::byte*>(meeting);
    });
  }

  /// The network between exactly these ranks.
  Network& network_of(const std::vector<int>& ranks) {
    Network& network = networks_[ranks];
    if (network.members != MPI_COMM_NULL) return network;
    MPI_Group everyone = MPI_GROUP_NULL, some = MPI_GROUP_NULL;
    MPI_Comm_group(all_, &everyone);
    MPI_Group_incl(everyone, static_cast<int>(ranks.size()), ranks.data(), &some);
    MPI_Comm_create_group(all_, some, tag_network, &network.members);
    MPI_Group_free(&some);
    MPI_Group_free(&everyone);
    for (int r : ranks) {
      if (r == rank_) network.self = static_cast<int>(network.hosts.size());
      network.hosts.push_back(first_of_host_[at(r)]);
    }
    return network;
  }

  MPI_Comm all_;
  std::size_t transfers_;  // for which there is room
  Heartbeat& heartbeat_;
  std::vector<int> ranks_;  // of the run
  Vigil vigil_;
  int session_ = 0;
  MPI_Comm host_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> first_of_host_;  // by rank: the lowest rank on its host
  std::vector<int> here_;           // ranks on this host
  std::vector<Control*> controls_;  // by rank, null for other hosts
  std::vector<MPI_Win> windows_;
  std::shared_ptr<SharedMemory> memory_;
  std::vector<std::byte*> allocated_;  // by this one
  std::map<GroupKey, Membership> memberships_;
  std::map<std::vector<int>, Network> networks_;
  Group* everyone_here_ = nullptr;
  MessageBuffers buffers_;
  std::deque<MpiTransfer> prepared_;  // a deque, because requests of MPI point into it
  std::chrono::steady_clock::time_point last_progress_;
  Started started_;  // of which something is left to do before they are finished
};

}  // namespace

std::unique_ptr<Communicator> mpi_communicator(MPI_Comm members, std::size_t transfers, Heartbeat& heartbeat,
                                               std::span<const int> ranks,
                                               std::shared_ptr<SharedMemory> memory) {
  return std::make_unique<Mpi>(members, transfers, heartbeat, ranks, std::move(memory));
}

}  // namespace shardwright
