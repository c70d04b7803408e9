// A decoder's step: new elements of a sequence see those before them, whose keys and values are kept.
//
//   cache' = cache whose rows p[b, s] of dim t are those of x                            cache_rows
//   y = softmax(scale q k^T + bias) v over the keys up to each query's own place         cached_attention
//
//   cache [b, kv heads, t, d]   x [b, kv heads, s, d]   q [b, heads, s, d]   p i32[b, s], the place of each row
//
// Sequences are each at places of their own. A query sees the keys 0 .. p; what lies behind them in the cache is not looked at, so that a step takes as long as the sequence is, not as the
// cache. Batch, heads and queries are free. Sums are taken in f32 at least, of f64 in f64.

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/attention.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

/// Of the rows of operand `of`.
void check_places(const Call& call, std::size_t operand, std::size_t of) {
  const Type want{DType::i32, {call.operands[of].shape[0], call.operands[of].shape[2]}};
  if (call.operands[operand] != want)
    throw error("operand {} is {} but must be the place of each row, {}", operand,
                to_text(call.operands[operand]), to_text(want));
}

void check_rank(const Type& t) {
  if (t.shape.size() != 4) throw error("{} should be [batch, heads, sequence, features]", to_text(t));
}

std::int64_t place_of(const TensorView& places, std::int64_t number, std::int64_t room) {
  const std::int64_t place = places.as<std::int32_t>()[static_cast<std::size_t>(number)];
  if (place < 0 || place >= room)
    throw error("a row at place {}, but the cache has room for {}", place, room);
  return place;
}

// ---- cache_rows ----

std::vector<Type> infer_rows(const Call& call) {
  check_count(call, 3);
  const Type &cache = call.operands[0], &x = call.operands[1];
  check_floating(cache.dtype);
  check_same_dtype(call, 0, 1);
  check_rank(cache);
  check_rank(x);
  check_places(call, 2, 1);
  for (std::size_t d : {0U, 1U, 3U})
    if (cache.shape[d] != x.shape[d])
      throw error("the cache is {} but the rows are {}", to_text(cache), to_text(x));
  if (x.shape[2] > cache.shape[2]) throw error("{} rows for a cache {}", x.shape[2], to_text(cache));
  return {cache};
}

void rows_kernel(const KernelCall& call) {
  const TensorView &cache = call.operands[0], &x = call.operands[1], &y = call.results[0];
  const std::int64_t rows = x.shape[2], room = cache.shape[2], heads = cache.shape[1],
                     planes = cache.shape[0] * heads;
  const auto row = static_cast<std::size_t>(cache.shape[3]) * size_of(cache.dtype);
  if (y.data != cache.data) std::memcpy(y.data, cache.data, static_cast<std::size_t>(planes * room) * row);
  for (std::int64_t p = 0; p < planes; ++p)
    for (std::int64_t s = 0; s < rows; ++s) {
      const std::int64_t place = place_of(call.operands[2], p / heads * rows + s, room);
      std::memcpy(y.data + static_cast<std::size_t>(p * room + place) * row,
                  x.data + static_cast<std::size_t>(p * rows + s) * row, row);
    }
}

double flops_of_rows(const Rule& rule) {
  double n = 1;
  for (const LoopDim& l : rule.loops)
    if (l.name != "t") n *= static_cast<double>(l.size);
  return n;
}

// ---- cached_attention ----

std::vector<Type> infer_attention(const Call& call) {
  check_count(call, 4);
  const Type &q = call.operands[0], &k = call.operands[1], &v = call.operands[2];
  check_floating(q.dtype);
  for (std::size_t i : {1U, 2U}) check_same_dtype(call, 0, i);
  for (std::size_t i : {0U, 1U, 2U}) check_rank(call.operands[i]);
  check_places(call, 3, 0);
  call.attributes.flag("alibi");
  call.attributes.number("scale", 1);
  if (k.shape[1] == 0 || q.shape[1] % k.shape[1] != 0)
    throw error("q {} should have a multiple of the {} heads of k {}", to_text(q), k.shape[1], to_text(k));
  for (const Type* t : {&q, &v})
    if (t->shape[3] > most_attention_features)
      throw error("{} has heads of {} features but at most {} are possible", to_text(*t), t->shape[3],
                  most_attention_features);
  Shape shape = q.shape;
  shape[3] = v.shape[3];
  return {{q.dtype, std::move(shape)}};
}

