#include "shardwright/runtime/launcher.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <climits>
#include <cstdlib>
#include <map>
#include <regex>
#include <utility>

#include "shardwright/base/error.h"
#include "shardwright/base/file.h"
#include "shardwright/base/host_name.h"
#include "shardwright/base/text.h"
#include "shardwright/runtime/communicator/vigil.h"
#include "shardwright/runtime/launch/agent.h"
#include "shardwright/runtime/launch/child.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launch/job_folder.h"
#include "shardwright/runtime/launch/relay.h"

namespace shardwright {
namespace {

/// Of a mistake in what was asked for.
constexpr int unreached_status = 2;

/// Of the environment, where they are set: what a program finds its data and libraries by, on other hosts, too.
std::vector<std::string> variables_for_ranks() {
  std::vector<std::string> out;
  for (char** each = environ; *each; ++each) {
    const std::string_view variable = *each;
    const std::string_view name = variable.substr(0, variable.find('='));
    const bool is_wanted = name == "DATA_PATH" || name == "PYTHONPATH" || name == "LD_LIBRARY_PATH" ||
                           name == "PYTHONUNBUFFERED" || name.starts_with("SHARDWRIGHT_") ||
                           name.starts_with("ONEDNN_");
    if (is_wanted) out.emplace_back(name);
  }
  return out;
}

void add_setting(std::vector<std::string>& words, const std::string& name, const std::string& value) {
  words.insert(words.end(), {"--mca", name, value});
}

/// Each rank on its host: as many lines, this host by its own name, which is the only one that mpirun maps to.
void add_hosts(std::vector<std::string>& words, const LaunchHosts& hosts, const JobFolder& folder) {
  std::string lines;
  std::map<std::string, std::string> names;
  for (const std::string& host : hosts.of_ranks) {
    const auto [name, is_new] = names.emplace(host, host);
    if (is_new && is_here(host)) name->second = host_name();
    lines += name->second + "\n";
  }
  write_file(folder.path() + "/hosts", lines);
  words.insert(words.end(), {"--hostfile", folder.path() + "/hosts"});
  // Of a batch system that has given out hosts, too, mpirun would take its own way there.
  for (const auto& [setting, value] : {std::pair<const char*, std::string>{"rmaps", "seq"},
                                       {"plm", "rsh"},
                                       {"ras", "^slurm,gridengine"},
                                       {"plm_rsh_agent", agent_of(folder.path())},
                                       {"plm_rsh_no_tree_spawn", "1"},
                                       {"orte_leave_session_attached", "1"}})
    add_setting(words, setting, value);
}

std::vector<std::string> mpirun_words(const Launch& launch, const JobFolder& folder) {
  std::vector<std::string> out{
      "mpirun",    "-n",  fmt::to_string(launch.ranks), "--oversubscribe", "--allow-run-as-root",
      "--bind-to", "none"};
  // Yielding must be asked for: with more ranks than cores, spinning costs milliseconds a message.
  add_setting(out, "mpi_yield_when_idle", "1");
  if (!launch.hosts.of_ranks.empty()) add_hosts(out, launch.hosts, folder);
  // Hosts that a batch system's own daemons begin with have no folder of this job.
  if (!launch.hosts.of_ranks.empty() || !std::getenv("SLURM_JOB_ID")) {
    add_setting(out, "orte_tmpdir_base", folder.path());
    add_setting(out, "btl_vader_backing_directory", folder.shared_memory());
  }
  if (!launch.hosts.net.empty())
    for (const char* of : {"oob_tcp_if_include", "btl_tcp_if_include"})
      add_setting(out, of, launch.hosts.net);
  if (launch.tells_ranks_apart) out.emplace_back("--tag-output");
  out.insert(out.end(), {"-x", "OMP_NUM_THREADS=1"});
  for (std::string& name : variables_for_ranks()) out.insert(out.end(), {"-x", std::move(name)});
  out.insert(out.end(), launch.words.begin(), launch.words.end());
  return out;
}

std::optional<int> number_in(const char* variable) {
  const char* value = std::getenv(variable);
  const auto number = value ? to_integer(value) : std::nullopt;
  if (!number || *number < 0 || *number > INT_MAX) return std::nullopt;
  return static_cast<int>(*number);
}

/// How a launcher tells its processes which of how many they are.
struct LauncherVariables {
  std::string_view name;
  const char* rank;
  const char* size;
  const char* needed = nullptr;  // without it, rank 0 is alone
};

// A batch job's script has a rank and a number of tasks, too, but is in no step.
constexpr std::array other_launchers{
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_STEP_NUM_TASKS", "SLURM_STEP_ID"},
    LauncherVariables{"srun", "SLURM_PROCID", "SLURM_NTASKS", "SLURM_STEP_ID"},
    LauncherVariables{"jsrun", "JSM_NAMESPACE_RANK", "JSM_NAMESPACE_SIZE"},
    LauncherVariables{"flux", "FLUX_TASK_RANK", "FLUX_JOB_SIZE"},
    LauncherVariables{"MVAPICH's mpirun", "MV2_COMM_WORLD_RANK", "MV2_COMM_WORLD_SIZE"},
    LauncherVariables{"another MPI's mpiexec", "PMI_RANK", "PMI_SIZE"},
    LauncherVariables{"torchrun", "RANK", "WORLD_SIZE"},
};
// These do not say how many there are.
constexpr std::array launchers_without_size{LauncherVariables{"PALS' mpiexec", "PALS_RANKID", nullptr},
                                            LauncherVariables{"a PMIx launcher", "PMIX_RANK", nullptr}};

}  // namespace

std::optional<int> launched_rank() { return number_in("OMPI_COMM_WORLD_RANK"); }

int launched_ranks() { return launched_rank() ? number_in("OMPI_COMM_WORLD_SIZE").value_or(1) : 1; }

int launched_ranks_here() {
  return launched_rank() ? number_in("OMPI_COMM_WORLD_LOCAL_SIZE").value_or(launched_ranks()) : 1;
}

std::optional<OtherLauncher> other_launcher() {
  if (launched_rank()) return std::nullopt;  // mpirun itself may have been started by srun
  for (const LauncherVariables& launcher : other_launchers) {
    const auto rank = number_in(launcher.rank), size = number_in(launcher.size);
    if (!rank || !size || (*rank == 0 && launcher.needed && !std::getenv(launcher.needed))) continue;
    if (*size > 1) return OtherLauncher{launcher.name, launcher.rank, *rank};
    return std::nullopt;  // it says that there is one
  }
  for (const LauncherVariables& launcher : launchers_without_size)
    if (const auto rank = number_in(launcher.rank)) return OtherLauncher{launcher.name, launcher.rank, *rank};
  return std::nullopt;
}

int rank_of_process() {
  if (const auto rank = launched_rank()) return *rank;
  const auto other = other_launcher();
  return other ? other->rank : 0;
}

LaunchEnd launch(const Launch& launch) {
  if (!can_be_started("mpirun"))
    throw io_error("mpirun is not installed; scripts/install.sh build installs it");
  const JobFolder folder;
  if (launch.begins) launch.begins(folder.path());
  Child mpirun(mpirun_words(launch, folder),
               launch.hosts.of_ranks.empty() ? std::vector<std::string>() : variables_of_others());
  Relay relay(launch, mpirun);
  const int status = relay.run();
  const MpirunMessages& messages = relay.messages();
  const bool is_lost = messages.has_lost_rank() || messages.has_lost_host() || relay.has_lost();
  LaunchEnd end{.status = is_lost ? lost_rank_status : status,
                .why = relay.reason(),
                .is_unreached = messages.has_unreached_host()};
  if (end.is_unreached) end.status = unreached_status;
  for (const std::string& name : messages.hosts()) {
    const std::string file = name_file(folder.path(), name);
    end.hosts.push_back(access(file.c_str(), R_OK) == 0 ? read_text(file) : name);
  }
  return end;
}

std::vector<std::string> own_program(const std::vector<std::string>& words) {
  std::vector<std::string> out{own_path()};
  out.insert(out.end(), words.begin(), words.end());
  return out;
}

namespace {

/// As vigil.cpp and heartbeat.cpp put it.
bool tells_of_lost_rank(std::string_view line) {
  static const std::regex lost(
      R"(^shardwright: rank \d+( on \S+ (has died|was ended by signal)|: .* waited .* for ranks? .*, which ))");
  return line.size() < 4000 && std::regex_search(line.begin(), line.end(), lost);
}

}  // namespace

std::string MpirunMessages::take(std::string_view line) {
  if (line.starts_with("shardwright: ")) {  // a rank's, even inside a frame
    has_lost_rank_ = has_lost_rank_ || tells_of_lost_rank(line);
    if (line.starts_with("shardwright: host ")) {
      const bool is_lost = line.find(" is lost: ") != line.npos;
      (is_lost ? has_lost_host_ : has_unreached_host_) = true;
      const std::string_view name = line.substr(line.find("host ") + 5);
      if (std::string host(name.substr(0, name.find(' '))); std::ranges::find(hosts_, host) == hosts_.end())
        hosts_.push_back(std::move(host));
      else
        return "";
    }
    return fmt::format("{}\n", line);
  }
  if (line.size() >= 60 && line.find_first_not_of('-') == std::string_view::npos) {
    is_in_frame_ = !is_in_frame_;
    if (is_in_frame_) return "";
    return finish();
  }
  if (is_in_frame_) {
    frame_.append(line).append("\n");
    return "";
  }
  // How many frames like the last one were left out.
  if (line.starts_with("[") && line.find("help") != std::string_view::npos) return "";
  // The agent has done itself what mpirun was about to.
  if (line.find("plm:rsh: Warning: setpgid") != std::string_view::npos) return "";
  return fmt::format("{}\n", line);
}

std::string MpirunMessages::finish() { return in_one_line(std::exchange(frame_, "")); }

std::string MpirunMessages::in_one_line(const std::string& frame) {
  static const std::regex killed(
      R"(process rank (\d+) with PID \d+ on node (\S+) exited on signal (\d+ \(.*\)))");
  static const std::regex lost_host(
      R"(lost communication with a remote daemon[^]*on node (\S+)[^]*on node (\S+))");
  static const std::regex no_program(R"((?:Executable|Node): *(\S+)[^]*?(?:Executable|Node): *(\S+))");
  static const std::regex broken(R"(unexpectedly disconnected[^]*Local host: *(\S+)[^]*Peer host: *(\S+))");
  static const std::regex no_connection(
      R"(failed to TCP connect to a peer[^]*Local host: *(\S+)[^]*Message: *([^\n]*[^\n ])[^]*Error: *([^\n]*))");
  std::smatch match;
  if (std::regex_search(frame, match, killed)) {
    has_lost_rank_ = true;
    return fmt::format("shardwright: rank {} on {} was ended by signal {}\n", match.str(1), match.str(2),
                       match.str(3));
  }
  if (std::regex_search(frame, match, lost_host)) {
    has_lost_host_ = true;
    if (std::ranges::find(hosts_, match.str(2)) != hosts_.end()) return "";
    hosts_.push_back(match.str(2));
    return fmt::format("shardwright: host {} is lost: what held its ranks has ended\n", match.str(2));
  }
  const bool is_of_daemons = frame.find("daemon") != frame.npos;
  if (is_of_daemons && (has_unreached_host_ || has_lost_host_)) return "";  // its agent has said why
  if (is_of_daemons && frame.find("reliably start") != frame.npos)
    return fmt::format("{}a host's daemon has not answered; --net names the network between hosts\n",
                       network_words);
  if (std::regex_search(frame, match, broken))
    return fmt::format("{}a process on {} has lost its connection to one on {}\n", network_words,
                       match.str(1), match.str(2));
  if (std::regex_search(frame, match, no_connection))
    return fmt::format("{}a process on {} cannot reach another: {}: {}\n", network_words, match.str(1),
                       match.str(2), match.str(3));
  for (const char* known : {"exited with non-zero status", "a non-zero exit code", "MPI_ABORT was invoked"})
    if (frame.find(known) != std::string::npos) return "";
  if (frame.find("unable to launch the specified application") != frame.npos ||
      frame.find("unable to find the specified executable") != frame.npos) {
    has_unreached_host_ = true;
    if (std::regex_search(frame, match, no_program)) {
      const bool is_host_first = frame.find("Node:") < frame.find("Executable:");
      return fmt::format(
          "shardwright: host {} has no program {}; it has to lie at the same path on all hosts\n",
          match.str(is_host_first ? 1 : 2), match.str(is_host_first ? 2 : 1));
    }
  }
  return frame;
}

}  // namespace shardwright
