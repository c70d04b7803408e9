#include "shardwright/training/checkpoints.h"

#include <algorithm>
#include <filesystem>
#include <ostream>
#include <utility>

#include "shardwright/base/checksum.h"
#include "shardwright/base/text.h"
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
void check_later(const std::string& folder, const CheckpointReader& at, Door door) {
  for (const Checkpoint& c : checkpoints_in(folder))
    if (c.step > at.manifest().run.step)
      throw error("{} {}: has a later checkpoint than the run goes on from ({}); give another folder",
                  called(door, "--save"), folder, c.folder);
}

bool is_same(const std::string& a, const std::string& b) {
  std::error_code failure;
  return fs::equivalent(a, b, failure);
}

void find_resume(const CheckpointOptions& options, CheckpointPlans& plans, std::ostream& notices) {
  const std::string& from = *options.resume;
  const auto flag = [&](std::string_view name) { return called(options.door, name); };
  if (from == "auto") {
    if (plans.folder.empty())
      throw error("{} auto goes on from the folder of {}; give that", flag("--resume"), flag("--save"));
    if (is_folder(plans.folder)) plans.resume = whole_ones(plans.folder, notices);
    if (plans.resume.empty()) notices << plans.folder << ": no checkpoint yet; starting from the beginning\n";
    return;
  }
  if (!is_folder(from)) throw io_error("{} {}: is no folder", flag("--resume"), from);
  if (!is_checkpoint(from)) {
    plans.resume = whole_ones(from, notices);
    if (plans.resume.empty()) throw io_error("{} {}: has no checkpoint", flag("--resume"), from);
    if (is_same(from, plans.folder)) return;
  } else {
    plans.resume.emplace_back(from);
  }
  if (plans.folder.empty() || !is_folder(plans.folder)) return;
  if (is_same(fs::path(fs::canonical(from)).parent_path().string(), plans.folder))
    return check_later(plans.folder, plans.resume.front(), options.door);
  if (!checkpoints_in(plans.folder).empty())
    throw error("{} {}: has checkpoints of another run; give another folder", flag("--save"), plans.folder);
}

/// The last that is saved, by its name alone.
std::int64_t last_step_in(const std::string& folder) {
  if (folder.empty() || !is_folder(folder)) return -1;
  const std::vector<Checkpoint> all = checkpoints_in(folder);
  return all.empty() ? -1 : all.front().step;
}

Error taken(const std::string& folder, Door door) {
  return error("{} {}: has checkpoints already; {} auto goes on from them, or give another folder",
               called(door, "--save"), folder, called(door, "--resume"));
}

}  // namespace

std::optional<FolderLock> lock_of_run(const CheckpointOptions& options) {
  if (!options.save || !is_folder(*options.save) || is_checkpoint(*options.save)) return std::nullopt;
  return FolderLock(*options.save);
}

