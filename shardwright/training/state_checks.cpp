#include "shardwright/training/state_checks.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "shardwright/base/host_name.h"

namespace shardwright {
namespace {

/// In which values of which rank here checksums differ; empty: in none.
std::string difference_of(const Session& session, const std::vector<std::vector<std::uint64_t>>& first,
                          const std::vector<std::vector<std::uint64_t>>& second) {
  const std::vector<std::string> names = session.checksum_names();
  for (std::size_t r = 0; r < first.size(); ++r) {
    std::vector<std::string> differing;
    for (std::size_t i = 0; i < names.size(); ++i)
      if (first[r][i] != second[r][i]) differing.push_back(names[i]);
    if (differing.empty()) continue;
    const std::string more = differing.size() > 1 ? fmt::format(" and {} more", differing.size() - 1) : "";
    return fmt::format("rank {} on {}: in '{}'{}", session.ranks()[r], host_name(), differing.front(), more);
  }
  return "";
}

bool are_same(const std::vector<Tensor>& a, const std::vector<Tensor>& b) {
  return std::ranges::equal(
      a, b, [](const Tensor& x, const Tensor& y) { return std::ranges::equal(x.bytes(), y.bytes()); });
}

}  // namespace

bool StateChecks::looks_at(std::int64_t step) const {
  if (options_.check_replicas > 0) return (step + 1) % options_.check_replicas == 0;
  return options_.deterministic_check && step == first_;
}

/// One says it, and the others that it has.
void StateChecks::lost(const std::string& own) const {
  if (own.empty()) throw Error("another rank ends the run", ErrorKind::peer);
  throw Error(own, ErrorKind::timeout);
}

std::vector<Tensor> StateChecks::twice(std::int64_t step, bool is_recorded,
                                       const std::function<std::vector<Tensor>()>& run) {
  const Session::Snapshot before = session_.snapshot();
  session_.record(false);
  const std::vector<Tensor> first = run();
  const auto sums = session_.checksums();
  session_.restore(before);
  session_.record(is_recorded);
  session_.set_next_step(step);
  std::vector<Tensor> second = run();
  std::string own = difference_of(session_, sums, session_.checksums());
  if (own.empty() && !are_same(first, second))
    own = fmt::format("rank {} on {}: in its outputs", session_.ranks().front(), host_name());
  if (session_.any(!own.empty()))
    lost(own.empty()
             ? ""
             : own.insert(own.find(": ") + 2,
                          fmt::format("two runs of step {} from the same state differ, so its machine "
                                      "computes wrongly (the same program on the same numbers): ",
                                      step)));
  return second;
}

StateChecked StateChecks::look(std::int64_t step) const {
  const auto start = std::chrono::steady_clock::now();
  StateChecked out{.step = step, .was_run_twice = options_.deterministic_check};
  if (options_.check_replicas > 0) {
    const Session::Replicas found = session_.compare_replicas();
    out.values = found.values;
    if (!found.difference.empty()) {
      const bool tells = session_.ranks().front() == 0;
      lost(!tells
               ? ""
               : fmt::format(
                     "behind step {}, {}{}", step, found.difference,
                     options_.deterministic_check
                         ? "; run twice, the step gives each rank the same, so its program does this, or an "
                           "earlier step has"
                         : "; --deterministic-check tells whether a machine or the program does this"));
    }
  }
  out.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return out;
}

}  // namespace shardwright
