// Cross entropy of softmax in steps between which classes that are split over devices are reduced: a max, two sums.
//
//   m = max x;  terms = (sum e^(x - m), x[label] - m);  loss = log terms[0] - terms[1]
//   dx = dterms[0] e^(x - m) + dterms[1] one_hot(label),  dterms = (dloss / terms[0], -dloss)
//
// `cross_entropy` (ops/calls.h) adds them. A rank reads the classes that it holds and no others, and the backward
// needs no communication at all. m only keeps numbers small: the loss does not depend on it, so that the caller
// stops the gradient there, and what reaches m is written for its own sake.

#include <cmath>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/fold.h"
#include "shardwright/ops/math.h"

namespace shardwright::ops {
namespace {

/// Operands logits [..., c], labels [...] and largest [...] from `first` on.
void check_logits(const Call& call, std::size_t first) {
  const Type &logits = call.operands[first], &labels = call.operands[first + 1];
  check_floating(logits.dtype);
  check_integer(labels.dtype);
  check_same_dtype(call, first, first + 2);
  if (logits.shape.empty()) throw error("logits need a dim of classes but are {}", to_text(logits));
  const Shape rows(logits.shape.begin(), logits.shape.end() - 1);
  if (labels.shape != rows)
    throw error("logits {} need labels of shape {} but they are {}", to_text(logits), to_text(rows),
                to_text(labels));
  if (call.operands[first + 2].shape != rows)
    throw error("logits {} need their largest of shape {} but it is {}", to_text(logits), to_text(rows),
                to_text(call.operands[first + 2]));
}

Shape two_of(const Shape& rows) {
  Shape shape = rows;
  shape.insert(shape.begin(), 2);
  return shape;
}

std::vector<Type> infer_terms(const Call& call) {
  check_count(call, 3);
  check_logits(call, 0);
  const DType dtype = call.operands[0].dtype;
  const bool is_full = call.attributes.flag("full") && size_of(dtype) < sizeof(float);
  return {{is_full ? DType::f32 : dtype, two_of(call.operands[1].shape)}};
}

std::vector<Type> infer_terms_gradient(const Call& call) {
  check_count(call, 4);
  check_logits(call, 1);
  check_weight_types(call, 1, 0, 1);
  if (call.operands[0].shape.empty() || call.operands[0].shape[0] != 2)
    throw error("terms are {} but their first dim should be 2", to_text(call.operands[0]));
  return {call.operands[1]};
}

/// Index of local row `row` in the whole tensor. `labels` is the operand that holds them.
std::int64_t global_row(const KernelCall& call, std::size_t labels, std::int64_t row) {
  std::int64_t global = 0, factor = 1;
  const RuleTensor& dims = call.rule.operands[labels];
  for (std::size_t d = dims.dims.size(); d-- > 0;) {
    const LoopBox::Part& part = call.box.loops[static_cast<std::size_t>(dims.dims[d][0])];
    global += (part.offset + row % part.extent) * factor;
    row /= part.extent;
    factor *= part.size;
  }
  return global;
}

/// A label as this rank sees it: the class it is among its own, or -1.
struct Labels {
  Integers labels;
  LoopBox::Part classes;

  /// Throws: Error on a label that is no class.
  Labels(const KernelCall& call, std::size_t operand)
      : labels(call.operands[operand]), classes(call.loop("c")) {
    for (std::int64_t r = 0; r < labels.size(); ++r)
      if (labels[r] < 0 || labels[r] >= classes.size)
        throw error("the label of row {} is {} but there are {} classes: 0 to {}",
                    global_row(call, operand, r), labels[r], classes.size, classes.size - 1);
  }

  std::int64_t operator[](std::int64_t r) const {
    const std::int64_t at = labels[r] - classes.offset;
    return at >= 0 && at < classes.extent ? at : -1;
  }
};

void terms_kernel(const KernelCall& call) {
  require(call.results[0].shape[0] == 2, "terms in {} rows", call.results[0].shape[0]);
  const Labels labels(call, 1);
  visit_floating(call.operands[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.results[0].dtype, [&]<class S>(std::type_identity<S>) {
      using C = Compute<T>;
      vectorized([labels, rows = labels.labels.size(), classes = labels.classes.extent,
                  logits = call.operands[0].as<T>().data(), largest = call.operands[2].as<T>().data(),
                  terms = call.results[0].as<S>().data()] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* const x = logits + r * classes;
          const C m = static_cast<C>(largest[r]);
          terms[r] = static_cast<S>(static_cast<C>(
              fold<Sum>(classes, [x, m](std::int64_t c) { return math::exp(static_cast<C>(x[c]) - m); })));
          const std::int64_t label = labels[r];
          terms[rows + r] = label < 0 ? S(0) : static_cast<S>(static_cast<C>(x[label]) - m);
        }
      });
    });
  });
}

