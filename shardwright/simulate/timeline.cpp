#include "shardwright/simulate/timeline.h"

#include <algorithm>
#include <map>

namespace shardwright {
namespace {

std::size_t at(int i) { return static_cast<std::size_t>(i); }

class Timeline {
 public:
  Timeline(const std::vector<TimedStep>& ranks, const std::vector<double>& crossing_seconds)
      : ranks_(ranks), seconds_(crossing_seconds), places_(ranks.size()), now_(ranks.size()) {}

  std::vector<double> run() {
    for (bool goes_on = true; std::exchange(goes_on, false);)
      for (std::size_t r = 0; r < ranks_.size(); ++r)
        while (places_[r].instruction < ranks_[r].step.instructions.size() && run_next(r)) goes_on = true;
    for (std::size_t r = 0; r < ranks_.size(); ++r)
      require(places_[r].instruction == ranks_[r].step.instructions.size(),
              "the step of rank {} cannot go on", ranks_[r].step.rank);
    return now_;
  }

 private:
  /// The next instruction of a rank's list, and of the section that it runs.
  struct Place {
    std::size_t instruction = 0;
    std::size_t mark = 0;
    double passed = 0;  // seconds of the section
  };

  /// False if the rank waits for what has not been sent.
  bool run_next(std::size_t r) {
    const RankStep& step = ranks_[r].step;
    Place& place = places_[r];
    const Instruction& i = step.instructions[place.instruction];
    if (i.act == Act::run && !run_section(r, ranks_[r].sections[at(i.what)], i.micro_batch)) return false;
    if (i.act != Act::run && !cross(r, i, i.micro_batch)) return false;
    place = {place.instruction + 1, 0, 0};
    return true;
  }

  bool run_section(std::size_t r, const TimedSection& section, int micro_batch) {
    Place& place = places_[r];
    const auto pass_until = [&](double seconds) {
      now_[r] += seconds - place.passed;
      place.passed = seconds;
    };
    for (; place.mark < section.crossings.size(); ++place.mark) {
      const TimedSection::Mark& mark = section.crossings[place.mark];
      pass_until(mark.seconds);
      if (!cross(r, mark.instruction, micro_batch)) return false;
    }
    pass_until(section.seconds);
    return true;
  }

  bool cross(std::size_t r, const Instruction& i, int micro_batch) {
    if (i.act != Act::start && i.act != Act::finish) return true;
    const PreparedTransfer& t = ranks_[r].step.transfer(i);
    const std::pair key{t.crossing, micro_batch % t.copies};
    if (i.act == Act::start) {
      if (t.gives()) sent_[key] = now_[r];
      return true;
    }
    if (!t.takes()) return true;
    const auto sent = sent_.find(key);
    if (sent == sent_.end()) return false;
    now_[r] = std::max(now_[r], sent->second + seconds_[at(t.crossing)]);
    return true;
  }

  const std::vector<TimedStep>& ranks_;
  const std::vector<double>& seconds_;
  std::vector<Place> places_;                   // by rank
  std::vector<double> now_;                     // by rank
  std::map<std::pair<int, int>, double> sent_;  // by crossing and micro-batch
};

}  // namespace

std::vector<double> ends_of(const std::vector<TimedStep>& ranks,
                            const std::vector<double>& crossing_seconds) {
  return Timeline(ranks, crossing_seconds).run();
}

}  // namespace shardwright
