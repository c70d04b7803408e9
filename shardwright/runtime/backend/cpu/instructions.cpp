#include "shardwright/runtime/backend/cpu/instructions.h"

#include <oneapi/dnnl/dnnl.hpp>

#include <algorithm>
#include <array>

#include "shardwright/base/vectorize.h"

namespace shardwright::cpu {
namespace {

/// A set of instructions has all bits of those that it includes.
bool has(dnnl::cpu_isa wanted) {
  const auto isa = static_cast<unsigned>(dnnl::get_effective_cpu_isa());
  return (isa & static_cast<unsigned>(wanted)) == static_cast<unsigned>(wanted);
}

}  // namespace

bool multiplies_bf16() {
  static const bool has_fast = has(dnnl::cpu_isa::avx512_core_amx) ||
                               (has(dnnl::cpu_isa::avx512_core_bf16) && !__builtin_cpu_is("intel"));
  return has_fast && instruction_set() == InstructionSet::avx512;
}

std::string instructions_of_onednn() {
  using enum dnnl::cpu_isa;
  constexpr std::array<std::pair<dnnl::cpu_isa, const char*>, 6> best_first{
      {{avx512_core_amx, "avx512_core_amx"},
       {avx512_core_bf16, "avx512_core_bf16"},
       {avx512_core_vnni, "avx512_core_vnni"},
       {avx512_core, "avx512_core"},
       {avx2, "avx2"},
       {sse41, "sse41"}}};
  const auto found =
      std::find_if(best_first.begin(), best_first.end(), [](const auto& i) { return has(i.first); });
  return found == best_first.end() ? "none of x86's" : found->second;
}

}  // namespace shardwright::cpu
