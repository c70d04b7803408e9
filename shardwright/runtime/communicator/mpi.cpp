// The parts of a reduction: `wanted` boxes, one per rank. On each other host one rank, the helper, sums its
// host's operands over the box and sends them to the rank that wants it; an all_reduce cuts the flat elements
// into as many boxes as ranks, and sends the results back through the helpers. On its host nobody but the
// helper (or the wanting rank) touches a box, so results may be the operands.

#include "shardwright/runtime/communicator/mpi.h"

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstring>
#include <exception>
#include <map>

#include "shardwright/runtime/communicator/shared.h"

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

constexpr int tag_group = 1, tag_pieces = 2, tag_move = 3, tag_sum = 4, tag_result = 5;

/// Begins each rank's share of the control window; the groups that the rank has made follow.
struct alignas(64) Control {
  static constexpr std::size_t bytes = std::size_t{1} << 20;

  std::atomic<int> failure{0};  // of the host's first rank: 1 while the message is written, then 2
  char message[1000] = {};
  alignas(64) std::atomic<std::size_t> used{0};  // bytes of groups

  std::byte* groups() { return reinterpret_cast<std::byte*>(this + 1); }
};

/// What crosses the network between two ranks in one transfer.
struct Message {
  int rank = 0;
  std::vector<Piece> pieces;
  std::vector<std::byte> bytes;
};

struct Prepared {
  SharedTransfer shared;  // of the members on this host
  bool crosses_hosts = false;
  std::vector<Message> sends;     // of moves
  std::vector<Message> receives;  // of moves
  // Of reductions:
  Piece wanted;                 // the box that this rank reduces over all hosts
  std::vector<Message> helped;  // boxes wanted on other hosts, by whom
  std::vector<Message> sums;    // of `wanted`, by host; `rank` is the helper there
  std::size_t own_host = 0;     // among `sums`
  std::vector<std::byte> result;
};

std::size_t element_total(const std::vector<Piece>& pieces) {
  std::int64_t n = 0;
  for (const Piece& p : pieces) n += element_count(p.extent);
  return static_cast<std::size_t>(n);
}

std::vector<std::int64_t> to_numbers(const std::vector<Piece>& pieces) {
  std::vector<std::int64_t> out;
  for (const Piece& p : pieces) {
    out.insert(out.end(), {static_cast<std::int64_t>(p.extent.size()), p.from_offset, p.to_offset});
    for (const Shape* s : {&p.extent, &p.from_strides, &p.to_strides})
      out.insert(out.end(), s->begin(), s->end());
  }
  return out;
}

std::vector<Piece> from_numbers(const std::vector<std::int64_t>& numbers) {
  std::vector<Piece> out;
  for (auto n = numbers.begin(); n != numbers.end();) {
    const std::int64_t dims = *n++;
    Piece& p = out.emplace_back();
    p.from_offset = *n++;
    p.to_offset = *n++;
    for (Shape* s : {&p.extent, &p.from_strides, &p.to_strides}) {
      s->assign(n, n + dims);
      n += dims;
    }
  }
  return out;
}

/// Memory shared by the ranks of a host.
struct Window {
  MPI_Win window = MPI_WIN_NULL;
  std::vector<std::byte*> begins;  // by rank on the host
};

/// Up to the next page. All processes agree, because they see shared memory at whole pages' distances.
constexpr std::size_t page = 4096;
std::byte* aligned(std::byte* begin) {
  return begin + (page - reinterpret_cast<std::uintptr_t>(begin) % page) % page;
}

Window make_window(MPI_Comm host, std::size_t bytes) {
  const std::size_t rounded = (bytes + page - 1) / page * page + page;
  Window out;
  std::byte* own = nullptr;
  MPI_Win_allocate_shared(static_cast<MPI_Aint>(rounded), 1, MPI_INFO_NULL, host, &own, &out.window);
  std::memset(own, 0, rounded);
  int ranks = 0;
  MPI_Comm_size(host, &ranks);
  for (int r = 0; r < ranks; ++r) {
    MPI_Aint size = 0;
    int unit = 0;
    std::byte* begin = nullptr;
    MPI_Win_shared_query(out.window, r, &size, &unit, &begin);
    out.begins.push_back(aligned(begin));
  }
  return out;
}

