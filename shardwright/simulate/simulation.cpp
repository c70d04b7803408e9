#include "shardwright/simulate/simulation.h"

#include <algorithm>
#include <deque>
#include <map>
#include <numeric>
#include <queue>
#include <unordered_map>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/simulate/script.h"

namespace shardwright {
namespace {

using Kind = Operation::Kind;

constexpr int nothing = -1, unknown = -2;

/// A transfer that has been started.
struct Message {
  int group = 0;     // of a collective
  int transfer = 0;  // of the group's step; of what crosses the crossing
  int copy = -1;     // of what crosses
  double since = 0;  // when it set out
};

/// Messages that go one after the other.
struct Stream {
  FlowWay way;
  std::deque<Message> messages;  // the first one is on its way
};

/// What crosses between stages, in one of its copies.
struct Exchange {
  bool is_sent = false, is_expected = false;  // and has not begun
  bool is_there_for_giver = false, is_there_for_taker = false;
};

/// A collective of a rank.
struct Collective {
  int stream = unknown;
  bool is_in_flight = false;
};

/// One of the ranks.
struct Runner {
  const TimedStep* rank = nullptr;
  Script script;
  std::vector<Instruction> list;
  std::size_t instruction = 0;  // the next one
  std::size_t operation = 0;    // of the section that it runs
  bool is_computing = false;
  int waits_for = nothing;                               // a stream
  double since = 0;                                      // when it came to the operation
  double section_since = 0;                              // the same of the section
  double counted = 0;                                    // until when its waiting has been counted
  std::unordered_map<int, Collective> collectives = {};  // by transfer
  SimulatedRank out = {};

  bool has_ended() const { return instruction == list.size(); }
  Phase phase() const {
    const Instruction& i = list[instruction];
    return i.act == Act::run ? rank->step.section(i).phase : Phase::forward;
  }
  void add_waiting(int transfer, double seconds) { out.waited[transfer][phase()] += seconds; }
};

class Simulation {
 public:
  Simulation(std::vector<Runner> runners, const std::vector<TimedCrossing>& crossings,
             const SimulateOptions& options)
      : runners_(std::move(runners)),
        crossings_(crossings),
        with_events_(options.with_events),
        flows_(static_cast<int>(runners_.size()), options.levels),
        exchanges_(crossings.size()) {}

  std::vector<SimulatedRank> run() {
    find_ends();
    for (int g = 0; g < static_cast<int>(runners_.size()); ++g) go_on(g, 0);
    for (;;) {
      const double flow = flows_.next(),
                   computed = computing_.empty() ? Flows::never : computing_.top().first;
      if (std::min(flow, computed) == Flows::never) break;
      if (flow <= computed) {
        if (const int ended = flows_.step(); ended >= 0) arrive(stream_of_[at(ended)], flow);
      } else {
        const int group = computing_.top().second;
        computing_.pop();
        go_on(group, computed);
      }
    }
    std::vector<SimulatedRank> out;
    for (Runner& r : runners_) {
      require(r.has_ended(), "the step of rank {} cannot go on", r.rank->step.rank);
      r.out.rank = r.rank->step.rank;
      out.push_back(std::move(r.out));
    }
    return out;
  }

 private:
  Runner& runner(int group) { return runners_[at(group)]; }

  /// Of crossings: whether one of the ranks gives, and takes. The ranks that others stand for may do it alone.
  void find_ends() {
    has_giver_.resize(crossings_.size(), false), has_taker_.resize(crossings_.size(), false);
    for (const Runner& r : runners_)
      for (const PreparedTransfer& t : r.rank->step.transfers) {
        if (t.crossing < 0 || crossings_.empty()) continue;
        exchanges_[at(t.crossing)].resize(at(t.copies));
        if (t.gives()) has_giver_[at(t.crossing)] = true;
        if (t.takes()) has_taker_[at(t.crossing)] = true;
      }
  }

  // ---- what moves ----

  template <class Key>
  int stream_of(std::map<Key, int>& known, const Key& key, const FlowWay& way) {
    const auto [found, is_new] = known.try_emplace(key, static_cast<int>(streams_.size()));
    if (is_new) streams_.push_back({way, {}});
    return found->second;
  }

  /// Collectives of the same ranks share a stream; where it is the device itself that communicates, all do.
  Collective& collective(int group, int transfer) {
    Collective& c = runner(group).collectives[transfer];
    if (c.stream != unknown) return c;
    const TimedStep& rank = *runner(group).rank;
    const PreparedTransfer& t = rank.step.transfers[at(transfer)];
    c.stream =
        rank.transfers[at(transfer)].parts.empty() ? nothing
        : is_of_host(t.kind())  // by engines of their own, one for each way
            ? stream_of(of_ranks_, {group, t.kind() == StepKind::fetch ? -1 : -2, {}}, {group, group, false})
            : rank.overlap == 0 ? stream_of(of_ranks_, {group, 0, {}}, {group, group, true})
                                : stream_of(of_ranks_, {group, t.channel(), t.group()}, {group, group, true});
    return c;
  }

