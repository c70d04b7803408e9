#include "shardwright/cli/started_apart.h"

#include <fmt/format.h>

#include <cstdint>
#include <cstdlib>
#include <ostream>

#include "shardwright/base/checksum.h"
#include "shardwright/base/file.h"
#include "shardwright/base/given.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/job.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/runtime/launch/node.h"

namespace shardwright {
namespace {

std::string value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value ? value : "";
}

/// `why`: what makes it necessary.
std::string needed(const char* variable, const std::string& why) {
  std::string out = value_of(variable);
  if (out.empty()) throw error("{}: {} is missing", why, variable);
  return out;
}

int number(const char* variable, const std::string& why, int least, int most) {
  return static_cast<int>(Given{variable, needed(variable, why)}.integer(least, most));
}

/// One that all ranks find by what they have in common; Linux gives ports from 32768 on to programs that ask for any.
int port_of(std::uint64_t common) { return static_cast<int>(20000 + common % 12000); }

StartedApart by_dynamic_networking(const std::string& role) {
  const std::string why = "MS_ROLE=" + role;
  if (role != "MS_SCHED" && role != "MS_WORKER")
    throw error("MS_ROLE={}: should be MS_SCHED or MS_WORKER; there are no servers here", role);
  StartedApart out{.is_first = role == "MS_SCHED", .has_rank = role != "MS_SCHED", .called = "MS_SCHED_PORT"};
  out.ranks = number("MS_WORKER_NUM", why, 1, most_launched_ranks);
  out.address = needed("MS_SCHED_HOST", why);
  out.port = number("MS_SCHED_PORT", why, 1024, 65535);
  if (!out.is_first) out.own = number("MS_NODE_ID", why, 0, out.ranks - 1);
  return out;
}

/// All ranks read the same table, so it gives a port that they have in common, unless one is said.
StartedApart by_rank_table(const std::string& path) {
  const std::string why = "RANK_TABLE_FILE=" + path;
  const std::vector<std::string> hosts = read_rank_table(path);
  StartedApart out{
      .ranks = static_cast<int>(hosts.size()), .address = hosts.front(), .called = "MS_SCHED_PORT"};
  out.own = number("RANK_ID", why, 0, out.ranks - 1);
  if (!value_of("RANK_SIZE").empty() && number("RANK_SIZE", why, 1, most_launched_ranks) != out.ranks)
    throw error("RANK_SIZE={}: {} has {} ranks", value_of("RANK_SIZE"), path, out.ranks);
  out.is_first = out.own == 0;
  out.port = value_of("MS_SCHED_PORT").empty() ? port_of(checksum(read_text(path)))
                                               : number("MS_SCHED_PORT", why, 1024, 65535);
  return out;
}

/// The first of `node[3-5,9],other`.
std::string first_host(const std::string& list) {
  const std::size_t end = list.find_first_of("[,");
  std::string out = list.substr(0, end);
  if (end != list.npos && list[end] == '[') {
    const std::size_t last = list.find_first_of("-,]", end);
    out += list.substr(end + 1, last - end - 1);
    const std::size_t close = list.find(']', end);
    if (close != list.npos) out += list.substr(close + 1, list.find(',', close) - close - 1);
  }
  return out;
}

/// The tasks of a step; the first of them is on its first host.
std::optional<StartedApart> by_srun() {
  const std::string why = "srun";
  const char* count = value_of("SLURM_STEP_NUM_TASKS").empty() ? "SLURM_NTASKS" : "SLURM_STEP_NUM_TASKS";
  if (value_of("SLURM_PROCID").empty() || value_of("SLURM_STEP_ID").empty() || value_of(count).empty())
    return std::nullopt;
  StartedApart out{.ranks = number(count, why, 1, most_launched_ranks),
                   .called = "SLURM_JOB_ID, which makes port"};
  if (out.ranks == 1) return std::nullopt;
  out.own = number("SLURM_PROCID", why, 0, out.ranks - 1);
  out.is_first = out.own == 0;
  const char* list = value_of("SLURM_STEP_NODELIST").empty() ? "SLURM_JOB_NODELIST" : "SLURM_STEP_NODELIST";
  out.address = first_host(needed(list, why));
  // One of the job's own, and of the step: several may run at a time.
  const auto job = Given{"SLURM_JOB_ID", needed("SLURM_JOB_ID", why)}.integer(0);
  const auto step = Given{"SLURM_STEP_ID", needed("SLURM_STEP_ID", why)}.integer(0, 1LL << 32);
  out.port = port_of(static_cast<std::uint64_t>(job) * 7 + static_cast<std::uint64_t>(step));
  return out;
}

int run_first(const StartedApart& start, Job job, const NodeWords& words, Terminal& terminal) {
  Assembly assembly({.port = start.port,
                     .first = start.has_rank ? 1 : 0,
                     .words = words,
                     .timeout = job.patience,
                     .called = start.called});
  assembly.wait_for_all(job.patience);
  job.assembly = &assembly;
  for (int rank = 0; rank < start.ranks; ++rank) {
    job.nodes.push_back(rank);
    job.hosts.of_ranks.push_back(assembly.host_of(rank));
  }
  return run(std::move(job), terminal);
}

}  // namespace

bool is_started_as_mindspore() {
  if (launched_rank()) return false;
  return !value_of("MS_ROLE").empty() ||
         (!value_of("RANK_TABLE_FILE").empty() && !value_of("RANK_ID").empty());
}

std::optional<StartedApart> started_apart() {
  if (launched_rank()) return std::nullopt;
  if (const std::string role = value_of("MS_ROLE"); !role.empty()) return by_dynamic_networking(role);
  if (is_started_as_mindspore()) {
    StartedApart out = by_rank_table(value_of("RANK_TABLE_FILE"));
    return out.ranks > 1 ? std::optional(out) : std::nullopt;
  }
  return by_srun();
}

int run_apart(const StartedApart& start, const Arguments& arguments, Terminal& terminal) {
  Job job{.program = launched_program(arguments.words)};
  job.hosts.net = arguments.text("--net");
  job.patience = timeout_of(arguments);
  arguments.heed_all();  // every rank will say what it heeds
  return run_apart(start, std::move(job), terminal);
}

int run_apart(const StartedApart& start, Job job, Terminal& terminal) {
  if (job.program.devices.value_or(start.ranks) != start.ranks)
    throw error("--devices {} but {} ranks are started; there should be one per device", *job.program.devices,
                start.ranks);
  job.devices = start.ranks;
  if (!job.hosts.net.empty()) check_net(job.hosts.net);
  const NodeWords words{start.ranks, job.program.words};
  if (start.is_first) return run_first(start, std::move(job), words, terminal);
  const Patience patience(3);
  return run_node({.address = start.address,
                   .port = start.port,
                   .node = start.own,
                   .words = words,
                   .timeout = job.patience,
                   .interrupts = interrupts,
                   .output = [&](auto text) { terminal.out << text << std::flush; },
                   .errors = [&](auto text) { terminal.err << text; }});
}

}  // namespace shardwright
