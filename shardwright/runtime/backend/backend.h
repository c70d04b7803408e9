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

class Backend {
 public:
  virtual ~Backend() = default;

  virtual std::string_view name() const = 0;

  /// Called once by the thread that drives a rank, before anything else that it does here.
  virtual void enter_thread() = 0;

  /// Memory aligned to 64 bytes; holds zeros. Throws: Error of kind memory.
  virtual Memory allocate(std::int64_t bytes) = 0;

  /// Calls that run together: the first one any, the others point-wise over the elements of its results.
  /// What they refer to must outlive the kernel; the contents of the tensors are not looked at.
  /// Throws: Error if an operator cannot run here.
  virtual PreparedKernel prepare(std::span<const FusedCall> calls) = 0;
  PreparedKernel prepare(const OpDef& op, const KernelCall& call) {
    const FusedCall one{op, call};
    return prepare(std::span(&one, 1));
  }
};

}  // namespace shardwright
