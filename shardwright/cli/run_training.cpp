#include "shardwright/cli/run_training.h"

#include <cstdlib>
#include <memory>
#include <optional>
#include <ostream>

#include "shardwright/base/progress.h"
#include "shardwright/cli/agreements.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/planning.h"
#include "shardwright/cli/prepare_training.h"
#include "shardwright/cli/survival.h"
#include "shardwright/frontend/measured_step.h"
#include "shardwright/frontend/model_folder.h"
#include "shardwright/frontend/sessions_by_size.h"
#include "shardwright/runtime/checkpoint/load.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/trace_file.h"

namespace shardwright {
namespace {

/// What of it a page shows, too.
std::optional<StepComparison> tell_figures(Session& session, PreparedTraining& training) {
  const MemoryMarks memory = session.memory_marks();
  Recorded recorded{.is_asked = training.compares};
  const bool compares = training.compares || training.page;
  if (!training.trace_path.empty() || compares) {
    const StepTrace trace = session.trace();
    if (!training.trace_path.empty()) {
      recorded.figures = figures_of(session.pipeline(), trace);
      if (is_first_rank())
        write_trace(training.trace_path, {session.pipeline(), training.cluster, trace, memory});
    }
    if (compares && is_first_rank())
      recorded.comparison = compared(session.pipeline(), training.cluster, trace);
  }
  recorded.routing_imbalance = session.routing_imbalance();
  training.reporter.summary(session, memory, recorded, training.misfit);
  return recorded.comparison;
}

/// What becomes of signals while the loop runs: the first lets the step end, the second stops it, the third ends all at once.
class Signals {
 public:
  void tell(const TrainingEvent& event) {
    std::visit(Each{[&](const TrainingBegan&) { patience_.emplace(2); },
                    [](const StepBegins& e) { step_begins(e.step); }, [](const StepDone&) { step_ends(); },
                    [](const auto&) {}},
               event);
  }

