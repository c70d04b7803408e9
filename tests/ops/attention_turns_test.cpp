// Attention in turns is attention: merged turns, their gradients, and how much each rank computes.

#include "shardwright/ops/attention_turns.h"

#include <gtest/gtest.h>

#include "shardwright/graph/op.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

/// Pairs of a rank in all turns.
std::int64_t pairs_of(const ops::TurnOf& what, std::int64_t piece) {
  std::int64_t out = 0;
  for (std::int64_t turn = 0; turn < what.pieces; ++turn) out += ops::pairs_in_turn(what, piece, turn);
  return out;
}

TEST(AttentionTurns, in_order_give_every_rank_2P_blocks) {
  for (std::int64_t pieces : {1, 2, 3, 4, 8})
    for (std::int64_t half : {1, 2, 5}) {
      const ops::TurnOf what{.pieces = pieces, .length = 2 * half, .order = 2 * pieces};
      for (std::int64_t piece = 0; piece < pieces;
           ++piece)  // two halves on the diagonal, which has `half` more
        EXPECT_EQ(pairs_of(what, piece), 2 * pieces * half * half + half);
    }
}

TEST(AttentionTurns, without_order_give_the_last_rank_the_most) {
  for (std::int64_t pieces : {2, 3, 8}) {
    const ops::TurnOf what{.pieces = pieces, .length = 6};
    const double of_diagonal = 6.0 / 2;  // counted as a half
    double all = 0, most = 0;
    for (std::int64_t piece = 0; piece < pieces; ++piece) {
      const double own = static_cast<double>(pairs_of(what, piece)) - of_diagonal;
      all += own, most = std::max(most, own);
    }
    const double p = static_cast<double>(pieces);
    EXPECT_DOUBLE_EQ(most / (all / p), 2 - 1 / p);
  }
}

struct Case {
  std::string name;
  Attributes attributes;
  std::int64_t pieces = 2;
  bool in_order = false;
  std::string mask = {};  // its type
};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

class TurnsOfAttention : public ::testing::TestWithParam<Case> {
 protected:
  Tensor ordered(const Tensor& x, bool inverse) const {
    if (!GetParam().in_order) return x;
    const std::vector<Tensor> in{x};
    return evaluate(find_op("reorder"), in,
                    {{"dim", std::int64_t{2}}, {"order", 2 * GetParam().pieces}, {"inverse", inverse}})[0];
  }
  Attributes turn(std::int64_t j) const {
    Attributes out = GetParam().attributes;
    out.set("pieces", GetParam().pieces);
    out.set("turn", j);
    if (GetParam().in_order) out.set("order", 2 * GetParam().pieces);
    if (j + 1 == GetParam().pieces) out.set("final", true);
    if (!GetParam().mask.empty()) out.set("masked", true);
    return out;
  }
  /// Hides two thirds of all keys, and all from the third query.
  Tensor mask() const {
    Tensor out = draw(with_floating(parse_sample(GetParam().mask), DType::f64), Values::reals, 5)[0];
    const std::int64_t keys = out.shape().back(), queries = out.shape()[out.shape().size() - 2];
    std::span<double> x = out.as<double>();
    for (std::size_t i = 0; i < x.size(); ++i) {
      const std::int64_t query = static_cast<std::int64_t>(i) / keys % queries;
      if (i % 3 || query == 2) x[i] = -1e30;
    }
    return out;
  }
  /// With queries and keys in order.
  Tensor mask_in_order() const {
    if (!GetParam().in_order) return mask();
    Tensor out = mask();
    const std::int64_t dims = std::ssize(out.shape());
    for (const std::int64_t dim : {dims - 2, dims - 1}) {
      const std::vector<Tensor> in{out};
      out = evaluate(find_op("reorder"), in, {{"dim", dim}, {"order", 2 * GetParam().pieces}})[0];
    }
    return out;
  }
};

TEST_P(TurnsOfAttention, is_that_of_all_keys_at_once) {
  const Case& c = GetParam();
  const std::vector<Tensor> in = draw(
      with_floating(parse_sample("f32[2,4,12,4], f32[2,2,12,4], f32[2,2,12,6], f32[2,4,12,6]"), DType::f64),
      Values::reals, 3);
  std::vector<Tensor> whole{in[0], in[1], in[2]};
  if (!c.mask.empty()) whole.push_back(mask());
  const Tensor y = evaluate(find_op("attention"), whole, c.attributes)[0];
  std::vector<Tensor> all{in[3], in[0], in[1], in[2], y};
  if (!c.mask.empty()) all.push_back(whole.back());
  const std::vector<Tensor> wanted = evaluate(find_op("attention_grad"), all, c.attributes);

  const Tensor q = ordered(in[0], false), k = ordered(in[1], false), v = ordered(in[2], false),
               dy = ordered(in[3], false);
  std::vector<Tensor> carried;
  for (std::int64_t j = 0; j < c.pieces; ++j) {
    std::vector<Tensor> operands{q, k, v};
    if (!c.mask.empty()) operands.push_back(mask_in_order());
    operands.insert(operands.end(), carried.begin(), carried.end());
    carried = evaluate(find_op("attention_turn"), operands, turn(j));
  }
  EXPECT_TRUE(is_close(ordered(carried[0], true), y, 1e-13));

  std::vector<Tensor> found;
  for (std::int64_t j = 0; j < c.pieces; ++j) {
    std::vector<Tensor> operands{dy, q, k, v, carried[0], carried[1]};
    if (!c.mask.empty()) operands.push_back(mask_in_order());
    if (j > 0) operands.push_back(found[0]);
    std::vector<Tensor> made = evaluate(find_op("attention_turn_grad"), operands, turn(j));
    for (std::size_t i = 1; i < 3 && j > 0; ++i) {
      const std::vector<Tensor> addends{found[i], made[i]};
      made[i] = evaluate(find_op("bring_home"), addends, {{"pieces", c.pieces}, {"turn", j}})[0];
    }
    found = std::move(made);
  }
  for (std::size_t i = 0; i < 3; ++i) EXPECT_TRUE(is_close(ordered(found[i], true), wanted[i], 1e-12)) << i;
}

INSTANTIATE_TEST_SUITE_P(
    all, TurnsOfAttention,
    ::testing::Values(Case{"causal", {{"causal", true}}, 3},
                      Case{"causal_in_order", {{"causal", true}}, 3, true},
                      Case{"in_order_of_two", {{"causal", true}, {"scale", 0.7}}, 2, true},
                      Case{"all_see_all", {}, 4}, Case{"alibi", {{"alibi", true}, {"causal", true}}, 2, true},
                      Case{"masked", {}, 3, false, "f32[2,1,12,12]"},
                      Case{"masked_by_heads", {{"causal", true}}, 2, false, "f32[1,4,12,12]"},
                      Case{"masked_plane", {{"causal", true}, {"alibi", true}}, 4, false, "f32[12,12]"},
                      Case{"masked_in_order", {{"causal", true}}, 3, true, "f32[2,4,12,12]"},
                      Case{"alone", {{"causal", true}}, 1}),
    [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace shardwright
