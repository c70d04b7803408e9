// What a kind of device must offer: memory, ways into it and out of it, and kernels made ready for one call.
//
// Nobody but a backend looks at its memory, not at a single byte: addresses are handed around, and what lies there is
// brought to the host and back by `read` and `write`. Only communicators of the host read it themselves, and only where
// `is_host` allows it (communicator/staged.h is for all others).
//
// What a stream of a backend is asked for it does in that order, and everything but copies to the host and from it is on one.
// It may return before it is done, except where something is said to wait; events order streams.
//
// A program calls the same kernels with the same buffers in every step, so all that can be decided before
// (addresses, strides, primitives, scratch memory) is decided by `prepare`. An operator for which a backend
// has no kernel of its own runs its reference kernel.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <utility>

#include "shardwright/graph/op.h"
#include "shardwright/passes/formats.h"

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

/// What a device does one thing after the other: kernels with all that is done within the device, and beside that copies
/// from the host and to it, each way for itself.
enum class DeviceStream : std::uint8_t { compute, fetch, evict };

/// The moment at which all is done that a stream had been asked for.
struct DeviceEvent {
  DeviceStream stream = DeviceStream::compute;
  std::int64_t number = 0;
};

/// A call of a fusion. Values with ids that `results` of an earlier call name pass from call to call; those whose
/// view has no data are never in memory. Without ids, every operand is in memory; without formats, all are
/// row-major.
struct FusedCall {
  const OpDef& op;
  KernelCall call;
  std::span<const ValueId> operands = {};
  std::span<const ValueId> results = {};
  std::span<const Format> operand_formats = {};
  std::span<const Format> result_formats = {};

  Format operand_format(std::size_t i) const {
    return i < operand_formats.size() ? operand_formats[i] : Format{};
  }
  Format result_format(std::size_t i) const {
    return i < result_formats.size() ? result_formats[i] : Format{};
  }
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

/// The device of one rank.
class Backend {
 public:
  virtual ~Backend() = default;

  /// Called once by the thread that drives a rank, before anything else that it does here. All else that a backend, what
  /// it has prepared included, is asked for comes from this thread; only what goes may go on another, once this one
  /// asks for nothing more: memory, kernels and the backend itself.
  virtual void enter_thread() = 0;

  /// Memory aligned to 64 bytes; holds zeros. Throws: Error of kind memory.
  virtual Memory allocate(std::int64_t bytes) = 0;
  /// The host may read and write the memory like its own, and a call is done when it returns.
  virtual bool is_host() const = 0;
  /// Of these bytes, those that take room now: large memory may take none before it is touched.
  virtual std::int64_t resident_bytes(std::span<const std::byte> memory) const = 0;

  /// Host to device. `host` may change once it has returned.
  virtual void write(std::byte* to, std::span<const std::byte> host) = 0;
  /// Device to host. Waits.
  virtual void read(std::span<std::byte> host, const std::byte* from) = 0;
  /// Within the device; the two do not overlap.
  virtual void copy(std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  /// All elements of `to`.
  virtual void fill(const TensorView& to, double value) = 0;
  /// Memory of the host that copies reach. It may stand wherever memory of the device may, but in kernels.
  /// Holds zeros. Throws: Error of kind memory.
  virtual Memory allocate_host(std::int64_t bytes) = 0;
  /// Between device and host, on the stream of its way.
  virtual void copy_later(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) = 0;
  virtual DeviceEvent record(DeviceStream stream) = 0;
  /// What `stream` is asked for from now on begins behind `event`.
  virtual void wait_for(DeviceEvent event, DeviceStream stream) = 0;
  /// The host waits.
  virtual void wait_for(DeviceEvent event) = 0;
  /// Waits for nothing.
  virtual bool is_past(DeviceEvent event) = 0;

  /// As `record`, of kernels; the device looks at its clock, too.
  virtual DeviceEvent record_time() = 0;
  /// When an event of `record_time` was, once all is done: in nanoseconds of Recorder::now (runtime/trace.h). Known until the
  /// next `forget_times`.
  virtual std::int64_t time_of(DeviceEvent event) const = 0;
  /// There is room for so many more.
  virtual void forget_times(std::size_t room) = 0;

  /// Until all that has been asked for is done, on all streams. Throws: Error if some of it could not be done.
  virtual void wait() = 0;

  /// Calls that run together: the first one any, the others point-wise over the elements of its results.
  /// What they refer to must outlive the kernel; the contents of the tensors are not looked at.
  /// Throws: Error if an operator cannot run here.
  virtual PreparedKernel prepare(std::span<const FusedCall> calls) = 0;
  PreparedKernel prepare(const OpDef& op, const KernelCall& call) {
    const FusedCall one{op, call};
    return prepare(std::span(&one, 1));
  }
};

/// A kind of device: what a program for it is compiled with, before any is there, and how a rank gets its own.
struct DeviceKind {
  FormatsOf formats;  // none: everything is row-major
  std::function<std::unique_ptr<Backend>(int rank)> backend;
  std::string formats_are_of = {};  // where they follow from the machine: what of it, and how to say it
};

/// What programs are compiled for and run on unless somebody says otherwise: the CPU.
DeviceKind default_devices();

}  // namespace shardwright
