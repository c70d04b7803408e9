#include "shardwright/training/beside.h"

#include <algorithm>
#include <cmath>

#include "shardwright/autodiff/train_step.h"

namespace shardwright {

Beside::Beside(const TrainingOptions& options, const Session& session, std::optional<double> best, Tell tell)
    : options_(options), tell_(std::move(tell)), best_(best) {
  has_norm_ = std::ranges::any_of(session.kept().all(), [](const Kept& k) { return k.name == norm_state; });
  const bool is_first = session.ranks().front() == 0;
  if (is_first && !options.tensorboard.empty()) events_.emplace(options.tensorboard);
}

void Beside::behind(const StepDone& step, const Session& session) {
  if (options_.tensorboard.empty()) return;
  std::optional<double> norm;
  if (has_norm_) norm = to_doubles(session.get(norm_state)).front();  // all processes ask
  if (!events_) return;
  std::vector<std::pair<std::string, double>> scalars{{"loss", step.told.loss},
                                                      {"learning_rate", options_.rates.at(step.step)},
                                                      {"step_seconds", step.seconds}};
  for (const auto& other : step.told.others) scalars.push_back(other);
  if (options_.tokens > 0)
    scalars.emplace_back("tokens_per_second", static_cast<double>(options_.tokens) / step.seconds);
  if (norm) scalars.emplace_back("gradient_norm", *norm);
  scalars.emplace_back("arena_bytes", static_cast<double>(session.statistics().arena_bytes));
  write(step.step, scalars);
}

void Beside::write(std::int64_t step, const std::vector<std::pair<std::string, double>>& scalars) {
  if (!events_) return;
  try {
    events_->write(step, scalars);
  } catch (const Error& e) {
    tell_(NotWritten{called(options_.door, "--tensorboard"), e.what()});
    events_.reset();
  }
}

bool Beside::evaluate(const Session& session, std::int64_t steps, bool is_end) {
  if (!options_.evaluate || steps == evaluated_) return false;
  if (!is_end && (options_.eval_every == 0 || steps % options_.eval_every != 0)) return false;
  evaluated_ = steps;
  Evaluated e = options_.evaluate(session, steps);
  e.step = steps;
  tell_(e);
  std::vector<std::pair<std::string, double>> scalars{{"eval/loss", e.loss}};
  if (e.accuracy) scalars.emplace_back("eval/accuracy", *e.accuracy);
  if (e.perplexity) scalars.emplace_back("eval/perplexity", *e.perplexity);
  write(steps, scalars);
  if (options_.keep_best.empty()) return false;
  if (options_.keep_best == "accuracy" && !e.accuracy)
    throw error("{} accuracy: what evaluates tells none; give loss", called(options_.door, "--keep-best"));
  const bool is_better =
      options_.keep_best == "loss" ? e.loss < best_.value_or(INFINITY) : *e.accuracy > best_.value_or(-1);
  if (is_better) best_ = options_.keep_best == "loss" ? e.loss : *e.accuracy;
  return is_better;
}

}  // namespace shardwright
