// Comparisons of numbers, and what is done with their results: and, or, not, and the choice between two values.
// Operands broadcast as in numpy. Nothing that is compared gets a gradient.

#include "shardwright/ops/elementwise.h"

namespace shardwright::ops {
namespace {

void check_boolean(const Call& call, std::size_t operand) {
  if (call.operands[operand].dtype != DType::boolean)
    throw error("operand {} is {} but must be bool; compare it first", operand,
                to_text(call.operands[operand]));
}

/// y[i] = f(a[i], b[i]) for operands of type From and a result of type To.
template <class From, class To, class F>
void write_each(const ElementBlock& block, F f) {
  vectorized(
      [a = block.operand<From>(0), b = block.operand<From>(1), y = block.result<To>(0), n = block.count, f] {
#pragma GCC ivdep
        for (std::int64_t i = 0; i < n; ++i) y[i] = f(a[i], b[i]);
      });
}

// ---- comparisons ----

template <class F>
BlockKernel comparison_block(const Call& call, F f) {
  const auto block_of = [f]<class C>(std::type_identity<C>, const ElementBlock& b) {
    write_each<C, bool>(b, f);
  };
  switch (call.operands[0].dtype) {
    case DType::i32: return [=](const ElementBlock& b) { block_of(std::type_identity<std::int32_t>{}, b); };
    case DType::i64: return [=](const ElementBlock& b) { block_of(std::type_identity<std::int64_t>{}, b); };
    default: return floating_block(call, block_of);
  }
}

std::vector<Type> infer_comparison(const Call& call) {
  Shape shape = broadcast_of(call, 2);
  check_same_dtype(call, 0, 1);
  check_number(call.operands[0].dtype);
  return {{DType::boolean, std::move(shape)}};
}

template <class F>
OpDef comparison(std::string name, std::string doc, const std::string& sign, F f) {
  return broadcasting({.name = std::move(name),
                       .doc = std::move(doc),
                       .infer = infer_comparison,
                       .block = [f](const Call& c) { return comparison_block(c, f); },
                       .samples = {"f32[4,6], f32[4,6]", "i32[4,6], i32[6]", "i64[2,6,2], i64[]"},
                       .torch = {.line = "{0} " + sign + " {1}"}},
                      2);
}

// ---- logic ----

std::vector<Type> infer_logic(const Call& call) {
  Shape shape = broadcast_of(call, 2);
  check_boolean(call, 0);
  check_boolean(call, 1);
  return {{DType::boolean, std::move(shape)}};
}

template <class F>
OpDef logic(std::string name, std::string doc, const std::string& sign, F f) {
  return broadcasting(
      {.name = std::move(name),
       .doc = std::move(doc),
       .infer = infer_logic,
       .block = [f](const Call&) { return [f](const ElementBlock& b) { write_each<bool, bool>(b, f); }; },
       .samples = {"bool[4,6], bool[4,6]", "bool[2,6,2], bool[6,1]"},
       .overwrites = {0},
       .torch = {.line = "{0} " + sign + " {1}"}},
      2);
}

OpDef negation() {
  return elementwise({.name = "logical_not",
                      .doc = "y = not a",
                      .infer =
                          [](const Call& c) {
                            check_count(c, 1);
                            check_boolean(c, 0);
                            return std::vector{c.operands[0]};
                          },
                      .block =
                          [](const Call&) {
                            return [](const ElementBlock& b) {
                              vectorized([a = b.operand<bool>(0), y = b.result<bool>(0), n = b.count] {
#pragma GCC ivdep
                                for (std::int64_t i = 0; i < n; ++i) y[i] = !a[i];
                              });
                            };
                          },
                      .samples = {"bool[4,6]"},
                      .torch = {.line = "~{0}"}},
                     1);
}

// ---- where ----

std::vector<Type> infer_where(const Call& call) {
  Shape shape = broadcast_of(call, 3);
  check_boolean(call, 0);
  check_same_dtype(call, 1, 2);
  return {{call.operands[1].dtype, std::move(shape)}};
}

/// Elements of T's size are moved, whatever they mean.
template <class T>
void choose(const ElementBlock& block) {
  vectorized([c = block.operand<bool>(0), a = block.operand<T>(1), b = block.operand<T>(2),
              y = block.result<T>(0), n = block.count] {
#pragma GCC ivdep
    for (std::int64_t i = 0; i < n; ++i) {
      const T yes = a[i], no = b[i];
      y[i] = c[i] ? yes : no;
    }
  });
}

BlockKernel where_block(const Call& call) {
  switch (size_of(call.results[0].dtype)) {
    case 1: return choose<std::uint8_t>;
    case 2: return choose<std::uint16_t>;
    case 4: return choose<std::uint32_t>;
    default: return choose<std::uint64_t>;
  }
}

std::vector<ValueId> where_gradient(Gradient& g) {
  const ValueId zero = constant(g, g.type(g.dy()).dtype, 0);
  return unbroadcast_all(
      g, {ValueId{}, g.call("where", {g.in(0), g.dy(), zero}), g.call("where", {g.in(0), zero, g.dy()})});
}

OpDef where() {
  return broadcasting({.name = "where",
                       .doc = "y = a where the condition is true, else b; operands: condition, a, b",
                       .linear = "{1,2}",
                       .infer = infer_where,
                       .gradient = where_gradient,
                       .block = where_block,
                       .samples = {"bool[4,6], f32[4,6], f32[4,6]", "bool[6,1], f32[2,6,4], f32[4]",
                                   "bool[4,6], i32[4,6], i32[]"},
                       .overwrites = {1},
                       .torch = {.line = "torch.where({0}, {1}, {2})"},
                       .jax = {.line = "jnp.where({0}, {1}, {2})"}},
                      3);
}

}  // namespace

std::vector<OpDef> comparisons() {
  return {comparison("equal", "y = whether a = b", "==", [](auto a, auto b) { return a == b; }),
          comparison("not_equal", "y = whether a and b differ", "!=", [](auto a, auto b) { return a != b; }),
          comparison("less", "y = whether a < b", "<", [](auto a, auto b) { return a < b; }),
          comparison("less_equal", "y = whether a <= b", "<=", [](auto a, auto b) { return a <= b; }),
          comparison("greater", "y = whether a > b", ">", [](auto a, auto b) { return a > b; }),
          comparison("greater_equal", "y = whether a >= b", ">=", [](auto a, auto b) { return a >= b; }),
          logic("logical_and", "y = a and b", "&", [](bool a, bool b) { return a & b; }),
          logic("logical_or", "y = a or b", "|", [](bool a, bool b) { return a | b; }),
          negation(),
          where()};
}

}  // namespace shardwright::ops
