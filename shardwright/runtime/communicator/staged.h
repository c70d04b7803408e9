// Transfers of devices whose memory the host cannot read, by a communicator that works on the host.
//
// Whatever is allocated has a mirror of the same size on the host, and a transfer moves between mirrors: its operand is
// copied into its mirror, its result out of it. As places in a mirror are those on the device, what may overlap there may
// overlap here. It costs two copies of all that is moved, and as much memory of the host as of the device: what a new kind
// of device starts with, not what it ends with.
//
// Nobody waits for the device but who wants a result: `start` asks for the copy of the operand behind the kernels that make
// it, and peers are told of it once it has come, by whatever is called next; `finish` asks for the copy of the result, and
// kernels behind it wait for that on the device.
#pragma once

#include <memory>

#include "shardwright/runtime/communicator/communicator.h"

namespace shardwright {

/// `communicator` itself where `backend` has memory of the host. After a failure it is where it was: whoever failed
/// tells its peers by it. Transfers that run as one have all their buffers on one device.
std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator>&& communicator, const Backend& backend);

}  // namespace shardwright
