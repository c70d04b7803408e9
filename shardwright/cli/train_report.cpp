#include "shardwright/cli/train_report.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <numeric>
#include <ostream>

#include "shardwright/autodiff/train_step.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/table.h"
#include "shardwright/graph/op.h"

namespace shardwright {

Reporter::Reporter(const Arguments& arguments, const Length& length, BatchSize batch, Terminal& terminal)
    : length_(length),
      batch_(std::move(batch)),
      terminal_(terminal),
      is_json_(arguments.is_on("--json")),
      every_(arguments.integer("--log-every", is_json_ || length.steps <= 20 ? 1 : 10)),
      progress_(arguments.progress) {}

void Reporter::suspect(std::string source, std::string infinite_parameter) {
  source_ = std::move(source);
  infinite_parameter_ = std::move(infinite_parameter);
}

void Reporter::tell(const TrainingEvent& event) {
  std::visit(Each{[&](const StepBegins&) { begin(); }, [&](const StepDone& e) { step(e); },
                  [&](const Evaluated& e) { evaluated(e); }, [&](const Saved& e) { saved(e); },
                  [&](const LossNotFinite& e) { not_finite(e); }, [&](const LossSpiked& e) { spiked(e); },
                  [&](const StateChecked& e) { checked(e); },
                  [&](const NotWritten& e) {
                    terminal_.err << e.what << ": " << e.why << "; nothing more is written there\n"
                                  << std::flush;
                  },
                  [&](const CheckpointNotice& e) { terminal_.err << e.text << "\n"; }, [](const auto&) {}},
             event);
}

void Reporter::tell_progress(const StepDone& done) {
  if (!progress_) return;
  if (!doing_) doing_ = std::make_unique<Doing>(progress_, "step", length_.steps, done.step);
  doing_->tell(done.step + 1, [&] {
    const std::string rate =
        batch_.count > 0
            ? fmt::format(", {:.4g} {}/s", static_cast<double>(batch_.count) / done.seconds, batch_.unit)
            : "";
    return fmt::format("loss {:.4g}{}", done.told.loss, rate);
  });
}

/// What to look at: the learning rate only if it has changed anything yet.
void Reporter::not_finite(const LossNotFinite& e) {
  std::string cause = "try a lower --lr";
  if (e.step == 0) cause = "nothing has been updated yet, so the data or the initial values are too large";
  if (!infinite_parameter_.empty()) cause = infinite_parameter_;
  if (!e.infinity.empty())
    cause = fmt::format("{}{}{} in this step", source_, source_.empty() ? "" : ": ", e.infinity);
  const std::string made = e.made ? fmt::format("first made by {}; ", e.made->text) : "";
  terminal_.err << fmt::format("the loss of step {} is {} (null in JSON): {}{}\n", e.step, e.loss, made,
                               cause);
  if (!is_json_) return;
  nlohmann::ordered_json line{{"step", e.step}};
  if (e.made)
    line.update({{"node", e.made->node},
                 {"rank", e.made->rank},
                 {"micro_batch", e.made->micro_batch},
                 {"made_by", e.made->text}});
  terminal_.out << nlohmann::ordered_json{{"not_finite", line}}.dump() << "\n";
}

void Reporter::spiked(const LossSpiked& e) {
  if (is_json_)
    terminal_.out
        << nlohmann::ordered_json{{"spike", {{"step", e.step}, {"loss", e.loss}, {"median", e.usual}}}}.dump()
        << "\n";
  terminal_.err << fmt::format(
      "the loss of step {} is {:.6g}, {:.3g} times the median of those before, {:.6g}\n", e.step, e.loss,
      e.loss / e.usual, e.usual);
}

void Reporter::checked(const StateChecked& e) {
  if (is_json_)
    terminal_.out << nlohmann::ordered_json{{"checked",
                                             {{"step", e.step},
                                              {"replicated_values", e.values},
                                              {"run_twice", e.was_run_twice},
                                              {"seconds", e.seconds}}}}
                         .dump()
                  << "\n";
  else if (e.was_run_twice)
    terminal_.err << fmt::format(
        "step {}: run twice from the same state, it gives the same bits on all ranks\n", e.step);
}

void Reporter::evaluated(const Evaluated& e) {
  if (is_json_) {
    nlohmann::ordered_json line{{"step", e.step}, {"loss", e.loss}};
    if (e.accuracy) line["accuracy"] = *e.accuracy;
    if (e.perplexity) line["perplexity"] = *e.perplexity;
    line["samples"] = e.samples;
    line["seconds"] = e.seconds;
    terminal_.out << nlohmann::ordered_json{{"eval", line}}.dump() << "\n" << std::flush;
    return;
  }
  terminal_.out << fmt::format("after step {}, on {} held-out samples: loss is {:.6g}", e.step, e.samples,
                               e.loss);
  if (e.accuracy) terminal_.out << fmt::format(", accuracy is {:.4g}", *e.accuracy);
  if (e.perplexity) terminal_.out << fmt::format(", perplexity is {:.4g}", *e.perplexity);
  terminal_.out << "\n" << std::flush;
}

void Reporter::step(const StepDone& done) {
  cpu_seconds_ += static_cast<double>(std::clock() - clock_at_begin_) / CLOCKS_PER_SEC;
  seconds_.push_back(done.seconds);
  steps_.push_back(done.step);
  losses_.push_back(done.told.loss);
  print_step(done);
  tell_progress(done);
}

void Reporter::print_step(const StepDone& done) {
  const bool has_skipped = done.scale && done.scale->has_skipped;
  if (has_skipped)
    terminal_.err << fmt::format(
        "step {}: gradients have overflowed and nothing was updated; the loss scale is {} now\n", done.step,
        done.scale->scale);
  if (done.step % every_ != 0 && done.step + 1 != length_.steps) return;
  if (is_json_) {
    nlohmann::ordered_json line{{"step", done.step}, {"loss", done.told.loss}};
    for (const auto& [name, value] : done.told.others) line[name] = value;
    if (done.scale) line["loss_scale"] = done.scale->scale;
    if (has_skipped) line["skipped"] = true;
    if (done.rate) line["lr"] = *done.rate;
    if (done.tokens > 0) line["tokens_per_second"] = static_cast<double>(done.tokens) / done.seconds;
    terminal_.out << line.dump() << "\n" << std::flush;
    return;
  }
  const std::int64_t epoch = length_.steps_per_epoch ? done.step / length_.steps_per_epoch : 0;
  const std::int64_t in_epoch = length_.steps_per_epoch ? done.step % length_.steps_per_epoch : done.step;
  terminal_.out << fmt::format("epoch: {}, step: {}, loss is {:.8g}", epoch, in_epoch, done.told.loss);
  for (const auto& [name, value] : done.told.others)
    terminal_.out << fmt::format(", {} is {:.4g}", name, value);
  terminal_.out << "\n" << std::flush;
}

void Reporter::saved(const Saved& saved) {
  if (saved.failure.empty()) last_saved_ = saved.folder;
  if (!saved.failure.empty()) {
    terminal_.err << fmt::format("{} is not saved: {}\n", saved.folder, saved.failure);
  } else if (is_json_) {
    terminal_.out << nlohmann::ordered_json{{"checkpoint", saved.folder},
                                            {"step", saved.step},
                                            {"bytes", saved.bytes},
                                            {"seconds", saved.seconds},
                                            {"pause_seconds", saved.pause_seconds}}
                         .dump()
                  << "\n"
                  << std::flush;
  } else {
    terminal_.err << fmt::format("saved {}: {} in {:.3g} s, of which training waited {:.3g} s\n",
                                 saved.folder, bytes_text(saved.bytes), saved.seconds, saved.pause_seconds);
  }
}

void Reporter::has_none_left(std::int64_t steps, bool has_page) const {
  terminal_.err << fmt::format("{} of {} steps have been done before; none is left{}\n", steps, length_.steps,
                               has_page ? ", and --html has nothing to show" : "");
}

void Reporter::late(std::int64_t steps) const {
  terminal_.err << fmt::format("--time-limit: stopped after {} of {} steps\n", steps, length_.steps);
}

std::string Reporter::saved_text() const {
  return last_saved_.empty() ? "nothing is saved" : fmt::format("saved in {}", last_saved_);
}

void Reporter::interrupted(std::int64_t steps) const {
  terminal_.err << fmt::format("shardwright: interrupted: stopped {}; {}\n",
                               steps == 0 ? "before the first step" : fmt::format("after step {}", steps - 1),
                               saved_text());
}

void Reporter::summary(const Session& session, const MemoryMarks& memory, const Recorded& recorded,
                       const std::string& misfit) {
  const std::optional<TraceFigures>& traced = recorded.figures;
  const SessionStatistics& s = session.statistics();
  const int devices = session.pipeline().rank_count();
  if (is_json_) {
    nlohmann::ordered_json summary{
        {"steps", seconds_.size()},
        {"devices", devices},
        {"median_step_seconds", median_seconds()},
        {"arena_bytes_per_device", s.arena_bytes},
        {"collectives_per_step", s.collectives_per_step},
        {"bytes_communicated_per_step", s.bytes_communicated_per_step},
        {"peak_memory_bytes",
         {{"planned", memory.planned}, {"measured", memory.measured}, {"processes", memory.processes}}}};
    if (traced) {
      summary["exposed_communication_seconds"] = traced->exposed_communication_seconds;
      summary["bubble_fraction"] = traced->bubble_fraction;
    }
    if (recorded.routing_imbalance) summary["routing_imbalance"] = *recorded.routing_imbalance;
    if (recorded.comparison) summary["compare_plan"] = json_of(*recorded.comparison);
    terminal_.out << nlohmann::ordered_json{{"summary", summary}}.dump() << "\n";
    terminal_.err << misfit;
    return;
  }
  terminal_.out << fmt::format(
      "{} steps on {} device{}, {:.3g} ms a step, {} in each device's arena, {} received a step\n",
      seconds_.size(), devices, devices == 1 ? "" : "s", median_seconds() * 1e3, bytes_text(s.arena_bytes),
      bytes_text(s.bytes_communicated_per_step));
  if (recorded.routing_imbalance)
    terminal_.out << fmt::format(
        "experts: in the last step the busiest device had {:.3g} times the mean of what routers give them "
        "(--routing-imbalance)\n",
        *recorded.routing_imbalance);
  if (traced)
    terminal_.out << fmt::format(
        "traced: {:.3g} ms of a step is communication that is waited for, {} is bubble\n",
        traced->exposed_communication_seconds * 1e3, percent_text(traced->bubble_fraction, 1));
  if (recorded.comparison && recorded.is_asked) terminal_.err << table_of(*recorded.comparison);
  terminal_.out << misfit;
}

TrainedRun Reporter::run(bool is_interrupted) const {
  const double all = std::accumulate(seconds_.begin(), seconds_.end(), 0.0);
  return {.steps = steps_,
          .losses = losses_,
          .median_step_seconds = median_seconds(),
          .is_interrupted = is_interrupted,
          .used_cores = all > 0 ? cpu_seconds_ / all : 0};
}

/// The first 3 steps warm caches and are left out.
double Reporter::median_seconds() const {
  std::vector<double> s(
      seconds_.begin() + std::min<std::ptrdiff_t>(3, static_cast<std::ptrdiff_t>(seconds_.size()) - 1),
      seconds_.end());
  std::nth_element(s.begin(), s.begin() + static_cast<std::ptrdiff_t>(s.size() / 2), s.end());
  return s[s.size() / 2];
}

}  // namespace shardwright
