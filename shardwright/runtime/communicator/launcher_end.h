// mpirun waits for ever for a host that does not answer any more, and so does its daemon on that host.
#pragma once

namespace shardwright {

/// Unless mpirun, or its daemon, which has started this process, has ended by itself some seconds from now, it is ended, and
/// what it has made for the run removed. A process of its own sees to that, and is gone soon afterwards.
void end_launcher_late();

}  // namespace shardwright
