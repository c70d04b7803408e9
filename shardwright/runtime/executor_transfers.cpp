// Transfers of a rank: those between ranks are the communicator's; those between device and host the backend copies.

#include <algorithm>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/runtime/executor.h"

namespace shardwright {

int Executor::first_in_lane(const Program& program, int lane) {
  int m = 0;
  while (m + 1 < program.micro_batches && program.lanes.lane(m) != lane) ++m;
  return m;
}

void Executor::prepare_transfers() {
  for (const PreparedTransfer& t : step_.transfers) {
    first_numbers_.push_back(numbers_.size());
    for (int copy = 0; copy < t.copies; ++copy) {
      const Program& program = pipeline_.stage(t.to_stage);
      int micro_batch = t.crossing >= 0 ? copy : first_in_lane(program, copy);
      if (t.copies == 1) micro_batch = pipeline_.micro_batches() - 1;
      if (is_of_host(t.kind())) {
        numbers_.push_back(prepare_host_copies(t, micro_batch));
        continue;
      }
      std::vector<BoundTransfer> bound;
      const auto data = [&](int stage, ValueId v) {
        return v.is_valid() ? view(stage, v, micro_batch).data : nullptr;
      };
      for (const Part& p : t.parts) {
        bound.push_back({*p.transfer, p.dtype, data(t.from_stage, p.from), data(t.to_stage, p.to),
                         data(t.from_stage, p.ids)});
        if (p.ids.is_valid()) bound.back().ids_dtype = view(t.from_stage, p.ids, micro_batch).dtype;
      }
      numbers_.push_back(communicator_.prepare(bound));
    }
  }
}

int Executor::prepare_host_copies(const PreparedTransfer& transfer, int micro_batch) {
  HostCopies& out = host_copies_.emplace_back();
  out.way = transfer.kind() == StepKind::fetch ? DeviceStream::fetch : DeviceStream::evict;
  for (const Part& p : transfer.parts) {
    const TensorView to = view(transfer.to_stage, p.to, micro_batch);
    out.copies.push_back({view(transfer.from_stage, p.from, micro_batch).data, to.data,
                          static_cast<std::size_t>(bytes_of(to))});
  }
  return static_cast<int>(host_copies_.size()) - 1;
}

void Executor::end_copies() {
  timed_.clear();
  if (host_copies_.empty() && backend_.is_host()) return;
  try {
    backend_.wait();
  } catch (const std::exception&) {  // the first failure is told
  }
}

void Executor::start_transfer(const Instruction& i, int micro_batch) {
  const int number = number_of(i, micro_batch);
  if (!is_of_host(step_.transfer(i).kind())) return communicator_.start(number);
  HostCopies& copies = host_copies_[at(number)];
  backend_.wait_for(backend_.record(DeviceStream::compute), copies.way);
  for (const HostCopy& c : copies.copies) backend_.copy_later(copies.way, c.to, c.from, c.bytes);
  copies.last = backend_.record(copies.way);
}

void Executor::finish_transfer(const Instruction& i, int micro_batch) {
  const int number = number_of(i, micro_batch);
  if (!is_of_host(step_.transfer(i).kind())) return communicator_.finish(number);
  backend_.wait_for(host_copies_[at(number)].last, DeviceStream::compute);
}

/// Where stages are, something from or to others may always be on its way; else between a start and its finish, if
/// anything stands there.
void Executor::mark_hiding(Actions& actions) const {
  const bool has_crossings = std::any_of(step_.transfers.begin(), step_.transfers.end(),
                                         [](const PreparedTransfer& t) { return t.crossing >= 0; });
  std::set<int> started;
  int open = 0;  // at first what has been started before this section
  for (const Action& a : actions) {
    if (a.instruction.act == Act::start) started.insert(a.instruction.what);
    open += a.instruction.act == Act::finish && !started.contains(a.instruction.what);
  }
  for (std::size_t a = 0; a < actions.size(); ++a) {
    const Instruction& i = actions[a].instruction;
    open += (i.act == Act::start) - (i.act == Act::finish);
    const bool is_at_once = i.act == Act::start && a + 1 < actions.size() &&
                            actions[a + 1].instruction == Instruction{Act::finish, i.stage, i.what, 0};
    actions[a].is_hiding = !is_at_once && (open > 0 || has_crossings);
  }
}

}  // namespace shardwright
