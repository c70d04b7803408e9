#include "shardwright/cli/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <utility>

#include "shardwright/cli/mpi_rank.h"
#include "shardwright/plan/plan.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/checkpoint/load.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

bool is_folder(const std::string& path) {
  std::error_code failure;
  return fs::is_directory(path, failure);
}

/// Those of a run that can be opened, the latest first.
std::vector<CheckpointReader> whole_ones(const std::string& folder, std::ostream& notices) {
  std::vector<CheckpointReader> out;
  std::vector<std::string> failures;
  const std::vector<Checkpoint> all = checkpoints_in(folder);
  for (const Checkpoint& c : all) try {
      out.emplace_back(c.folder);
    } catch (const Error& e) {
      if (out.empty()) failures.push_back(e.what());
    }
  // What another run that saves there has removed meanwhile was not damaged.
  const bool is_still_so = failures.empty() || std::ranges::equal(all, checkpoints_in(folder), {},
                                                                  &Checkpoint::folder, &Checkpoint::folder);
  if (!is_still_so) return whole_ones(folder, notices);
  if (out.empty() && !failures.empty())
    throw io_error("{}; there is no other checkpoint in {} that is whole", failures.front(), folder);
  for (const std::string& failure : failures) notices << failure << "; looking for an earlier checkpoint\n";
  return out;
}

/// A run goes on from `at` and saves in `folder`: nothing there may be later, but for what is damaged.
void check_later(const std::string& folder, const CheckpointReader& at) {
  for (const Checkpoint& c : checkpoints_in(folder))
    if (c.step > at.manifest().run.step)
      throw error("--save {}: has a later checkpoint than the run goes on from ({}); give another folder",
                  folder, c.folder);
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code failure;
  return fs::equivalent(a, b, failure);
}

void find_resume(const Arguments& arguments, CheckpointPlans& plans, std::ostream& notices) {
  const std::string from = arguments.text("--resume");
  if (from == "auto") {
    if (plans.folder.empty()) throw error("--resume auto goes on from the folder of --save; give that");
    if (is_folder(plans.folder)) plans.resume = whole_ones(plans.folder, notices);
    if (plans.resume.empty()) notices << plans.folder << ": no checkpoint yet; starting from the beginning\n";
    return;
  }
  if (!is_folder(from)) throw io_error("--resume {}: is no folder", from);
  if (!is_checkpoint(from)) {
    plans.resume = whole_ones(from, notices);
    if (plans.resume.empty()) throw io_error("--resume {}: has no checkpoint", from);
    if (is_same(from, plans.folder)) return;
  } else {
    plans.resume.emplace_back(from);
  }
  if (plans.folder.empty() || !is_folder(plans.folder)) return;
  if (is_same(fs::path(fs::canonical(from)).parent_path().string(), plans.folder))
    return check_later(plans.folder, plans.resume.front());
  if (!checkpoints_in(plans.folder).empty())
    throw error("--save {}: has checkpoints of another run; give another folder", plans.folder);
}

Error taken(const std::string& folder) {
  return error("--save {}: has checkpoints already; --resume auto goes on from them, or give another folder",
               folder);
}

}  // namespace

std::optional<FolderLock> lock_of_run(const Arguments& arguments) {
  const std::string folder = arguments.text("--save");
  if (!is_first_rank() || !is_folder(folder) || is_checkpoint(folder)) return std::nullopt;
  return FolderLock(folder);
}

CheckpointPlans checkpoint_plans(const Arguments& arguments, std::optional<FolderLock> lock,
                                 std::ostream& notices) {
  CheckpointPlans plans{.folder = arguments.text("--save"), .lock = std::move(lock)};
  if (arguments.has("--save") && plans.folder.empty()) throw error("--save: give a folder");
  if (is_checkpoint(plans.folder))
    throw error("--save {}: is a checkpoint; give the folder of a run", plans.folder);
  for (const char* flag : {"--save-every", "--keep"})
    if (arguments.has(flag) && plans.folder.empty())
      throw error("{} says how to save; give --save DIR, too", flag);
  plans.every = arguments.integer("--save-every", 0);
  plans.keep = arguments.integer("--keep", 0);
  if (arguments.has("--resume") && arguments.has("--init"))
    throw error("--resume goes on with a run and --init starts one; give one of them");
  if (arguments.has("--resume")) {
    find_resume(arguments, plans, notices);
  } else if (is_folder(plans.folder) && !checkpoints_in(plans.folder).empty()) {
    throw taken(plans.folder);
  }
  if (const std::string init = arguments.text("--init"); is_folder(init))
    plans.init.emplace(open_checkpoint(init));
  return plans;
}

namespace {

/// What is wrong with a checkpoint, as far as this process can tell.
std::string damage_of(const CheckpointReader& checkpoint) {
  try {
    checkpoint.verify();
  } catch (const Error& e) {
    return e.what();
  }
  return fmt::format("{}: is damaged, as another rank says", checkpoint.folder());
}

}  // namespace