double flops_of_attention(const Rule& rule) {
  double n = 4;  // a product with the keys and one with the values
  for (const LoopDim& l : rule.loops)
    if (l.name != "e") n *= static_cast<double>(l.size);
  return n;
}

std::int64_t workspace(const KernelCall& call) {  // the scores of one query, and its sums
  return (call.loop("t").extent + most_attention_features) * static_cast<std::int64_t>(sizeof(double));
}

/// One query: y[e] = sum of e^(scores - m) v / l over `seen` keys. `sums` has room for `width` numbers.
template <class T, class C>
void attend(const Head<T>& head, std::int64_t i, std::int64_t seen, T* y, C* scores, C* sums) {
  vectorized([=, q = head.q + i * head.depth, k = head.k, v = head.v, depth = head.depth, width = head.width,
              scale = head.scale, slope = head.slope] {
    C largest = -std::numeric_limits<C>::infinity();
    for (std::int64_t j = 0; j < seen; ++j) {
      C sum = 0;
#pragma omp simd reduction(+ : sum)
      for (std::int64_t f = 0; f < depth; ++f) sum += static_cast<C>(q[f]) * static_cast<C>(k[j * depth + f]);
      scores[j] = sum * scale + slope * static_cast<C>(j - seen + 1);
      largest = std::max(largest, scores[j]);
    }
    C total = 0;
    for (std::int64_t j = 0; j < seen; ++j) {
      scores[j] = std::exp(scores[j] - largest);
      total += scores[j];
    }
    std::fill_n(sums, width, C(0));
    for (std::int64_t j = 0; j < seen; ++j) {
      const C p = scores[j];
#pragma GCC ivdep
      for (std::int64_t f = 0; f < width; ++f) sums[f] += p * static_cast<C>(v[j * width + f]);
    }
    for (std::int64_t f = 0; f < width; ++f) y[f] = static_cast<T>(sums[f] / total);
  });
}

void attention_kernel(const KernelCall& call) {
  const LoopBox::Part& s = call.loop("s");
  const std::int64_t rows = s.extent, room = call.loop("t").extent,
                     heads = call.loop("h").extent * call.loop("r").extent;
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    T* const y = call.results[0].as<T>().data();
    C* const sums = reinterpret_cast<C*>(call.workspace);
    C* const scores = sums + most_attention_features;
    for_each_head<T>(
        call, 0, call.operands.size(), [&](const Head<T>& head, std::int64_t number, std::int64_t) {
          for (std::int64_t i = 0; i < rows; ++i) {
            const std::int64_t place = place_of(call.operands[3], number / heads * rows + i, room);
            attend(head, i, place + 1, y + (number * rows + i) * head.width, scores, sums);
          }
        });
  });
}

}  // namespace

std::vector<OpDef> decoding() {
  return {
      {
          .name = "cache_rows",
          .doc = "a cache [b, h, t, d] whose rows at places p [b, s] are those of x [b, h, s, d]",
          .rule = "b h t^ d, b h s^ d, b s^ -> b h t^ d",
          .linear = "{0,1}",
          .infer = infer_rows,
          .flops = flops_of_rows,
          .kernel = rows_kernel,
          .samples = {"f32[2,4,6,4], f32[2,4,1,4], i32[2,1]<6", "f32[4,6,12,4], f32[4,6,3,4], i32[4,3]<12"},
          .overwrites = {0},
      },
      {
          .name = "cached_attention",
          .doc = "attention of q [b, heads, s, d] at places p [b, s] to the keys and values up to them",
          .attributes = {"alibi", "scale"},
          .rule = "b (h r) s d^, b h t^ d^, b h t^ e, b s -> b (h r) s e",
          .linear = "{2}",
          .infer = infer_attention,
          .flops = flops_of_attention,
          .kernel = attention_kernel,
          .workspace = workspace,
          .samples = {"f32[2,4,1,4], f32[2,4,6,4], f32[2,4,6,4], i32[2,1]<6",
                      "f32[2,6,2,2], f32[2,2,6,2], f32[2,2,6,4], i32[2,2]<6 (alibi=true, scale=0.5)"},
      }};
}

}  // namespace shardwright::ops
