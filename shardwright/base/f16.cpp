#include "shardwright/base/f16.h"

#include <immintrin.h>

#include "shardwright/base/vectorize.h"

namespace shardwright {
namespace {

template <class X, class Y>
void one_by_one(const X* x, Y* y, std::int64_t n) {
  for (std::int64_t i = 0; i < n; ++i) y[i] = x[i];
}

// GCC 12 takes the plain forms of the conversions for uses of uninitialized registers.
constexpr __mmask16 all = 0xffff;

// Each function takes whole vectors and returns how many elements they were.

[[gnu::target("avx512f")]] std::int64_t by_sixteen(const F16* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm512_storeu_ps(y + i,
                     _mm512_maskz_cvtph_ps(all, _mm256_loadu_si256(reinterpret_cast<const __m256i*>(x + i))));
  return i;
}
[[gnu::target("avx512f")]] std::int64_t by_sixteen(const float* x, F16* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 16 <= n; i += 16)
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(y + i),
                        _mm512_maskz_cvtps_ph(all, _mm512_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}
[[gnu::target("avx,f16c")]] std::int64_t by_eight(const F16* x, float* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(y + i, _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(x + i))));
  return i;
}
[[gnu::target("avx,f16c")]] std::int64_t by_eight(const float* x, F16* y, std::int64_t n) {
  std::int64_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128(reinterpret_cast<__m128i*>(y + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(x + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

template <class X, class Y>
void convert_all(const X* x, Y* y, std::int64_t n) {
  std::int64_t done = 0;
  switch (instruction_set()) {
    case InstructionSet::avx512: done = by_sixteen(x, y, n); break;
    case InstructionSet::avx2: done = by_eight(x, y, n); break;
    case InstructionSet::plain: break;
  }
  one_by_one(x + done, y + done, n - done);
}

}  // namespace

void convert(const F16* x, float* y, std::int64_t n) { convert_all(x, y, n); }
void convert(const float* x, F16* y, std::int64_t n) { convert_all(x, y, n); }

}  // namespace shardwright
