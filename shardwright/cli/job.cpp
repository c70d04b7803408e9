#include "shardwright/cli/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <set>
#include <thread>

#include "shardwright/base/text.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/keepers.h"
#include "shardwright/runtime/launch/rank_logs.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

/// Throws: Error if copies could not be kept, or would be of no use.
void check_survival_of(const Job& job, int hosts) {
  const int lost = job.survival->hosts;
  if (!job.program.is_training())
    throw error("--survive {}: keeps copies of what train trains; of {} launch knows no state", lost,
                job.program.words.front());
  if (lost >= hosts)
    throw error("--survive {}: the job has {} host{}; {}", lost, hosts, hosts == 1 ? "" : "s",
                hosts == 1 ? "give more, with --hosts FILE"
                           : fmt::format("{} of them may be lost at most", hosts - 1));
  if (job.restarts.most == 0)
    throw error("--survive {} says what the job goes on from; give --restarts K, too", lost);
}

class Running {
 public:
  Running(Job job, Terminal& terminal) : job_(std::move(job)), terminal_(terminal) {
    if (job_.survival) keepers_.emplace(job_.patience);
  }

  int run() {
    const Patience patience(3);  // the third interrupt ends mpirun
    for (int done = 0;; ++done) {
      const LaunchEnd end = run_once(done);
      if (interrupts_now() > 0 && end.status != 0) return interrupted_status;
      if (!is_lost(end, done)) return end.status;
      if (done == job_.restarts.most) return tell_the_last(end);
      if (!begin_again(end, done + 1)) return end.status == 0 ? lost_rank_status : end.status;
    }
  }

 private:
  int interrupts_now() { return std::max(interrupts(), job_.assembly ? job_.assembly->interrupts() : 0); }

  /// Whether starting again may help: who is interrupted without being asked to (the system of its host shuts down) and
  /// who is killed before it can say a word were lost, too.
  bool is_lost(const LaunchEnd& end, int done) const {
    if (end.is_unreached) return done > 0;
    return end.status == lost_rank_status || end.status == interrupted_status || end.status > 128;
  }

  int tell_the_last(const LaunchEnd& end) {
    if (job_.restarts.most > 0)
      terminal_.err << fmt::format("shardwright: {} restart{}, and it is lost again: it ends\n",
                                   job_.restarts.most, job_.restarts.most == 1 ? "" : "s");
    const bool was_interrupted = end.status == interrupted_status;
    return was_interrupted || (end.is_unreached && job_.restarts.most == 0) ? end.status : lost_rank_status;
  }

  /// Without one on each host nothing begins.
  std::optional<LaunchEnd> without_keepers() {
    if (!keepers_) return std::nullopt;
    if (job_.assembly) {
      job_.assembly->keep(keepers_->name());
      return std::nullopt;
    }
    const auto missing = keepers_->keep_on(job_.hosts.of_ranks);
    if (!missing) return std::nullopt;
    const std::string why = fmt::format("host {} cannot be reached: {}", missing->host, missing->why);
    terminal_.err << fmt::format("shardwright: {}\n", why);
    return LaunchEnd{.status = 2, .why = why, .is_unreached = true, .hosts = {missing->host}};
  }

  /// As many of those asked for as hosts there are can lose.
  std::optional<int> survives() const {
    if (!job_.survival) return std::nullopt;
    return std::min(job_.survival->hosts, count_of_hosts(job_.hosts) - 1);
  }

  std::optional<std::string> lost() {
    if (job_.assembly) return job_.assembly->lost();
    if (const auto missing = keepers_->lost()) {
      lost_keeper_ = missing->host;
      return fmt::format("host {} is lost: {}", missing->host, missing->why);
    }
    return std::nullopt;
  }

