// A file of its own, so that tests can link another one in its place (tests/runtime/fenced).

#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {

DeviceKind default_devices() { return cpu_devices(); }

}  // namespace shardwright
