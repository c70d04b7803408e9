// Transfers of devices whose memory the host cannot read, by a communicator that works on the host.
//
// Whatever is allocated has a mirror of the same size on the host, and a transfer moves between mirrors: `start` reads
// the operand into its mirror, `finish` writes the result out of it. As places in a mirror are those on the device, what
// may overlap there may overlap here. It costs two copies of all that is moved, and as much memory of the host as of the
// device: what a new kind of device starts with, not what it ends with.
#pragma once

#include <memory>

#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// `communicator` itself where `backend` has memory of the host. After a failure it is where it was: whoever failed
/// tells its peers by it.
std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator>&& communicator, const Backend& backend);

}  // namespace shardwright