  LaunchEnd run_once(int restart) {
    if (auto end = without_keepers()) return *end;
    const bool is_again = restart > 0;
    logs_.reset();
    if (!job_.log_folder.empty()) logs_.emplace(job_.log_folder, job_.devices, restart);
    const std::string& save = job_.program.checkpoints();
    const bool resumes = is_again && !save.empty() && !checkpoints_in(save).empty();
    Launch launch_{
        .ranks = job_.devices,
        .words = command_of(job_.program, {.devices = job_.devices,
                                           .is_planned_anew = is_planned_anew_,
                                           .resumes = resumes,
                                           .timeout = job_.timeout,
                                           .survives = survives(),
                                           .survive_every = job_.survival ? job_.survival->every : ""}),
        .hosts = job_.hosts,
        .tells_ranks_apart = true,
        .interrupts = [this] { return interrupts_now(); },
        .output = [this](auto rank, auto text) { print(rank, text); },
        .errors = [this](auto rank, auto text) { tell(rank, text); }};
    if (job_.assembly) launch_.begins = [this](const std::string& folder) { job_.assembly->serve(folder); };
    if (job_.assembly || keepers_) launch_.lost = [this] { return lost(); };
    lost_keeper_.reset();
    LaunchEnd end = launch(launch_);
    if (lost_keeper_) end.hosts.push_back(*lost_keeper_);
    return end;
  }

  int node_of(int rank) const {
    return job_.assembly && rank < static_cast<int>(job_.nodes.size())
               ? job_.nodes[static_cast<std::size_t>(rank)]
               : 0;
  }

  void print(std::optional<int> rank, std::string_view text) {
    if (logs_ && rank) logs_->add(*rank, RankLogs::Stream::output, text);
    const bool is_first = rank.value_or(0) == 0;
    if (!is_first && logs_) return;
    const int node = node_of(rank.value_or(0));
    if (job_.assembly && (node > 0 || !leads_itself()))
      job_.assembly->show(node, JobMessage::Kind::output, text);
    else
      terminal_.out << text << std::flush;
  }

  void tell(std::optional<int> rank, std::string_view text) {
    terminal_.err << text;
    if (logs_ && rank) logs_->add(*rank, RankLogs::Stream::errors, text);
    if (!job_.assembly || !rank) return;
    if (const int node = node_of(*rank); node > 0 || !leads_itself())
      job_.assembly->show(node, JobMessage::Kind::errors, text);
  }

  /// This process is node 0, not one that only schedules.
  bool leads_itself() const { return job_.assembly->has_node_0(); }

  /// Whether it can; tells it.
  bool begin_again(const LaunchEnd& end, int number) {
    const int before = job_.devices;
    if (!find_hosts(end)) return false;
    const std::string save = job_.program.checkpoints();
    const std::vector<Checkpoint> saved = save.empty() ? std::vector<Checkpoint>() : checkpoints_in(save);
    const std::string then = keepers_        ? "goes on from copies in memory"
                             : saved.empty() ? "begins anew, without a checkpoint"
                                             : "goes on from " + saved.front().folder;
    std::string line = fmt::format(
        "restart {} of {}: {}; {}", number, job_.restarts.most,
        end.why.empty() ? fmt::format("the job ended with status {}", end.status) : end.why, then);
    if (job_.devices != before) {
      line += fmt::format(", planned anew for {} device{}", job_.devices, job_.devices == 1 ? "" : "s");
      const std::vector<std::string> left_out = left_out_flags(job_.program);
      if (!left_out.empty()) line += fmt::format(" without {}", join(left_out, ", "));
    }
    terminal_.err << fmt::format("shardwright: {}\n", line);
    if (job_.program.prints_json()) {
      nlohmann::ordered_json restart{{"number", number}, {"of", job_.restarts.most}, {"why", end.why}};
      if (!keepers_) {  // else the ranks find it out, and say it
        restart["checkpoint"] =
            saved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(saved.front().folder);
        restart["step"] = saved.empty() ? 0 : saved.front().step;
      }
      restart["devices"] = job_.devices;
      terminal_.out << nlohmann::ordered_json{{"restart", restart}}.dump() << "\n" << std::flush;
    }
    return true;
  }

