// The CPU backend's kernels in the memory formats that they like, against the reference kernels: whole, and what
// every rank computes of a split.

#include <gtest/gtest.h>

#include <algorithm>

#include "shardwright/base/vectorize.h"
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
    {"conv", "conv2d", "f32[2,32,12,6], f32[64,32,3,3] (pads=[1, 1, 1, 1])"},
    {"conv_strided", "conv2d", "f32[2,32,12,9], f32[32,32,3,3] (pads=[1, 1, 1, 1], strides=[2, 2])"},
    {"conv_dilated", "conv2d", "f32[2,16,12,13], f32[32,16,3,3] (dilations=[2, 2], pads=[2, 2, 2, 2])"},
    {"conv_pointwise", "conv2d", "f32[2,48,6,5], f32[32,48,1,1] (strides=[2, 1])"},
    {"conv_of_colours", "conv2d", "f32[2,3,12,12], f32[32,3,7,7] (pads=[3, 3, 3, 3], strides=[2, 2])"},
    {"conv_odd_channels", "conv2d", "f32[2,20,6,6], f32[12,20,3,3] (pads=[1, 1, 1, 1])"},
    {"conv_of_eights", "conv2d", "f32[2,20,6,6], f32[24,20,3,3] (pads=[1, 1, 1, 1])"},
    {"data", "conv_transpose2d", "f32[2,64,12,6], f32[64,32,3,3] (pads=[1, 1, 1, 1], size=[12, 6])"},
    {"data_strided", "conv_transpose2d",
     "f32[2,32,6,5], f32[32,16,3,3] (pads=[1, 1, 1, 1], size=[12, 9], strides=[2, 2])"},
    {"data_skipped_pixels", "conv_transpose2d",
     "f32[2,32,4,4], f32[32,16,1,1] (size=[12, 11], strides=[3, 3])"},
    {"weight", "conv2d_weight_grad", "f32[2,32,12,6], f32[2,64,12,6] (kernel=[3, 3], pads=[1, 1, 1, 1])"},
    {"weight_strided", "conv2d_weight_grad",
     "f32[2,16,12,9], f32[2,32,6,5] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])"},
    {"weight_of_colours", "conv2d_weight_grad",
     "f32[2,3,12,12], f32[2,32,6,6] (kernel=[7, 7], pads=[3, 3, 3, 3], strides=[2, 2])"},
    {"moments", "batch_moments", "f32[6,32,4,3]"},
    {"norm", "batch_norm", "f32[6,32,4,3], f32[32], f32[32], f64[2,32] (epsilon=0.5)"},
    {"norm_weights", "batch_norm_weights_grad", "f32[6,32,4,9], f32[6,32,4,9], f64[2,32] (epsilon=0.5)"},
    {"norm_gradient", "batch_norm_grad",
     "f32[6,48,4,3], f32[6,48,4,3], f32[48], f64[2,48], f32[48], f32[48] (epsilon=0.5)"},
    {"max_pool", "max_pool2d", "f32[2,32,12,12] (kernel=[3, 3], pads=[1, 1, 1, 1], strides=[2, 2])"},
    {"max_pool_dilated", "max_pool2d", "f32[2,16,12,6] (dilations=[2, 1], kernel=[2, 3], pads=[1, 1, 1, 1])"},
    {"max_pool_gradient", "max_pool2d_grad",
     "f32[2,32,6,6], f32[2,32,12,12] (kernel=[3, 3], pads=[1, 1, 1, 1], size=[12, 12], strides=[2, 2])"},
    {"avg_pool", "avg_pool2d", "f32[2,32,12,6] (count_pads=false, kernel=[3, 2], pads=[1, 1, 1, 1])"},
    {"avg_pool_all", "avg_pool2d", "f32[2,32,6,6] (kernel=[6, 6])"},
    {"avg_pool_gradient", "avg_pool2d_grad",
     "f32[2,32,6,6] (count_pads=false, kernel=[3, 3], pads=[1, 1, 1, 1], size=[12, 12], strides=[2, 2])"},
    {"relu_gradient", "relu_grad", "f32[2,32,6,3], f32[2,32,6,3]"},
};

