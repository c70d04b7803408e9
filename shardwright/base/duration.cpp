#include "shardwright/base/duration.h"

#include <cmath>

#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"

namespace shardwright {

double seconds_of(const Given& given) {
  // Without its unit, `3m` would be no minutes.
  const auto seconds = given.text.ends_with('s') ? to_quantity(given.text, "s") : to_number(given.text);
  if (!seconds || !(*seconds > 0) || std::isinf(*seconds))
    throw given.wrong("should be a time above 0, such as 10s or 50ms");
  return *seconds;
}

}  // namespace shardwright
