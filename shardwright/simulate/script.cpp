#include "shardwright/simulate/script.h"

#include "shardwright/base/index.h"

#include <algorithm>
#include <optional>
#include <set>

namespace shardwright {
namespace {

std::ptrdiff_t as_offset(std::size_t i) { return static_cast<std::ptrdiff_t>(i); }

using Kind = Operation::Kind;

bool is_transfer(const Instruction& i) { return i.act == Act::start || i.act == Act::finish; }

/// Transfers that a section starts and finishes.
std::vector<bool> finished_in_section(const TimedStep& rank, const Section& section) {
  std::vector<int> open(rank.transfers.size(), 0);
  std::vector<bool> out(rank.transfers.size(), false);
  for (const Instruction& i : section.instructions) {
    if (!is_transfer(i)) continue;
    if (i.act == Act::start) out[at(i.what)] = true;
    open[at(i.what)] += i.act == Act::start ? 1 : -1;
    if (open[at(i.what)] < 0) out[at(i.what)] = false;  // it was started before
  }
  for (std::size_t t = 0; t < open.size(); ++t)
    if (open[t] != 0) out[t] = false;
  return out;
}

class Writer {
 public:
  Writer(const TimedStep& rank, bool joins, std::vector<bool> shared)
      : rank_(rank), joins_(joins), shared_(std::move(shared)) {
    for (const Section& section : rank.step.sections) {
      own_.push_back(finished_in_section(rank, section));
      for (const Instruction& i : section.instructions)
        if (is_transfer(i) && !own_.back()[at(i.what)]) share_links_of(i.what);
    }
  }

  Script run() && {
    for (std::size_t s = 0; s < rank_.sections.size(); ++s) {
      section_ = static_cast<int>(s);
      std::vector<Operation> all = operations_of(s);
      out_.sections.push_back(joins_ ? joined(all, own_[s]) : std::move(all));
    }
    return std::move(out_);
  }

 private:
  /// Where the device itself moves the bytes, what moves any keeps all others waiting.
  void share_links_of(int transfer) {
    if (rank_.overlap == 0 && !rank_.transfers[at(transfer)].parts.empty())
      shared_.assign(shared_.size(), true);
    for (const FlowPart& part : rank_.transfers[at(transfer)].parts)
      if (part.level >= 0) shared_[at(part.level)] = true;
  }

  bool is_crossing(const Operation& o) const { return rank_.step.transfers[at(o.what)].crossing >= 0; }

  std::vector<Operation> operations_of(std::size_t section) {
    std::vector<Operation> out;
    const std::vector<Instruction>& list = rank_.step.sections[section].instructions;
    for (int n = 0; n < static_cast<int>(list.size()); ++n) {
      const Instruction& i = list[at(n)];
      const double seconds = rank_.sections[section].seconds[at(n)];
      if (is_transfer(i))
        out.push_back({i.act == Act::start ? Kind::start : Kind::finish, i.what, 0, n});
      else if (joins_ && !out.empty() && out.back().kind == Kind::work)
        out.back().seconds += seconds;
      else
        out.push_back({Kind::work, 0, seconds, n});
    }
    return out;
  }

  /// That it may be part of a stretch.
  bool is_alone(const Operation& o, const std::vector<bool>& own) const {
    if (o.kind == Kind::work) return true;
    if (is_crossing(o) || !own[at(o.what)]) return false;
    const std::vector<FlowPart>& parts = rank_.transfers[at(o.what)].parts;
    return std::none_of(parts.begin(), parts.end(),
                        [&](const FlowPart& part) { return part.level >= 0 && shared_[at(part.level)]; });
  }

  /// Adds operations [begin, end) as one.
  void add_stretch(const std::vector<Operation>& all, std::size_t begin, std::size_t end,
                   std::vector<Operation>& out) {
    if (end < begin + 2) {  // nothing to join
      out.insert(out.end(), all.begin() + as_offset(begin), all.begin() + as_offset(end));
      return;
    }
    out_.stretches.push_back(timed_alone(rank_, section_,
                                         {all.begin() + as_offset(begin), all.begin() + as_offset(end)},
                                         static_cast<int>(shared_.size())));
    out.push_back({Kind::stretch, static_cast<int>(out_.stretches.size()) - 1, 0, all[begin].instruction});
  }

  std::vector<Operation> joined(const std::vector<Operation>& all, const std::vector<bool>& own) {
    std::vector<Operation> out;
    std::set<int> in_flight;                        // of what starts and finishes in the section
    std::optional<std::size_t> begin = 0, end = 0;  // of a stretch, so far
    for (std::size_t i = 0; i < all.size(); ++i) {
      const Operation& o = all[i];
      const bool is_own = o.kind != Kind::work && !is_crossing(o) && own[at(o.what)];
      if (is_own && o.kind == Kind::start) in_flight.insert(o.what);
      if (is_own && o.kind == Kind::finish) in_flight.erase(o.what);
      if (begin && !is_alone(o, own)) {
        add_stretch(all, *begin, *end, out);
        out.insert(out.end(), all.begin() + as_offset(*end), all.begin() + as_offset(i));
        begin.reset();
      }
      if (!begin) out.push_back(o);
      if (!in_flight.empty()) continue;
      end = i + 1;
      if (!begin) begin = end;
    }
    if (begin) {
      add_stretch(all, *begin, *end, out);
      out.insert(out.end(), all.begin() + as_offset(*end), all.end());
    }
    return out;
  }

  const TimedStep& rank_;
  bool joins_;
  int section_ = 0;
  std::vector<bool> shared_;            // by level: something else may be on the links of the level
  std::vector<std::vector<bool>> own_;  // by section and transfer: it starts and finishes there
  Script out_;
};

}  // namespace

Script script_of(const TimedStep& rank, bool joins, const std::vector<bool>& shared) {
  return Writer(rank, joins, shared).run();
}

}  // namespace shardwright
