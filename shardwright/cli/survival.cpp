#include "shardwright/cli/survival.h"

#include <fmt/format.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/host_name.h"
#include "shardwright/base/index.h"
#include "shardwright/base/quantity.h"
#include "shardwright/runtime/checkpoint/memory_file.h"
#include "shardwright/runtime/host_memory.h"
#include "shardwright/runtime/launch/hosts.h"
#include "shardwright/runtime/launch/keeper.h"

namespace shardwright {
namespace {

constexpr const char* survive_word = "--survive";
constexpr const char* survive_every_word = "--survive-every";

std::int64_t bytes_in(const std::string& folder) {
  std::int64_t out = 0;
  std::error_code failure;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(folder, failure))
    if (entry.is_regular_file(failure)) out += static_cast<std::int64_t>(entry.file_size(failure));
  return out;
}

std::int64_t kept_on(int host, const std::vector<CopiedShard>& shards) {
  std::int64_t out = 0;
  for (const CopiedShard& shard : shards)
    for (const CopyPlace& place : shard.places)
      if (place.host == host) out += shard.bytes;
  return out;
}

/// Of a rank's link to other hosts, where the plan's cluster has some.
std::optional<double> link_of(const Cluster& cluster) {
  if (cluster.nodes < 2 || cluster.links.empty()) return std::nullopt;
  return cluster.links.back().bytes_per_second * cluster.link_efficiency;
}

}  // namespace

Flag survive_flag() {
  return {survive_word, "F",
          "copies of the training's state on F hosts more, in memory: any F of them may be lost, and it goes "
          "on without a disk (of a job that launch starts)",
          ""};
}

Flag survive_every_flag() {
  return {survive_every_word, "K", "renew them behind every K-th step (default 1)", ""};
}

bool is_to_survive(const Arguments& arguments) { return arguments.has(survive_word); }

void check_survival(const Arguments& arguments) {
  if (!is_to_survive(arguments)) {
    if (arguments.has(survive_every_word))
      throw error("{} {} says how often; give --survive F, too", survive_every_word,
                  arguments.text(survive_every_word));
    return;
  }
  if (!std::getenv(variable_of_keeper))
    throw error(
        "--survive {}: copies are kept on each host beside the job, by launch: launch --hosts FILE "
        "--restarts "
        "K --survive {} -- train ...",
        arguments.text(survive_word), arguments.text(survive_word));
}

Survival::Survival(const Arguments& arguments)
    : lost_hosts_(static_cast<int>(arguments.integer(survive_word, 0, 0, most_launched_ranks))),
      every_(arguments.integer(survive_every_word, 1)),
      is_json_(arguments.has("--json")),
      keeper_(keeper_folder(std::getenv(variable_of_keeper))) {
  std::error_code failure;
  if (!std::filesystem::is_directory(keeper_, failure))
    throw error("--survive {}: host {} has no {}: what should keep copies there has ended", lost_hosts_,
                host_name(), keeper_);
}

void Survival::recover(MpiProcess& process) {
  rank_ = process.rank();
  hosts_ = process.hosts();
  const int count = *std::ranges::max_element(hosts_) + 1;
  if (lost_hosts_ >= count)
    throw error("--survive {}: the job has {} host{}; {}", lost_hosts_, count, count == 1 ? "" : "s",
                count == 1 ? "give more" : fmt::format("{} of them may be lost at most", count - 1));
  recovered_ = recovered_state(process, keeper_);
}

std::optional<Checkpoint> Survival::recovered() const {
  if (!recovered_) return std::nullopt;
  return Checkpoint{recovered_->folder, recovered_->step};
}

void Survival::certify(const PreparedTraining& training) {
  const Pipeline& pipeline = training.program.pipeline();
  const KeptValues kept(pipeline);
  shards_ = copied_shards(pipeline, kept, hosts_, lost_hosts_ + 1);
  price_ = price_of(shards_, link_of(training.cluster).value_or(1));
  const std::int64_t needed = 2 * kept_on(hosts_[at(rank_)], shards_);
  const std::string demand =
      fmt::format("--survive {}: host {} keeps copies of {} in memory, twice while they are renewed",
                  lost_hosts_, host_name(), bytes_text(needed / 2));
  const std::int64_t held = bytes_in(keeper_);
  if (const std::int64_t there = free_bytes_at(keeper_) + held; needed > there)
    throw error("{}, and /dev/shm has {}; make it larger (mount -o remount,size=...), or take more hosts",
                demand, bytes_text(there));
  const auto memory = free_memory();
  const std::int64_t devices = memory_of_devices_here(pipeline).arena_bytes;
  if (memory && needed > memory->bytes + held - devices)
    throw error("{}, and {} {}, of which its devices take {}; survive fewer, or take more hosts", demand,
                memory->said_by, bytes_text(memory->bytes + held), bytes_text(devices));
}