/// A call's tensors, each in its format.
struct Bound {
  std::vector<Tensor> tensors;
  std::vector<TensorView> views;
  std::vector<Format> formats;

  Bound(const std::vector<Tensor>& row_major, const std::vector<std::optional<Format>>& wanted,
        const Format& common) {
    for (std::size_t i = 0; i < row_major.size(); ++i) {
      formats.push_back(wanted.empty() ? Format{} : wanted[i].value_or(common));
      tensors.push_back(moved(row_major[i], {}, formats.back()));
    }
    for (Tensor& t : tensors) views.push_back(t.view());
  }
  static Tensor moved(const Tensor& from, const Format& from_format, const Format& to_format) {
    Tensor to(from.type());
    reformat(from.bytes().data(), from_format, to.bytes().data(), to_format, from.shape(),
             size_of(from.dtype()));
    return to;
  }
};

/// The sample with images and their weights of `dtype`; what there is once per channel stays as it is.
Sample with_images(Sample sample, DType dtype) {
  for (SampleOperand& o : sample.operands)
    if (o.type.shape.size() == 4) o.type.dtype = dtype;
  return sample;
}

/// Of one rounding of the type.
double tolerance_of(DType dtype) { return dtype == DType::f32 ? 1e-5 : dtype == DType::f16 ? 1e-3 : 8e-3; }

/// All tensors that lie in the common format can lie in this one.
bool all_fit(const RankPart& part, const Formats& formats, const Format& common) {
  for (std::size_t i = 0; i < formats.operands.size(); ++i)
    if (!formats.operands[i] && !fits(common, part.operands[i].shape())) return false;
  for (std::size_t i = 0; i < formats.results.size(); ++i)
    if (!formats.results[i] && !fits(common, part.results[i].shape)) return false;
  return true;
}

class CpuFormats : public ::testing::TestWithParam<Case> {
 protected:
  /// Compares the call with `common` where the backend leaves the choice.
  void compare(const OpDef& op, const RankPart& part, const Formats& formats, const Format& common) {
    const std::vector<Tensor> want = reference(op, part);
    std::vector<Tensor> garbage = want;
    for (Tensor& t : garbage) std::fill(t.bytes().begin(), t.bytes().end(), std::byte{1});
    const Bound in(part.operands, formats.operands, common), out(garbage, formats.results, common);
    const FusedCall call{.op = op,
                         .call = {in.views, out.views, part.attributes, part.rule, part.loops},
                         .operand_formats = in.formats,
                         .result_formats = out.formats};
    const PreparedKernel kernel = backend_->prepare({&call, 1});
    for (int run = 0; run < 2; ++run) kernel();
    for (std::size_t i = 0; i < want.size(); ++i)
      ASSERT_TRUE(
          is_close(Bound::moved(out.tensors[i], out.formats[i], {}), want[i], tolerance_of(want[i].dtype())))
          << "result " << i;
    blocked_ +=
        std::any_of(out.formats.begin(), out.formats.end(), [](auto& f) { return !f.is_row_major(); }) ||
        std::any_of(in.formats.begin(), in.formats.end(), [](auto& f) { return !f.is_row_major(); });
  }

  void compare_parts(const OpDef& op, const Sample& sample, int ranks) {
    for_each_rank_part(
        op, sample,
        [&](const RankPart& part) {
          SCOPED_TRACE(part.where);
          std::vector<TensorView> operands, results;
          for (const Tensor& t : part.operands) operands.push_back({t.dtype(), t.shape(), nullptr});
          for (const Type& t : part.results) results.push_back({t.dtype, t.shape, nullptr});
          const Formats formats =
              cpu_formats(op, {operands, results, part.attributes, part.rule, part.loops});
          std::vector<Format> common = formats.common;
          if (formats.takes_any) common.push_back(parse_format("aBcd16b"));
          common.emplace_back();
          for (const Format& f : common)
            if (all_fit(part, formats, f)) compare(op, part, formats, f);
        },
        ranks);
  }

