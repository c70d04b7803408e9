// What this machine's instructions are good for.
#pragma once

#include <string>

namespace shardwright::cpu {

/// Products and convolutions in bf16 are worth having on this machine: it has AMX, or instructions for bf16 that are
/// faster than those for f32. Intel's without AMX are half as fast, so there bf16 goes through f32.
bool multiplies_bf16();

/// `avx512_core_bf16`: the best that oneDNN uses here.
std::string instructions_of_onednn();

}  // namespace shardwright::cpu
