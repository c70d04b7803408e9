#include "shardwright/runtime/start.h"

namespace shardwright {

Session start_threads(Prepared program, SessionOptions options) {
  options.devices = program.device();
  return Session(std::move(program).release(), std::move(options));
}

Session start_rank(Prepared program, const CommunicatorFor& communicator, SessionOptions options) {
  options.devices = program.device();
  const std::size_t transfers = most_transfers(program.pipeline());
  return Session(std::move(program).release(), communicator(transfers), std::move(options));
}

}  // namespace shardwright
