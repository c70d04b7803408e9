#include "shardwright/simulate/flows.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <utility>

namespace shardwright {
namespace {

void remove(std::vector<int>& from, int flow) { from.erase(std::find(from.begin(), from.end(), flow)); }

}  // namespace

Flows::Flows(int groups, int levels)
    : levels_(levels), users_(at(groups * levels * 2)), paced_(at(groups)), pace_(at(groups), 1) {}

std::vector<int>& Flows::out_of(int group, int level) { return users_[at((group * levels_ + level) * 2)]; }
std::vector<int>& Flows::into(int group, int level) { return users_[at((group * levels_ + level) * 2 + 1)]; }

double Flows::pace_of(const Flow& flow) const { return flow.way.is_paced ? pace_[at(flow.way.from)] : 1; }

int Flows::start(std::span<const FlowPart> parts, const FlowWay& way, double now) {
  if (free_.empty()) {
    free_.push_back(static_cast<int>(flows_.size()));
    flows_.emplace_back();
  }
  const int id = free_.back();
  free_.pop_back();
  flows_[at(id)] = {.parts = parts, .way = way};
  if (way.is_paced) paced_[at(way.from)].push_back(id);
  begin_part(flows_[at(id)], now);
  join(id, now);
  return id;
}

void Flows::begin_part(Flow& flow, double now) {
  flow.left = flow.part < flow.parts.size() ? flow.parts[flow.part].seconds : 0;
  flow.since = now;
}

/// Puts a flow on the ways that its part uses. One that stands still uses none.
void Flows::join(int id, double now) {
  Flow& flow = flows_[at(id)];
  const bool is_part = flow.part < flow.parts.size();
  flow.on_level = is_part && pace_of(flow) > 0 ? flow.parts[flow.part].level : -1;
  if (flow.on_level >= 0) {
    out_of(flow.way.from, flow.on_level).push_back(id);
    into(flow.way.to, flow.on_level).push_back(id);
    refresh_users(flow.way, flow.on_level, now);
  } else {
    refresh(id, now);
  }
}

/// Takes it off them.
void Flows::quit(int id, double now) {
  Flow& flow = flows_[at(id)];
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = 0;
  flow.version = ++versions_;  // it does not end when it was to
  const int level = std::exchange(flow.on_level, -1);
  if (level < 0) return;
  remove(out_of(flow.way.from, level), id);
  remove(into(flow.way.to, level), id);
  refresh_users(flow.way, level, now);
}

void Flows::refresh_users(const FlowWay& way, int level, double now) {
  for (int flow : out_of(way.from, level)) refresh(flow, now);
  for (int flow : into(way.to, level)) refresh(flow, now);
}

/// Works out how fast it goes on, and when its part ends.
void Flows::refresh(int id, double now) {
  Flow& flow = flows_[at(id)];
  double rate = pace_of(flow);
  if (flow.on_level >= 0)
    rate /= static_cast<double>(
        std::max(out_of(flow.way.from, flow.on_level).size(), into(flow.way.to, flow.on_level).size()));
  if (rate == flow.rate && flow.version > 0 && flow.left > 0) return;
  flow.left = std::max(0.0, flow.left - flow.rate * (now - flow.since));
  flow.since = now;
  flow.rate = rate;
  flow.version = ++versions_;
  if (flow.left == 0)
    ends_.push({now, id, flow.version});
  else if (rate > 0)
    ends_.push({now + flow.left / rate, id, flow.version});
}

void Flows::set_pace(int group, double pace, double now) {
  if (pace_[at(group)] == pace) return;
  for (int flow : paced_[at(group)]) quit(flow, now);
  pace_[at(group)] = pace;
  for (int flow : paced_[at(group)]) join(flow, now);
}

double Flows::next() {
  while (!ends_.empty() && flows_[at(ends_.top().flow)].version != ends_.top().version) ends_.pop();
  return ends_.empty() ? never : ends_.top().time;
}

int Flows::step() {
  const auto [now, id, version] = ends_.top();
  ends_.pop();
  quit(id, now);
  Flow& flow = flows_[at(id)];
  if (++flow.part < flow.parts.size()) {
    begin_part(flow, now);
    join(id, now);
    return -1;
  }
  flow.version = 0;
  if (flow.way.is_paced) remove(paced_[at(flow.way.from)], id);
  free_.push_back(id);
  return id;
}

}  // namespace shardwright
