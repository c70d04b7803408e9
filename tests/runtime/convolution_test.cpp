// The CPU backend's convolutions against the reference kernels: whole, and what every rank computes of a split.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/runtime/backend/cpu/cpu.h"
#include "tests/support/compare.h"
#include "tests/support/rank_parts.h"

namespace shardwright {
namespace {

struct Case {
  const char* name;
  const char* op;
  const char* sample;
};

const std::vector<Case> cases{
    {"forward", "conv2d", "f32[4,6,12,7], f32[12,6,3,3] (pads=[1, 1, 1, 1])"},
    {"forward_strided", "conv2d", "f32[2,12,12,9], f32[6,12,3,3] (pads=[1, 1, 1, 1], strides=[2, 2])"},
    {"forward_dilated", "conv2d", "f32[2,8,12,13], f32[6,8,3,2] (dilations=[2, 3], pads=[2, 0, 1, 4])"},
    {"forward_grouped", "conv2d", "f32[2,24,6,6], f32[36,4,3,3] (groups=6, pads=[1, 1, 1, 1])"},
    {"forward_pointwise", "conv2d", "f32[4,18,6,5], f32[12,18,1,1] (strides=[2, 1])"},
    {"forward_in_strips", "conv2d", "f32[2,36,4,70], f32[2,36,5,5] (pads=[2, 2, 2, 2])"},
    {"forward_per_channel", "conv2d", "f32[2,6,12,6], f32[6,1,3,3] (groups=6, pads=[1, 1, 1, 1])"},
    {"data", "conv_transpose2d", "f32[4,12,12,7], f32[12,6,3,3] (pads=[1, 1, 1, 1], size=[12, 7])"},
    {"data_strided", "conv_transpose2d",
     "f32[2,6,6,5], f32[6,12,3,3] (pads=[1, 1, 1, 1], size=[12, 9], strides=[2, 2])"},
    {"data_dilated", "conv_transpose2d",
     "f32[2,6,11,14], f32[6,8,3,2] (dilations=[2, 3], pads=[2, 0, 1, 4], size=[12, 13])"},
    {"data_grouped", "conv_transpose2d",
     "f32[2,36,6,6], f32[36,4,3,3] (groups=6, pads=[1, 1, 1, 1], size=[6, 6])"},
    {"data_in_strips", "conv_transpose2d", "f32[2,2,4,70], f32[2,36,5,5] (pads=[2, 2, 2, 2], size=[4, 70])"},
    {"data_skipped_pixels", "conv_transpose2d",
     "f32[2,6,4,4], f32[6,12,1,1] (size=[12, 11], strides=[3, 3])"},
    {"weight", "conv2d_weight_grad", "f32[4,6,12,7], f32[4,12,12,7] (kernel=[3, 3], pads=[1, 1, 1, 1])"},
    {"weight_strided", "conv2d_weight_grad",
     "f32[2,12,12,9], f32[2,6,6,5] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])"},
    {"weight_dilated", "conv2d_weight_grad",
     "f32[2,8,12,13], f32[2,6,11,14] (dilations=[2, 3], kernel=[3, 2], pads=[2, 0, 1, 4])"},
    {"weight_grouped", "conv2d_weight_grad",
     "f32[2,24,6,6], f32[2,36,6,6] (groups=6, kernel=[3, 3], pads=[1, 1, 1, 1])"},
    {"weight_in_strips", "conv2d_weight_grad",
     "f32[2,36,4,70], f32[2,2,4,70] (kernel=[5, 5], pads=[2, 2, 2, 2])"},
};

class CpuConvolutions : public ::testing::TestWithParam<Case> {};

TEST_P(CpuConvolutions, equal_the_reference_on_every_rank_of_every_split) {
  const OpDef& op = find_op(GetParam().op);
  const std::unique_ptr<Backend> backend = cpu_backend();
  for (const DType dtype : {DType::f32, DType::f64, DType::bf16, DType::f16}) {
    SCOPED_TRACE(name_of(dtype));
    const int ranks = size_of(dtype) < sizeof(float) ? 1 : 4;  // splits are the same for all types
    const Sample sample = with_floating(parse_sample(GetParam().sample), dtype);
    const auto compare = [&](const RankPart& part) {
      SCOPED_TRACE(part.where);
      std::vector<Tensor> in = part.operands;
      Tensor out(part.results[0]);
      std::fill(out.bytes().begin(), out.bytes().end(), std::byte{1});
      std::vector<TensorView> operands;
      for (Tensor& t : in) operands.push_back(t.view());
      const std::vector<TensorView> results{out.view()};
      const PreparedKernel kernel =
          backend->prepare(op, {operands, results, part.attributes, part.rule, part.loops});
      for (int run = 0; run < 2; ++run) kernel();
      ASSERT_TRUE(is_close(out, reference(op, part)[0]));
    };
    for_each_rank_part(op, sample, compare, ranks);
  }
}

INSTANTIATE_TEST_SUITE_P(All, CpuConvolutions, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

}  // namespace
}  // namespace shardwright