  /// The hosts for another start: all of them, or those that are left.
  bool find_hosts(const LaunchEnd& end) {
    if (job_.assembly) return gather_again();
    if (!job_.restarts.is_elastic || job_.hosts.of_ranks.empty()) return true;
    std::vector<std::string> names;
    for (const std::string& host : slots_)
      if (std::ranges::find(names, host) == names.end() &&
          std::ranges::find(end.hosts, host) == end.hosts.end())
        names.push_back(host);
    const std::vector<std::string> there = hosts_that_answer(names, std::chrono::seconds(10));
    std::vector<std::string> left;
    for (const std::string& host : slots_)
      if (std::ranges::find(there, host) != there.end() && static_cast<int>(left.size()) < all_devices_)
        left.push_back(host);
    return take(left);
  }

  bool take(const std::vector<std::string>& left) {
    if (left.empty()) {
      terminal_.err << "shardwright: no host is left: it ends\n";
      return false;
    }
    job_.hosts.of_ranks = left;
    is_planned_anew_ = static_cast<int>(left.size()) != all_devices_;
    job_.devices = static_cast<int>(left.size());
    return true;
  }

  bool gather_again() {
    try {
      // Others may find out a little later that they are gone, and one that was lost may be about to come back.
      job_.assembly->wait_for_all(job_.restarts.is_elastic ? std::chrono::seconds(2) : job_.patience);
    } catch (const Error& e) {
      if (!job_.restarts.is_elastic) {
        terminal_.err << fmt::format("shardwright: {}: it ends\n", e.what());
        return false;
      }
    }
    const std::vector<int> there = job_.assembly->there();
    std::vector<std::string> left;
    job_.nodes.clear();
    for (const int node : all_nodes_) {
      if (std::ranges::find(there, node) == there.end()) continue;
      left.push_back(job_.assembly->host_of(node));
      job_.nodes.push_back(node);
    }
    return take(left);
  }

  Job job_;
  Terminal& terminal_;
  const std::vector<std::string> slots_ = job_.slots.empty() ? job_.hosts.of_ranks : job_.slots;
  const int all_devices_ = job_.devices;
  const std::vector<int> all_nodes_ = job_.nodes;
  bool is_planned_anew_ = false;
  std::optional<RankLogs> logs_;
  std::optional<Keepers> keepers_;
  std::optional<std::string> lost_keeper_;  // the host of one
};

}  // namespace

int count_of_hosts(const LaunchHosts& hosts) {
  const std::set<std::string> all(hosts.of_ranks.begin(), hosts.of_ranks.end());
  return std::max(1, static_cast<int>(all.size()));
}

void check(const Job& job, int hosts) {
  if (job.survival) check_survival_of(job, hosts);
  const bool restarts = job.restarts.most > 0;
  if (restarts && !job.program.is_training())
    throw error("--restarts {}: goes on from checkpoints of train; {} has none that launch knows",
                job.restarts.most, job.program.words.front());
  if (restarts && job.program.checkpoints().empty() && !job.survival)
    throw error(
        "--restarts {}: goes on from the last checkpoint; give train --save DIR, and --save-every K; or "
        "--survive F",
        job.restarts.most);
  if (job.restarts.is_elastic && !restarts)
    throw error("--elastic says how to restart; give --restarts K, too");
  if (job.log_folder.empty()) return;
  std::error_code failure;
  fs::create_directories(job.log_folder, failure);
  if (failure) throw io_error("--log-dir {}: cannot be made: {}", job.log_folder, failure.message());
}

int run(Job job, Terminal& terminal) {
  Assembly* const assembly = job.assembly;
  int status = 2;
  try {
    status = Running(std::move(job), terminal).run();
  } catch (...) {
    if (assembly) assembly->end(status);
    throw;
  }
  if (assembly) assembly->end(status);
  return status;
}

}  // namespace shardwright
