#include "shardwright/cli/job.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>
#include <thread>

#include "shardwright/base/text.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/runtime/checkpoint/folder.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/rank_logs.h"

namespace shardwright {
namespace {

namespace fs = std::filesystem;

class Running {
 public:
  Running(Job job, Terminal& terminal) : job_(std::move(job)), terminal_(terminal) {}

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

  LaunchEnd run_once(int restart) {
    const bool is_again = restart > 0;
    logs_.reset();
    if (!job_.log_folder.empty()) logs_.emplace(job_.log_folder, job_.devices, restart);
    const std::string& save = job_.program.checkpoints();
    const bool resumes = is_again && !save.empty() && !checkpoints_in(save).empty();
    Launch launch_{.ranks = job_.devices,
                   .words = command_of(job_.program, {job_.devices, is_planned_anew_, resumes, job_.timeout}),
                   .hosts = job_.hosts,
                   .tells_ranks_apart = true,
                   .interrupts = [this] { return interrupts_now(); },
                   .output = [this](auto rank, auto text) { print(rank, text); },
                   .errors = [this](auto rank, auto text) { tell(rank, text); }};
    if (job_.assembly) {
      launch_.lost = [this] { return job_.assembly->lost(); };
      launch_.begins = [this](const std::string& folder) { job_.assembly->serve(folder); };
    }
    return launch(launch_);
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
    const std::vector<Checkpoint> saved = checkpoints_in(job_.program.checkpoints());
    const std::string then =
        saved.empty() ? "begins anew, without a checkpoint" : "goes on from " + saved.front().folder;
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
      restart["checkpoint"] =
          saved.empty() ? nlohmann::ordered_json() : nlohmann::ordered_json(saved.front().folder);
      restart["step"] = saved.empty() ? 0 : saved.front().step;
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
    for (const std::string& host : all_hosts_.of_ranks)
      if (std::ranges::find(names, host) == names.end() &&
          std::ranges::find(end.hosts, host) == end.hosts.end())
        names.push_back(host);
    const std::vector<std::string> there = hosts_that_answer(names, std::chrono::seconds(10));
    std::vector<std::string> left;
    for (const std::string& host : all_hosts_.of_ranks)
      if (std::ranges::find(there, host) != there.end()) left.push_back(host);
    return take(left);
  }

  bool take(const std::vector<std::string>& left) {
    if (left.empty()) {
      terminal_.err << "shardwright: no host is left: it ends\n";
      return false;
    }
    job_.hosts.of_ranks = left;
    is_planned_anew_ = is_planned_anew_ || static_cast<int>(left.size()) != job_.devices;
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
  const LaunchHosts all_hosts_ = job_.hosts;
  const std::vector<int> all_nodes_ = job_.nodes;
  bool is_planned_anew_ = false;
  std::optional<RankLogs> logs_;
};

}  // namespace

void check(const Job& job) {
  const bool restarts = job.restarts.most > 0;
  if (restarts && !job.program.is_training())
    throw error("--restarts {}: goes on from checkpoints of train; {} has none that launch knows",
                job.restarts.most, job.program.words.front());
  if (restarts && job.program.checkpoints().empty())
    throw error("--restarts {}: goes on from the last checkpoint; give train --save DIR, and --save-every K",
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
