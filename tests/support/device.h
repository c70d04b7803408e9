// The devices that tests run on, and what lies there: the CPU, or in fenced_tests one whose memory nobody else can read.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "shardwright/runtime/backend/backend.h"
#include "shardwright/runtime/communicator/staged.h"
#include "shardwright/runtime/communicator/threads.h"

namespace shardwright::testing {

inline std::unique_ptr<Backend> device(int rank = 0) { return default_devices().backend(rank); }

inline std::vector<std::unique_ptr<Communicator>> device_communicators(
    int size, std::chrono::nanoseconds timeout = usual_timeout) {
  auto out = thread_communicators(size, timeout);
  for (auto& communicator : out) communicator = staged(std::move(communicator), *device());
  return out;
}

/// As it lies on the device.
inline Tensor read(Backend& backend, const TensorView& view) {
  Tensor out({view.dtype, view.shape});
  backend.read(out.bytes(), view.data);
  return out;
}
inline void write(Backend& backend, const TensorView& view, const Tensor& tensor) {
  backend.write(view.data, tensor.bytes());
}

}  // namespace shardwright::testing
