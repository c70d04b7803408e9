// Starts a job on one host or many, and again when it is lost.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <climits>
#include <filesystem>
#include <ostream>

#include "shardwright/cli/batch_scripts.h"
#include "shardwright/cli/interrupts.h"
#include "shardwright/cli/job.h"
#include "shardwright/cli/started_apart.h"
#include "shardwright/cli/survival.h"
#include "shardwright/cli/waiting.h"
#include "shardwright/runtime/launch/node.h"

namespace shardwright::verbs {
namespace {

/// How hosts are found, of which there is one way.
constexpr std::array ways{"--hosts", "--rank-table", "--slurm", "--kubernetes", "--master-addr"};

std::string way_of(const Arguments& arguments) {
  std::vector<std::string> said;
  for (const char* way : ways)
    if (arguments.has(way)) said.emplace_back(way);
  if (said.size() > 1) throw error("{} and {}: give one of them", said[0], said[1]);
  return said.empty() ? "" : said.front();
}

/// What stands behind `--`.
std::vector<std::string> program_words(const Arguments& arguments) {
  const auto dashes = std::ranges::find(arguments.words, "--");
  const std::vector<std::string> out(dashes == arguments.words.end() ? dashes : dashes + 1,
                                     arguments.words.end());
  if (arguments.positionals.size() > out.size())
    throw error(
        "'{}' stands in front of --; what is to be launched stands behind it: launch --devices 4 -- train "
        "ffn",
        arguments.positionals.front());
  return out;
}

/// Of the flag, the program's own words, or the slots that there are; `otherwise` 0: somebody has to say it.
int devices_of(const Arguments& arguments, const LaunchedProgram& program, int otherwise,
               std::string_view from) {
  const auto said =
      arguments.has("--devices")
          ? std::optional(static_cast<int>(arguments.integer("--devices", 1, 1, most_launched_ranks)))
          : std::nullopt;
  if (said && program.devices && *said != *program.devices)
    throw error("--devices {} but {} is for {}", *said, program.words.front(), *program.devices);
  if (said) return *said;
  if (program.devices) return *program.devices;
  if (otherwise == 0) throw error("launch: how many devices are there? give --devices N{}", from);
  return otherwise;
}

int count(const Arguments& arguments, const char* flag, int least, int most) {
  return static_cast<int>(arguments.integer(flag, least, least, most));
}

/// Throws: Error if one of `flags` is there, which `way` has no use for.
void check_without(const Arguments& arguments, std::initializer_list<const char*> flags,
                   const std::string& needs) {
  for (const char* flag : flags)
    if (arguments.has(flag)) throw error("{} {}: goes with {}", flag, arguments.text(flag), needs);
}

BatchJob batch_job(const Arguments& arguments, const LaunchedProgram& program) {
  check_without(arguments, {"--node-rank", "--master-port"}, "--master-addr");
  BatchJob out{.devices = devices_of(arguments, program, 0, ""),
               .hosts = count(arguments, "--nodes", 1, most_launched_ranks),
               .program_words = program.words};
  if (out.hosts > out.devices)
    throw error("--nodes {}: there are {} devices for them", out.hosts, out.devices);
  for (const char* flag : {"--log-dir", "--timeout", "--net", "--restarts", "--survive", "--survive-every"})
    if (arguments.has(flag)) out.launch_words.insert(out.launch_words.end(), {flag, arguments.text(flag)});
  if (arguments.is_on("--elastic")) out.launch_words.emplace_back("--elastic");
  return out;
}

/// Of the flags, or the training's own.
std::optional<SurvivalAsked> survival_of(const Arguments& arguments, const LaunchedProgram& program) {
  const std::optional<int> own = program.survives();
  const std::string every = arguments.text("--survive-every");
  if (!arguments.has("--survive") && !own) {
    if (!every.empty()) throw error("--survive-every {} says how often; give --survive F, too", every);
    return std::nullopt;
  }
  if (!every.empty()) arguments.integer("--survive-every", 1);
  const int lost = arguments.has("--survive") ? count(arguments, "--survive", 0, most_launched_ranks) : *own;
  if (own && *own != lost) throw error("--survive {} but {} is told {}", lost, program.words.front(), *own);
  return SurvivalAsked{lost, every};
}

Job job_of(const Arguments& arguments) {
  Job job{.program = launched_program(program_words(arguments))};
  job.log_folder = arguments.text("--log-dir");
  if (!job.log_folder.empty()) job.log_folder = std::filesystem::absolute(job.log_folder).string();
  job.patience = timeout_of(arguments);
  if (arguments.has("--timeout")) job.timeout = arguments.text("--timeout");
  job.hosts.net = arguments.text("--net", job.program.net());
  job.survival = survival_of(arguments, job.program);
  // What survives the loss of hosts goes on without them.
  const bool is_elastic = arguments.is_on("--elastic") || (job.survival && job.survival->hosts > 0);
  job.restarts = {static_cast<int>(arguments.integer("--restarts", 0, 0, INT_MAX)), is_elastic};
  return job;
}

/// Reached by mpirun.
void add_hosts(const Arguments& arguments, Job& job) {
  check_without(arguments, {"--node-rank", "--master-port", "--nodes"},
                "--master-addr, or --slurm and --kubernetes");
  if (arguments.has("--rank-table")) {
    const std::string path = arguments.text("--rank-table");
    job.hosts.of_ranks = read_rank_table(path);
    const int ranks = static_cast<int>(job.hosts.of_ranks.size());
    job.devices = devices_of(arguments, job.program, ranks, "");
    if (job.devices != ranks) throw error("--devices {} but {} has {} ranks", job.devices, path, ranks);
  } else if (arguments.has("--hosts")) {
    const std::string path = arguments.text("--hosts");
    const std::vector<Host> hosts = read_hosts(path);
    job.devices = devices_of(arguments, job.program, slots_of(hosts), "");
    job.hosts.of_ranks = hosts_of_ranks(hosts, job.devices, fmt::format("--devices {}", job.devices), path);
    job.slots = hosts_of_ranks(hosts, slots_of(hosts), "", path);
  } else {
    job.devices = devices_of(arguments, job.program, 0, ", or hosts with --hosts FILE");
    if (arguments.is_on("--elastic"))
      throw error("--elastic goes on with the hosts that are left, and here is one; give --hosts FILE");
  }
}

/// Evenly; the first ones have one more.
std::vector<int> nodes_of_ranks(int devices, int nodes) {
  std::vector<int> out;
  for (int n = 0; n < nodes; ++n)
    out.insert(out.end(), static_cast<std::size_t>(devices / nodes + (n < devices % nodes)), n);
  return out;
}

/// The same command on each host.
int run_gathered(const Arguments& arguments, Job job, Terminal& terminal) {
  for (const char* flag : {"--master-port", "--node-rank", "--nodes"})
    if (!arguments.has(flag))
      throw error(
          "--master-addr {}: {} is missing; each host is told --master-addr, --master-port, --nodes and its "
          "--node-rank",
          arguments.text("--master-addr"), flag);
  const int nodes = count(arguments, "--nodes", 1, most_launched_ranks),
            node = count(arguments, "--node-rank", 0, nodes - 1);
  const int port = count(arguments, "--master-port", 1024, 65535);
  job.devices = devices_of(arguments, job.program, 0, "");
  if (nodes > job.devices) throw error("--nodes {}: there are {} devices for them", nodes, job.devices);
  NodeWords words{nodes, job.program.words};
  words.program.insert(words.program.begin(), {"--devices", fmt::to_string(job.devices), "--"});
  check(job, nodes);
  const std::string address = arguments.text("--master-addr");  // which node 0 is
  arguments.check_heeded(terminal.err);
  if (node > 0) {
    const Patience patience(3);
    return run_node({.address = address,
                     .port = port,
                     .node = node,
                     .words = words,
                     .timeout = job.patience,
                     .interrupts = interrupts,
                     .output = [&](auto text) { terminal.out << text << std::flush; },
                     .errors = [&](auto text) { terminal.err << text; }});
  }
  Assembly assembly({.port = port, .words = words, .timeout = job.patience, .called = "--master-port"});
  assembly.wait_for_all(job.patience);
  job.assembly = &assembly;
  job.nodes = nodes_of_ranks(job.devices, nodes);
  for (const int each : job.nodes) job.hosts.of_ranks.push_back(assembly.host_of(each));
  return shardwright::run(std::move(job), terminal);
}

int run(const Arguments& arguments, Terminal& terminal) {
  const std::string way = way_of(arguments);
  Job job = job_of(arguments);
  if (way == "--slurm" || way == "--kubernetes") {
    arguments.heed(way);
    const BatchJob batch = batch_job(arguments, job.program);
    job.log_folder.clear();  // is made where it runs
    check(job, batch.hosts);
    arguments.check_heeded(terminal.err);
    terminal.out << (way == "--slurm" ? slurm_script(batch) : kubernetes_manifest(batch));
    return 0;
  }
  if (!job.hosts.net.empty()) check_net(job.hosts.net);
  if (way.empty() && is_started_as_mindspore())
    if (const auto start = started_apart()) {
      if (arguments.has("--devices"))
        job.program.devices = count(arguments, "--devices", 1, most_launched_ranks);
      check(job, start->ranks);
      arguments.check_heeded(terminal.err);
      return run_apart(*start, std::move(job), terminal);
    }
  if (way == "--master-addr") return run_gathered(arguments, std::move(job), terminal);
  add_hosts(arguments, job);
  check(job, count_of_hosts(job.hosts));
  arguments.check_heeded(terminal.err);
  return shardwright::run(std::move(job), terminal);
}

}  // namespace

std::vector<Verb> launch() {
  return {
      {.name = "launch",
       .doc = "start a training, or another program, on the devices of one host or many, and again when it "
              "is lost",
       .positionals = {"-- PROGRAM..."},
       .flags = {{"--devices", "N", "processes, one for each device (default: what the hosts have)", ""},
                 {"--hosts", "FILE", "hosts, a line each: NAME slots=N, as Open MPI reads them", ""},
                 {"--rank-table", "FILE", "hosts and ranks as MindSpore's rank tables say them", ""},
                 {"--master-addr", "A", "where node 0 is: without ssh, the same command runs on each host",
                  ""},
                 {"--master-port", "P", "and its port there", ""},
                 {"--nodes", "M", "how many hosts there are", ""},
                 {"--node-rank", "R", "which of them this is, from 0 on", ""},
                 {"--net", "NAME", "the network interface between hosts, or a network: eth1, 10.0.0.0/24",
                  ""},
                 {"--log-dir", "DIR", "keep what each rank prints, as DIR/1/rank.N/stdout and stderr", ""},
                 {"--restarts", "K",
                  "go on from the last checkpoint, up to K times, when a rank or a host was lost", ""},
                 survive_flag(),
                 survive_every_flag(),
                 {"--elastic", "", "restart on the hosts that are left, planned anew for them", ""},
                 {"--timeout", "S",
                  "for hosts to be there, and for signs of life, also of train's ranks (default: 60s)", ""},
                 {"--slurm", "", "print a batch script for Slurm that does this", ""},
                 {"--kubernetes", "", "print an MPIJob for Kubernetes that does this", ""}},
       .example = "shardwright launch --hosts hosts --restarts 3 -- train ffn --save run --save-every 100",
       .run = run,
       .starts_apart = true}};
}

}  // namespace shardwright::verbs
