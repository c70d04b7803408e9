#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <ostream>

#include "shardwright/base/file.h"
#include "shardwright/base/text.h"
#include "shardwright/cli/agreements.h"
#include "shardwright/cli/measure_host.h"
#include "shardwright/cli/measured_runs.h"
#include "shardwright/cli/mpi_rank.h"
#include "shardwright/cli/programs.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/runtime/data/csv_records.h"
#include "shardwright/runtime/launcher.h"
#include "shardwright/runtime/trace_samples.h"

namespace shardwright::verbs {
namespace {

struct Samples {
  std::vector<StreamSample> streams = {};
  std::vector<KernelSample> kernels = {};
  std::vector<CollectiveSample> collectives = {};
};

/// What a host is before anything is measured: its cores and memory, and that what communicates is what computes.
Cluster unmeasured(int hosts, int devices) {
  Cluster out = host_cluster(devices);
  const double memory =
      static_cast<double>(sysconf(_SC_PHYS_PAGES)) * static_cast<double>(sysconf(_SC_PAGE_SIZE));
  out.memory_bytes = static_cast<std::int64_t>(memory / devices);
  if (hosts == 1) return out;
  out = cluster_called(fmt::format("cpu:{}x{}", hosts, devices));
  out.memory_bytes = static_cast<std::int64_t>(memory / devices);
  return out;
}

std::string cpu_name() {
  std::ifstream info("/proc/cpuinfo");
  for (std::string line; std::getline(info, line);)
    if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
  return "an unknown CPU";
}

/// Behind the figures, what they come from: comments of the file.
std::string spread_text(const std::vector<FigureSpread>& spreads) {
  std::string out = "# measured / predicted, quartiles:\n";
  for (const FigureSpread& s : spreads)
    out += fmt::format("#   {}: {:.2f} {:.2f} {:.2f} of {}\n", s.figure, s.low, s.median, s.high, s.samples);
  return out;
}

void write(const Arguments& arguments, const Cluster& cluster, const Samples& samples,
           const std::string& from, Terminal& terminal) {
  const std::vector<FigureSpread> spreads = spreads_of(cluster, samples.kernels, samples.collectives);
  const std::string text = fmt::format("# {}\n{}{}", from, to_text(cluster), spread_text(spreads));
  parse_cluster(text, arguments.text("--out"));  // is one, whatever was measured
  write_file(arguments.text("--out"), text);
  terminal.err << spread_text(spreads);
  if (!arguments.is_on("--json")) {
    terminal.out << fmt::format("{} says what {} devices do\n", arguments.text("--out"), cluster.devices());
    return;
  }
  nlohmann::ordered_json figures = nlohmann::ordered_json::array();
  for (const FigureSpread& s : spreads)
    figures.push_back({{"figure", s.figure},
                       {"samples", s.samples},
                       {"measured_over_predicted", {s.low, s.median, s.high}}});
  terminal.out << nlohmann::ordered_json{{"cluster", to_text(cluster)}, {"spreads", figures}}.dump() << "\n";
}

/// Before kernels are measured, whose works say what caches hold.
void fit_streams(Cluster& cluster, const std::vector<StreamSample>& streams) {
  fit_memory(cluster, streams);
  cluster.memory_bytes_per_second = rounded(cluster.memory_bytes_per_second);
  for (CacheLevel& cache : cluster.caches)
    cache = {static_cast<std::int64_t>(rounded(static_cast<double>(cache.bytes))),
             rounded(cache.bytes_per_second)};
}

void fit(Cluster& cluster, const Samples& samples, Peaks peaks) {
  fit_kernels(cluster, samples.kernels, peaks);
  fit_links(cluster, samples.collectives);
  round_figures(cluster);
}

/// Over threads of this process.
int measure_threads(const Arguments& arguments, Terminal& terminal) {
  const int devices = static_cast<int>(arguments.integer("--devices", usable_cores(), 1, 1024));
  const HostMeasuring how{.device = device_of(arguments),
                          .devices = devices,
                          .is_quick = arguments.is_on("--quick"),
                          .progress = arguments.progress};
  arguments.check_heeded(terminal.err);
  require_writable(arguments.text("--out"));
  if (devices > usable_cores())
    terminal.err << fmt::format(
        "{} devices share {} cores: what is measured has their waiting for a core in it\n", devices,
        usable_cores());
  Cluster cluster = unmeasured(1, devices);
  Samples samples{.streams = measured_streams(how)};
  fit_streams(cluster, samples.streams);
  samples.kernels = measured_kernels(how, cluster);
  samples.collectives = measured_collectives(how);
  fit(cluster, samples, Peaks::measured);
  write(arguments, cluster, samples,
        fmt::format("measured on {}, {} cores, over threads", cpu_name(), usable_cores()), terminal);
  return 0;
}

int environment_number(const char* name, int otherwise) {
  const char* text = std::getenv(name);
  return text ? static_cast<int>(to_integer(text).value_or(otherwise)) : otherwise;
}

/// How the ranks that mpirun has started lie on hosts, as many on each.
struct RanksOnHosts {
  int ranks = 1, of_host = 1;

