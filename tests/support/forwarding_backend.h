// A backend that does what another does, for tests that change one thing of it.
#pragma once

#include <memory>
#include <utility>

#include "shardwright/runtime/backend/backend.h"

namespace shardwright::testing {

class ForwardingBackend : public Backend {
 public:
  explicit ForwardingBackend(std::unique_ptr<Backend> inner) : inner_(std::move(inner)) {}

  void enter_thread() override { inner_->enter_thread(); }
  Memory allocate(std::int64_t bytes) override { return inner_->allocate(bytes); }
  bool is_host() const override { return inner_->is_host(); }
  std::int64_t resident_bytes(std::span<const std::byte> memory) const override {
    return inner_->resident_bytes(memory);
  }
  void write(std::byte* to, std::span<const std::byte> host) override { inner_->write(to, host); }
  void read(std::span<std::byte> host, const std::byte* from) override { inner_->read(host, from); }
  void copy(std::byte* to, const std::byte* from, std::size_t bytes) override {
    inner_->copy(to, from, bytes);
  }
  void fill(const TensorView& to, double value) override { inner_->fill(to, value); }
  Memory allocate_host(std::int64_t bytes) override { return inner_->allocate_host(bytes); }
  void copy_later(DeviceStream way, std::byte* to, const std::byte* from, std::size_t bytes) override {
    inner_->copy_later(way, to, from, bytes);
  }
  DeviceEvent record(DeviceStream stream) override { return inner_->record(stream); }
  void wait_for(DeviceEvent event, DeviceStream stream) override { inner_->wait_for(event, stream); }
  void wait_for(DeviceEvent event) override { inner_->wait_for(event); }
  bool is_past(DeviceEvent event) override { return inner_->is_past(event); }
  DeviceEvent record_time() override { return inner_->record_time(); }
  std::int64_t time_of(DeviceEvent event) const override { return inner_->time_of(event); }
  void forget_times(std::size_t room) override { inner_->forget_times(room); }
  void wait() override { inner_->wait(); }
  using Backend::prepare;
  PreparedKernel prepare(std::span<const FusedCall> calls) override { return inner_->prepare(calls); }

 private:
  std::unique_ptr<Backend> inner_;
};

}  // namespace shardwright::testing