  void send(int stream, const Message& message, double now) {
    streams_[at(stream)].messages.push_back(message);
    if (streams_[at(stream)].messages.size() == 1) begin(stream, now);
  }

  /// Its first message sets out.
  void begin(int stream, double now) {
    Stream& s = streams_[at(stream)];
    Message& m = s.messages.front();
    m.since = now;
    const std::vector<FlowPart>& parts = m.copy >= 0 ? crossings_[at(m.transfer)].parts
                                                     : runner(m.group).rank->transfers[at(m.transfer)].parts;
    const int flow = flows_.start(parts, s.way, now);
    stream_of_.resize(std::max(stream_of_.size(), at(flow) + 1));
    stream_of_[at(flow)] = stream;
  }

  void arrive(int stream, double now) {
    Stream& s = streams_[at(stream)];
    const Message m = s.messages.front();
    s.messages.pop_front();
    if (with_events_) note_transfer(s.way, m, now);
    if (!s.messages.empty()) begin(stream, now);
    if (m.copy >= 0) {
      Exchange& e = exchanges_[at(m.transfer)][at(m.copy)];
      e.is_there_for_giver = e.is_there_for_taker = true;
    } else {
      runner(m.group).collectives[m.transfer].is_in_flight = false;
      if (runner(m.group).waits_for == stream) count_waiting(runner(m.group), m.transfer, now);
    }
    for (int group : {s.way.from, s.way.to})
      if (runner(group).waits_for == stream) go_on(group, now);
  }

  void note_transfer(const FlowWay& way, const Message& m, double now) {
    if (m.copy < 0) {
      runner(m.group).out.transfers.push_back({m.since, now, m.transfer});
      return;
    }
    runner(way.from).out.transfers.push_back({m.since, now, -1, m.transfer, true});
    runner(way.to).out.transfers.push_back({m.since, now, -1, m.transfer, false});
  }

  /// For `transfer`, which may only be in front of the one that the rank wants.
  static void count_waiting(Runner& r, int transfer, double now) {
    r.add_waiting(transfer, now - r.counted);
    r.counted = now;
  }

  // ---- what ranks do ----

  /// Until it computes, waits or has ended.
  void go_on(int group, double now) {
    Runner& r = runner(group);
    for (; !r.has_ended(); ++r.instruction) {
      const Instruction& i = r.list[r.instruction];
      if (i.act != Act::run) {
        if (!pass(group, i, i.micro_batch, now)) return;
        r.section_since = now;
        continue;
      }
      const std::vector<Operation>& operations = r.script.sections[at(i.what)];
      for (; r.operation < operations.size(); ++r.operation)
        if (!operate(group, operations[r.operation], i, now)) return;
      r.operation = 0;
      r.since = std::exchange(r.section_since, now);
      note(r, i, i.micro_batch, now);
    }
    flows_.set_pace(group, 1, now);
    r.out.end = now;
  }

  /// False if it computes.
  bool operate(int group, const Operation& o, const Instruction& run, double now) {
    Runner& r = runner(group);
    const Instruction& i = r.rank->step.section(run).instructions[at(o.instruction)];
    if (o.kind == Kind::start || o.kind == Kind::finish) return pass(group, i, run.micro_batch, now);
    const Stretch* stretch = o.kind == Kind::stretch ? &r.script.stretches[at(o.what)] : nullptr;
    const double seconds = stretch ? stretch->seconds : o.seconds;
    if (seconds > 0 && !std::exchange(r.is_computing, !r.is_computing)) {
      const double share = stretch ? stretch->work / seconds : 1;  // of the time in which it computes
      flows_.set_pace(group, 1 - share * (1 - r.rank->overlap), now);
      computing_.push({now + seconds, group});
      return false;
    }
    if (stretch)
      for (const auto& [transfer, waited] : stretch->waits) r.add_waiting(transfer, waited);
    note(r, i, run.micro_batch, now);
    return true;
  }

  /// An instruction that does not compute. False if it waits.
  bool pass(int group, const Instruction& i, int micro_batch, double now) {
    Runner& r = runner(group);
    if (i.act == Act::start || i.act == Act::finish) {
      const PreparedTransfer& t = r.rank->step.transfer(i);
      const bool is_start = i.act == Act::start;
      int stream = nothing;  // to wait for
      if (t.crossing >= 0)
        stream = is_start ? start_crossing(t, micro_batch, now) : late_crossing(t, micro_batch);
      else
        stream = is_start ? start_collective(group, i.what, now) : late_collective(group, i.what);
      if (stream != nothing) {
        if (std::exchange(r.waits_for, stream) != stream) r.counted = now;
        flows_.set_pace(group, 1, now);
        return false;
      }
      r.waits_for = nothing;
      if (!is_start && t.crossing >= 0) r.out.bubble_seconds += now - r.since;
    }
    note(r, i, micro_batch, now);
    return true;
  }