void terms_gradient_kernel(const KernelCall& call) {
  require(call.operands[0].shape[0] == 2, "terms in {} rows", call.operands[0].shape[0]);
  const Labels labels(call, 2);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    visit_weights<T>(call.operands[0].dtype, [&]<class S>(std::type_identity<S>) {
      using C = Compute<T>;
      vectorized([labels, rows = labels.labels.size(), classes = labels.classes.extent,
                  dterms = call.operands[0].as<S>().data(), logits = call.operands[1].as<T>().data(),
                  largest = call.operands[3].as<T>().data(), dx = call.results[0].as<T>().data()] {
        for (std::int64_t r = 0; r < rows; ++r) {
          const T* const x = logits + r * classes;
          T* const to = dx + r * classes;
          const C m = static_cast<C>(largest[r]), factor = static_cast<C>(dterms[r]);
          const std::int64_t label = labels[r];
          const C of_label =
              label < 0 ? C(0)
                        : factor * math::exp(static_cast<C>(x[label]) - m) + static_cast<C>(dterms[rows + r]);
#pragma GCC ivdep
          for (std::int64_t c = 0; c < classes; ++c)
            to[c] = static_cast<T>(factor * math::exp(static_cast<C>(x[c]) - m));
          if (label >= 0) to[label] = static_cast<T>(of_label);
        }
      });
    });
  });
}

/// dm = -(dterms[0] terms[0] + dterms[1]).
std::vector<ValueId> terms_gradient(Gradient& g) {
  const ValueId dx = g.call("cross_entropy_terms_grad", {g.dy(), g.in(0), g.in(1), g.in(2)});
  const ValueId dm = g.call("cross_entropy_shift_grad", {g.dy(), g.out()});
  return {dx, {}, cast_to(g, dm, g.type(g.in(2)).dtype)};
}

std::vector<Type> infer_rows(const Call& call, std::size_t count, std::size_t terms) {
  check_count(call, count);
  const Type& type = call.operands[terms];
  check_floating(type.dtype);
  if (type.shape.empty() || type.shape[0] != 2)
    throw error("terms are {} but their first dim should be 2", to_text(type));
  return {{type.dtype, Shape(type.shape.begin() + 1, type.shape.end())}};
}

/// y[r] = f(terms[0, r], terms[1, r], other[0, r], other[1, r]), `other` being as `terms`.
template <class F>
void by_rows(const KernelCall& call, std::size_t terms, std::size_t other, F f) {
  require(call.operands[terms].shape[0] == 2, "terms in {} rows", call.operands[terms].shape[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([f, rows = call.results[0].size(), t = call.operands[terms].as<T>().data(),
                o = call.operands[other].as<T>().data(), y = call.results[0].as<T>().data()] {
      for (std::int64_t r = 0; r < rows; ++r)
        y[r] = static_cast<T>(f(static_cast<C>(t[r]), static_cast<C>(t[rows + r]), static_cast<C>(o[r]),
                                static_cast<C>(o[rows + r])));
    });
  });
}

void shift_gradient_kernel(const KernelCall& call) {
  by_rows(call, 1, 0, [](auto sum, auto, auto dsum, auto dlabel) { return -(dsum * sum + dlabel); });
}

void loss_kernel(const KernelCall& call) {
  by_rows(call, 0, 0, [](auto sum, auto label, auto, auto) { return math::log(sum) - label; });
}

void loss_gradient_kernel(const KernelCall& call) {
  require(call.results[0].shape[0] == 2, "terms in {} rows", call.results[0].shape[0]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([rows = call.operands[0].size(), dy = call.operands[0].as<T>().data(),
                terms = call.operands[1].as<T>().data(), d = call.results[0].as<T>().data()] {
      for (std::int64_t r = 0; r < rows; ++r) {
        const C g = static_cast<C>(dy[r]);
        d[r] = static_cast<T>(g / static_cast<C>(terms[r]));
        d[rows + r] = static_cast<T>(-g);
      }
    });
  });
}

constexpr const char* own_labels = R"(
def own_labels(labels, first, classes):
    """Where each label is among a rank's classes, which begin at `first`, and whether it is one of them."""
    at = labels.long() - first
    return at.clamp(0, classes - 1).unsqueeze(-1), ((at >= 0) & (at < classes)).unsqueeze(-1)
)";

constexpr const char* own_labels_in_jax = R"(
def own_labels(labels, first, classes):
    """Which of a rank's classes, which begin at `first`, is each label's."""
    return (labels.astype(jnp.int64) - first)[..., None] == jnp.arange(classes)
)";

}  // namespace

