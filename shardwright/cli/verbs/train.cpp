#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdlib>
#include <limits>
#include <optional>
#include <ostream>
#include <sstream>
#include <utility>

#include "shardwright/base/file.h"
#include "shardwright/cli/agreements.h"
#include "shardwright/cli/checkpoints.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/plan_report.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/run_page.h"
#include "shardwright/cli/strategies.h"
#include "shardwright/cli/train_report.h"
#include "shardwright/cli/training_data.h"
#include "shardwright/cli/training_options.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/frontend/memory_limit.h"
#include "shardwright/frontend/report.h"
#include "shardwright/frontend/table.h"
#include "shardwright/runtime/comparison.h"
#include "shardwright/runtime/host_memory.h"
#include "shardwright/runtime/launcher.h"
#include "shardwright/runtime/session.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright::verbs {
namespace {

Length length_of(const Arguments& arguments, const TrainingData& data) {
  const std::int64_t per_epoch = data.batches_per_epoch;
  const bool is_endless = arguments.has("--epochs") && per_epoch == 0;
  if (is_endless && !arguments.of_config.contains("--epochs"))
    throw error("--epochs: synthetic data has no end; use --steps");
  if (is_endless) arguments.idle("--epochs", "synthetic data has no end");
  if (is_endless || !arguments.has("--epochs")) return {arguments.integer("--steps", 20), per_epoch};
  std::int64_t of_epochs = 0;
  if (__builtin_mul_overflow(arguments.integer("--epochs", 1), per_epoch, &of_epochs))
    of_epochs = std::numeric_limits<std::int64_t>::max();
  return {std::min(arguments.integer("--steps", of_epochs), of_epochs), per_epoch};  // what ends first
}

/// What to look at when a loss is not finite: the learning rate only if it has changed anything yet.
std::string likely_cause(const TrainingData& data, const std::map<std::string, Tensor>& batch,
                         const std::string& infinite_parameter, std::int64_t step) {
  if (const std::string infinity = infinity_in(batch); !infinity.empty())
    return fmt::format("{}{}{} in this step", data.source, data.source.empty() ? "" : ": ", infinity);
  if (!infinite_parameter.empty()) return infinite_parameter;
  if (step == 0) return "nothing has been updated yet, so the data or the initial values are too large";
  return "try a lower --lr";
}

/// All that is known before ranks start. Every rank of an MPI run works it out for itself; the first proves it.
struct Training {
  TrainingData data;
  Length length;
  std::map<std::string, InitialValue> initial;
  Pipeline program;
  ScaleWatch scale;
  Reporter reporter;
  CheckpointPlans checkpoints;
  TrainingOptions options;
  RunState run;      // but for the step
  std::string plan;  // as JSON
  std::string trace_path;
  Cluster cluster;                 // that the plan is for
  bool compares = false;           // with what was predicted for it
  std::string infinite_parameter;  // of --init, and where
  std::string misfit;              // a line, if the plan is too large for the devices that it is for
  std::optional<RunPage> page;
  Progress* progress = nullptr;
};

Training prepare(const Arguments& arguments, std::optional<FolderLock> lock, Terminal& terminal) {
  std::ostringstream notices;  // told once nothing can be wrong any more
  CheckpointPlans checkpoints = checkpoint_plans(arguments, std::move(lock), notices);
  const std::uint64_t seed = seed_of(arguments, checkpoints);
  arguments.heed("--save-strategy");
  if (is_first_rank()) {  // before a long search
    require_strategies_writable(arguments);
    require_page_writable(arguments);
  }
  Model model = model_to_plan(arguments, true, terminal);
  const OptimizerChoice optimizer = optimizer_of(arguments, model);
  add_train_step(model.graph, model.loss, optimizer);
  const Plan plan = plan_of(arguments, model, model.graph, terminal);
  const char* data_path = std::getenv("DATA_PATH");
  for (const std::string& notice : model.notices) notices << notice << "\n";
  TrainingData data = training_data(model, plan.settings.pipelining.micro_batches, arguments.text("--data"),
                                    data_path ? data_path : "", seed, notices);
  const Length length = length_of(arguments, data);
  TrainingOptions options =
      training_options(arguments, model, length, optimizer.attributes.number("rate", 0), plan);
  std::map<std::string, InitialValue> initial = std::move(model.initial);
  std::string infinite_parameter;
  if (arguments.has("--init") && !checkpoints.init) {
    auto parameters = initial_parameters(model.graph, arguments.text("--init"));
    if (const std::string infinity = infinity_in(parameters); !infinity.empty())
      infinite_parameter = fmt::format("{}: {}", arguments.text("--init"), infinity);
    for (auto& [name, value] : parameters) initial[name] = [value = std::move(value)] { return value; };
  }

  const BatchSize batch = batch_size_of(model.graph, plan, model.tokens);
  check_batch(checkpoints, data.samples);
  tell_changes(checkpoints, model.name, plan.origin, options.schedule, notices);

  const std::string trace_path = arguments.text("--trace");
  const bool compares = arguments.is_on("--compare-plan");
  Reporter reporter(arguments, length, batch, terminal);
  Pipeline program = compiled(arguments, model.graph, plan);
  require_host_memory(program);  // the proof may take as long
  ScaleWatch scale(program);
  const Evaluation expected = own_evaluation_of(arguments, program, plan.cluster);
  const std::string misfit = misfit_notice(expected, plan.cluster);
  notices << misfit;  // now, and when it has run
  if (arguments.has("--json")) tell_assumed(arguments, model);
  const ReportStyle style = arguments.has("--json") ? ReportStyle{} : style_of(arguments, terminal);
  const bool has_page = !arguments.text("--html").empty();
  arguments.check_heeded(terminal.err);
  tell_if_long(program.rank_count(), "devices", "is a thread here", terminal);
  if (is_first_rank()) {
    if (!trace_path.empty()) require_writable(trace_path);
    proven(arguments, program);
    save_strategies(arguments, model.graph, plan, program, terminal);
  }
  terminal.err << notices.str();
  std::optional<RunPage> page;
  if (!arguments.has("--json") || has_page) {
    StepReport told = step_report(model.graph, plan, expected, batch, assumed_in(arguments, model));
    if (!arguments.has("--json")) terminal.out << to_text(told, style) << std::flush;
    if (has_page) page.emplace(arguments, plan, expected, std::move(told), batch);
  }
  const RunState run{
      .model = model.name, .step = 0, .seed = seed, .samples = data.samples, .schedule = options.schedule};
  return {std::move(data),
          length,
          std::move(initial),
          std::move(program),
          std::move(scale),
          std::move(reporter),
          std::move(checkpoints),
          std::move(options),
          run,
          to_json(plan),
          trace_path,
          plan.cluster,
          compares,
          std::move(infinite_parameter),
          misfit,
          std::move(page),
          arguments.progress};
}

/// One step, told. Throws: what the session throws; after a second interrupt, that this step was stopped.
void run_step(Session& session, Training& training, std::int64_t step, bool& has_warned, Companion& companion,
              Terminal& terminal) {
  const auto batch = training.data.batch(step);
  companion.before(session, step);
  const auto start = std::chrono::steady_clock::now();
  Told told;
  try {
    told = told_by(session, session.step(batch));
  } catch (const Error& e) {
    if (!stops_at_once()) throw;
    throw Error(fmt::format("interrupted: stopped within step {}; {}", step, training.reporter.saved_text()),
                e.kind());
  }
  if (!std::isfinite(told.loss) && !std::exchange(has_warned, true))
    terminal.err << fmt::format("the loss of step {} is {} (null in JSON): {}\n", step, told.loss,
                                likely_cause(training.data, batch, training.infinite_parameter, step));
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  training.scale.look(session);
  const RateSchedule& rates = training.options.rates;
  training.reporter.step(step, told, training.scale, seconds,
                         rates.is_constant() ? std::nullopt : std::optional(rates.at(step)),
                         training.options.tokens);
  companion.behind(told, step, seconds, session);
}

/// How a run ended, and how many steps have been done, with those before.
struct Run {
  std::int64_t first = 0;  // step that runs here
  std::int64_t steps = 0;
  bool is_interrupted = false, is_late = false;
};

/// An interrupt, or the end of the time, ends it behind the step that runs, on all ranks behind the same one.
Run run_steps(Session& session, Training& training, const SessionStart& start, std::int64_t first,
              Terminal& terminal) {
  const Patience patience(2);
  const RunState* const resumed = training.checkpoints.resumed();
  // What was best in loss says nothing of accuracy.
  const bool has_best = resumed && resumed->best_of == training.options.best;
  Companion companion(training.options, start, has_best ? resumed->best : std::nullopt, training.reporter,
                      is_first_rank());
  Saving saving(session, training.checkpoints, training.plan, training.reporter);
  Run out{.first = first, .steps = first};
  RunState& state = training.run;
  state.best = companion.best();
  state.best_of = training.options.best;
  bool has_warned = false;
  for (;;) {
    out.is_interrupted = session.any(interrupts() > 0);
    out.is_late = training.options.time_limit > 0 && session.any(companion.is_late());
    if (out.is_interrupted || out.is_late || out.steps >= training.length.steps) break;
    session.record((!training.trace_path.empty() || training.compares) &&
                   is_recorded(out.steps, first, training.length.steps, training.compares));
    step_begins(out.steps);
    run_step(session, training, out.steps, has_warned, companion, terminal);
    step_ends();
    state.step = ++out.steps;
    const bool is_best = companion.evaluate(session, out.steps, false);
    state.best = companion.best();
    saving.behind(state, is_best);
  }
  state.step = out.steps;
  if (!out.is_interrupted && companion.evaluate(session, out.steps, true)) {
    state.best = companion.best();
    saving.behind(state, true);
  }
  const Doing doing(training.progress, "saving");
  saving.end(state);
  return out;
}

void tell_figures(Session& session, Training& training) {
  const MemoryMarks memory = session.memory_marks();
  Recorded recorded;
  if (!training.trace_path.empty() || training.compares) {
    const StepTrace trace = session.trace();
    if (!training.trace_path.empty()) {
      recorded.figures = figures_of(session.pipeline(), trace);
      if (is_first_rank())
        write_trace(training.trace_path, {session.pipeline(), training.cluster, trace, memory});
    }
    if (training.compares && is_first_rank())
      recorded.comparison = compared(session.pipeline(), training.cluster, trace);
  }
  training.reporter.summary(session, memory, recorded, training.misfit);
}

/// Sets what training begins with. Returns the first step.
std::int64_t begin(Session& session, Training& training, Terminal& terminal) {
  const bool is_read = training.checkpoints.init || !training.checkpoints.resume.empty();
  const Doing doing(training.progress, is_read ? "reading the checkpoint" : "setting initial values");
  for (const auto& [name, value] : training.initial) session.set(name, value());
  return restore(session, training.checkpoints, terminal.err);
}

int train_with(Session& session, Training& training, const SessionStart& start, Terminal& terminal) {
  const std::int64_t first = begin(session, training, terminal);
  const Run run = run_steps(session, training, start, first, terminal);
  if (run.steps == run.first && !run.is_interrupted && !run.is_late) {
    training.reporter.has_none_left(run.steps, training.page.has_value());
    return 0;
  }
  const bool has_ended = run.steps >= training.length.steps || run.is_late;
  if (run.steps > run.first && has_ended) tell_figures(session, training);
  if (run.is_late && run.steps < training.length.steps) training.reporter.late(run.steps);
  if (run.is_interrupted) training.reporter.interrupted(run.steps);
  if (training.page && run.steps > run.first)
    training.page->write(session, training.reporter.run(run.is_interrupted), terminal.err);
  return run.is_interrupted ? interrupted_status : 0;
}

SessionOptions session_options(const Training& training) {
  return with_waiting({.seed = training.run.seed, .only_scalars = true, .stop = &stops_at_once()},
                      training.options.waiting);
}

void check_ranks(const Arguments& arguments, int ranks) {
  if (const int devices = devices_of(arguments); devices != ranks)
    throw error("--devices {} but mpirun has started {} ranks; there should be one per device", devices,
                ranks);
}

/// One rank of many, started by mpirun.
int run_rank(const Arguments& arguments, Terminal& terminal) {
  std::optional<Training> training;
  const auto prepare_rank = [&](MpiProcess& process) {
    std::optional<FolderLock> lock;
    std::optional<std::string> own_error;
    try {
      check_ranks(arguments, process.size());
      if (auto own = lock_of_run(arguments)) lock.emplace(std::move(*own));
    } catch (const Error& e) {
      own_error = e.what();
    }
    // Nobody looks at what is there before the first rank has the lock.
    if (const auto why = process.first_error(own_error)) throw error("{}", *why);
    const Training& t = training.emplace(
        prepare(arguments, std::move(lock), terminal));  // the first rank proves the step for all
    return agreements_of(arguments,
                         {t.plan, t.program, t.data, t.length, t.initial, t.checkpoints, t.options});
  };
  const auto run_prepared = [&](MpiProcess& process) {
    const SessionStart start = [&](Pipeline program, SessionOptions options) {
      const std::size_t transfers = most_transfers(program);
      return Session(std::move(program), process.communicator(process.size(), transfers), options);
    };
    Session session = start(training->program, session_options(*training));
    return train_with(session, *training, start, terminal);
  };
  return run_as_mpi_rank({prepare_rank, run_prepared, timeout_of(arguments)}, terminal);
}

int run_mpi(const Arguments& arguments, Terminal& terminal) {
  if (arguments.positionals[0] == "-")
    throw error("--runtime mpi cannot read the model from standard input; give a name or a file");
  if (launched_rank()) return run_rank(arguments, terminal);
  arguments.heed_all();  // every rank will say what it heeds
  const int ranks = devices_of(arguments);
  const Patience patience(3);  // the third interrupt ends mpirun
  const int status = launch({.ranks = ranks,
                             .words = arguments.words,
                             .interrupts = interrupts,
                             .output = [&](auto text) { terminal.out << text << std::flush; },
                             .errors = [&](auto text) { terminal.err << text; }});
  return status != 0 && interrupts() > 0 ? interrupted_status : status;
}

int run(const Arguments& arguments, Terminal& terminal) {
  const int launched = launched_ranks();
  const std::string runtime = arguments.text("--runtime", launched > 1 ? "mpi" : "threads");
  if (runtime == "mpi") return run_mpi(arguments, terminal);
  if (runtime != "threads") throw error("--runtime {}: there are threads, mpi", runtime);
  if (launched > 1)
    throw error("--runtime threads is one process, but mpirun has started {}; leave one of the two out",
                launched);
  Training training = prepare(arguments, lock_of_run(arguments), terminal);
  const SessionStart start = start_threads;
  Session session = start(training.program, session_options(training));
  try {
    return train_with(session, training, start, terminal);
  } catch (const Error& e) {
    if (!stops_at_once()) throw;
    terminal.err << fmt::format("shardwright: {}\n", e.what());
    return interrupted_status;
  }
}

}  // namespace