class Mpi final : public Communicator {
 public:
  explicit Mpi(MPI_Comm all) : all_(all) {
    MPI_Comm_rank(all_, &rank_);
    MPI_Comm_size(all_, &size_);
    MPI_Comm_split_type(all_, MPI_COMM_TYPE_SHARED, rank_, MPI_INFO_NULL, &host_);
    int first = rank_;
    MPI_Bcast(&first, 1, MPI_INT, 0, host_);
    first_of_host_.resize(at(size_));
    MPI_Allgather(&first, 1, MPI_INT, first_of_host_.data(), 1, MPI_INT, all_);
    const Window control = make_window(host_, Control::bytes);
    windows_.push_back(control.window);
    const std::vector<std::byte*> begins = by_rank(control.begins);
    for (std::byte* begin : begins) controls_.push_back(reinterpret_cast<Control*>(begin));
    new (controls_[at(rank_)]) Control;
    MPI_Barrier(host_);
    for (int r = 0; r < size_; ++r)
      if (is_here(r)) here_.push_back(r);
    everyone_here_ = here_.size() > 1 ? &group(here_) : nullptr;
  }

  ~Mpi() override {
    // Freeing needs all ranks; after a failure they do not come, and the run ends anyway.
    if (std::uncaught_exceptions() > 0 || has_failed()) return;
    for (MPI_Win& window : windows_) MPI_Win_free(&window);
    MPI_Comm_free(&host_);
    MPI_Comm_free(&all_);
  }

  int rank() const override { return rank_; }
  int size() const override { return size_; }

  Memory allocate(std::int64_t bytes, Backend&) override {
    const Window window = make_window(host_, static_cast<std::size_t>(bytes));
    windows_.push_back(window.window);
    memory_.add(by_rank(window.begins), static_cast<std::size_t>(bytes));
    return {{by_rank(window.begins)[at(rank_)], {[](std::byte*, std::int64_t) {}, bytes}}};
  }

  void barrier() override {
    if (everyone_here_) check(everyone_here_->meet());
    if (at(size_) == here_.size()) return;
    MPI_Barrier(all_);
  }

  bool fail(std::string message) override {
    Control& control = first_control();
    int none = 0;
    if (!control.failure.compare_exchange_strong(none, 1)) return false;
    fmt::format_to_n(control.message, sizeof control.message - 1, "rank {} failed: {}", rank_, message);
    control.failure = 2;
    for (int r : here_) {
      Control& made = *controls_[at(r)];
      for (std::size_t offset = 0; offset < made.used;) {
        auto& group = *reinterpret_cast<Group*>(made.groups() + offset);
        group.fail();
        offset += Group::bytes(group.posted().size());
      }
    }
    return true;
  }

  int prepare(const Transfer& t, DType dtype) override {
    std::vector<int> members;
    for (int r : t.group)
      if (is_here(r)) members.push_back(r);
    const auto self = std::find(members.begin(), members.end(), rank_);
    require(self != members.end(), "rank {} is not in the group of its transfer", rank_);
    const auto position = static_cast<std::size_t>(self - members.begin());
    Prepared p;
    p.crosses_hosts = members.size() < t.group.size();
    Group* met = members.size() > 1 ? &group(members) : nullptr;
    p.shared = shared_transfer(t, dtype, met, std::move(members), position);
    if (met) p.shared.order = orders_[met]++;
    if (p.crosses_hosts) t.reduces ? prepare_reduction(p, t) : prepare_move(p, t);
    prepared_.push_back(std::move(p));
    return static_cast<int>(prepared_.size()) - 1;
  }

  void run(int prepared, const std::byte* from, std::byte* to) override {
    Prepared& p = prepared_[at(prepared)];
    check(open(p.shared, memory_, from, to));
    if (!p.crosses_hosts)
      work(p.shared, to);
    else if (p.shared.reduce)
      reduce_over_hosts(p, to);
    else
      move_between_hosts(p, from, to);
    check(close(p.shared));
  }