std::vector<OpDef> cross_entropy() {
  return {
      {.name = "cross_entropy_terms",
       .doc = "y[0, ...] = sum of e^(x[..., c] - largest) and y[1, ...] = x[..., label] - largest; `full` "
              "in f32 at least",
       .attributes = {"full"},
       .defaults = {{"full", false}},
       .rule = "... c+, ..., ... -> t^ ...",
       .infer = infer_terms,
       .gradient = terms_gradient,
       .kernel = terms_kernel,
       .samples = {"f32[4,6], i32[4]<6, f32[4]", "f32[2,6,12], i64[2,6]<12, f32[2,6] (full=true)"},
       .reads_scores = true,
       .torch = {.line = "cross_entropy_terms({0}, {1}, {2}, {c.offset}, {dtype})",
                 .functions = std::string(own_labels) + R"(
def cross_entropy_terms(x, labels, largest, first, dtype):
    v = wide(x) - wide(largest).unsqueeze(-1)
    at, is_own = own_labels(labels, first, x.shape[-1])
    of_label = v.gather(-1, at).masked_fill_(~is_own, 0).squeeze(-1)
    return torch.stack([v.exp_().sum(-1), of_label]).to(dtype)
)"},
       .jax = {.functions = std::string(own_labels_in_jax) + R"(
def cross_entropy_terms(x, labels, largest, first, dtype):
    v = wide(x) - wide(largest)[..., None]
    of_label = jnp.where(own_labels(labels, first, x.shape[-1]), v, 0).sum(-1)
    return jnp.stack([jnp.exp(v).sum(-1), of_label]).astype(dtype)
)"}},
      {.name = "cross_entropy_terms_grad",
       .doc = "dx = dy[0] e^(x - largest) + dy[1] one_hot(label)",
       .rule = "t^ ..., ... c, ..., ... -> ... c",
       .linear = "{0}",
       .infer = infer_terms_gradient,
       .kernel = terms_gradient_kernel,
       .samples = {"f32[2,4], f32[4,6], i32[4]<6, f32[4]", "f32[2,2,6], f32[2,6,12], i64[2,6]<12, f32[2,6]"},
       .reads_scores = true,
       .overwrites = {1},
       .torch = {.line = "cross_entropy_terms_grad({0}, {1}, {2}, {3}, {c.offset})",
                 .functions = std::string(own_labels) + R"(
def cross_entropy_terms_grad(dy, x, labels, largest, first):
    dy = wide(dy)
    dx = (wide(x) - wide(largest).unsqueeze(-1)).exp_().mul_(dy[0].unsqueeze(-1))
    at, is_own = own_labels(labels, first, x.shape[-1])
    return dx.scatter_add_(-1, at, dy[1].unsqueeze(-1) * is_own).to(x.dtype)
)"},
       .jax = {.functions = std::string(own_labels_in_jax) + R"(
def cross_entropy_terms_grad(dy, x, labels, largest, first):
    dy = wide(dy)
    dx = dy[0][..., None] * jnp.exp(wide(x) - wide(largest)[..., None])
    return (dx + jnp.where(own_labels(labels, first, x.shape[-1]), dy[1][..., None], 0)).astype(x.dtype)
)"}},
      {.name = "cross_entropy_shift_grad",
       .doc = "y = -(dterms[0] terms[0] + dterms[1])",
       .rule = "t^ ..., t^ ... -> ...",
       .linear = "{0}",
       .infer = [](const Call& call) { return infer_rows(call, 2, 1); },
       .kernel = shift_gradient_kernel,
       .samples = {"f32[2,4], f32[2,4]", "f32[2,2,6], f32[2,2,6]"},
       .torch = {.line = "once(lambda d, t: -(d[0] * t[0] + d[1]), {0}, {1})"}},
      {.name = "cross_entropy_of_terms",
       .doc = "loss = log terms[0] - terms[1]",
       .rule = "t^ ... -> ...",
       .infer = [](const Call& call) { return infer_rows(call, 1, 0); },
       .gradient =
           [](Gradient& g) {
             return std::vector{g.call("cross_entropy_of_terms_grad", {g.dy(), g.in(0)})};
           },
       .kernel = loss_kernel,
       .samples = {"f32[2,6]>0", "f32[2,2,6]>0"},
       .torch = {.line = "once(lambda t: torch.log(t[0]) - t[1], {0})"},
       .jax = {.line = "once(lambda t: jnp.log(t[0]) - t[1], {0})"}},
      {.name = "cross_entropy_of_terms_grad",
       .doc = "dterms = (dy / terms[0], -dy)",
       .rule = "..., t^ ... -> t^ ...",
       .linear = "{0}",
       .infer =
           [](const Call& call) {
             infer_rows(call, 2, 1);
             check_same_dtype(call, 0, 1);
             return std::vector{call.operands[1]};
           },
       .kernel = loss_gradient_kernel,
       .samples = {"f32[6], f32[2,6]>0", "f32[2,6], f32[2,2,6]>0"},
       .torch = {.line = "once(lambda dy, t: torch.stack([dy / t[0], -dy]), {0}, {1})"},
       .jax = {.line = "once(lambda dy, t: jnp.stack([dy / t[0], -dy]), {0}, {1})"}},
  };
}

}  // namespace shardwright::ops
