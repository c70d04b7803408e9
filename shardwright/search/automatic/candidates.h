// Structures that may be the best, each with its forecast: what fits, or nearly so.
#pragma once

#include <functional>
#include <limits>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/search/automatic/bounds.h"
#include "shardwright/search/automatic/forecast.h"
#include "shardwright/simulate/evaluate.h"

namespace shardwright::automatic {

struct Candidate {
  Constraints structure;
  Forecast forecast;
  std::size_t number = 0;    // of its structure
  double least_seconds = 0;  // no step of it is shorter, as far as is known
  int layers_again = 0;      // are computed again
  bool is_close = false;     // to the limit of memory: its program may fit, by figures it does not
  bool is_tried = false;
  std::int64_t program_bytes = 0;  // of the last one that did not fit
  int times_too_large = 0;         // programs that did not fit
  bool fits = false;               // so does its program
};

/// Cut alike, with the same layers computed again.
inline bool is_same_plan(const Candidate& a, const Candidate& b) {
  return a.structure == b.structure && a.forecast.first == b.forecast.first &&
         a.forecast.again == b.forecast.again;
}

/// `more`, the same with more layers computed again, if it is there.
Candidate with_more_again(const Candidate& c, std::optional<Candidate> more);

/// One of `others` that differs only in how the states are shared, and was not forecast to take longer, fits.
bool is_like_one_that_fits(const Candidate& c, const std::vector<Candidate>& others);

/// By that forecast; nothing if there is none that surely fits.
Candidate* fastest_untried(std::vector<Candidate>& all, double Forecast::*seconds);

/// What `request` asks, with all that is forecast of `c`: its stages, and what is computed again.
PlanRequest with_candidate(const PlanRequest& request, const Candidate& c, const Graph& graph,
                           const Row& row);

/// What is computed again is not copied to the host: where nothing has to be computed again, something may be faster.
inline bool copies_activations(const Constraints& s) { return s.offload && s.offload->activations > 0; }

class Candidates {
 public:
  /// All must outlive it; a device of `cluster` holds `cap` bytes, and the host for it `host_cap`, if that is said.
  Candidates(Tables& tables, Bounds& bounds, const Cluster& cluster, std::int64_t cap,
             std::optional<std::int64_t> host_cap = {})
      : tables_(tables), bounds_(bounds), cluster_(cluster), cap_(static_cast<double>(cap)) {
    const bool is_usable = cap == usable_bytes(cluster);  // else somebody has said how much of any device
    for (const Cluster& kind : kinds_of(cluster))
      rooms_.push_back(is_usable ? static_cast<double>(usable_bytes(kind)) / cap_ : 1);
    if (host_cap) host_cap_ = static_cast<double>(*host_cap);
  }

  /// No step of a structure that memory holds is shorter, or it surely does not fit.
  struct AtLeast {
    double seconds = 0, bytes = 0;
    bool fits = false;
  };
  /// Nothing of what cannot be split.
  std::optional<AtLeast> at_least(const Constraints& s);
  /// The forecast of `s`, which may not fit; nothing of what cannot be split. `miss`: programs of its kind hold so many times
  /// what was forecast. Of what surely takes `worth` seconds, that is all that is known of its time.
  std::optional<Candidate> forecast(const Constraints& s, double miss = 1,
                                    double worth = std::numeric_limits<double>::infinity());
  /// No step of `s` is shorter, whatever the order of its tasks; nothing of what cannot be split.
  std::optional<double> sure_seconds(const Constraints& s);
  /// With all layers computed again that may be.
  std::optional<Candidate> lightest(const Constraints& s) { return made(s, {0}, Asked{}); }

  /// The same fits with less computed again, which takes no longer.
  bool is_needless(const Constraints& s) const;
  /// Of what does not fit, a few that are forecast to hold least, the lightest first.
  const std::vector<Candidate>& misfits() const { return misfits_; }
  int forecasts() const { return forecasts_; }

 private:
  std::optional<Pieces> again(const Constraints& s, const Pieces& kept,
                              const std::function<std::optional<Pieces>(const Constraints&)>& pieces_of);
  /// What of a forecast is wanted; as ForecastOf has it.
  struct Asked {
    bool only_least = false, must_fit = false;
    double worth = std::numeric_limits<double>::infinity();
  };
  std::optional<Candidate> made(const Constraints& s, const std::vector<double>& caps, Asked asked);
  /// What stages of `s` take, each on its devices; of a cluster of one kind all alike.
  struct Sets {
    Pieces pieces;
    std::optional<Pieces> again;
    std::vector<OfStage> stages;
  };
  /// `is_split`: with how backwards fall apart.
  std::optional<Sets> sets_of(const Constraints& s, bool is_split);
  Candidate within(const Constraints& s, const Sets& sets, double bytes, const Asked& asked);
  std::vector<OfStage> rooms_of(const Constraints& s) const;
  void remember(const Candidate& misfit);

  Tables& tables_;
  Bounds& bounds_;
  const Cluster& cluster_;
  double cap_, host_cap_ = std::numeric_limits<double>::infinity();
  std::vector<double> rooms_;  // by kind of devices, times the memory of the least
  std::map<std::tuple<Constraints, StageKind, bool>, Sets> of_kinds_;
  std::set<Constraints> fit_;       // structures of which a forecast does
  std::vector<Candidate> misfits_;  // that are lightest
  int forecasts_ = 0;
};

}  // namespace shardwright::automatic
