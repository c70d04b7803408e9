#include "shardwright/runtime/gather.h"

#include <algorithm>
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

std::vector<std::int64_t> reduced(Communicator& communicator, Backend& backend,
                                  std::span<const std::int64_t> own, Reduction reduction) {
  const std::vector<Mesh> all{Mesh{{{"all", communicator.size()}}}};
  Step step{.kind = StepKind::all_reduce, .axes = {0}, .from = replicated(1), .to = replicated(1)};
  step.reduction = reduction;
  (reduction == Reduction::max ? step.from.max : step.from.sum) = all[0].all_axes();
  const auto count = static_cast<std::int64_t>(own.size());
  const Memory memory = communicator.allocate(std::max<std::int64_t>(1, count) * 8, backend);
  const BoundTransfer bound{transfer_of(step, all, {count}, communicator.rank()), DType::i64, memory.data(),
                            memory.data()};
  const int transfer = communicator.prepare({&bound, 1});
  auto* numbers = reinterpret_cast<std::int64_t*>(memory.data());
  std::copy(own.begin(), own.end(), numbers);
  communicator.run(transfer);
  return {numbers, numbers + count};
}

std::vector<std::vector<std::int64_t>> gathered(Communicator& communicator, Backend& backend,
                                                std::span<const std::int64_t> own) {
  const auto ranks = static_cast<std::size_t>(communicator.size());
  const auto self = static_cast<std::size_t>(communicator.rank());
  std::vector<std::int64_t> sizes(ranks);
  sizes[self] = static_cast<std::int64_t>(own.size());
  sizes = reduced(communicator, backend, sizes, Reduction::sum);
  std::size_t begin = 0, all = 0;
  for (std::size_t r = 0; r < ranks; ++r) {
    if (r < self) begin += static_cast<std::size_t>(sizes[r]);
    all += static_cast<std::size_t>(sizes[r]);
  }
  std::vector<std::int64_t> numbers(all);
  std::copy(own.begin(), own.end(), numbers.begin() + static_cast<std::ptrdiff_t>(begin));
  numbers = reduced(communicator, backend, numbers, Reduction::sum);
  std::vector<std::vector<std::int64_t>> out;
  auto next = numbers.begin();
  for (std::int64_t size : sizes) {
    out.emplace_back(next, next + size);
    next += size;
  }
  return out;
}

}  // namespace shardwright
