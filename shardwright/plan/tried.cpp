#include "shardwright/plan/tried.h"

#include <array>

namespace shardwright {

std::string_view name_of(KnownBy by) {
  constexpr std::array<std::string_view, 3> names{"bound", "forecast", "program"};
  return names[static_cast<std::size_t>(by)];
}

std::string_view name_of(Fate fate) {
  constexpr std::array<std::string_view, 7> names{"the search ended first",
                                                  "taken",
                                                  "slower",
                                                  "does not fit",
                                                  "bound above the best",
                                                  "fits with less sharded or computed again",
                                                  "cannot be split so"};
  return names[static_cast<std::size_t>(fate)];
}

}  // namespace shardwright
