// Nobody waits for ever: a rank that does not come ends the waiting of the others, whatever they wait in, and is named. A
// thread stays away; a process is stopped.

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <thread>

#include "shardwright/layout/redistribution.h"
#include "shardwright/runtime/gather.h"
#include "tests/support/device.h"
#include "tests/support/on_each_rank.h"

namespace shardwright {
namespace {

using namespace std::chrono_literals;

Layout layout_of(const char* text, const Mesh& mesh) {
  Scanner in(text);
  return parse_layout(in, mesh);
}

const Shape shape{8, 8};

/// What `rank` takes part in; the name is that of a step's kind.
Transfer transfer_called(const std::string& name, int ranks, int rank) {
  const Mesh mesh = ranks == 2 ? Mesh{{{"a", 2}}} : Mesh{{{"a", 2}, {"b", ranks / 2}}};
  const std::string all = ranks == 2 ? "a" : "a.b", sum = ranks == 2 ? "sum(a)" : "sum(a, b)";
  const auto step = [&](const std::string& from, const std::string& to) {
    Redistributor redistributor(mesh);
    const Layout a = layout_of(from.c_str(), mesh), b = layout_of(to.c_str(), mesh);
    const auto steps = redistributor.find(a, b, {DType::f32, shape}).steps;
    EXPECT_EQ(name_of(steps.at(0).kind), name);
    return transfer_of(steps.at(0), redistributor.meshes(), shape, rank);
  };
  if (name == "all_reduce") return step("[-, -] " + sum, "[-, -]");
  if (name == "reduce_scatter") return step("[-, -] " + sum, fmt::format("[{}, -]", all));
  if (name == "all_gather") return step(fmt::format("[{}, -]", all), "[-, -]");
  if (name == "all_to_all") return step(fmt::format("[{}, -]", all), fmt::format("[-, {}]", all));
  if (name == "permute") return step("[a.b, -]", "[b.a, -]");
  const Mesh a{{{"x", ranks}}}, b{{{"u", ranks}}}, half{{{"x", ranks / 2}}};
  if (name == "exchange") {
    Step exchange{.kind = StepKind::exchange, .axes = {}, .from = layout_of("[x, -]", a)};
    exchange.to = layout_of("[-, u]", b);
    exchange.to.mesh = 1;
    const std::vector<Mesh> meshes{a, b};
    return transfer_of(exchange, meshes, shape, rank);
  }
  // Between stages: the first half of the ranks gives, the second takes.
  return TransfersBetween({&half, layout_of("[x, -]", half), 0},
                          {&half, layout_of("[x, -]", half), ranks / 2}, shape)
      .of(rank);
}

/// What one rank waits in.
class Waiting {
 public:
  Waiting(Communicator& self, const std::string& name)
      : self_(self), backend_(testing::device(self.rank())), memory_(self.allocate(bytes * 2, *backend_)) {
    if (name == "barrier") return;
    const Transfer t = transfer_called(name, self.size(), self.rank());
    const bool gives = name != "send" || self.rank() < self.size() / 2;
    const bool takes = name != "send" || self.rank() >= self.size() / 2;
    const BoundTransfer bound{t, DType::f32, gives ? memory_.data() : nullptr,
                              takes ? memory_.data() + bytes : nullptr};
    prepared_ = self.prepare({&bound, 1});
    group_ = t.group;
  }
  void run() { prepared_ < 0 ? self_.barrier() : self_.run(prepared_); }
  bool is_with(int rank) const { return prepared_ < 0 || std::ranges::count(group_, rank) > 0; }

  /// Of every rank: its process.
  std::vector<std::int64_t> processes() {
    std::vector<std::int64_t> own(static_cast<std::size_t>(self_.size()));
    own[static_cast<std::size_t>(self_.rank())] = ::getpid();
    return reduced(self_, *backend_, own, Reduction::sum);
  }

 private:
  static constexpr std::int64_t bytes = 8 * 8 * 4;

