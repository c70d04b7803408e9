// The redistribution steps as operators. They have no kernels: the runtime executes them (layout/transfer.h).

#include "shardwright/graph/op.h"

namespace shardwright::ops {
namespace {

OpDef step(std::string name, std::string doc, StepKind kind, Reduction reduction = Reduction::sum) {
  OpDef op{.name = std::move(name),
           .doc = std::move(doc),
           .rule = "... -> ...",
           .kind = OpKind::step,
           .step = kind,
           .reduction = reduction};
  if (kind == StepKind::all_reduce || kind == StepKind::mask) op.overwrites = {0};
  return op;
}

}  // namespace

std::vector<OpDef> steps() {
  return {step("slice", "keep this rank's part of a dim", StepKind::slice),
          step("mask", "whole -> partial(sum): keep on coordinate 0, zero elsewhere", StepKind::mask),
          step("all_gather", "join the parts of a dim", StepKind::all_gather),
          step("all_to_all", "move a shard from one dim to another", StepKind::all_to_all),
          step("reduce_scatter", "sum partials and shard a dim", StepKind::reduce_scatter),
          step("all_reduce.sum", "sum partials", StepKind::all_reduce, Reduction::sum),
          step("all_reduce.max", "largest of partials", StepKind::all_reduce, Reduction::max),
          step("permute", "reorder or swap axes", StepKind::permute),
          step("exchange", "any layout to any other", StepKind::exchange),
          step("halo", "fetch what windows reach of the neighbours' parts", StepKind::halo),
          step("fetch", "from the host's memory to the device's", StepKind::fetch),
          step("evict", "from the device's memory to the host's", StepKind::evict)};
}

}  // namespace shardwright::ops
