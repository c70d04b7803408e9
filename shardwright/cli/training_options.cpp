#include "shardwright/cli/training_options.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/text.h"
#include "shardwright/cli/asked.h"
#include "shardwright/frontend/graph_step.h"
#include "shardwright/runtime/backend/backend.h"

namespace shardwright {
namespace {

double seconds_of(const Arguments& arguments, const std::string& flag) {
  if (!arguments.has(flag)) return 0;
  const auto seconds = to_number(arguments.text(flag));
  if (!seconds || !(*seconds > 0))
    throw error("{} {}: should be seconds, more than 0", flag, arguments.text(flag));
  return *seconds;
}

std::string best_of(const Arguments& arguments) {
  const std::string best = arguments.text("--keep-best");
  if (best.empty()) return best;
  if (best != "loss" && best != "accuracy") throw error("--keep-best {}: there are loss, accuracy", best);
  for (const char* needed : {"--eval", "--save"})
    if (!arguments.has(needed)) throw error("--keep-best {}: give {}, too", best, needed);
  return best;
}

}  // namespace

TrainingOptions training_options(const Arguments& arguments, const Model& model, const Length& length,
                                 double rate, const Plan& plan) {
  TrainingOptions out;
  out.schedule = arguments.text("--lr-schedule", "constant");
  out.tokens = model.tokens * plan.settings.pipelining.micro_batches;
  const std::string warmup = arguments.text("--warmup");
  out.rates = RateSchedule(out.schedule, warmup, rate,
                           {.steps = length.steps, .steps_per_epoch = length.steps_per_epoch});
  if (!warmup.empty()) out.schedule += " behind a warm-up of " + warmup;
  out.tensorboard = arguments.text("--tensorboard");
  if (arguments.has("--tensorboard") && out.tensorboard.empty()) throw error("--tensorboard: give a folder");
  out.time_limit = seconds_of(arguments, "--time-limit");
  out.waiting = waiting_of(arguments, plan.devices(), arguments.text("--save"));
  out.best = best_of(arguments);
  if (arguments.has("--eval-every") && !arguments.has("--eval"))
    throw error("--eval-every says when to evaluate; give --eval FILE, too");
  out.eval_every = arguments.integer("--eval-every", 0);
  if (!arguments.has("--eval")) return out;
  PlanRequest request{
      .devices = plan.devices(), .cluster = plan.cluster, .formats = default_devices().formats};
  request.parallel = parallel_called(plan.parallel);
  if (request.parallel == Parallel::semi_auto_parallel) request.parallel = Parallel::auto_parallel;
  if (request.parallel == Parallel::auto_parallel) request.search = splitting_search().name;
  out.eval = asked_network(model, arguments.text("--eval"), request);
  check_eval(*out.eval, arguments.text("--eval"));
  if (out.best == "accuracy" && !tells_accuracy(*out.eval))
    throw error("--keep-best accuracy: this network has no classes to be right about; give loss");
  return out;
}

Companion::Companion(const TrainingOptions& options, const SessionStart& start, std::optional<double> best,
                     Reporter& reporter, bool is_first)
    : options_(options), reporter_(reporter), best_(best) {
  if (options.eval) evaluator_.emplace(*options.eval, start, with_waiting({}, options.waiting));
  if (is_first && !options.tensorboard.empty()) events_.emplace(options.tensorboard);
}

void Companion::before(Session& session, std::int64_t step) {
  if (options_.rates.is_constant()) return;
  set_rate(session, options_.rates.at(step));
}

void Companion::behind(const Told& told, std::int64_t step, double seconds, const Session& session) {
  if (options_.tensorboard.empty()) return;
  const double norm = to_doubles(session.get(norm_state)).front();  // all processes ask
  if (!events_) return;
  std::vector<std::pair<std::string, double>> scalars{
      {"loss", told.loss}, {"learning_rate", options_.rates.at(step)}, {"step_seconds", seconds}};
  for (const auto& other : told.others) scalars.push_back(other);
  if (options_.tokens > 0)
    scalars.emplace_back("tokens_per_second", static_cast<double>(options_.tokens) / seconds);
  scalars.emplace_back("gradient_norm", norm);
  scalars.emplace_back("arena_bytes", static_cast<double>(session.statistics().arena_bytes));
  tell_events(step, scalars);
}

/// What cannot be written is told once: it is no reason to lose a training.
void Companion::tell_events(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  if (!events_) return;
  try {
    events_->write(step, scalars);
  } catch (const Error& e) {
    reporter_.told(fmt::format("--tensorboard: {}; nothing more is written there", e.what()));
    events_.reset();
  }
}

bool Companion::evaluate(const Session& session, std::int64_t steps, bool is_end) {
  if (!evaluator_ || steps == evaluated_) return false;
  if (!is_end && (options_.eval_every == 0 || steps % options_.eval_every != 0)) return false;
  evaluated_ = steps;
  const Evaluated e = (*evaluator_)(session, steps);
  reporter_.evaluated(e);
  if (events_) {
    std::vector<std::pair<std::string, double>> scalars{{"eval/loss", e.loss}};
    if (e.accuracy) scalars.emplace_back("eval/accuracy", *e.accuracy);
    if (e.perplexity) scalars.emplace_back("eval/perplexity", *e.perplexity);
    tell_events(steps, scalars);
  }
  if (options_.best.empty()) return false;
  const bool is_better = options_.best == "loss" ? e.loss < best_.value_or(INFINITY)
                                                 : e.accuracy.value_or(0) > best_.value_or(-1);
  if (is_better) best_ = options_.best == "loss" ? e.loss : *e.accuracy;
  return is_better;
}

bool Companion::is_late() const {
  const std::chrono::duration<double> gone = std::chrono::steady_clock::now() - start_;
  return options_.time_limit > 0 && gone.count() >= options_.time_limit;
}

bool is_recorded(std::int64_t step, std::int64_t first, std::int64_t steps, bool compares) {
  const std::int64_t begin = first + std::clamp<std::int64_t>(steps - first - 2, 0, 3);
  return step >= begin && step < begin + (compares ? 8 : 2);
}

}  // namespace shardwright