  int hosts() const { return ranks / of_host; }
};

RanksOnHosts ranks_on_hosts(const Arguments& arguments, const MpiProcess& process) {
  const int ranks = process.size();
  const int of_host = std::clamp(environment_number("OMPI_COMM_WORLD_LOCAL_SIZE", ranks), 1, ranks);
  if (static_cast<int>(arguments.integer("--devices", ranks)) != ranks)
    throw error("--devices {} but mpirun has started {} ranks", arguments.text("--devices"), ranks);
  if (ranks % of_host != 0)
    throw error("{} ranks do not fill hosts of {}; start as many on each host", ranks, of_host);
  return {ranks, of_host};
}

/// Of groups inside a host, across hosts, and of all.
std::vector<CollectiveSample> collectives_of(const HostMeasuring& how, const RanksOnHosts& lie,
                                             Communicator& all, Backend& backend) {
  std::vector<CollectiveSample> out;
  const auto add = [&](int group, int stride) {
    if (lie.ranks % (group * stride) != 0) return;
    const auto more = measured_collectives(how, all, backend, group, stride);
    out.insert(out.end(), more.begin(), more.end());
  };
  for (int group = 2; group < lie.of_host; group *= 2) add(group, 1);
  if (lie.of_host > 1) add(lie.of_host, 1);
  if (lie.hosts() > 1) {
    add(lie.hosts(), lie.of_host);
    if (lie.of_host > 1) add(lie.ranks, 1);
  }
  return out;
}

/// As one rank of those that mpirun has started; the first writes.
int measure_ranks(const Arguments& arguments, Terminal& terminal) {
  RanksOnHosts lie;
  HostMeasuring how{.device = device_of(arguments), .is_quick = arguments.is_on("--quick")};
  const auto prepare = [&](const MpiProcess& process) {
    lie = ranks_on_hosts(arguments, process);
    how.first_core = environment_number("OMPI_COMM_WORLD_LOCAL_RANK", process.rank());
    arguments.check_heeded(terminal.err);
    if (process.rank() == 0) require_writable(arguments.text("--out"));
    return agreements_of(arguments);
  };
  const auto measure = [&](MpiProcess& process) {
    Cluster cluster = unmeasured(lie.hosts(), lie.of_host);
    const auto all = process.communicator(lie.ranks);
    const auto backend = how.device.backend(process.rank());
    backend->enter_thread();
    all->barrier();
    Samples samples{.streams = measured_streams(how)};
    fit_streams(cluster, samples.streams);
    samples.kernels = measured_kernels(how, cluster);
    keep_on_core(how.first_core);
    samples.collectives = collectives_of(how, lie, *all, *backend);
    if (process.rank() != 0) return 0;
    fit(cluster, samples, Peaks::measured);
    write(arguments, cluster, samples,
          fmt::format("measured on {}, {} processes on {} hosts", cpu_name(), lie.ranks, lie.hosts()),
          terminal);
    return 0;
  };
  return run_as_mpi_rank({prepare, measure}, terminal);
}

/// Corrects a cluster by what a training has recorded.
int correct(const Arguments& arguments, Terminal& terminal) {
  const std::string path = arguments.text("--from");
  const TraceSamples trace = samples_of_trace(path);
  Cluster cluster = trace.cluster;
  if (arguments.has("--cluster")) {
    cluster = cluster_called(arguments.text("--cluster"));
    if (cluster.caches != trace.cluster.caches)
      throw error("--cluster {} has other caches than the cluster that {} was planned for; give that one",
                  cluster.name, path);
  }
  arguments.check_heeded(terminal.err);
  require_writable(arguments.text("--out"));
  const Samples samples{.kernels = trace.kernels, .collectives = trace.collectives};
  fit(cluster, samples, Peaks::at_least);
  write(arguments, cluster, samples, fmt::format("corrected by {}", path), terminal);
  return 0;
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (!arguments.has("--out")) throw error("calibrate needs --out FILE, the cluster file to write");
  arguments.heed("--out");
  arguments.heed("--json");
  if (arguments.has("--from"))
    return is_csv(Arguments(arguments).text("--from")) ? correct_by_runs(arguments, terminal)
                                                       : correct(arguments, terminal);
  return launched_rank() ? measure_ranks(arguments, terminal) : measure_threads(arguments, terminal);
}

}  // namespace

std::vector<Verb> calibrate() {
  return {
      {.name = "calibrate",
       .doc = "measure this host, or correct a cluster by a trace or by runs, and write a cluster file",
       .positionals = {},
       .flags =
           {{"--out", "C.yaml", "the cluster file to write", ""},
            {"--devices", "N", "how many threads are devices (default: the cores)", ""},
            {"--quick", "", "small sizes and few rounds: seconds, but rough figures", ""},
            {"--from", "TRACE.json|RUNS.csv",
             "measure nothing, take what train --trace has recorded, or a table of runs (docs/cost-model.md)",
             ""},
            {"--cluster", "C", "with --from: what to correct (default: what a trace was trained for)", ""},
            {"--json", "", "the cluster and the spread of its figures as one JSON document", ""}},
       .example = "shardwright calibrate --out here.yaml",
       .run = run,
       .joins_mpirun = true}};
}

}  // namespace shardwright::verbs
