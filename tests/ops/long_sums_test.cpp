// Sums of thousands of elements in 16 bits: a kernel that rounded its sum after each addend would stop growing at a few
// hundred of them. Every operator is tested on its samples with one dim at a time made long: on one device against f64,
// and under every legal strategy against one device.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/graph/op.h"
#include "shardwright/layout/sharded_tensor.h"
#include "tests/support/compare.h"
#include "tests/support/draws.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"
#include "tests/support/sharded_call.h"

namespace shardwright {
namespace {

constexpr std::int64_t long_enough = 4096;
/// That of what is split in 2, 3 and 4, each part of which is still long.
constexpr std::int64_t long_in_parts = 1536;
/// Of calls with more, only one strategy is tried.
constexpr double most_flops = 1e6;

/// Operators that make no sums, however long their operands, or none of whose dims can be long.
bool is_pointwise(const OpDef& op) { return op.block != nullptr; }

Rule rule_of_sample(const OpDef& op, const Sample& sample) {
  const std::vector<Type> types = types_of(sample);
  return rule_of(op, {types, infer(op, {types, {}, sample.attributes}), sample.attributes});
}

/// Results may be sums over loop dim `l`: it is reduced, or stays whole.
bool may_be_summed(const Rule& rule, int l) {
  const auto has = [l](const RuleTensor& tensor) {
    return std::any_of(tensor.dims.begin(), tensor.dims.end(), [l](const auto& loops) {
      return std::find(loops.begin(), loops.end(), l) != loops.end();
    });
  };
  return rule.loops[static_cast<std::size_t>(l)].kind != LoopKind::plain ||
         !std::all_of(rule.results.begin(), rule.results.end(), has);
}

/// `sample` with loop dim `l` made long wherever it is a dim of its own; nothing where the operator refuses that.
std::optional<Sample> stretched(const OpDef& op, Sample sample, int l, std::int64_t size = long_enough) {
  const Rule rule = rule_of_sample(op, sample);
  for (std::size_t i = 0; i < sample.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
      if (rule.operands[i].dims[d] == std::vector<int>{l}) sample.operands[i].type.shape[d] = size;
  try {
    const Rule longer = rule_of_sample(op, sample);
    if (longer.loops[static_cast<std::size_t>(l)].size != size) return std::nullopt;
  } catch (const Error&) {
    return std::nullopt;
  }
  return sample;
}

/// Largest |got - want| in units of the last place of the largest |want|, of elements that the type can hold.
double error_in_roundings(const Tensor& got, const Tensor& want) {
  const double eps = got.dtype() == DType::f16 ? 0x1p-10 : 0x1p-7;
  const double most = got.dtype() == DType::f16 ? 65504 : 3e38;
  const std::vector<double> have = to_doubles(got), exact = to_doubles(want);
  double largest = 0, error = 0;
  for (std::size_t i = 0; i < exact.size(); ++i)
    if (std::abs(exact[i]) < most) {
      largest = std::max(largest, std::abs(exact[i]));
      error = std::max(error, std::abs(have[i] - exact[i]));
    }
  return error / (eps * std::max(largest, 1e-3));
}

/// Operands in `dtype` without losing anything.
std::vector<Tensor> in_f64(const std::vector<Tensor>& in, DType dtype) {
  std::vector<Tensor> out;
  for (const Tensor& t : in) out.push_back(t.dtype() == dtype ? convert(t, DType::f64) : t);
  return out;
}

class LongSums : public ::testing::TestWithParam<const OpDef*> {};

TEST_P(LongSums, lose_no_more_than_two_roundings) {
  const OpDef& op = *GetParam();
  for (const std::string& text : op.samples)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Sample sample = with_floating(parse_sample(text), dtype);
      const Rule rule = rule_of_sample(op, sample);
      for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l) {
        auto longer = may_be_summed(rule, l) ? stretched(op, sample, l) : std::nullopt;
        if (!longer) continue;
        const bool is_long = flops_of(op, rule_of_sample(op, *longer)) > most_flops;
        for (const bool is_positive : {false, true}) {
          if (is_long && !is_positive && !testing::is_full()) continue;
          for (SampleOperand& o : longer->operands)
            if (is_positive && o.domain == Domain::any) o.domain = Domain::positive;
          const std::vector<Tensor> in = draw(*longer, Values::reals, 1);
          const auto got = evaluate(op, in, longer->attributes);
          const auto want = evaluate(op, in_f64(in, dtype), longer->attributes);
          for (std::size_t r = 0; r < got.size(); ++r)
            if (size_of(got[r].dtype()) == 2) {
              EXPECT_LE(error_in_roundings(got[r], want[r]), 2)
                  << name_of(dtype) << " " << text << " dim " << rule.loops[static_cast<std::size_t>(l)].name
                  << (is_positive ? " positive" : "") << " result " << r;
            }
        }
      }
    }
}

// ---- split ----

/// The last place of 1; of longer types, whose sums are as long as their elements, what a few sums may lose.
double rounding_of(DType dtype) {
  switch (dtype) {
    case DType::bf16: return 0x1p-7;
    case DType::f16: return 0x1p-10;
    case DType::f32: return 1e-5;
    default: return is_floating(dtype) ? 1e-12 : 0;
  }
}

/// Multiples of a sixteenth: addends of partial operands are exact in 16 bits, and the products of two are not.
std::vector<Tensor> draw_coarse(const Sample& sample, std::uint64_t seed) {
  std::vector<Tensor> out;
  for (const Tensor& t : draw(sample, Values::reals, seed)) {
    std::vector<double> x = to_doubles(t);
    for (double& v : x) v = std::round(16 * v) / 16;
    out.push_back(make_tensor(t.type(), x));
  }
  return out;
}

/// Parts that are floating, as numbers that add up without roundings.
std::vector<Tensor> exact(const std::vector<Tensor>& parts) {
  std::vector<Tensor> out;
  for (const Tensor& t : parts) out.push_back(is_floating(t.dtype()) ? convert(t, DType::f64) : t);
  return out;
}

double magnitude(const std::vector<Tensor>& parts) {
  double largest = 0;
  for (const Tensor& t : parts)
    for (const double x : to_doubles(t))
      if (std::isfinite(x)) largest = std::max(largest, std::abs(x));
  return largest;
}

class ShortStrategies : public ::testing::TestWithParam<const OpDef*> {
 protected:
  /// What the ranks hold, added up exactly, is within two roundings of the largest addend of what one device makes in
  /// f64: there are four addends at most, each off by half of its last place. How large they are, the same parts in f64
  /// tell.
  void expect_agreement(const Sample& sample, DType dtype, std::size_t most_strategies = 1000) {
    const OpDef& op = *GetParam();
    const Rule rule = rule_of_sample(op, sample);
    const std::vector<Tensor> in = draw_coarse(sample, 4), in_whole = in_f64(in, dtype);
    const std::vector<Tensor> want = evaluate(op, in_whole, sample.attributes);
    const Rule of_whole = rule_of_sample(op, with_floating(sample, DType::f64));
    for (const Mesh& mesh : {Mesh{{{"a", 2}}}, Mesh{{{"a", 3}}}, Mesh{{{"a", 2}, {"b", 2}}}}) {
      const std::vector<Strategy> all = legal_strategies(rule, mesh);
      const std::size_t stride = std::max<std::size_t>(1, all.size() / most_strategies);
      for (std::size_t s = stride / 2; s < all.size(); s += stride) {
        SCOPED_TRACE(fmt::format("{} {} {}", to_text(mesh), to_text(all[s], rule, mesh), text_of(sample)));
        const auto parts = run_on_ranks(op, rule, all[s], mesh, in, sample.attributes);
        const auto whole = run_on_ranks(op, of_whole, all[s], mesh, in_whole, sample.attributes);
        const NodeLayouts layouts = layouts_of(rule, all[s]);
        for (std::size_t r = 0; r < want.size(); ++r) {
          const double largest = std::max(magnitude(whole[r]), 1e-3);
          if (dtype == DType::f16 && largest > 65504) continue;
          const Tensor got = join(exact(parts[r]), layouts.results[r], mesh, want[r].shape());
          const double scale = std::max(1.0, magnitude({want[r]}));  // what is_close multiplies with
          EXPECT_TRUE(
              is_close(got, exact({want[r]})[0], 2 * rounding_of(parts[r][0].dtype()) * largest / scale))
              << "result " << r;
        }
      }
    }
  }

