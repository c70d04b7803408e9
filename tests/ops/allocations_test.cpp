// Kernels run in every step: none may ask for memory.

#include <gtest/gtest.h>

#include "shardwright/graph/op.h"
#include "tests/support/allocations.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

TEST(AnyKernel, allocates_nothing) {
  for (const OpDef& op : all_ops())
    for (const std::string& text : op.samples) {
      if (!op.kernel) continue;
      const Sample sample = parse_sample(text);
      const std::vector<Type> types = types_of(sample);
      std::vector<Tensor> in = draw(sample, Values::reals, 1), out;
      for (const Type& t : infer(op, {types, {}, sample.attributes})) out.emplace_back(t);
      const Rule rule = rule_of(op, {types, types_of(out), sample.attributes});
      const LoopBox box = whole_box(rule);
      std::vector<TensorView> x, y;
      for (Tensor& t : in) x.push_back(t.view());
      for (Tensor& t : out) y.push_back(t.view());
      const KernelCall bare{x, y, sample.attributes, rule, box};
      std::vector<std::byte> workspace(op.workspace ? static_cast<std::size_t>(op.workspace(bare)) : 0);
      const std::int64_t before = testing::allocations_of_this_thread();
      op.kernel({x, y, sample.attributes, rule, box, workspace.data()});
      EXPECT_EQ(testing::allocations_of_this_thread() - before, 0) << op.name << " " << text;
    }
}

}  // namespace
}  // namespace shardwright
