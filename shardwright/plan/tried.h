// What a search looked at beside the plan that it took: what is known of it, by what, and why it was not taken. Logs, the
// lines of `plan` and its document are told of these alone.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "shardwright/plan/constraints.h"

namespace shardwright {

/// By what the time and memory of a plan are known, ever better.
enum class KnownBy : std::uint8_t { bound, forecast, program };
std::string_view name_of(KnownBy by);

/// What became of it.
enum class Fate : std::uint8_t {
  open,        // the search ended before it was its turn
  taken,       // it is the plan
  slower,      // it fits
  misfit,      // it takes more memory than there is
  beyond,      // no step of it is as short as the plan's
  needless,    // the same with less sharded, or less computed again, fits, or another is the same
  impossible,  // the network cannot be split so
};
std::string_view name_of(Fate fate);

struct Tried {
  Constraints structure = {};  // of a whole plan
  std::string words = {};      // or what constraints do not say of it
  KnownBy by = KnownBy::bound;
  Fate fate = Fate::open;
  double least_seconds = 0;       // no step of it is shorter, as far as is known
  double seconds = 0, bytes = 0;  // of a step, and of the device that holds most; by a bound at least
  int layers_again = 0;           // are computed again, by forecast
  bool is_close = false;          // by forecast it hardly fits
  std::string why = {};           // it is impossible
};

/// A program of it was made, or what it takes was forecast.
inline bool is_priced(const Tried& t) {
  return t.by != KnownBy::bound && t.fate != Fate::impossible && t.seconds > 0;
}

}  // namespace shardwright