 private:
  static std::string text_of(const Sample& sample) {
    std::string out;
    for (const SampleOperand& o : sample.operands) out += to_text(o.type) + " ";
    return out + to_text(sample.attributes);
  }
};

TEST_P(ShortStrategies, agree_with_one_device) {
  for (const std::string& text : GetParam()->samples)
    for (const DType dtype : {DType::bf16, DType::f16})
      expect_agreement(with_floating(parse_sample(text), dtype), dtype);
}

TEST_P(ShortStrategies, agree_with_one_device_in_long_sums) {
  const OpDef& op = *GetParam();
  if (is_pointwise(op)) return;
  for (const std::string& text : op.samples) {
    const Sample sample = with_floating(parse_sample(text), DType::bf16);  // f16 ends before such sums do
    const Rule rule = rule_of_sample(op, sample);
    for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l) {
      auto longer = may_be_summed(rule, l) ? stretched(op, sample, l, long_in_parts) : std::nullopt;
      if (!longer) continue;
      for (SampleOperand& o : longer->operands)
        if (o.domain == Domain::any) o.domain = Domain::positive;
      expect_agreement(*longer, DType::bf16, flops_of(op, rule_of_sample(op, *longer)) > most_flops ? 1 : 4);
    }
  }
}

std::vector<const OpDef*> computing_ops() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops())
    if (op.kind == OpKind::compute) out.push_back(&op);
  return out;
}

std::vector<const OpDef*> summing_ops() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops())
    if (op.kind == OpKind::compute && !is_pointwise(op)) out.push_back(&op);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, LongSums, ::testing::ValuesIn(summing_ops()),
                         [](const auto& each) { return each.param->name; });
INSTANTIATE_TEST_SUITE_P(Ops, ShortStrategies, ::testing::ValuesIn(computing_ops()),
                         [](const auto& each) { return each.param->name; });

}  // namespace
}  // namespace shardwright
