// Signals that end a process because of itself: its peers are to learn which it was.
#pragma once

#include "shardwright/runtime/communicator/vigil.h"

namespace shardwright {

class HostSigns;

/// From here on `own` shows the signal that ends this process, and `signs` tell it to other hosts; whoever handled it
/// before does so afterwards. Null: not any more.
void show_fatal_signals(Presence* own, HostSigns* signs);

/// The process is about to end itself, and its peers need not wonder. Safe in handlers of signals.
void show_end();

}  // namespace shardwright
