// What a kind of device must offer: memory, and kernels made ready for one call.
//
// A program calls the same kernels with the same buffers in every step, so all that can be decided before
// (addresses, strides, primitives, scratch memory) is decided by `prepare`. An operator for which a backend
// has no kernel of its own runs its reference kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string_view>
#include <utility>

#include "shardwright/graph/op.h"

namespace shardwright {

/// How memory goes back to its device.
struct Release {
  void (*release)(std::byte* data, std::int64_t bytes) = nullptr;
  std::int64_t bytes = 0;
  void operator()(std::byte* data) const { release(data, bytes); }
};

/// Memory of a device, given back at the end of its life.
struct Memory {
  std::unique_ptr<std::byte, Release> owner;

  std::byte* data() const { return owner.get(); }
  std::int64_t bytes() const { return owner.get_deleter().bytes; }
};

/// One call, ready to run any number of times. Allocates nothing when it runs.
class PreparedKernel {
 public:
  PreparedKernel() = default;
  /// `run` is called without arguments; it may be movable only.
  template <class F>
  explicit PreparedKernel(F run)
      : state_(new F(std::move(run)), [](void* f) { delete static_cast<F*>(f); }),
        call_([](void* f) { (*static_cast<F*>(f))(); }) {}

  explicit operator bool() const { return call_ != nullptr; }
  void operator()() const { call_(state_.get()); }

 private:
  std::unique_ptr<void, void (*)(void*)> state_{nullptr, [](void*) {}};
  void (*call_)(void*) = nullptr;
};

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  /// Called once by the thread that drives a rank, before anything else that it does here.
  virtual void enter_thread() = 0;

  /// Memory aligned to 64 bytes; holds zeros. Throws: Error of kind memory.
  virtual Memory allocate(std::int64_t bytes) = 0;

  /// What `call` refers to must outlive the kernel; the contents of the tensors are not looked at.
  /// Throws: Error if the operator cannot run here.
  virtual PreparedKernel prepare(const OpDef& op, const KernelCall& call) = 0;
};

}  // namespace shardwright
