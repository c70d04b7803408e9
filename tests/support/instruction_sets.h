// Tests of kernels at each level for which they are compiled.
#pragma once

#include <gtest/gtest.h>

#include "shardwright/base/vectorize.h"

namespace shardwright {

/// `vectorized` uses `set` as long as this lives.
class Using {
 public:
  explicit Using(InstructionSet set) : before_(instruction_set()) { use_instruction_set(set); }
  ~Using() { use_instruction_set(before_); }
  Using(const Using&) = delete;
  Using& operator=(const Using&) = delete;

 private:
  InstructionSet before_;
};

/// A test that runs once per instruction set; it is skipped where the machine lacks it.
class AtEachLevel : public testing::TestWithParam<InstructionSet> {
 protected:
  void SetUp() override {
    if (GetParam() > best_instruction_set()) GTEST_SKIP() << "this machine lacks the instructions";
    use_instruction_set(GetParam());
  }
  void TearDown() override { use_instruction_set(best_instruction_set()); }
};

inline auto each_level() {
  return testing::Values(InstructionSet::plain, InstructionSet::avx2, InstructionSet::avx512);
}

inline const char* name_of_level(const testing::TestParamInfo<InstructionSet>& info) {
  constexpr const char* names[] = {"plain", "avx2", "avx512"};
  return names[static_cast<int>(info.param)];
}

}  // namespace shardwright
