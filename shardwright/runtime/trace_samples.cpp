#include "shardwright/runtime/trace_samples.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>

#include "shardwright/base/file.h"
#include "shardwright/base/median.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/runtime/recorded_file.h"

namespace shardwright {
namespace {

using Json = nlohmann::ordered_json;

WorkKind work_kind_called(const std::string& name) {
  for (const WorkKind kind : work_kinds)
    if (name == name_of(kind)) return kind;
  throw error("'{}' is no kind of work", name);
}

/// Of those that a group does together.
StepKind collective_called(const std::string& name) {
  using enum StepKind;
  for (const StepKind kind : {all_gather, all_to_all, reduce_scatter, all_reduce, permute, halo})
    if (name == name_of(kind)) return kind;
  throw error("'{}' is no collective", name);
}

Work work_of(const Json& json) {
  const std::string type = json.at("type").get<std::string>();
  const auto dtype = dtype_of(type);
  if (!dtype) throw error("'{}' is no type", type);
  Work out{.kind = work_kind_called(json.at("kind").get<std::string>()),
           .flops = json.at("flops").get<double>(),
           .bytes = json.at("bytes").get<double>(),
           .dtype = *dtype,
           .row_bytes = json.value("row_bytes", std::int64_t{0}),
           .is_batched = json.value("is_batched", false),
           .is_ordered = json.at("is_ordered").get<bool>(),
           .cached = json.at("cached_bytes").get<std::array<double, most_caches>>()};
  return out;
}

/// Runs of one kernel or collective: equal works of equal nodes.
struct Runs {
  Json work;
  std::map<int, std::vector<double>> seconds;  // by rank
};

/// Of all ranks together.
double median_of_all(const Runs& runs) {
  std::vector<double> all;
  for (const auto& [rank, seconds] : runs.seconds) all.insert(all.end(), seconds.begin(), seconds.end());
  return median_of(std::move(all));
}

/// Of each time the shortest of all ranks, which the others have waited for. Nothing if one has not told each time.
std::optional<double> median_of_last(const Runs& runs) {
  std::vector<double> shortest = runs.seconds.begin()->second;
  for (const auto& [rank, seconds] : runs.seconds) {
    if (seconds.size() != shortest.size()) return std::nullopt;
    for (std::size_t i = 0; i < seconds.size(); ++i) shortest[i] = std::min(shortest[i], seconds[i]);
  }
  return median_of(std::move(shortest));
}

/// A stretch in which a rank computes or communicates.
struct Busy {
  double begin = 0, end = 0;  // microseconds
  const Json* event = nullptr;
};

/// What a rank does while nothing else is going on: of a transfer beside compute, or behind another one, nobody can say
/// how long it takes.
std::map<int, std::vector<Busy>> alone_by_rank(const Json& events) {
  const std::map<int, int> rank_of = ranks_of_tracks(events);
  std::map<int, std::vector<Busy>> all;
  for (const Json& event : events) {
    const std::string category = event.value("cat", "");
    if (event.value("ph", "") != "X" || (category != "compute" && category != "communication")) continue;
    const auto rank = rank_of.find(event.at("tid").get<int>());
    const double begin = event.value("ts", 0.0);
    all[rank == rank_of.end() ? -1 : rank->second].push_back(
        {begin, begin + event.at("dur").get<double>(), &event});
  }
  constexpr double clock = 0.02;  // microseconds: what times are rounded to
  for (auto& [rank, busy] : all) {
    std::ranges::stable_sort(busy, {}, &Busy::begin);
    std::vector<Busy> alone;
    double before = -1;
    for (std::size_t i = 0; i < busy.size(); ++i) {
      const bool is_alone = before <= busy[i].begin + clock &&
                            (i + 1 == busy.size() || busy[i + 1].begin >= busy[i].end - clock);
      if (is_alone || busy[i].event->value("cat", "") == "compute") alone.push_back(busy[i]);
      before = std::max(before, busy[i].end);
    }
    busy = std::move(alone);
  }
  return all;
}

/// By category, stage and nodes.
std::map<std::string, Runs> runs_of(const Json& events) {
  std::map<std::string, Runs> out;
  for (const auto& [rank, busy] : alone_by_rank(events))
    for (const Busy& b : busy) {
      const Json& event = *b.event;
      if (!event.contains("args") || !event["args"].contains("work") || b.end <= b.begin) continue;
      Runs& runs = out[fmt::format("{} {} {}", event.at("cat").get<std::string>(), event.at("pid").get<int>(),
                                   event["args"]["nodes"].dump())];
      runs.work = event["args"]["work"];
      runs.seconds[rank].push_back((b.end - b.begin) * 1e-6);
    }
  return out;
}

/// Nothing of what only runs together with others, and of groups that do not divide the devices.
std::optional<CollectiveSample> collective_of(const Runs& runs, int devices) {
  const Json& bytes = runs.work.at("bytes");
  const int ranks = runs.work.at("ranks").get<int>(), stride = runs.work.at("stride").get<int>();
  if (bytes.size() != 1 || ranks < 2 || stride < 1 || ranks > devices || devices % ranks != 0 ||
      devices / ranks % stride != 0)
    return std::nullopt;
  const std::optional<double> seconds = median_of_last(runs);
  if (!seconds) return std::nullopt;
  return CollectiveSample{collective_called(runs.work.at("collective").get<std::string>()), ranks, stride,
                          bytes.front().get<double>(), *seconds};
}

TraceSamples samples_of(const Json& json, const std::string& path) {
  TraceSamples out{.cluster = parse_cluster(json["otherData"].at("cluster").get<std::string>(), path)};
  double all = 0;
  for (const auto& [key, runs] : runs_of(json.at("traceEvents"))) {
    if (!runs.work.contains("collective")) {
      out.kernels.push_back({work_of(runs.work), median_of_all(runs)});
      all += out.kernels.back().seconds;
      continue;
    }
    if (const auto sample = collective_of(runs, out.cluster.devices())) out.collectives.push_back(*sample);
  }
  if (out.kernels.empty()) throw error("has no kernels that say what they do");
  for (KernelSample& k : out.kernels) k.weight = 1 / all;
  return out;
}

}  // namespace

TraceSamples samples_of_trace(const std::string& path) {
  const std::string text = read_text(path, most_trace_bytes);  // says itself what it cannot read
  try {
    return samples_of(trace_document(text), path);
  } catch (const Json::exception& e) {
    throw error("{}: is no trace of this program: {}", path, e.what());
  } catch (const Error& e) {
    throw with_context(e, path);
  }
}

}  // namespace shardwright
