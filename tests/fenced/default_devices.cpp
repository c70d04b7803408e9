// In the place of the library's own: what runs without saying on what runs behind a fence.

#include "tests/support/fenced_backend.h"

namespace shardwright {

DeviceKind default_devices() { return testing::fenced_devices(); }

}  // namespace shardwright
