// The words of --set and --fix.
#pragma once

#include <array>
#include <string_view>

namespace shardwright {

inline constexpr std::array<std::string_view, 11> expert_keys{"dp",
                                                              "tp",
                                                              "pp",
                                                              "cp",
                                                              "ep",
                                                              "micro_batch",
                                                              "global_batch",
                                                              "zero",
                                                              "recompute",
                                                              "schedule",
                                                              "sequence_parallel"};

}  // namespace shardwright