void Survival::tell(const PreparedTraining& training, Terminal& terminal) const {
  const auto link = link_of(training.cluster);
  const bool goes_on = training.checkpoints.resumes_from_copies;
  const int hosts = *std::ranges::max_element(hosts_) + 1;
  if (is_json_) {
    nlohmann::ordered_json price{{"lost_hosts", lost_hosts_},
                                 {"hosts", hosts},
                                 {"every", every_},
                                 {"state_bytes", price_.state_bytes},
                                 {"memory_bytes_per_host", 2 * price_.host_bytes},
                                 {"sent_bytes_per_host", price_.sent_bytes}};
    price["seconds"] = link ? nlohmann::ordered_json(price_.seconds) : nlohmann::ordered_json();
    terminal.out << nlohmann::ordered_json{{"survive", price}}.dump() << "\n";
    if (goes_on)
      terminal.out
          << nlohmann::ordered_json{{"resumed",
                                     {{"from", "copies"}, {"step", recovered_->step}, {"hosts", hosts}}}}
                 .dump()
          << "\n";
    terminal.out << std::flush;
    return;
  }
  const std::string sent =
      price_.sent_bytes == 0
          ? "which the plan has there already: nothing is sent"
          : fmt::format("a host sends up to {}{}", bytes_text(price_.sent_bytes),
                        link ? fmt::format(", in {:.3g} s beside the steps", price_.seconds)
                             : ", over links of which --cluster says nothing");
  terminal.out << fmt::format(
      "survives {} of {} host{}: each part of {} of state on {}, behind {} step; {}; a host keeps {} in "
      "memory\n",
      lost_hosts_, hosts, hosts == 1 ? "" : "s", bytes_text(price_.state_bytes), price_.copies,
      every_ == 1 ? "each" : fmt::format("every {}th", every_), sent, bytes_text(2 * price_.host_bytes));
  if (goes_on)
    terminal.err << fmt::format("goes on behind {} steps, from copies in the memory of {} host{}\n",
                                recovered_->step, hosts, hosts == 1 ? "" : "s");
  terminal.out << std::flush;
}

void Survival::fetch(MpiProcess& process, PreparedTraining& training) const {
  if (!training.checkpoints.resumes_from_copies) return;
  shardwright::fetch(process, *recovered_, KeptValues(training.program.pipeline()));
  training.checkpoints.resume = {CheckpointReader(recovered_->folder)};
}

std::unique_ptr<StateCopies> Survival::copies_of(Session& session, MpiProcess& process,
                                                 const PreparedTraining& training, Terminal& terminal) const {
  return std::make_unique<StateCopies>(
      session, process,
      CopyOptions{.folder = keeper_,
                  .resumed = training.checkpoints.resumes_from_copies ? recovered_->place : "",
                  .hosts = hosts_,
                  .shards = shards_,
                  .plan = training.asked.options.plan,
                  .every = every_,
                  .notice = [&terminal](const std::string& text) { terminal.err << text << "\n"; }});
}

void Survival::tell(const CopyFigures& figures, Terminal& terminal) const {
  const double saves = std::max<double>(1, static_cast<double>(figures.saves));
  const double pause = figures.pause_seconds / saves, seconds = figures.seconds / saves;
  if (is_json_)
    terminal.out << nlohmann::ordered_json{{"copies",
                                            {{"saves", figures.saves},
                                             {"pause_seconds", pause},
                                             {"seconds", seconds}}}}
                        .dump()
                 << "\n"
                 << std::flush;
  else if (figures.saves > 0)
    terminal.out << fmt::format("copies: {}, each in {:.3g} s, of which training waited {:.3g} s\n",
                                figures.saves, seconds, pause)
                 << std::flush;
}

}  // namespace shardwright