  void note(Runner& r, const Instruction& i, int micro_batch, double now) {
    if (with_events_) {
      r.out.events.push_back({r.since, now, i, r.phase()});
      r.out.events.back().instruction.micro_batch = micro_batch;
    }
    r.since = now;
  }

  int start_collective(int group, int transfer, double now) {
    Collective& c = collective(group, transfer);
    if (c.stream == nothing) return nothing;
    c.is_in_flight = true;
    send(c.stream, {.group = group, .transfer = transfer}, now);
    return nothing;
  }

  /// The stream that it is still in.
  int late_collective(int group, int transfer) {
    const Collective& c = collective(group, transfer);
    return c.is_in_flight ? c.stream : nothing;
  }

  Exchange& exchange(const PreparedTransfer& t, int micro_batch) {
    return exchanges_[at(t.crossing)][at(micro_batch % t.copies)];
  }
  /// What crosses waits for nothing that crosses, too.
  int stream_of_crossing(int crossing, int copy) {
    const TimedCrossing& c = crossings_[at(crossing)];
    return stream_of(of_crossings_, {crossing, copy}, {c.from, c.to, false});
  }
  bool stays(const PreparedTransfer& t) const {  // on the same devices
    return crossings_[at(t.crossing)].from == crossings_[at(t.crossing)].to;
  }

  int start_crossing(const PreparedTransfer& t, int micro_batch, double now) {
    if (stays(t)) return nothing;
    Exchange& e = exchange(t, micro_batch);
    if (t.gives()) e.is_sent = true, e.is_there_for_giver = false;
    if (t.takes()) e.is_expected = true, e.is_there_for_taker = false;
    const bool is_sent = e.is_sent || !has_giver_[at(t.crossing)];
    const bool is_expected = e.is_expected || !has_taker_[at(t.crossing)];
    if (!is_sent || !is_expected) return nothing;
    e.is_sent = e.is_expected = false;
    const int copy = micro_batch % t.copies;
    send(stream_of_crossing(t.crossing, copy), {.transfer = t.crossing, .copy = copy}, now);
    return nothing;
  }

  int late_crossing(const PreparedTransfer& t, int micro_batch) {
    if (stays(t)) return nothing;
    const Exchange& e = exchange(t, micro_batch);
    const bool is_there = (!t.gives() || e.is_there_for_giver) && (!t.takes() || e.is_there_for_taker);
    return is_there ? nothing : stream_of_crossing(t.crossing, micro_batch % t.copies);
  }

  std::vector<Runner> runners_;
  const std::vector<TimedCrossing>& crossings_;
  bool with_events_;
  Flows flows_;
  std::vector<Stream> streams_;
  std::map<std::tuple<int, int, std::vector<int>>, int> of_ranks_;  // streams, by group, channel and ranks
  std::map<std::pair<int, int>, int> of_crossings_;                 // streams, by crossing and copy
  std::vector<int> stream_of_;                                      // by flow
  std::vector<std::vector<Exchange>> exchanges_;                    // by crossing and copy
  std::vector<bool> has_giver_, has_taker_;                         // by crossing
  using Computed = std::pair<double, int>;                          // when a group has computed
  std::priority_queue<Computed, std::vector<Computed>, std::greater<>> computing_;
};

}  // namespace

Stretch timed_alone(const TimedStep& rank, int section, std::vector<Operation> operations, int levels) {
  Stretch out;
  for (const Operation& o : operations) out.work += o.seconds;
  Runner runner{.rank = &rank, .script = {}, .list = {{Act::run, 0, section, 0}}};
  runner.script.sections.resize(at(section) + 1);
  runner.script.sections.back() = std::move(operations);
  std::vector<Runner> alone;
  alone.push_back(std::move(runner));
  const SimulatedRank ran = Simulation(std::move(alone), {}, {.levels = levels}).run().front();
  out.seconds = ran.end;
  for (const auto& [transfer, waited] : ran.waited)
    out.waits.emplace_back(transfer, std::accumulate(waited.begin(), waited.end(), 0.0));
  return out;
}

std::vector<SimulatedRank> simulate(std::span<const TimedStep* const> ranks,
                                    const std::vector<TimedCrossing>& crossings,
                                    const SimulateOptions& options) {
  std::vector<std::vector<bool>> shared(ranks.size(), std::vector<bool>(at(options.levels), false));
  for (const TimedCrossing& c : crossings)
    for (const FlowPart& part : c.parts)
      if (part.level >= 0) shared[at(c.from)][at(part.level)] = shared[at(c.to)][at(part.level)] = true;
  std::vector<Runner> runners;
  for (std::size_t g = 0; g < ranks.size(); ++g)
    runners.push_back({.rank = ranks[g],
                       .script = script_of(*ranks[g], !options.with_events, shared[g]),
                       .list = ranks[g]->step.instructions});
  return Simulation(std::move(runners), crossings, options).run();
}

}  // namespace shardwright
