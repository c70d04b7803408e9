#include "shardwright/runtime/gather.h"

#include <algorithm>
#include <array>

namespace shardwright {

namespace {

/// What passes through the window at once, in numbers of 64 bits: large values by the first, what is left by the others.
constexpr std::array<std::int64_t, 3> window_sizes{32768, 512, 8};

std::span<std::byte> bytes_of(std::span<std::int64_t> numbers) { return std::as_writable_bytes(numbers); }

}  // namespace

bool owns(const Pipeline& pipeline, int stage, ValueId v, int rank) {
  const Program& program = pipeline.stage(stage);
  const Layout layout = layout_of(program.graph.value(v));
  const Mesh& mesh = program.graph.meshes[static_cast<std::size_t>(layout.mesh)];
  return mesh.index_along(rank - pipeline.first_rank(stage), mesh.all_axes().without(layout.used())) == 0;
}

std::size_t most_transfers_of_gather(int ranks) {
  return window_sizes.size() * static_cast<std::size_t>(ranks);
}

Gather::Gather(const Pipeline& pipeline, Communicator& communicator, Backend& backend)
    : pipeline_(pipeline),
      communicator_(communicator),
      backend_(backend),
      window_(communicator.allocate(window_sizes[0] * 8, backend)) {}

void Gather::operator()(int stage, ValueId v, const std::byte* own, std::byte* to, const Box& where) {
  const Program& program = pipeline_.stage(stage);
  const Value& value = program.graph.value(v);
  const std::size_t element_bytes = size_of(value.type.dtype);
  if (layout_of(value).is_replicated() && program.rank_count() == communicator_.size()) {
    const Shape whole = value.global_type().shape;
    return copy_piece(piece_of(where, {Shape(whole.size()), whole}, where), own, to, element_bytes);
  }
  const int first = pipeline_.first_rank(stage);
  for (int rank = first; rank < first + program.rank_count(); ++rank) {
    if (!owns(pipeline_, stage, v, rank)) continue;
    const Box held = box_of(program.graph, v, rank - first), region = intersect(held, where);
    if (is_empty(region)) continue;
    Tensor part({value.type.dtype, region.extent});
    if (rank == communicator_.rank())
      copy_piece(piece_of(region, held, region), own, part.bytes().data(), element_bytes);
    broadcast(rank, part.bytes());
    copy_piece(piece_of(region, region, where), part.bytes().data(), to, element_bytes);
  }
}

std::vector<std::vector<std::uint64_t>> Gather::of_all(std::span<const std::uint64_t> own) {
  std::vector<std::vector<std::uint64_t>> out(static_cast<std::size_t>(communicator_.size()),
                                              {own.begin(), own.end()});
  for (int r = 0; r < communicator_.size(); ++r)
    broadcast(r, std::as_writable_bytes(std::span(out[static_cast<std::size_t>(r)])));
  return out;
}

void Gather::broadcast(int owner, std::span<std::byte> bytes) {
  while (!bytes.empty()) {
    const auto fits = [&](std::int64_t n) { return static_cast<std::size_t>(n) * 8 <= bytes.size(); };
    const auto size = std::ranges::find_if(window_sizes, fits);
    const int prepared = transfer(owner, size == window_sizes.end() ? window_sizes.back() : *size);
    const std::span<std::byte> now =
        size == window_sizes.end() ? bytes : bytes.first(static_cast<std::size_t>(*size) * 8);
    if (owner == communicator_.rank()) backend_.write(window_.data(), now);
    communicator_.run(prepared);
    if (owner != communicator_.rank()) backend_.read(now, window_.data());
    bytes = bytes.subspan(now.size());
  }
}

/// The owner gives and all others take.
int Gather::transfer(int owner, std::int64_t numbers) {
  const auto [it, is_new] = transfers_.try_emplace({owner, numbers}, -1);
  if (!is_new) return it->second;
  const Mesh one{{{"all", 1}}}, everyone{{{"all", communicator_.size()}}};
  const bool is_own = owner == communicator_.rank();
  BoundTransfer bound{
      .transfer = TransfersBetween({&one, replicated(1), owner}, {&everyone, replicated(1), 0}, {numbers})
                      .of(communicator_.rank()),
      .dtype = DType::i64,
      .from = is_own ? window_.data() : nullptr,
      .to = is_own ? nullptr : window_.data()};
  if (is_own) bound.transfer.pieces.clear();
  return it->second = communicator_.prepare({&bound, 1});
}

Reduced::Reduced(Communicator& communicator, Backend& backend, std::size_t count, Reduction reduction)
    : communicator_(communicator),
      backend_(backend),
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
  backend_.write(memory_.data(), std::as_bytes(own));
  communicator_.run(transfer_);
  std::vector<std::int64_t> out(own.size());
  backend_.read(bytes_of(out), memory_.data());
  return out;
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
  const Transfer transfer =
      TransfersBetween({&everyone, parts, 0}, {&first, replicated(1), 0}, shape).of(self);
  const Memory part = communicator.allocate(chunk * 8, backend);
  const Memory all = communicator.allocate(self == 0 ? ranks * chunk * 8 : 8, backend);
  const BoundTransfer bound{transfer, DType::i64, part.data(), self == 0 ? all.data() : nullptr};
  const int prepared = communicator.prepare({&bound, 1});

  std::vector<std::vector<std::int64_t>> out(self == 0 ? sizes.size() : 0);
  std::vector<std::int64_t> together(self == 0 ? static_cast<std::size_t>(ranks * chunk) : 0);
  for (std::int64_t begin = 0; begin < most; begin += chunk) {
    const std::span<const std::int64_t> rest =
        own.subspan(std::min(own.size(), static_cast<std::size_t>(begin)));
    const std::size_t count = std::min(rest.size(), static_cast<std::size_t>(chunk));
    backend.write(part.data(), std::as_bytes(rest.first(count)));
    communicator.run(prepared);
    if (self == 0) backend.read(bytes_of(together), all.data());
    for (std::size_t r = 0; r < out.size(); ++r) {
      const auto next = together.begin() + static_cast<std::int64_t>(r) * chunk;
      out[r].insert(out[r].end(), next, next + std::clamp<std::int64_t>(sizes[r] - begin, 0, chunk));
    }
  }
  return out;
}

}  // namespace shardwright
