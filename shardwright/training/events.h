// What a training tells while it goes on, as data: a command prints it, a page draws it, code decides by it.
//
// In their order: began, then of each step begins, (not_finite or spiked), done, (checked), (evaluated), (saved), at last ended. What goes wrong
// beside the training and does not end it comes in between.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shardwright/runtime/checkpoint/saver.h"
#include "shardwright/training/evaluation.h"
#include "shardwright/training/told.h"

namespace shardwright {

/// All that it begins with is set, and `first` steps have been done before.
struct TrainingBegan {
  std::int64_t first = 0;
  std::int64_t steps = 0;  // to be done, with those before
};

struct StepBegins {
  std::int64_t step = 0;
};

struct StepDone {
  std::int64_t step = 0;
  Told told;                           // before the update
  double seconds = 0;                  // from the batch in memory to the loss read
  std::optional<double> rate = {};     // where it differs from step to step
  std::int64_t tokens = 0;             // 0: no sequences
  std::optional<ScaledBy> scale = {};  // where losses are scaled
};

/// The first loss of the run that is none.
struct LossNotFinite {
  std::int64_t step = 0;
  double loss = 0;
  std::string infinity;                   // where the step's batch holds one: `'input' holds inf at [0, 3]`
  std::optional<Session::Odd> made = {};  // by what, as far as that is known
};

/// A loss that is many times what losses were; told where such begin.
struct LossSpiked {
  std::int64_t step = 0;
  double loss = 0, usual = 0;  // the median of those before
};

/// `check_replicas` and `deterministic_check` have looked behind a step, and all is well.
struct StateChecked {
  std::int64_t step = 0;
  std::int64_t values = 0;  // that several ranks hold
  double seconds = 0;
  bool was_run_twice = false;  // with the same bits
};

/// What cannot be written beside the training is told once: it is no reason to lose that.
struct NotWritten {
  std::string what;  // `--tensorboard`, as the option is called
  std::string why;
};

/// A checkpoint is damaged, and an earlier one is looked for; or it lacks what starts anew.
struct CheckpointNotice {
  std::string text;
};

enum class EndedBy { steps, none_left, time_limit, interrupt, request };

struct TrainingEnded {
  EndedBy by = EndedBy::steps;
  std::int64_t first = 0;  // step that ran here
  std::int64_t steps = 0;  // done, with those before
  bool has_run() const { return steps > first; }
};

using TrainingEvent =
    std::variant<TrainingBegan, StepBegins, StepDone, LossNotFinite, LossSpiked, StateChecked, Evaluated,
                 Saved, NotWritten, CheckpointNotice, TrainingEnded>;

/// What shall become of the training: it goes on, or ends behind this step, as after an interrupt.
enum class Then { goes_on, ends };
using OnEvent = std::function<Then(const TrainingEvent&)>;

/// A function of each kind of event: `visit(Each{[](const StepDone& s) {...}, [](const auto&) {}}, event)`.
template <class... F>
struct Each : F... {
  using F::operator()...;
};
template <class... F>
Each(F...) -> Each<F...>;

}  // namespace shardwright
