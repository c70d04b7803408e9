#include "shardwright/lower/traffic.h"

#include "shardwright/base/index.h"

namespace shardwright {
namespace {

/// Bytes that a rank receives: what it takes from others when it moves, (n-1)/n of the operand in each half
/// of a reduction.
std::int64_t received(const Transfer& t, int rank, std::int64_t element_bytes) {
  if (t.reduces) {
    const auto n = static_cast<std::int64_t>(t.group.size());
    const std::int64_t operand = element_count(t.from_shape) * element_bytes;
    return (t.kind == StepKind::all_reduce ? 2 : 1) * (operand - operand / n);
  }
  std::int64_t bytes = 0;
  for (const Piece& piece : t.pieces)
    if (piece.source != rank) bytes += element_count(piece.extent) * element_bytes;
  return bytes;
}

}  // namespace

std::vector<int> times_started(const RankStep& step) {
  std::vector<int> out(step.transfers.size()), runs(step.sections.size());
  for (const Instruction& i : step.instructions) {
    if (i.act == Act::start) ++out[at(i.what)];
    if (i.act == Act::run) ++runs[at(i.what)];
  }
  for (std::size_t s = 0; s < step.sections.size(); ++s)
    for (const Instruction& i : step.sections[s].instructions)
      if (i.act == Act::start) out[at(i.what)] += runs[s];
  return out;
}

Traffic traffic_of(const RankStep& step) {
  Traffic out;
  const std::vector<int> times = times_started(step);
  for (std::size_t t = 0; t < step.transfers.size(); ++t) {
    const PreparedTransfer& transfer = step.transfers[t];
    if (!transfer.moves_between_ranks() || times[t] == 0) continue;
    for (const Part& part : transfer.parts) {
      if (!part.to.is_valid()) continue;
      out.collectives[transfer.crossing >= 0 ? "receive" : name_of(transfer.kind())] += times[t];
      out.bytes +=
          times[t] * received(*part.transfer, step.rank, static_cast<std::int64_t>(size_of(part.dtype)));
    }
  }
  return out;
}

}  // namespace shardwright