  Communicator& self_;
  std::unique_ptr<Backend> backend_;
  Memory memory_;
  int prepared_ = -1;
  std::vector<int> group_;
};

struct Case {
  std::string name;
  int ranks = 2;
  int lost = 1;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name << c.ranks; }

class LostRank : public ::testing::TestWithParam<Case> {};

TEST_P(LostRank, is_named_by_those_that_wait_for_it) {
  const auto& [name, ranks, lost] = GetParam();
  if (ranks_are_processes() && ranks != most_ranks())
    GTEST_SKIP() << "others would miss the one that is stopped";
  // A thread is busy as long as it does not come, for which it has ten times as long.
  const std::chrono::nanoseconds timeout = ranks_are_processes() ? 600ms : 60ms;
  std::atomic<bool> may_go_on = false;
  on_each_rank(ranks, timeout, [&, name = name, lost = lost](Communicator& self) {
    Waiting waiting(self, name);
    const std::vector<std::int64_t> processes = waiting.processes();
    self.barrier();
    if (self.rank() == lost) {
      if (ranks_are_processes()) ::raise(SIGSTOP);
      while (!ranks_are_processes() && !may_go_on) std::this_thread::sleep_for(1ms);
      EXPECT_THROW(waiting.run(), Error);
      return;
    }
    const bool is_with_it = waiting.is_with(lost);  // else it waits for all
    const auto start = std::chrono::steady_clock::now();
    try {
      is_with_it ? waiting.run() : self.barrier();
      FAIL() << "rank " << self.rank() << " waited for nobody";
    } catch (const TimedOut& e) {
      const std::string what = e.what(), kind = !is_with_it ? "barrier" : name == "send" ? "exchange" : name;
      const std::string_view how =
          ranks_are_processes() ? "which gives no sign of life" : "which is still busy";
      EXPECT_EQ(e.kind(), ErrorKind::timeout);
      EXPECT_TRUE(what.starts_with(kind + " waited 0.6")) << what;
      const std::string named = fmt::format(" s for rank {}, {}", lost, how);
      const std::size_t behind = what.find(named) + named.size();
      EXPECT_NE(what.find(named), what.npos) << what;
      EXPECT_TRUE(behind >= what.size() || what.compare(behind, 5, ", on ") == 0) << what;  // another host
      EXPECT_LT(std::chrono::steady_clock::now() - start, 3s);
      if (self.fail(what)) may_go_on = true;
      if (ranks_are_processes())
        ::kill(static_cast<pid_t>(processes[static_cast<std::size_t>(lost)]), SIGCONT);
    } catch (const Error& e) {
      EXPECT_EQ(e.kind(), ErrorKind::peer) << e.what();  // another was faster
    }
  });
}

std::vector<Case> cases() {
  std::vector<Case> out;
  for (const int ranks : {2, 4})
    for (const char* name :
         {"all_reduce", "all_gather", "reduce_scatter", "all_to_all", "permute", "exchange", "barrier"})
      if (ranks > 2 || std::string_view(name) != "permute") out.push_back({name, ranks, ranks - 1});
  for (const int ranks : {2, 4}) {
    out.push_back({"send", ranks, 0});          // who takes waits
    out.push_back({"send", ranks, ranks - 1});  // who gives waits until it has been taken
  }
  return out;
}

INSTANTIATE_TEST_SUITE_P(Waits, LostRank, ::testing::ValuesIn(cases()), [](const auto& each) {
  return fmt::format("{}_of_{}_without_{}", each.param.name, each.param.ranks, each.param.lost);
});

/// A rank that works for long is no reason to end, nor is one that waits for it.
TEST(LostRank, who_works_long_is_waited_for) {
  constexpr auto timeout = 500ms;
  on_each_rank(4, timeout, [timeout](Communicator& self) {
    Waiting both(self, "send"), all(self, "barrier");
    const auto end = std::chrono::steady_clock::now() + 2 * timeout;
    while (self.rank() == 0 && std::chrono::steady_clock::now() < end)  // 2 waits for it, and 1 and 3 for 2
      ;
    both.run();
    all.run();
  });
}

}  // namespace
}  // namespace shardwright
