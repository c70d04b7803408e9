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

Reduced::Reduced(Communicator& communicator, Backend& backend, std::size_t count, Reduction reduction)
    : communicator_(communicator),
      memory_(
          communicator.allocate(static_cast<std::int64_t>(std::max<std::size_t>(1, count)) * 8, backend)) {
  const std::vector<Mesh> all{Mesh{{{"all", communicator.size()}}}};
  Step step{.kind = StepKind::all_reduce, .axes = {0}, .from = replicated(1), .to = replicated(1)};
  step.reduction = reduction;
  (reduction == Reduction::max ? step.from.max : step.from.sum) = all[0].all_axes();
  const Shape shape{static_cast<std::int64_t>(count)};
  const BoundTransfer bound{transfer_of(step, all, shape, communicator.rank()), DType::i64, memory_.data(),
                            memory_.data()};
  transfer_ = communicator.prepare({&bound, 1});
}

std::vector<std::int64_t> Reduced::operator()(std::span<const std::int64_t> own) {
  auto* numbers = reinterpret_cast<std::int64_t*>(memory_.data());
  std::copy(own.begin(), own.end(), numbers);
  communicator_.run(transfer_);
  return {numbers, numbers + own.size()};
}

std::vector<std::int64_t> reduced(Communicator& communicator, Backend& backend,
                                  std::span<const std::int64_t> own, Reduction reduction) {
  return Reduced(communicator, backend, own.size(), reduction)(own);
}

std::vector<std::vector<std::int64_t>> gathered(Communicator& communicator, Backend& backend,
                                                std::span<const std::int64_t> own) {
  constexpr std::int64_t at_once = 8192;  // of each rank
  const int ranks = communicator.size(), self = communicator.rank();
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(ranks));
  sizes[static_cast<std::size_t>(self)] = static_cast<std::int64_t>(own.size());
  sizes = reduced(communicator, backend, sizes, Reduction::sum);
  const std::int64_t most = *std::max_element(sizes.begin(), sizes.end());
  const std::int64_t chunk = std::clamp<std::int64_t>(most, 1, at_once);

  const Mesh everyone{{{"all", ranks}}}, first{{{"all", 1}}};
  Layout parts = replicated(1);
  parts.dims[0] = {0};
  const Shape shape{ranks * chunk};
  const Transfer transfer = transfer_between({&everyone, parts, 0}, {&first, replicated(1), 0}, shape, self);
  const Memory part = communicator.allocate(chunk * 8, backend);
  const Memory all = communicator.allocate(self == 0 ? ranks * chunk * 8 : 8, backend);
  const BoundTransfer bound{transfer, DType::i64, part.data(), self == 0 ? all.data() : nullptr};
  const int prepared = communicator.prepare({&bound, 1});

  std::vector<std::vector<std::int64_t>> out(self == 0 ? sizes.size() : 0);
  for (std::int64_t begin = 0; begin < most; begin += chunk) {
    const std::span<const std::int64_t> rest =
        own.subspan(std::min(own.size(), static_cast<std::size_t>(begin)));
    const std::size_t count = std::min(rest.size(), static_cast<std::size_t>(chunk));
    std::copy_n(rest.begin(), count, reinterpret_cast<std::int64_t*>(part.data()));
    communicator.run(prepared);
    for (std::size_t r = 0; r < out.size(); ++r) {
      const auto* next =
          reinterpret_cast<const std::int64_t*>(all.data()) + static_cast<std::int64_t>(r) * chunk;
      out[r].insert(out[r].end(), next, next + std::clamp<std::int64_t>(sizes[r] - begin, 0, chunk));
    }
  }
  return out;
}

}  // namespace shardwright
