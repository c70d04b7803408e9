// The handler stores to memory and makes system calls, nothing else.
#include "shardwright/runtime/communicator/fatal_signals.h"

#include <unistd.h>

#include <array>
#include <csignal>

#include "shardwright/runtime/communicator/host_signs.h"

namespace shardwright {
namespace {

constexpr std::array signals{SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};

std::atomic<Presence*> shown{nullptr};
std::atomic<HostSigns*> told{nullptr};
std::array<struct sigaction, NSIG> before;

void handle(int signal) {
  if (Presence* const own = shown; own && own->process == ::getpid()) {  // not a child that shares the memory
    own->signal = static_cast<std::int8_t>(signal);
    if (HostSigns* const signs = told) signs->send(*own, {});
  }
  sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
  raise(signal);  // delivered once this one has returned
}

}  // namespace

void show_fatal_signals(Presence* own, HostSigns* signs) {
  told = signs;
  if (!shown.exchange(own) && own)
    for (int signal : signals) {
      struct sigaction action {};
      action.sa_handler = handle;
      action.sa_flags = SA_ONSTACK;
      sigaction(signal, &action, &before[static_cast<std::size_t>(signal)]);
    }
  if (own) return;
  for (int signal : signals) sigaction(signal, &before[static_cast<std::size_t>(signal)], nullptr);
}

void show_end() {
  if (Presence* const own = shown) own->ends = true;
}

}  // namespace shardwright
