// Loaded into a program's processes (LD_PRELOAD) by faults.py: has something go wrong in one of them, once the file that
// INJECTED_FAULT names is there with the rank's number behind it. It holds the kind of fault. What has to happen in a step
// happens where the main thread next asks for memory.

#include <unistd.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <fstream>
#include <mutex>
#include <new>
#include <stdexcept>
#include <string>
#include <thread>

namespace {

enum class InStep { nothing, exception, memory, lock };
std::atomic<InStep> in_step{InStep::nothing};

/// Nobody lets go of it.
void wait_for_ever() {
  for (;;) ::pause();
}

void happen(const std::string& kind) {
  if (kind == "exception") in_step = InStep::exception;
  if (kind == "memory") in_step = InStep::memory;
  if (kind == "lock") in_step = InStep::lock;
  if (kind == "thread") throw std::runtime_error("the sky fell on a thread");
  if (kind == "abort") std::abort();
  if (kind == "segmentation") *static_cast<volatile int*>(nullptr) = 1;
}

void watch(const std::string& path) {
  for (;;) {
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::ifstream file(path);
    std::string kind;
    if (file >> kind) return happen(kind);
  }
}

const bool is_watching = [] {
  const char *path = std::getenv("INJECTED_FAULT"), *rank = std::getenv("OMPI_COMM_WORLD_RANK");
  if (path && rank) std::thread(watch, std::string(path) + rank).detach();
  return true;
}();

}  // namespace

void* operator new(std::size_t bytes) {
  if (in_step.load(std::memory_order_relaxed) != InStep::nothing && ::gettid() == ::getpid()) {
    switch (in_step) {
      case InStep::exception: in_step = InStep::nothing; throw std::runtime_error("the sky fell");
      case InStep::memory:
        if (bytes >= 1000) throw std::bad_alloc();  // small ones are there, as mostly
        break;
      case InStep::lock: wait_for_ever(); break;
      case InStep::nothing: break;
    }
  }
  void* const out = std::malloc(bytes > 0 ? bytes : 1);
  if (!out) throw std::bad_alloc();
  return out;
}

void operator delete(void* memory) noexcept { std::free(memory); }
void operator delete(void* memory, std::size_t) noexcept { std::free(memory); }