 private:
  bool is_here(int rank) const { return first_of_host_[at(rank)] == first_of_host_[at(rank_)]; }
  Control& first_control() const { return *controls_[at(first_of_host_[at(rank_)])]; }
  bool has_failed() const { return first_control().failure != 0; }

  void check(bool ok) {
    if (ok) [[likely]]
      return;
    while (first_control().failure != 2) __builtin_ia32_pause();
    throw Error(first_control().message, ErrorKind::peer);
  }

  /// Of values by rank on this host: by rank among all, null for other hosts.
  std::vector<std::byte*> by_rank(const std::vector<std::byte*>& here) const {
    std::vector<std::byte*> out(at(size_), nullptr);
    auto next = here.begin();
    for (int r = 0; r < size_; ++r)
      if (is_here(r)) out[at(r)] = *next++;
    return out;
  }

  /// The group of exactly these ranks, all of this host. The first makes it and tells the others where.
  Group& group(const std::vector<int>& ranks) {
    Group*& found = groups_[ranks];
    if (found) return *found;
    Control& made = *controls_[at(ranks[0])];
    std::uint64_t offset = 0;
    if (ranks[0] != rank_) {
      MPI_Recv(&offset, 1, MPI_UINT64_T, ranks[0], tag_group, all_, MPI_STATUS_IGNORE);
      found = reinterpret_cast<Group*>(made.groups() + offset);
      return *found;
    }
    offset = made.used;
    const std::size_t bytes = Group::bytes(ranks.size());
    require(offset + bytes + sizeof(Control) <= Control::bytes, "rank {} is in too many groups", rank_);
    found = &Group::make(made.groups() + offset, ranks.size());
    made.used = offset + bytes;
    if (has_failed()) found->fail();
    for (int r : ranks)
      if (r != rank_) MPI_Send(&offset, 1, MPI_UINT64_T, r, tag_group, all_);
    return *found;
  }

  /// Sends each rank of `out` its pieces, and receives pieces from each rank of `in`.
  void exchange(const std::vector<Message>& out, std::vector<Message>& in, std::size_t element_bytes) {
    std::vector<std::vector<std::int64_t>> numbers;
    for (const Message& m : out) numbers.push_back(to_numbers(m.pieces));
    for (std::size_t i = 0; i < out.size(); ++i)
      MPI_Isend(numbers[i].data(), static_cast<int>(numbers[i].size()), MPI_INT64_T, out[i].rank, tag_pieces,
                all_, &requests_.emplace_back());
    for (Message& m : in) {
      MPI_Status status;
      int count = 0;
      MPI_Probe(m.rank, tag_pieces, all_, &status);
      MPI_Get_count(&status, MPI_INT64_T, &count);
      std::vector<std::int64_t> received(at(count));
      MPI_Recv(received.data(), count, MPI_INT64_T, m.rank, tag_pieces, all_, MPI_STATUS_IGNORE);
      m.pieces = from_numbers(received);
      m.bytes.resize(element_total(m.pieces) * element_bytes);
    }
    wait();
  }

  void prepare_move(Prepared& p, const Transfer& t) {
    for (int r : t.group) {
      if (is_here(r)) continue;
      Message m{.rank = r};
      for (const Piece& piece : t.pieces)
        if (piece.source == r) m.pieces.push_back(piece);
      m.bytes.resize(element_total(m.pieces) * p.shared.element_bytes);
      p.receives.push_back(std::move(m));
      p.sends.push_back({.rank = r});
    }
    exchange(p.receives, p.sends, p.shared.element_bytes);
    for (auto* messages : {&p.receives, &p.sends})
      std::erase_if(*messages, [](const Message& m) { return m.bytes.empty(); });
  }

