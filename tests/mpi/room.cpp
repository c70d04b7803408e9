// Ranks of a host prepare as many transfers as they have asked room for, and hear of it if that was too little.

#include <gtest/gtest.h>

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "tests/mpi/on_each_process.h"

namespace shardwright {
namespace {

/// A sum of all ranks, as often as it can be prepared.
class Sums {
 public:
  explicit Sums(Communicator& communicator)
      : communicator_(communicator),
        backend_(cpu_backend()),
        meshes_{Mesh{{{"all", communicator.size()}}}},
        memory_(communicator.allocate(8, *backend_)) {}

  int prepare() {
    Step sum{.kind = StepKind::all_reduce, .axes = {0}, .from = replicated(0), .to = replicated(0)};
    sum.from.sum = meshes_[0].all_axes();
    const BoundTransfer bound{transfer_of(sum, meshes_, {}, communicator_.rank()), DType::f64, memory_.data(),
                              memory_.data()};
    return communicator_.prepare({&bound, 1});
  }
  double run(int prepared) {
    auto& number = *reinterpret_cast<double*>(memory_.data());
    number = 1;
    communicator_.run(prepared);
    return number;
  }

 private:
  Communicator& communicator_;
  std::unique_ptr<Backend> backend_;
  std::vector<Mesh> meshes_;
  Memory memory_;
};

// As many as a gpipe stage of 24 layers has for 200 micro-batches.
TEST(Room, there_is_as_much_as_was_asked_for) {
  constexpr int count = 40000;
  on_each_process(2, count, [](Communicator& self) {
    Sums sums(self);
    int last = 0;
    for (int i = 0; i < count; ++i) last = sums.prepare();
    EXPECT_EQ(sums.run(0), 2);
    EXPECT_EQ(sums.run(last), 2);
  });
}

TEST(Room, all_ranks_hear_that_there_is_none_left) {
  on_each_process(2, 100, [](Communicator& self) {
    Sums sums(self);
    try {
      for (int i = 0; i < 100000; ++i) sums.prepare();
      ADD_FAILURE() << "rank " << self.rank() << " found room";
    } catch (const Error& e) {
      EXPECT_STREQ(
          e.what(),
          "rank 0 has no room for more than 100 transfers; ask for a communicator with room for more");
    }
  });
}

}  // namespace
}  // namespace shardwright