  std::unique_ptr<Backend> backend_ = cpu_backend();
  int blocked_ = 0;  // calls with a tensor in blocks
};

TEST_P(CpuFormats, give_what_the_reference_gives_on_every_rank_of_every_split) {
  const OpDef& op = find_op(GetParam().op);
  for (const DType dtype : {DType::f32, DType::bf16, DType::f16})
    for (const InstructionSet set : {InstructionSet::plain, best_instruction_set()}) {
      if (dtype != DType::bf16 && set == InstructionSet::plain) continue;  // alike
      SCOPED_TRACE(name_of(dtype));
      use_instruction_set(set);
      blocked_ = 0;
      const int ranks = dtype == DType::f32 ? 4 : 1;  // splits are the same for all types
      compare_parts(op, with_images(parse_sample(GetParam().sample), dtype), ranks);
      use_instruction_set(best_instruction_set());
      const std::string_view name = GetParam().name;
      if (name == "conv_of_eights") continue;  // in blocks on some processors
      EXPECT_EQ(blocked_ > 0, name != "conv_odd_channels");
    }
}

INSTANTIATE_TEST_SUITE_P(All, CpuFormats, ::testing::ValuesIn(cases),
                         [](const auto& each) { return each.param.name; });

/// Moving changes no bits, whatever numbers they are.
TEST(CpuBackend, moves_every_short_number_between_formats) {
  const OpDef& op = find_op("reformat");
  for (const DType dtype : {DType::bf16, DType::f16}) {
    Tensor x({dtype, {4, 32, 32, 16}});  // as many elements as 16 bits have values
    auto* const bits = reinterpret_cast<std::uint16_t*>(x.bytes().data());
    for (std::size_t i = 0; i < 65536; ++i) bits[i] = static_cast<std::uint16_t>(i);
    const Format blocks = parse_format("aBcd16b");
    const Bound in({x}, {Format{}}, {}), out({x}, {blocks}, {}), back({x}, {Format{}}, {});
    const Attributes none;
    const Rule rule;
    const LoopBox loops;
    const auto backend = cpu_backend();
    const FusedCall there{.op = op,
                          .call = {in.views, out.views, none, rule, loops},
                          .operand_formats = in.formats,
                          .result_formats = out.formats};
    const FusedCall home{.op = op,
                         .call = {out.views, back.views, none, rule, loops},
                         .operand_formats = out.formats,
                         .result_formats = back.formats};
    std::fill_n(out.views[0].data, x.bytes().size(), std::byte{1});
    std::fill_n(back.views[0].data, x.bytes().size(), std::byte{1});
    backend->prepare({&there, 1})();
    backend->prepare({&home, 1})();
    EXPECT_TRUE(std::equal(x.bytes().begin(), x.bytes().end(), back.tensors[0].bytes().begin()));
    EXPECT_FALSE(std::equal(x.bytes().begin(), x.bytes().end(), out.tensors[0].bytes().begin()));
  }
}

/// What no kernel of its own can do is done on row-major copies.
TEST(CpuBackend, runs_any_operator_in_any_format) {
  const OpDef& op = find_op("matmul");
  const Sample sample = parse_sample("f32[8,16], f32[16,4]");
  const std::vector<Tensor> in = draw(sample, Values::integers, 1);
  const std::vector<Type> types = types_of(in), results = infer(op, {types, {}, {}});
  const Rule rule = rule_of(op, {types, results, {}});
  const RankPart part{.operands = in, .results = results, .rule = rule};
  const Tensor want = reference(op, part)[0];
  const Bound operands(in, {parse_format("ba"), parse_format("Ab4a")}, {});
  const Bound result({want}, {parse_format("AB2a4b")}, {});
  const Attributes none;
  const LoopBox loops;
  const FusedCall call{.op = op,
                       .call = {operands.views, result.views, none, rule, loops},
                       .operand_formats = operands.formats,
                       .result_formats = result.formats};
  const auto backend = cpu_backend();
  backend->prepare({&call, 1})();
  EXPECT_TRUE(is_close(Bound::moved(result.tensors[0], result.formats[0], {}), want));
}

}  // namespace
}  // namespace shardwright