std::vector<Verb> train() {
  return {
      {.name = "train",
       .doc = "plan a network and train it",
       .positionals = {"MODEL"},
       .flags = planning_flags(
           {{"--data", "DIR|FILE",
             "a folder with MNIST, CIFAR, images or tokens, or a safetensors file with input and label", ""},
            {"--init", "FILE|DIR", "initial parameters: safetensors, or a checkpoint", ""},
            {"--save", "DIR", "keep checkpoints there: at the end, and when interrupted", ""},
            {"--save-every", "K", "also after every K-th step, while training goes on", ""},
            {"--keep", "N", "only the last N checkpoints (default: all)", ""},
            {"--resume", "DIR|auto",
             "continue from a checkpoint, under any plan; auto: from the last one in --save, if any", ""},
            {"--steps", "K", "how many steps, with those of --resume (default: 20, or the epochs)", ""},
            {"--epochs", "E", "how often through the data", ""},
            {"--lr-schedule", "S",
             "constant, step:every=K, exponential:factor=F, cosine, linear, polynomial; with :end=E and "
             "others",
             ""},
            {"--warmup", "K", "steps, or such as 2epochs, in which the learning rate grows to --lr", ""},
            {"--eval", "DIR|FILE", "held-out data, with labels", ""},
            {"--eval-every", "K", "evaluate after every K-th step (default: only at the end)", ""},
            {"--keep-best", "M", "loss or accuracy: save what is best on --eval, as DIR/best", ""},
            {"--tensorboard", "DIR", "event files with what each step tells", ""},
            {"--time-limit", "S", "end after the step in which so many seconds are over", ""},
            timeout_flag(),
            {"--seed", "S", "of initial parameters, data order and synthetic data (default 1)", ""},
            {"--log-every", "K", "print every K-th loss", ""},
            {"--runtime", "R", "threads: virtual devices in this process; mpi: a process each", ""},
            save_strategy_flag(),
            html_flag(),
            {"--trace", "FILE",
             "what every rank does in the fourth and fifth step (of fewer the last two), for "
             "ui.perfetto.dev",
             ""},
            {"--compare-plan", "",
             "what a step has taken beside what was predicted: by operator, collective and stage", ""},
            wide_flag(),
            {"--json", "", "JSON lines: one per loss, then the summary", ""}}),
       .example = "shardwright train ffn --devices 8 --optimizer momentum --lr 0.05 --steps 100",
       .run = run,
       .joins_mpirun = true}};
}

}  // namespace shardwright::verbs
