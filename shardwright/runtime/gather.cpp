#include "shardwright/runtime/gather.h"

#include <cstring>

namespace shardwright {

Gather::Gather(const Pipeline& pipeline, Communicator& communicator, Backend& backend, std::int64_t largest)
    : pipeline_(pipeline),
      communicator_(communicator),
      everyone_{{{"all", communicator.size()}}},
      part_(communicator.allocate(largest, backend)),
      whole_(communicator.allocate(largest, backend)) {}

void Gather::operator()(int stage, ValueId v, const std::byte* part, std::byte* whole) {
  const Placement from = placement_of(pipeline_, stage, v);
  const Type type = pipeline_.stage(stage).graph.value(v).global_type();
  const int rank = communicator_.rank();
  const auto [it, is_new] = transfers_.try_emplace({stage, v.index}, -1);
  if (is_new) {
    const Placement to{&everyone_, replicated(type.shape.size()), 0};
    const BoundTransfer bound{transfer_between(from, to, type.shape, rank), type.dtype, part_.data(),
                              whole_.data()};
    it->second = communicator_.prepare({&bound, 1});
  }
  if (part) {
    const std::int64_t bytes =
        element_count(from.box_on(rank, type.shape).extent) * static_cast<std::int64_t>(size_of(type.dtype));
    std::memcpy(part_.data(), part, static_cast<std::size_t>(bytes));
  }
  communicator_.run(it->second);
  std::memcpy(whole, whole_.data(), static_cast<std::size_t>(type.bytes()));
}

}  // namespace shardwright
