#include "shardwright/search/automatic/step_seconds.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/search/automatic/other_cuts.h"

namespace shardwright::automatic {
namespace {

/// Programs put transfers of several pieces into one, and begin them earlier: where many small ones are waited for, they were
/// seen to wait for a third of what pieces say.
constexpr double least_waiting = 1.0 / 3;

/// And of transfers that the update waits for as much as was seen: a bucket takes one more than fills it, and some start while others of
/// the pass are on their way.
constexpr double least_late = 0.75;

/// The first of the links that joins devices from `first` to before `end`.
int level_of_link(const Cluster& cluster, int first, int end) {
  const auto joins = [&](const LinkLevel& l) { return first / l.devices == (end - 1) / l.devices; };
  const auto link = std::ranges::find_if(cluster.links, joins);
  const auto level = static_cast<int>(link - cluster.links.begin());
  return std::min(level, static_cast<int>(cluster.links.size()) - 1);
}

}  // namespace

StepSeconds::StepSeconds(const Constraints& s, const ForecastOf& what, const std::vector<int>& first,
                         std::vector<StageSeconds> parts)
    : s_(s), what_(what), p_(pipelining_of(s)), parts_(std::move(parts)), tied_(tied(first)) {
  if (p_.stages == 1) return;
  for (double bytes : crossing_bytes(what, first)) {
    const int part = static_cast<int>(crossings_.size());
    crossings_.push_back(crossing(bytes, p_.stage_of(part), p_.stage_of(part + 1)));
  }
}

/// Neighbours may share a node, or not.
Crossing StepSeconds::crossing(double bytes, int from, int to) const {
  if (from == to) return {};  // chunks of the same devices
  const int devices = stage_devices(s_);
  const int level =
      level_of_link(what_.cluster, std::min(from, to) * devices, (std::max(from, to) + 1) * devices);
  const LinkLevel& l = what_.cluster.links[at(level)];
  return {.starting = l.start_seconds + l.latency_seconds,
          .moving = bytes / (l.bytes_per_second * what_.cluster.link_efficiency),
          .level = level};
}

StepSeconds::Tied StepSeconds::tied(const std::vector<int>& first) const {
  Tied out;
  for (int part = 1; part < p_.parts(); ++part) {
    if (p_.stage_of(part) == 0) continue;
    const int end = part + 1 < p_.parts() ? first[at(part) + 1] : what_.row.size();
    for (int i = first[at(part)]; i < end; ++i) {
      const Figures& f = what_.figures[at(what_.row.kinds[at(i)])];
      if (f.tied > 0) out.bytes += f.tied, out.device = p_.stage_of(part);
    }
  }
  for (const Figures& f : what_.figures) out.gradient_bytes = std::max(out.gradient_bytes, f.returned);
  if (out.gradient_bytes == 0) out.gradient_bytes = out.bytes;
  return out;
}

std::vector<Pass> StepSeconds::passes(double waiting, bool contended) const {
  std::vector<Pass> out;
  for (const StageSeconds& part : parts_) {
    out.push_back(part.pass(waiting));
    if (contended) out.back() += part.contention(), out.back() += part.first_gathers(p_.micro_batches);
  }
  return out;
}

double StepSeconds::seconds(double waiting, bool contended) const {
  const std::vector<Pass> all = passes(waiting, contended);
  const double end = pipeline_seconds_of_parts(p_, all, crossings_);
  return behind(all, end, waiting < 1 ? least_late : 1) + (waiting < 1 ? 0 : tied_late(all));
}

double StepSeconds::hopeful() const { return seconds(least_waiting, false); }

double StepSeconds::sure(bool is_hopeful) const {
  const std::vector<Pass> all = passes(is_hopeful ? least_waiting : 1, false);
  std::vector<Pass> devices(at(p_.stages));
  for (int part = 0; part < p_.parts(); ++part) devices[at(p_.stage_of(part))] += all[at(part)];
  return behind(all, sure_pipeline_seconds(p_, devices, crossings_), least_late);
}

/// The end of the step, of which the last backward ends at `end`. Devices behind the first one end before: gradients come to it
/// last.
double StepSeconds::behind(const std::vector<Pass>& passes, double end, double waiting) const {
  double out = 0, before = 0;
  for (int device = 0; device < p_.stages; ++device) {
    out = std::max(out, end - before + update_seconds(device, waiting));
    if (device + 1 < p_.stages) before += passes[at(device)].backward + crossings_[at(device)].seconds();
  }
  if (tied_.bytes == 0) return out;
  return std::max(out, end + crossing(tied_.gradient_bytes, tied_.device, 0).seconds() + tied_update());
}

/// Of a device's parts the last one ends first; before the next one come the other micro-batches of its round.
double StepSeconds::update_seconds(int device, double waiting) const {
  const std::vector<int> parts = p_.parts_of(device);
  const bool is_cut = p_.schedule.splits_backward;  // gradients of weights come behind all others
  StageSeconds all(what_.cluster.overlap);
  double late = 0;
  for (auto part = parts.rbegin(); part != parts.rend(); ++part) {
    const double backwards = is_cut                   ? parts_[at(*part)].share_of_weights()
                             : part == parts.rbegin() ? 1
                                                      : std::min(p_.micro_batches, p_.stages);
    late = parts_[at(*part)].late({late, backwards, waiting});
    all.add(parts_[at(*part)]);
  }
  return all.update(late, waiting);
}

/// Of the piece that has them, the first.
double StepSeconds::tied_update() const {
  const Figures& f = what_.figures[at(what_.row.kinds.front())];
  return f.late + f.update + f.transfers[Phase::update];
}

/// So much later than the first micro-batch they are there, with which they share the link.
double StepSeconds::tied_late(const std::vector<Pass>& passes) const {
  if (tied_.bytes == 0) return 0;
  double there = 0;
  for (int device = 0; device < tied_.device; ++device)
    there += passes[at(device)].forward + crossings_[at(device)].seconds();
  return std::max(0.0,
                  crossing(tied_.bytes, 0, tied_.device).seconds() + crossings_.front().seconds() - there);
}

}  // namespace shardwright::automatic