std::int64_t restore(Session& session, CheckpointPlans& plans, std::ostream& notices) {
  const auto tell = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) notices << line << "\n";
  };
  if (plans.init) tell(load(session, source_of(*plans.init), Restored::parameters));
  while (!plans.resume.empty()) {
    const CheckpointReader& checkpoint = plans.resume.front();
    std::string damage;
    try {
      tell(load(session, source_of(checkpoint), Restored::all));
    } catch (const Error& e) {
      if (e.kind() != ErrorKind::io) throw;
      damage = e.what();
    }
    if (!session.any(!damage.empty())) return checkpoint.manifest().run.step;
    if (damage.empty()) damage = damage_of(checkpoint);
    if (plans.resume.size() == 1) throw io_error("{}", damage);
    notices << damage << "; looking for an earlier checkpoint\n";
    plans.resume.erase(plans.resume.begin());
  }
  return 0;
}

std::uint64_t seed_of(const Arguments& arguments, const CheckpointPlans& checkpoints) {
  const RunState* const resumed = checkpoints.resumed();
  const auto seed = static_cast<std::uint64_t>(
      arguments.integer("--seed", resumed ? static_cast<std::int64_t>(resumed->seed) : 1, 0));
  if (resumed && resumed->seed != seed)
    throw error("--seed {}: {} was trained with seed {}, which orders its data, too; leave --seed out", seed,
                checkpoints.resume.front().folder(), resumed->seed);
  return seed;
}

void check_batch(const CheckpointPlans& checkpoints, std::int64_t samples) {
  const RunState* const resumed = checkpoints.resumed();
  if (resumed && resumed->samples == 0)
    throw error("{}: holds the weights of a file and no run to continue; start one from them with --init",
                checkpoints.resume.front().folder());
  if (resumed && resumed->samples != samples)
    throw error(
        "{} was trained on batches of {} samples, but these have {}; give --global-batch {}, or --init for "
        "its weights alone",
        checkpoints.resume.front().folder(), resumed->samples, samples, resumed->samples);
}

void tell_changes(const CheckpointPlans& checkpoints, const std::string& model, const Origin& origin,
                  const std::string& schedule, std::ostream& notices) {
  const RunState* const resumed = checkpoints.resumed();
  if (!resumed) return;
  const CheckpointReader& from = checkpoints.resume.front();
  const auto tell = [&](std::string_view what, const std::string& before, const std::string& now) {
    if (!before.empty() && before != now)
      notices << fmt::format("{}: the {} was {} and is {} from here on\n", from.folder(), what, before, now);
  };
  tell("model", resumed->model, model);
  tell("learning rate's schedule", resumed->schedule, schedule);
  const std::string& plan = from.manifest().plan;
  if (plan.empty()) return;
  const Origin before = parse_plan(plan, from.folder()).origin;
  tell("optimizer", before.optimizer.name, origin.optimizer.name);
  tell("precision", to_text(before.precision), to_text(origin.precision));
}

Saving::Saving(Session& session, CheckpointPlans& plans, const std::string& plan, Reporter& reporter)
    : reporter_(reporter), every_(plans.every) {
  if (plans.folder.empty()) return;
  const RunState* const resumed = plans.resumed();
  const bool goes_on_there =
      resumed && is_same(fs::canonical(plans.resume.front().folder()).parent_path().string(), plans.folder);
  if (goes_on_there) last_ = resumed->step;
  const bool was_there = plans.lock.has_value();
  saver_.emplace(session, SaveOptions{.folder = plans.folder,
                                      .keep = plans.keep,
                                      .plan = plan,
                                      .lock = std::exchange(plans.lock, std::nullopt)});
  if (!is_first_rank()) return;
  if (goes_on_there) {
    set_aside_later(plans.folder, resumed->step);
    link_to(plans.folder, std::string(latest_link), resumed->step);  // a killed run may have left it behind
  } else if (!was_there && !checkpoints_in(plans.folder).empty()) {
    throw taken(plans.folder);  // by a run that started at the same time
  }
}

void Saving::save(const RunState& run, bool is_best) {
  last_ = run.step;
  saver_->save(run, is_best);
}

void Saving::behind(const RunState& run, bool is_best) {
  if (!saver_) return;
  if (is_best || (every_ > 0 && run.step % every_ == 0 && run.step != last_)) save(run, is_best);
  tell(saver_->ended());
}

void Saving::end(const RunState& run) {
  if (!saver_) return;
  tell(saver_->wait());
  if (run.step != last_ || !failure_.empty()) save(run, false);
  tell(saver_->wait());
  if (!failure_.empty()) throw io_error("the last steps are not saved: {}", failure_);
}

void Saving::tell(const std::vector<Saved>& ended) {
  for (const Saved& saved : ended) {
    failure_ = saved.failure;
    reporter_.saved(saved);
  }
}

}  // namespace shardwright