  void prepare_reduction(Prepared& p, const Transfer& t) {
    const auto position_of = [&](int r) {
      return std::find(t.group.begin(), t.group.end(), r) - t.group.begin();
    };
    p.wanted = t.pieces.front();
    if (t.kind == StepKind::all_reduce) {
      const Range part = cut(p.shared.count, static_cast<std::int64_t>(t.group.size()), position_of(rank_));
      p.wanted = {.from_offset = part.begin,
                  .to_offset = part.begin,
                  .extent = {part.end - part.begin},
                  .from_strides = {1},
                  .to_strides = {1}};
    }
    std::map<int, std::vector<int>> hosts;  // members by the first rank of their host
    for (int r : t.group) hosts[first_of_host_[at(r)]].push_back(r);
    const auto helper = [&](int host, int wanting) {
      const std::vector<int>& members = hosts[host];
      return members[static_cast<std::size_t>(position_of(wanting)) % members.size()];
    };
    const int own = first_of_host_[at(rank_)];
    std::vector<Message> asked;
    for (const auto& [host, members] : hosts) {
      if (host == own) p.own_host = p.sums.size();
      p.sums.push_back({.rank = host == own ? rank_ : helper(host, rank_), .pieces = {p.wanted}});
      p.sums.back().bytes.resize(element_total({p.wanted}) * p.shared.element_bytes);
      if (host != own) asked.push_back(p.sums.back());
    }
    for (int r : t.group)
      if (!is_here(r) && helper(own, r) == rank_) p.helped.push_back({.rank = r});
    exchange(asked, p.helped, p.shared.element_bytes);
    p.result.resize(p.sums.front().bytes.size());
    p.shared.operands.resize(std::max(p.shared.operands.size(), p.sums.size()));
  }

