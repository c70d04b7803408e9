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

}  // namespace shardwright::cpu
