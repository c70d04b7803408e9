// Loops compiled for AVX-512, AVX2 and any x86-64, the best of which this machine can run is chosen at run time.
//
//   vectorized([=] { for (std::int64_t i = 0; i < n; ++i) y[i] = x[i] + x[i]; });
//
// Three functions of equal body inline the closure, each under another target. So nothing that a loop calls is
// compiled for a machine that may lack the instructions unless it is inlined; flags per file would let the
// linker pick any file's copy of an inline function. What a closure holds by value is known to overlap nothing
// that its loop writes; what it holds by reference is not, so capture by value.
#pragma once

#include <atomic>
#include <cstdint>
#include <utility>

namespace shardwright {

enum class InstructionSet : std::uint8_t { plain, avx2, avx512 };

/// Sanitizers look at each access, so that nothing becomes vector code: one body is enough, and compiles sooner.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool is_sanitized = true;
#else
constexpr bool is_sanitized = false;
#endif

/// The best that this machine can run.
inline InstructionSet best_instruction_set() {
  const bool has_avx2 =
      __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  const bool has_avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512vl") &&
                          __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq");
  if (!has_avx2) return InstructionSet::plain;
  return has_avx512 ? InstructionSet::avx512 : InstructionSet::avx2;
}

namespace detail {

inline std::atomic<InstructionSet> instruction_set{best_instruction_set()};

template <class F>
[[gnu::noinline, gnu::flatten,
  gnu::target("avx512f,avx512vl,avx512bw,avx512dq,avx2,fma,f16c,prefer-vector-width=512")]] void
run_avx512(F f) {
  f();
}

template <class F>
[[gnu::noinline, gnu::flatten, gnu::target("avx2,fma,f16c")]] void run_avx2(F f) {
  f();
}

}  // namespace detail

/// What `vectorized` uses.
inline InstructionSet instruction_set() { return detail::instruction_set.load(std::memory_order_relaxed); }

/// Lets `vectorized` use `set` from now on, which must be one that this machine can run. For tests.
inline void use_instruction_set(InstructionSet set) {
  detail::instruction_set.store(set, std::memory_order_relaxed);
}

/// Runs `f`, compiled for the best instruction set.
template <class F>
void vectorized(F f) {
  if constexpr (!is_sanitized) {
    switch (instruction_set()) {
      case InstructionSet::avx512: return detail::run_avx512(std::move(f));
      case InstructionSet::avx2: return detail::run_avx2(std::move(f));
      case InstructionSet::plain: break;
    }
  }
  f();
}

}  // namespace shardwright
