#include "shardwright/runtime/communicator/staged.h"

#include <algorithm>
#include <vector>

#include "shardwright/runtime/backend/cpu/cpu.h"

namespace shardwright {
namespace {

class Staged final : public Communicator {
 public:
  Staged(std::unique_ptr<Communicator>&& host, std::unique_ptr<Backend> cpu) noexcept
      : cpu_(std::move(cpu)), host_(std::move(host)) {}

  int rank() const override { return host_->rank(); }
  int size() const override { return host_->size(); }
  void progress() override { host_->progress(); }
  void barrier() override { host_->barrier(); }
  void act() override { host_->act(); }
  bool fail(std::string message) override { return host_->fail(std::move(message)); }

  Memory allocate(std::int64_t bytes, Backend& backend) override {
    Memory own = backend.allocate(bytes);
    // What lay there before has been given back.
    std::erase_if(mirrors_,
                  [&](const Mirror& m) { return m.begin < own.data() + bytes && own.data() < m.end; });
    mirrors_.push_back({own.data(), own.data() + bytes, host_->allocate(bytes, *cpu_), &backend});
    return own;
  }

  int prepare(std::span<const BoundTransfer> transfers) override {
    std::vector<BoundTransfer> on_host(transfers.begin(), transfers.end());
    Copies copies;
    for (BoundTransfer& t : on_host) {
      const auto bytes = [&](const Shape& shape) {
        return static_cast<std::size_t>(element_count(shape)) * size_of(t.dtype);
      };
      if (t.from) copies.in.push_back(copy_of(t.from, bytes(t.transfer.from_shape)));
      if (t.to) copies.out.push_back(copy_of(t.to, bytes(t.transfer.to_shape)));
      if (t.from) t.from = mirrored(t.from);
      if (t.to) t.to = mirrored(t.to);
    }
    copies_.push_back(std::move(copies));
    return host_->prepare(on_host);
  }

  void start(int prepared) override {
    for (const Copy& c : copies_[static_cast<std::size_t>(prepared)].in)
      c.backend->read({c.host, c.bytes}, c.device);
    host_->start(prepared);
  }

  void finish(int prepared) override {
    host_->finish(prepared);
    for (const Copy& c : copies_[static_cast<std::size_t>(prepared)].out)
      c.backend->write(c.device, {c.host, c.bytes});
  }

 private:
  struct Mirror {
    const std::byte* begin;  // on the device
    const std::byte* end;
    Memory host;
    Backend* backend;
  };
  struct Copy {
    std::byte* device;
    std::byte* host;
    std::size_t bytes;
    Backend* backend;
  };
  struct Copies {
    std::vector<Copy> in;
    std::vector<Copy> out;
  };

  const Mirror& mirror_of(const std::byte* device) const {
    const Mirror* out =
        nullptr;  // an empty buffer may lie where the next memory begins: then it does not matter
    for (const Mirror& m : mirrors_)
      if (m.begin <= device && device <= m.end && (!out || out->begin < m.begin)) out = &m;
    require(out != nullptr, "a buffer of a transfer is not in memory that the communicator has allocated");
    return *out;
  }
  std::byte* mirrored(const std::byte* device) const {
    const Mirror& mirror = mirror_of(device);
    return mirror.host.data() + (device - mirror.begin);
  }
  Copy copy_of(const std::byte* device, std::size_t bytes) const {
    return {const_cast<std::byte*>(device), mirrored(device), bytes, mirror_of(device).backend};
  }

  std::unique_ptr<Backend> cpu_;
  std::unique_ptr<Communicator> host_;
  std::vector<Mirror> mirrors_;  // go before the communicator
  std::vector<Copies> copies_;   // by prepared transfer
};

}  // namespace

std::unique_ptr<Communicator> staged(std::unique_ptr<Communicator>&& communicator, const Backend& backend) {
  if (backend.is_host()) return std::move(communicator);
  return std::make_unique<Staged>(std::move(communicator), cpu_backend());
}

}  // namespace shardwright
