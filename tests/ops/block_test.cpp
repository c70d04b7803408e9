// Block kernels of all point-wise operators: every instruction set, element type, length and place.

#include <gtest/gtest.h>

#include <cstring>

#include "shardwright/graph/op.h"
#include "tests/support/compare.h"
#include "tests/support/instruction_sets.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

/// A block of an operator's sample: operands repeated up to `count` elements, a scalar's one everywhere.
class Sampled {
 public:
  Sampled(const OpDef& op, const Sample& sample, std::int64_t count) : count_(count) {
    const std::vector<Type> types = types_of(sample);
    const std::vector<Type> results = infer(op, {types, {}, sample.attributes});
    kernel_ = op.block({types, results, sample.attributes});
    for (const Tensor& t : draw(sample, Values::reals, 7)) operands_.push_back(repeated(t, count));
    for (const Type& t : results) results_.emplace_back(Type{t.dtype, {count}});
  }

  /// Runs on elements [start, start + n).
  void run(std::int64_t start, std::int64_t n) {
    std::vector<std::byte*> x, y;
    for (Tensor& t : operands_) x.push_back(element(t, start));
    for (Tensor& t : results_) y.push_back(element(t, start));
    kernel_({x, y, n});
  }

  /// Runs with result i over operand `overwrites[i]`, if that has its type.
  void run_in_place(const std::vector<int>& overwrites) {
    std::vector<std::byte*> x, y;
    for (Tensor& t : operands_) x.push_back(t.bytes().data());
    for (std::size_t i = 0; i < results_.size(); ++i) {
      Tensor& operand = operands_.at(static_cast<std::size_t>(overwrites.at(i)));
      y.push_back((operand.type() == results_[i].type() ? operand : results_[i]).bytes().data());
    }
    kernel_({x, y, count_});
    for (std::size_t i = 0; i < results_.size(); ++i)
      std::memcpy(results_[i].bytes().data(), y[i], results_[i].bytes().size());
  }

  const std::vector<Tensor>& results() const { return results_; }

 private:
  static Tensor repeated(const Tensor& t, std::int64_t count) {
    const std::vector<double> from = to_doubles(t);
    std::vector<double> to(static_cast<std::size_t>(count));
    for (std::size_t i = 0; i < to.size(); ++i) to[i] = from[i % from.size()];
    return make_tensor({t.dtype(), {count}}, to);
  }

  static std::byte* element(Tensor& t, std::int64_t i) {
    return t.bytes().data() + i * static_cast<std::int64_t>(size_of(t.dtype()));
  }

  BlockKernel kernel_;
  std::int64_t count_;
  std::vector<Tensor> operands_;
  std::vector<Tensor> results_;
};

/// Calls `f(op, sample)` for every sample of every point-wise operator in every floating type.
template <class F>
void for_each_sample(F f) {
  for (const OpDef& op : all_ops())
    if (op.block)
      for (const std::string& text : op.samples)
        for (DType dtype : {DType::f32, DType::f64, DType::f16, DType::bf16}) {
          SCOPED_TRACE(op.name + " " + text + " as " + std::string(name_of(dtype)));
          f(op, with_floating(parse_sample(text), dtype));
        }
}

class Blocks : public AtEachLevel {};

TEST_P(Blocks, compute_what_plain_code_does) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    constexpr std::int64_t count = 1100;
    Sampled here(op, sample, count), plain(op, sample, count);
    here.run(0, count);
    const Using only(InstructionSet::plain);
    plain.run(0, count);
    for (std::size_t i = 0; i < here.results().size(); ++i) {
      const DType dtype = here.results()[i].dtype();
      const double tolerance = dtype == DType::f64    ? 1e-14
                               : dtype == DType::bf16 ? 1e-2
                               : dtype == DType::f16  ? 1e-3
                                                      : 1e-6;
      EXPECT_TRUE(is_close(here.results()[i], plain.results()[i], tolerance)) << "result " << i;
    }
  });
}

/// Shards of one tensor have other lengths and starts, but must hold the same bits.
TEST_P(Blocks, give_an_element_the_same_bits_wherever_it_stands) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    constexpr std::int64_t count = 75;
    Sampled whole(op, sample, count), parts(op, sample, count);
    whole.run(0, count);
    for (std::int64_t start = 0, n = 1; start < count; start += n, n = std::min(n + 1, count - start))
      parts.run(start, n);
    EXPECT_EQ(parts.results(), whole.results());
  });
}

TEST_P(Blocks, may_write_over_their_operands) {
  for_each_sample([](const OpDef& op, const Sample& sample) {
    if (op.overwrites.empty()) return;
    constexpr std::int64_t count = 533;
    Sampled apart(op, sample, count), in_place(op, sample, count);
    apart.run(0, count);
    in_place.run_in_place(op.overwrites);
    EXPECT_EQ(in_place.results(), apart.results());
  });
}

INSTANTIATE_TEST_SUITE_P(Levels, Blocks, each_level(), name_of_level);

}  // namespace
}  // namespace shardwright
