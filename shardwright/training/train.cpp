#include "shardwright/training/train.h"

#include <chrono>
#include <cmath>
#include <utility>

#include "shardwright/base/progress.h"
#include "shardwright/training/beside.h"
#include "shardwright/training/finite.h"
#include "shardwright/training/spikes.h"
#include "shardwright/training/state_checks.h"

namespace shardwright {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

/// Of one run; all that a step needs.
class Loop {
 public:
  Loop(Session& session, const TrainingData& data, const TrainingOptions& options, CheckpointPlans& plans,
       const OnEvent& on_event)
      : session_(session), data_(data), options_(options), on_event_(on_event), state_(options.run) {
    const RunState* const resumed = plans.resumed();
    // What was best in loss says nothing of accuracy.
    const bool has_best = resumed && resumed->best_of == options.keep_best;
    const auto tell_it = [this](const TrainingEvent& event) { tell(event); };
    beside_.emplace(options, session, has_best ? resumed->best : std::nullopt, tell_it);
    saving_.emplace(session, plans, options.plan, tell_it);
    state_.best = beside_->best();
    state_.best_of = options.keep_best;
    if (!plans.folder.empty() || options.copy) state_.frozen = sample_of_frozen(session);
  }

  TrainingEnded run(std::int64_t first) {
    checks_.emplace(session_, options_, first);
    tell(TrainingBegan{.first = first, .steps = options_.length.steps});
    TrainingEnded out{.first = first, .steps = first};
    for (;;) {
      if (const auto by = end_of(out.steps)) {
        out.by = *by == EndedBy::steps && !out.has_run() ? EndedBy::none_left : *by;
        break;
      }
      is_recorded_ = is_recorded(out.steps, first, options_.length.steps, options_.recording);
      session_.record(is_recorded_);
      tell(StepBegins{out.steps});
      step(out.steps);
      state_.step = ++out.steps;
      const bool is_best = beside_->evaluate(session_, out.steps, false);
      state_.best = beside_->best();
      saving_->behind(state_, is_best);
      if (options_.copy) options_.copy(state_);
    }
    state_.step = out.steps;
    if (out.by != EndedBy::interrupt && beside_->evaluate(session_, out.steps, true)) {
      state_.best = beside_->best();
      saving_->behind(state_, true);
    }
    const Doing doing(options_.progress, "saving");
    saving_->end(state_);
    return out;
  }

 private:
  void tell(const TrainingEvent& event) {
    if (on_event_ && on_event_(event) == Then::ends) is_asked_to_end_ = true;
  }

  /// An interrupt, or the end of the time, ends it behind the step that runs, on all ranks behind the same one.
  std::optional<EndedBy> end_of(std::int64_t steps) {
    const bool is_interrupted = options_.is_interrupted && options_.is_interrupted();
    if (session_.any(is_interrupted || is_asked_to_end_))  // which of the two, all have to know
      return session_.any(is_interrupted) ? EndedBy::interrupt : EndedBy::request;
    if (steps >= options_.length.steps) return EndedBy::steps;
    if (options_.time_limit > 0 && session_.any(seconds_since(start_) >= options_.time_limit))
      return EndedBy::time_limit;
    return std::nullopt;
  }

  std::vector<Tensor> outputs_of(const StepBatch& batch, std::int64_t step) try {
    return options_.step ? options_.step(batch) : session_.step(batch);
  } catch (const Error& e) {
    if (!options_.stop || !*options_.stop) throw;
    throw Error(fmt::format("interrupted: stopped within step {}; {}", step, saving_->saved_text()),
                e.kind());
  }