CheckpointPlans checkpoint_plans(const CheckpointOptions& options, std::optional<FolderLock> lock,
                                 std::ostream& notices) {
  const auto flag = [&](std::string_view name) { return called(options.door, name); };
  CheckpointPlans plans{.folder = options.save.value_or(""), .lock = std::move(lock), .door = options.door};
  if (options.save && plans.folder.empty()) throw error("{}: give a folder", flag("--save"));
  if (is_checkpoint(plans.folder))
    throw error("{} {}: is a checkpoint; give the folder of a run", flag("--save"), plans.folder);
  for (const auto& [name, number] : {std::pair("--save-every", options.save_every), {"--keep", options.keep}})
    if (number > 0 && plans.folder.empty())
      throw error("{} says how to save; give {}, too", flag(name),
                  options.door == Door::command ? "--save DIR" : "save");
  plans.every = options.save_every;
  plans.keep = options.keep;
  plans.resumes_from_copies = options.copies && options.copies->step >= last_step_in(plans.folder);
  if (options.resume && options.init && !options.has_frozen)
    throw error("{} goes on with a run and {} starts one; give one of them", flag("--resume"),
                flag("--init"));
  if (plans.resumes_from_copies) {
    plans.resume.emplace_back(options.copies->folder);
  } else if (options.resume) {
    find_resume(options, plans, notices);
  } else if (is_folder(plans.folder) && !checkpoints_in(plans.folder).empty()) {
    throw taken(plans.folder, options.door);
  }
  if (options.init && is_folder(*options.init)) plans.init.emplace(open_checkpoint(*options.init));
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

std::string sample_of_frozen(const Session& session) {
  constexpr std::int64_t of_each = 16;
  const KeptValues& kept = session.kept();
  std::vector<std::string> all;  // in whichever order plans have them
  DType dtype{};
  for (const Kept& value : kept.all()) {
    if (!kept.is_frozen(value)) continue;
    const Type type = kept.type_of(value);
    Box where{Shape(type.shape.size()), Shape(type.shape.size(), 1)};
    if (!type.shape.empty()) where.extent.back() = std::min(of_each, type.shape.back());
    const Tensor part = session.get(value.name, where);
    all.push_back(fmt::format("{} {}", value.name, checksum_text(checksum(part.bytes()))));
    dtype = type.dtype;
  }
  std::ranges::sort(all);
  return all.empty() ? "" : fmt::format("{} {}", name_of(dtype), checksum_text(checksum(join(all, " "))));
}

void check_frozen(const Session& session, const RunState& run, const std::string& path) {
  const std::string now = sample_of_frozen(session), &before = run.frozen;
  if (now.empty() || before.empty() || before == now) return;
  if (now.substr(0, now.find(' ')) != before.substr(0, before.find(' '))) return;
  throw error(
      "{}: was trained beside other parameters than those that are frozen here; give those that it began "
      "with",
      path);
}

std::int64_t restore(Session& session, CheckpointPlans& plans,
                     const std::function<void(std::string)>& notice) {
  const auto tell = [&](const std::vector<std::string>& lines) {
    for (const std::string& line : lines) notice(line);
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
    if (!session.any(!damage.empty())) {
      check_frozen(session, checkpoint.manifest().run, checkpoint.folder());
      return checkpoint.manifest().run.step;
    }
    if (damage.empty()) damage = damage_of(checkpoint);
    if (plans.resume.size() == 1) throw io_error("{}", damage);
    notice(damage + "; looking for an earlier checkpoint");
    plans.resume.erase(plans.resume.begin());
  }
  return 0;
}

std::uint64_t seed_of(std::optional<std::uint64_t> asked, const CheckpointPlans& checkpoints) {
  const RunState* const resumed = checkpoints.resumed();
  if (!resumed) return asked.value_or(1);
  if (asked && *asked != resumed->seed)
    throw error("{} {}: {} was trained with seed {}, which orders its data, too; leave {} out",
                called(checkpoints.door, "--seed"), *asked, checkpoints.resume.front().folder(),
                resumed->seed, called(checkpoints.door, "--seed"));
  return resumed->seed;
}

void check_batch(const CheckpointPlans& checkpoints, std::int64_t samples) {
  const RunState* const resumed = checkpoints.resumed();
  const std::string init = called(checkpoints.door, "--init");
  if (resumed && resumed->samples == 0)
    throw error("{}: holds the weights of a file and no run to continue; start one from them with {}",
                checkpoints.resume.front().folder(), init);
  if (resumed && resumed->samples != samples)
    throw error(
        "{} was trained on batches of {} samples, but these have {}; give {} {}, or {} for its weights alone",
        checkpoints.resume.front().folder(), resumed->samples, samples,
        called(checkpoints.door, "--global-batch"), resumed->samples, init);
}

void check_lengths(const CheckpointPlans& checkpoints, const std::string& lengths) {
  const RunState* const resumed = checkpoints.resumed();
  if (!resumed || resumed->lengths == lengths) return;
  const std::string flag = called(checkpoints.door, "--buckets"), init = called(checkpoints.door, "--init");
  const std::string from = checkpoints.resume.front().folder();
  if (resumed->lengths.empty())
    throw error(
        "{} {}: {} was trained without, which orders its data; leave {} out, or {} for its weights alone",
        flag, lengths, from, flag, init);
  throw error("{}: {} was trained with {} {}, which orders its data; give these, or {} for its weights alone",
              lengths.empty() ? "no " + flag : flag + " " + lengths, from, flag, resumed->lengths, init);
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

Saving::Saving(Session& session, CheckpointPlans& plans, const std::string& plan, OnSaved on_saved)
    : on_saved_(std::move(on_saved)), every_(plans.every) {
  if (plans.folder.empty()) return;
  const RunState* const resumed = plans.resumed();
  const bool goes_on_there =
      resumed && !plans.resumes_from_copies &&
      is_same(fs::canonical(plans.resume.front().folder()).parent_path().string(), plans.folder);
  if (goes_on_there) last_ = resumed->step;
  const bool was_there = plans.lock.has_value();
  saver_.emplace(session, SaveOptions{.folder = plans.folder,
                                      .keep = plans.keep,
                                      .plan = plan,
                                      .lock = std::exchange(plans.lock, std::nullopt)});
  if (session.ranks().front() != 0) return;
  if (goes_on_there) {
    set_aside_later(plans.folder, resumed->step);
    link_to(plans.folder, std::string(latest_link), resumed->step);  // a killed run may have left it behind
  } else if (!was_there && !plans.resumes_from_copies && !checkpoints_in(plans.folder).empty()) {
    throw taken(plans.folder, plans.door);  // by a run that started at the same time
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
    if (failure_.empty()) last_saved_ = saved.folder;
    on_saved_(saved);
  }
}

std::string Saving::saved_text() const {
  return last_saved_.empty() ? "nothing is saved" : fmt::format("saved in {}", last_saved_);
}

}  // namespace shardwright