 private:
  std::optional<Patience> patience_;
};

SessionOptions session_options(const PreparedTraining& training) {
  return with_waiting(
      {.seed = training.asked.options.run.seed, .only_scalars = true, .stop = &stops_at_once()},
      training.asked.waiting);
}

TrainingEnded run_loop(Session& session, PreparedTraining& training, const SessionStart& start,
                       StateCopies* copies) {
  TrainingOptions options = training.asked.options;
  if (copies)
    options.copy = [copies, &training](const RunState& run) {
      // What it went on from is memory, which its open files would hold.
      if (training.checkpoints.resumes_from_copies) training.checkpoints.resume.clear();
      copies->behind(run);
    };
  options.is_interrupted = [] { return interrupts() > 0; };
  options.stop = &stops_at_once();
  if (training.asked.eval)
    options.evaluate = [evaluator = std::make_shared<Evaluator>(*training.asked.eval, start,
                                                                with_waiting({}, training.asked.waiting))](
                           const Session& trained, std::int64_t steps) {
      return (*evaluator)(trained, steps);
    };
  if (training.takes_weights) {
    const Doing doing(options.progress, "reading weights");
    load(session, *training.folder->weights, Restored::parameters);
  }
  if (!training.initial.empty()) {  // of a file beside the folder's, in their place
    const Doing doing(options.progress, "setting initial values");
    for (const auto& [name, value] : training.initial) session.set(name, value());
  }
  std::optional<SessionsBySize> buckets;
  if (!training.shorter.empty()) {
    buckets.emplace(session, training.shorter, start, session_options(training));
    options.step = [&](const StepBatch& batch) { return buckets->step(session, batch); };
  }
  Signals signals;
  return train(session, training.data, std::move(options), training.checkpoints,
               [&](const TrainingEvent& event) {
                 training.reporter.tell(event);
                 signals.tell(event);
                 return Then::goes_on;
               });
}

/// All ranks give what they hold, and the first writes it.
void save_folders(const Session& session, const PreparedTraining& training) {
  const ReadParameter read = [&](const std::string& name, const Box& where) {
    return session.get(name, where);
  };
  const auto to = [&](const std::string& folder) { return is_first_rank() ? folder : ""; };
  if (!training.save_folder.empty()) {
    const Doing doing(training.asked.options.progress, "writing " + training.save_folder);
    const auto save = training.folder->adapters ? save_adapters : save_folder;
    save(*training.folder, read, to(training.save_folder));
  }
  if (!training.save_merged.empty()) {
    const Doing doing(training.asked.options.progress, "writing " + training.save_merged);
    save_folder(*training.folder, merged(*training.folder->adapters, read), to(training.save_merged));
  }
}

int train_with(Session& session, PreparedTraining& training, const SessionStart& start, Terminal& terminal,
               StateCopies* copies = nullptr) {
  const TrainingEnded end = run_loop(session, training, start, copies);
  if (copies) copies->end();
  if (end.by == EndedBy::none_left) {
    training.reporter.has_none_left(end.steps, training.page.has_value());
    return 0;
  }
  save_folders(session, training);
  const bool is_interrupted = end.by == EndedBy::interrupt;
  const bool has_ended = end.steps >= training.asked.options.length.steps || end.by == EndedBy::time_limit;
  std::optional<StepComparison> comparison;
  if (end.has_run() && has_ended) comparison = tell_figures(session, training);
  if (end.by == EndedBy::time_limit) training.reporter.late(end.steps);
  if (is_interrupted) training.reporter.interrupted(end.steps);
  if (training.page && end.has_run()) {
    TrainedRun run = training.reporter.run(is_interrupted);
    run.comparison = std::move(comparison);
    training.page->write(session, std::move(run), terminal.err);
  }
  return is_interrupted ? interrupted_status : 0;
}

/// Of the first rank.
std::optional<FolderLock> own_lock(const Arguments& arguments) {
  if (!is_first_rank()) return std::nullopt;
  return lock_of_run(checkpoint_options(arguments));
}

/// MPI reads the network that its messages take when this process joins, unless mpirun has said it.
void use_net(const Arguments& arguments) {
  const std::string net = arguments.text("--net");
  if (net.empty()) return;
  check_net(net);
  setenv("OMPI_MCA_btl_tcp_if_include", net.c_str(), 0);
}

/// One rank of many, started by mpirun.
int run_rank(const Arguments& arguments, Terminal& terminal) {
  std::optional<PreparedTraining> training;
  std::optional<Survival> survival;
  const auto prepare_rank = [&](MpiProcess& process) {
    std::optional<FolderLock> lock;
    std::optional<std::string> own_error;
    try {
      check_ranks(arguments, process);
      if (is_to_survive(arguments)) survival.emplace(arguments);
      if (auto own = own_lock(arguments)) lock.emplace(std::move(*own));
    } catch (const Error& e) {
      own_error = e.what();
    }
    // Nobody looks at what is there before the first rank has the lock.
    if (const auto why = process.first_error(own_error)) throw error("{}", *why);
    if (survival) survival->recover(process);
    const PreparedTraining& t = training.emplace(
        prepare_training(arguments, std::move(lock), survival ? survival->recovered() : std::nullopt,
                         terminal));  // the first rank proves the step for all
    if (survival) survival->certify(t);
    return agreements_of(arguments, {t.asked.options.plan, t.program.pipeline(), t.data,
                                     t.asked.options.length, t.initial, t.checkpoints, t.asked, t.shorter});
  };
  const auto run_prepared = [&](MpiProcess& process) {
    const SessionStart start = start_on(process);
    if (!survival) {
      Session session = start(training->program, session_options(*training));
      return train_with(session, *training, start, terminal);
    }
    survival->tell(*training, terminal);
    survival->fetch(process, *training);
    Session session = start(training->program, session_options(*training));
    const std::unique_ptr<StateCopies> copies = survival->copies_of(session, process, *training, terminal);
    const int status = train_with(session, *training, start, terminal, copies.get());
    survival->tell(copies->figures(), terminal);
    return status;
  };
  use_net(arguments);
  return run_as_mpi_rank({prepare_rank, run_prepared, timeout_of(arguments)}, terminal);
}

}  // namespace

int train_over_mpi(const Arguments& arguments, Terminal& terminal) {
  return run_over_mpi(arguments, terminal, [&] { return run_rank(arguments, terminal); });
}

int train_on_threads(const Arguments& arguments, Terminal& terminal) {
  PreparedTraining training = prepare_training(arguments, own_lock(arguments), std::nullopt, terminal);
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

}  // namespace shardwright
