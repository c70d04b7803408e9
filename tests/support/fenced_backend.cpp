#include "tests/support/fenced_backend.h"

#include <sys/mman.h>

#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright::testing {
namespace {

/// Which backend a field belongs to: memory is given back by its address alone.
struct Owners {
  std::mutex mutex;
  std::map<std::byte*, FencedBackend*> by_begin;
};

Owners& owners() {
  static Owners all;
  return all;
}

std::size_t in_pages(std::int64_t bytes) {
  constexpr std::int64_t page = 4096;
  return static_cast<std::size_t>((std::max(bytes, std::int64_t{1}) + page - 1) / page * page);
}

std::size_t bytes_of(const TensorView& view) {
  return static_cast<std::size_t>(view.size()) * size_of(view.dtype);
}

bool meet(const std::byte* a, std::size_t a_bytes, const std::byte* b, std::size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

}  // namespace

/// Open as long as it lives.
class FencedBackend::Gate {
 public:
  explicit Gate(FencedBackend& backend) : backend_(backend) {
    backend_.check_thread();
    backend_.protect(PROT_READ | PROT_WRITE);
  }
  ~Gate() { backend_.protect(PROT_NONE); }
  Gate(const Gate&) = delete;
  Gate& operator=(const Gate&) = delete;

 private:
  FencedBackend& backend_;
};

FencedBackend::FencedBackend() : ForwardingBackend(cpu_backend()) {}

void FencedBackend::protect(int what) {
  const std::lock_guard lock(mutex_);
  for (const auto& [begin, bytes] : fields_)
    require(mprotect(begin, bytes, what) == 0, "the fence of {} bytes cannot be moved", bytes);
}

void FencedBackend::check_thread() const {
  require(driver_ == std::thread::id() || driver_ == std::this_thread::get_id(),
          "a device is asked by a thread that does not drive it");
}

void FencedBackend::enter_thread() {
  require(driver_ == std::thread::id(), "a device has a thread already");
  driver_ = std::this_thread::get_id();
  ForwardingBackend::enter_thread();
}

std::int64_t FencedBackend::resident_bytes(std::span<const std::byte> memory) const {
  check_thread();
  return ForwardingBackend::resident_bytes(memory);
}

void FencedBackend::wait() {
  check_thread();
  for (const DeviceStream way : {DeviceStream::fetch, DeviceStream::evict}) do_copies(way, lane(way).asked);
  ForwardingBackend::wait();
}

Memory FencedBackend::allocate(std::int64_t bytes) {
  check_thread();
  void* const data = mmap(nullptr, in_pages(bytes), PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) throw Error(fmt::format("no memory for {} bytes", bytes), ErrorKind::memory);
  auto* const begin = static_cast<std::byte*>(data);
  {
    const std::lock_guard lock(owners().mutex);
    owners().by_begin[begin] = this;
  }
  const std::lock_guard lock(mutex_);
  fields_[begin] = in_pages(bytes);
  return {{begin, {release, bytes}}};
}

void FencedBackend::release(std::byte* data, std::int64_t bytes) {
  FencedBackend* owner = nullptr;
  {
    const std::lock_guard lock(owners().mutex);
    owner = owners().by_begin.at(data);
    owners().by_begin.erase(data);
  }
  const std::lock_guard lock(owner->mutex_);
  owner->fields_.erase(data);
  munmap(data, in_pages(bytes));
}

void FencedBackend::write(std::byte* to, std::span<const std::byte> host) {
  check_written(to, host.size(), "a write");
  const Gate open(*this);
  ForwardingBackend::write(to, host);
}

void FencedBackend::read(std::span<std::byte> host, const std::byte* from) {
  check_read(from, host.size(), "a read");
  const Gate open(*this);
  ForwardingBackend::read(host, from);
}

void FencedBackend::copy(std::byte* to, const std::byte* from, std::size_t bytes) {
  check_read(from, bytes, "a copy");
  check_written(to, bytes, "a copy");
  const Gate open(*this);
  ForwardingBackend::copy(to, from, bytes);
}

void FencedBackend::fill(const TensorView& to, double value) {
  check_written(to.data, bytes_of(to), "a fill");
  const Gate open(*this);
  ForwardingBackend::fill(to, value);
}

void FencedBackend::copy_later(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) {
  check_thread();
  ++lane(way).asked;
  lane(way).copies.push_back({to, from, bytes, lane(way).behind});
}

DeviceEvent FencedBackend::record(DeviceStream stream) {
  return {stream, stream == DeviceStream::compute ? 0 : lane(stream).asked};
}

void FencedBackend::wait_for(DeviceEvent event, DeviceStream stream) {
  if (event.stream == DeviceStream::compute || event.stream == stream) return;
  if (stream == DeviceStream::compute) return do_copies(event.stream, event.number);
  lane(stream).behind = std::max(lane(stream).behind, event.number);
}

void FencedBackend::wait_for(DeviceEvent event) {
  check_thread();
  if (event.stream != DeviceStream::compute) do_copies(event.stream, event.number);
}

bool FencedBackend::is_past(DeviceEvent event) {
  check_thread();
  return event.stream == DeviceStream::compute || lane(event.stream).done >= event.number;
}

void FencedBackend::do_copies(DeviceStream way, std::int64_t until) {
  for (Lane& on = lane(way); on.done < until; ++on.done, ++on.first) {
    const Copy next = on.copies[on.first];
    do_copies(way == DeviceStream::evict ? DeviceStream::fetch : DeviceStream::evict, next.behind);
    const Gate open(*this);
    ForwardingBackend::copy(next.to, next.from, next.bytes);
  }
  if (Lane& on = lane(way); on.first == on.copies.size()) on.copies.clear(), on.first = 0;
}

void FencedBackend::check_read(const std::byte* begin, std::size_t bytes, std::string_view who) const {
  for (const Lane& on : lanes_)
    for (const Copy& copy : on.waiting())
      require(!meet(begin, bytes, copy.to, copy.bytes), "{} reads what no event has made ready", who);
}

void FencedBackend::check_written(const std::byte* begin, std::size_t bytes, std::string_view who) const {
  check_read(begin, bytes, who);
  for (const Lane& on : lanes_)
    for (const Copy& copy : on.waiting())
      require(!meet(begin, bytes, copy.from, copy.bytes), "{} writes where a copy is under way", who);
}

void FencedBackend::check_ready(std::span<const FusedCall> calls) const {
  for (const FusedCall& call : calls) {
    for (const TensorView& read : call.call.operands)
      if (read.data) check_read(read.data, bytes_of(read), call.op.name);
    for (const TensorView& made : call.call.results)
      if (made.data) check_written(made.data, bytes_of(made), call.op.name);
  }
}

/// Preparing looks at no contents: the fence stays closed.
PreparedKernel FencedBackend::prepare(std::span<const FusedCall> calls) {
  check_thread();
  std::vector<FusedCall> own(calls.begin(), calls.end());
  return PreparedKernel([this, kernel = ForwardingBackend::prepare(calls), own = std::move(own)] {
    check_ready(own);
    const Gate open(*this);
    kernel();
  });
}

DeviceKind fenced_devices() {
  return {.formats = cpu_formats, .backend = [](int) { return std::make_unique<FencedBackend>(); }};
}

DeviceKind fenced_devices_without(std::set<std::string> operators) {
  DeviceKind out = fenced_devices();
  out.formats = [operators = std::move(operators)](const OpDef& op, const KernelCall& call) {
    Formats formats = cpu_formats(op, call);
    formats.has_kernel = !operators.contains(op.name);
    return formats;
  };
  return out;
}

}  // namespace shardwright::testing
