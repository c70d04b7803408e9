#include "shardwright/runtime/communicator/staged.h"

#include <algorithm>
#include <list>
#include <vector>

#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

/// Those of the rows of the side on which they are together.
std::size_t bytes_of_ids(const BoundTransfer& t) {
  const Transfer& of = t.transfer;
  const Shape& rows = of.reduces ? of.from_shape : of.to_shape;
  const std::int64_t count = rows.back() == 0 ? 0 : element_count(rows) / rows.back();
  return static_cast<std::size_t>(count * of.sets->choices()) * size_of(t.ids_dtype);
}

class Staged final : public Communicator {
 public:
  Staged(std::unique_ptr<Communicator>&& host, std::unique_ptr<Backend> cpu) noexcept
      : cpu_(std::move(cpu)), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void barrier() override { host_->barrier(); }
  void act() override { host_->act(); }
  void enter(const StepPlace& place) override { host_->enter(place); }
  void describe_by(StepPlaceWords words) override { host_->describe_by(std::move(words)); }
  bool fail(std::string message) override { return host_->fail(std::move(message)); }

  Memory allocate(std::int64_t bytes, Backend& backend) override {
    Memory own = backend.allocate(bytes);
    // What lay there before has been given back.
    mirrors_.remove_if([&](const Mirror& m) { return m.begin < own.data() + bytes && own.data() < m.end; });
    mirrors_.push_back({own.data(), own.data() + bytes, host_->allocate(bytes, *cpu_), backend});
    return own;
  }

  int prepare(std::span<const BoundTransfer> transfers) override {
    std::vector<BoundTransfer> on_host(transfers.begin(), transfers.end());
    Copies copies;
    for (BoundTransfer& t : on_host) {
      const auto bytes = [&](const Shape& shape) {
        return static_cast<std::size_t>(element_count(shape)) * size_of(t.dtype);
      };
      if (t.from) t.from = add(copies, copies.in, t.from, bytes(t.transfer.from_shape));
      if (t.to) t.to = add(copies, copies.out, t.to, bytes(t.transfer.to_shape));
      if (t.ids) t.ids = add(copies, copies.in, t.ids, bytes_of_ids(t));
    }
    copies_.push_back(std::move(copies));
    return host_->prepare(on_host);
  }

  /// A result that is still to be copied out of the mirror is not written over.
  void start(int prepared) override {
    const Copies& copies = copies_[static_cast<std::size_t>(prepared)];
    DeviceEvent ready{DeviceStream::fetch, 0};
    for (const Mirror* mirror : copies.mirrors) ready.number = std::max(ready.number, mirror->fetched.number);
    if (!copies.in.empty()) {
      Backend& device = *copies.device;
      device.wait_for(device.record(DeviceStream::compute), DeviceStream::evict);
      device.wait_for(ready, DeviceStream::evict);
      for (const Copy& c : copies.in) device.copy_later(DeviceStream::evict, c.host, c.device, c.bytes);
      ready = device.record(DeviceStream::evict);
    }
    started_.push_back({prepared, ready});
    tell_ready();
  }

  void progress() override {
    tell_ready();
    host_->progress();
  }

  /// All that has been started is told to peers before this rank waits for any: what one of them does first may hang on it.
  void finish(int prepared) override {
    for (std::size_t i = told_; i < started_.size(); ++i)
      if (Backend* device = device_of(started_[i])) device->wait_for(started_[i].ready);
    tell_ready();
    host_->finish(prepared);
    const Copies& copies = copies_[static_cast<std::size_t>(prepared)];
    if (copies.out.empty()) return;
    Backend& device = *copies.device;
    device.wait_for(device.record(DeviceStream::compute), DeviceStream::fetch);
    for (const Copy& c : copies.out) device.copy_later(DeviceStream::fetch, c.device, c.host, c.bytes);
    const DeviceEvent fetched = device.record(DeviceStream::fetch);
    for (Mirror* mirror : copies.mirrors) mirror->fetched = fetched;
    device.wait_for(fetched, DeviceStream::compute);
  }

 private:
  struct Mirror {
    const std::byte* begin;  // on the device
    const std::byte* end;
    Memory host;
    Backend& device;
    DeviceEvent fetched{DeviceStream::fetch, 0};  // the last of what was copied out of it
  };
  struct Copy {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
  };
  struct Copies {
    std::vector<Copy> in;
    std::vector<Copy> out;
    Backend* device = nullptr;  // none where there are no buffers
    std::vector<Mirror*> mirrors;
  };
  struct Started {
    int prepared;
    DeviceEvent ready;
  };

  Backend* device_of(const Started& started) const {
    return copies_[static_cast<std::size_t>(started.prepared)].device;
  }
  void tell_ready() {
    for (; told_ < started_.size(); ++told_) {
      const Started& next = started_[told_];
      if (Backend* device = device_of(next); device && !device->is_past(next.ready)) return;
      host_->start(next.prepared);
    }
    started_.clear();
    told_ = 0;
  }
  Mirror& mirror_of(const std::byte* device) {
    Mirror* out = nullptr;  // an empty buffer may lie where the next memory begins: then it does not matter
    for (Mirror& m : mirrors_)
      if (m.begin <= device && device <= m.end && (!out || out->begin < m.begin)) out = &m;
    require(out != nullptr, "a buffer of a transfer is not in memory that the communicator has allocated");
    return *out;
  }
  /// Returns where it lies in the mirror.
  std::byte* add(Copies& to, std::vector<Copy>& copies, const std::byte* device, std::size_t bytes) {
    Mirror& mirror = mirror_of(device);
    require(!to.device || to.device == &mirror.device, "transfers that run as one are of two devices");
    to.device = &mirror.device;
    if (std::ranges::find(to.mirrors, &mirror) == to.mirrors.end()) to.mirrors.push_back(&mirror);
    std::byte* const host = mirror.host.data() + (device - mirror.begin);
    if (bytes > 0) copies.push_back({const_cast<std::byte*>(device), host, bytes});
    return host;
  }

  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Communicator> host_;
  std::list<Mirror> mirrors_;     // go before the communicator
  std::vector<Copies> copies_;    // by prepared transfer
  std::vector<Started> started_;  // in this order
  std::size_t told_ = 0;          // of them, to peers
};

}  // namespace

std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator>&& communicator, const Backend& backend) {
  if (backend.is_host()) return std::move(communicator);
  return std::make_unique<Staged>(std::move(communicator), cpu_backend());
}

}  // namespace shardwright
