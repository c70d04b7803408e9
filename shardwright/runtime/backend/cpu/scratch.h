// Memory that a kernel needs while it runs, aligned to cache lines.
#pragma once

#include <cstddef>
#include <memory>
#include <new>

namespace shardwright::cpu {

class Scratch {
 public:
  Scratch() = default;
  explicit Scratch(std::size_t bytes)
      : bytes_(static_cast<std::byte*>(::operator new (bytes == 0 ? line : bytes, std::align_val_t{line}))) {}

  std::byte* data() const { return bytes_.get(); }

 private:
  static constexpr std::size_t line = 64;
  struct Free {
    void operator()(std::byte* b) const { ::operator delete (b, std::align_val_t{line}); }
  };
  std::unique_ptr<std::byte, Free> bytes_;
};

/// Memory that the kernels of a rank use in turns: as much as the one that asks for most. It moves when more is
/// asked for, so kernels ask where it is when they run.
class Workspace {
 public:
  void reserve(std::size_t bytes) {
    if (bytes <= size_) return;
    memory_ = Scratch(bytes);
    size_ = bytes;
  }
  std::byte* data() const { return memory_.data(); }

 private:
  Scratch memory_;
  std::size_t size_ = 0;
};

}  // namespace shardwright::cpu