  void send(const std::vector<std::byte>& bytes, int rank, int tag) {
    for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
      MPI_Isend(bytes.data() + begin, count, MPI_BYTE, rank, tag, all_, &requests_.emplace_back());
    });
  }
  void receive(std::vector<std::byte>& bytes, int rank, int tag) {
    for_each_chunk(bytes.size(), [&](std::size_t begin, int count) {
      MPI_Irecv(bytes.data() + begin, count, MPI_BYTE, rank, tag, all_, &requests_.emplace_back());
    });
  }
  /// MPI counts in int.
  template <class F>
  static void for_each_chunk(std::size_t bytes, F use) {
    constexpr std::size_t chunk = std::size_t{1} << 30;
    for (std::size_t begin = 0; begin < bytes; begin += chunk)
      use(begin, static_cast<int>(std::min(chunk, bytes - begin)));
  }
  void wait() {
    MPI_Waitall(static_cast<int>(requests_.size()), requests_.data(), MPI_STATUSES_IGNORE);
    requests_.clear();
  }

  static void pack(Message& m, const std::byte* from, std::size_t element_bytes) {
    std::byte* packed = m.bytes.data();
    for (const Piece& piece : m.pieces)
      for_each_run(piece, [&](std::int64_t f, std::int64_t, std::int64_t n) {
        const std::size_t bytes = static_cast<std::size_t>(n) * element_bytes;
        std::memcpy(packed, from + static_cast<std::size_t>(f) * element_bytes, bytes);
        packed += bytes;
      });
  }

  static void unpack(const std::vector<Piece>& pieces, const std::byte* packed, std::byte* to,
                     std::size_t element_bytes) {
    for (const Piece& piece : pieces)
      for_each_run(piece, [&](std::int64_t, std::int64_t t, std::int64_t n) {
        const std::size_t bytes = static_cast<std::size_t>(n) * element_bytes;
        std::memcpy(to + static_cast<std::size_t>(t) * element_bytes, packed, bytes);
        packed += bytes;
      });
  }

  void move_between_hosts(Prepared& p, const std::byte* from, std::byte* to) {
    for (Message& m : p.receives) receive(m.bytes, m.rank, tag_move);
    for (Message& m : p.sends) {
      pack(m, from, p.shared.element_bytes);
      send(m.bytes, m.rank, tag_move);
    }
    work(p.shared, to);
    wait();
    for (const Message& m : p.receives) unpack(m.pieces, m.bytes.data(), to, p.shared.element_bytes);
  }

  /// The operands of this host, reduced over the message's box.
  static void reduce_here(SharedTransfer& t, Message& m) {
    t.operands.resize(t.from.size());
    std::byte* packed = m.bytes.data();
    for_each_run(m.pieces.front(), [&](std::int64_t f, std::int64_t, std::int64_t n) {
      t.reduce_run(f, packed, n);
      packed += static_cast<std::size_t>(n) * t.element_bytes;
    });
  }

  void reduce_over_hosts(Prepared& p, std::byte* to) {
    SharedTransfer& t = p.shared;
    for (Message& m : p.sums)
      if (m.rank != rank_) receive(m.bytes, m.rank, tag_sum);
    for (Message& m : p.helped) {
      reduce_here(t, m);
      send(m.bytes, m.rank, tag_sum);
    }
    reduce_here(t, p.sums[p.own_host]);
    wait();
    t.operands.resize(p.sums.size());
    for (std::size_t h = 0; h < p.sums.size(); ++h) t.operands[h] = p.sums[h].bytes.data();
    t.reduce(t.operands, p.result.data(), static_cast<std::int64_t>(p.result.size() / t.element_bytes));
    if (t.kind != StepKind::all_reduce) return unpack({p.wanted}, p.result.data(), to, t.element_bytes);
    for (Message& m : p.helped) receive(m.bytes, m.rank, tag_result);
    for (const Message& m : p.sums)
      if (m.rank != rank_) send(p.result, m.rank, tag_result);
    for (std::byte* result : t.to) unpack({p.wanted}, p.result.data(), result, t.element_bytes);
    wait();
    for (const Message& m : p.helped)
      for (std::byte* result : t.to) unpack(m.pieces, m.bytes.data(), result, t.element_bytes);
  }

  MPI_Comm all_;
  MPI_Comm host_ = MPI_COMM_NULL;
  int rank_ = 0;
  int size_ = 0;
  std::vector<int> first_of_host_;  // by rank: the lowest rank on its host
  std::vector<int> here_;           // ranks on this host
  std::vector<Control*> controls_;  // by rank, null for other hosts
  std::vector<MPI_Win> windows_;
  SharedMemory memory_;
  std::map<std::vector<int>, Group*> groups_;
  Group* everyone_here_ = nullptr;
  std::map<const Group*, int> orders_;  // how many transfers each group has prepared
  std::vector<Prepared> prepared_;
  std::vector<MPI_Request> requests_;
};

}  // namespace

MpiProcess::MpiProcess() {
  int provided = 0;
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_FUNNELED, &provided);
  std::signal(SIGINT, SIG_DFL);
  std::signal(SIGTERM, SIG_DFL);
}

MpiProcess::~MpiProcess() { MPI_Finalize(); }

int MpiProcess::rank() const {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}

int MpiProcess::size() const {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

std::unique_ptr<Communicator> MpiProcess::communicator(int size) {
  MPI_Comm some = MPI_COMM_NULL;
  MPI_Comm_split(MPI_COMM_WORLD, rank() < size ? 0 : MPI_UNDEFINED, rank(), &some);
  if (some == MPI_COMM_NULL) return nullptr;
  return std::make_unique<Mpi>(some);
}

std::optional<std::string> MpiProcess::first_error(const std::optional<std::string>& own) {
  const int none = size(), mine = own ? rank() : none;
  int first = none;
  MPI_Allreduce(&mine, &first, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  if (first == none) return std::nullopt;
  std::string text = own.value_or("");
  int length = static_cast<int>(text.size());
  MPI_Bcast(&length, 1, MPI_INT, first, MPI_COMM_WORLD);
  text.resize(at(length));
  MPI_Bcast(text.data(), length, MPI_CHAR, first, MPI_COMM_WORLD);
  return text;
}

void MpiProcess::end_all(int status) {
  MPI_Abort(MPI_COMM_WORLD, status);
  std::abort();
}

}  // namespace shardwright
