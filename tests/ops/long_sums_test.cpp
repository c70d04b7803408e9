// Sums of thousands of elements in 16 bits: a kernel that rounded its sum after each addend would stop growing at a few
// hundred of them. Every operator is tested on its samples with one dim at a time made long, against f64.

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "shardwright/graph/op.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

constexpr std::int64_t long_enough = 4096;

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
std::optional<Sample> stretched(const OpDef& op, Sample sample, int l) {
  const Rule rule = rule_of_sample(op, sample);
  for (std::size_t i = 0; i < sample.operands.size(); ++i)
    for (std::size_t d = 0; d < rule.operands[i].dims.size(); ++d)
      if (rule.operands[i].dims[d] == std::vector<int>{l}) sample.operands[i].type.shape[d] = long_enough;
  try {
    const Rule longer = rule_of_sample(op, sample);
    if (longer.loops[static_cast<std::size_t>(l)].size != long_enough) return std::nullopt;
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

class LongSums : public testing::TestWithParam<const OpDef*> {};

TEST_P(LongSums, lose_no_more_than_two_roundings) {
  const OpDef& op = *GetParam();
  for (const std::string& text : op.samples)
    for (const DType dtype : {DType::bf16, DType::f16}) {
      const Sample sample = with_floating(parse_sample(text), dtype);
      const Rule rule = rule_of_sample(op, sample);
      for (int l = 0; l < static_cast<int>(rule.loops.size()); ++l) {
        auto longer = may_be_summed(rule, l) ? stretched(op, sample, l) : std::nullopt;
        if (!longer) continue;
        for (const bool is_positive : {false, true}) {
          for (SampleOperand& o : longer->operands)
            if (is_positive && o.domain == Domain::any) o.domain = Domain::positive;
          const std::vector<Tensor> in = draw(*longer, Values::reals, 1);
          std::vector<Tensor> exact;
          for (const Tensor& t : in) exact.push_back(t.dtype() == dtype ? convert(t, DType::f64) : t);
          const auto got = evaluate(op, in, longer->attributes);
          const auto want = evaluate(op, exact, longer->attributes);
          for (std::size_t r = 0; r < got.size(); ++r)
            if (size_of(got[r].dtype()) == 2)
              EXPECT_LE(error_in_roundings(got[r], want[r]), 2)
                  << name_of(dtype) << " " << text << " dim " << rule.loops[static_cast<std::size_t>(l)].name
                  << (is_positive ? " positive" : "") << " result " << r;
        }
      }
    }
}

std::vector<const OpDef*> summing_ops() {
  std::vector<const OpDef*> out;
  for (const OpDef& op : all_ops())
    if (op.kind == OpKind::compute && !is_pointwise(op)) out.push_back(&op);
  return out;
}

INSTANTIATE_TEST_SUITE_P(Ops, LongSums, testing::ValuesIn(summing_ops()),
                         [](const auto& each) { return each.param->name; });

}  // namespace
}  // namespace shardwright
