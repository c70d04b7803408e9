#include "shardwright/runtime/session_statistics.h"

#include <algorithm>
#include <array>

#include "shardwright/lower/traffic.h"

namespace shardwright {

void add(SessionStatistics& most, const Executor& executor) {
  most.arena_bytes = std::max(most.arena_bytes, static_cast<std::int64_t>(executor.arena().size()));
  const Traffic traffic = traffic_of(executor.step());
  most.bytes_communicated_per_step = std::max(most.bytes_communicated_per_step, traffic.bytes);
  for (const auto& [kind, count] : traffic.collectives) {
    int& of_kind = most.collectives_per_step[std::string(kind)];
    of_kind = std::max(of_kind, count);
  }
}

SessionStatistics largest(const SessionStatistics& own, const Rank& self) {
  constexpr std::array<std::string_view, 8> kinds{"all_gather", "all_to_all", "reduce_scatter", "all_reduce",
                                                  "permute",    "exchange",   "send",           "receive"};
  std::vector<std::int64_t> most{own.bytes_communicated_per_step, own.arena_bytes};
  for (std::string_view kind : kinds) {
    const auto it = own.collectives_per_step.find(std::string(kind));
    most.push_back(it == own.collectives_per_step.end() ? 0 : it->second);
  }
  most = reduced(self.communicator(), self.backend(), most, Reduction::max);
  SessionStatistics out{
      .arena_bytes = most[1], .collectives_per_step = {}, .bytes_communicated_per_step = most[0]};
  for (std::size_t k = 0; k < kinds.size(); ++k)
    if (most[k + 2] > 0) out.collectives_per_step[std::string(kinds[k])] = static_cast<int>(most[k + 2]);
  return out;
}

std::size_t most_transfers(const Pipeline& pipeline) {
  constexpr std::size_t statistics = 100;  // a few, by all ranks
  const auto at = [](int i) { return static_cast<std::size_t>(i); };
  std::vector<std::size_t> prepared(at(pipeline.group_count()));
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Program& program = pipeline.stage(s);
    std::size_t steps = 0, flows = 0;
    for (const Node& node : program.graph.nodes) steps += node.op->kind == OpKind::step;
    for (const PlacedCrossing& c : pipeline.crossings) flows += c.from == s || c.to == s;
    prepared[at(pipeline.pipelining.stage_of(s))] +=
        steps * at(program.lanes.count()) + flows * at(pipeline.micro_batches());
  }
  return *std::ranges::max_element(prepared) + most_transfers_of_gather(pipeline.rank_count()) + statistics;
}

}  // namespace shardwright
