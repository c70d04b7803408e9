// Bags that the contract's samples cannot say: with ids that are none, with none at all, and with an id that there is no row of.

#include <gtest/gtest.h>

#include "shardwright/graph/builder.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"

namespace shardwright {
namespace {

using Doubles = std::vector<double>;

Tensor table() { return make_tensor({DType::f64, {3, 2}}, Doubles{1, 2, 10, 20, 100, 200}); }
Tensor ids(const Doubles& values) {
  return make_tensor({DType::i32, {static_cast<std::int64_t>(values.size()) / 3, 3}}, values);
}

std::vector<Tensor> run(const char* op, const std::vector<Tensor>& in, const Attributes& attributes = {}) {
  return evaluate(find_op(op), in, attributes);
}

TEST(Lookup, ids_below_0_are_none) {
  const Tensor bags = ids({0, -1, 2, -1, -1, -1, 1, 1, -5});
  EXPECT_EQ(to_doubles(run("lookup", {table(), bags})[0]), (Doubles{101, 202, 0, 0, 20, 40}));
  EXPECT_EQ(to_doubles(run("lookup", {table(), bags}, {{"mean", true}})[0]),
            (Doubles{50.5, 101, 0, 0, 10, 20}));
}

TEST(Lookup, gradients_of_means_are_shares) {
  const Tensor dy = make_tensor({DType::f64, {2, 2}}, Doubles{6, 12, 1, 3});
  const Attributes attributes{{"mean", true}, {"rows", std::int64_t{3}}};
  EXPECT_EQ(to_doubles(run("lookup_grad", {dy, ids({0, 2, 2, -1, 1, -1})}, attributes)[0]),
            (Doubles{2, 4, 1, 3, 4, 8}));
}

TEST(Lookup, refuses_rows_that_are_not_there) {
  try {
    run("lookup", {table(), ids({0, 1, 3})});
    FAIL() << "it took the id";
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "the index at [0, 2] is 3 but there are 3 rows: 0 to 2, or below 0 for none");
  }
}

}  // namespace
}  // namespace shardwright