  /// One step, told.
  void step(std::int64_t step) {
    const StepBatch batch = data_.batch(step);
    session_.set_next_step(step);
    const RateSchedule& rates = options_.rates;
    if (!rates.is_constant()) set_rate(session_, rates.at(step));
    const auto start = Clock::now();
    const bool is_checked = checks_->looks_at(step);
    const auto run = [&] { return outputs_of(batch, step); };
    StepDone done{.step = step,
                  .told = told_by(session_, is_checked && options_.deterministic_check
                                                ? checks_->twice(step, is_recorded_, run)
                                                : run()),
                  .tokens = options_.tokens};
    if (!std::isfinite(done.told.loss) && !std::exchange(has_warned_, true))
      tell(LossNotFinite{step, done.told.loss, infinity_in(batch),
                         options_.step ? std::nullopt : session_.odd_value()});
    if (const auto usual = spikes_.look(done.told.loss)) tell(LossSpiked{step, done.told.loss, *usual});
    done.seconds = seconds_since(start);
    done.scale = scale_.look(session_);
    if (!rates.is_constant()) done.rate = rates.at(step);
    tell(done);
    if (is_checked) tell(checks_->look(step));
    beside_->behind(done, session_);
  }

  Session& session_;
  const TrainingData& data_;
  const TrainingOptions& options_;
  const OnEvent& on_event_;
  RunState state_;
  ScaleWatch scale_{session_.pipeline()};
  std::optional<Beside> beside_;
  std::optional<Saving> saving_;
  Clock::time_point start_ = Clock::now();
  std::optional<StateChecks> checks_;
  SpikeWatch spikes_;
  bool has_warned_ = false;
  bool is_recorded_ = false;  // the step
  bool is_asked_to_end_ = false;
};

}  // namespace

void check(const TrainingOptions& options, const CheckpointPlans& checkpoints) {
  const auto flag = [&](std::string_view name) { return called(options.door, name); };
  if (options.length.steps < 0)
    throw error("{} {}: should be a number from 0 on", flag("--steps"), options.length.steps);
  if (!(options.time_limit >= 0) || std::isinf(options.time_limit))
    throw error("{} {}: should be seconds, more than 0", flag("--time-limit"), options.time_limit);
  if (options.eval_every < 0)
    throw error("{} {}: should be a number from 1 on", flag("--eval-every"), options.eval_every);
  if (options.eval_every > 0 && !options.evaluate)
    throw error("{} says when to evaluate; give {}, too", flag("--eval-every"),
                options.door == Door::command ? "--eval FILE" : "evaluate");
  const std::string& best = options.keep_best;
  if (best.empty()) return;
  if (best != "loss" && best != "accuracy")
    throw error("{} {}: there are loss, accuracy", flag("--keep-best"), best);
  const std::string eval = options.door == Door::command ? "--eval" : "evaluate";
  if (!options.evaluate) throw error("{} {}: give {}, too", flag("--keep-best"), best, eval);
  if (checkpoints.folder.empty())
    throw error("{} {}: give {}, too", flag("--keep-best"), best, flag("--save"));
}

TrainingEnded train(Session& session, const TrainingData& data, TrainingOptions options,
                    CheckpointPlans& checkpoints, const OnEvent& on_event) {
  check(options, checkpoints);
  const auto tell = [&](const TrainingEvent& event) { return on_event ? on_event(event) : Then::goes_on; };
  std::int64_t first = options.first;
  if (checkpoints.init || !checkpoints.resume.empty()) {
    const Doing doing(options.progress, "reading the checkpoint");
    const std::int64_t before =
        restore(session, checkpoints, [&](std::string text) { tell(CheckpointNotice{std::move(text)}); });
    if (checkpoints.resumed()) first = before;
  }
  const TrainingEnded ended = Loop(session, data, options, checkpoints, on_event).run(first);
  tell(ended);
  return ended;
}

bool is_recorded(std::int64_t step, std::int64_t first, std::int64_t steps, Recording recording) {
  if (recording == Recording::none) return false;
  const std::int64_t begin = first + std::clamp<std::int64_t>(steps - first - 2, 0, 3);
  return step >= begin && step < begin + (recording == Recording::eight ? 8 : 2);
}

}  // namespace shardwright
