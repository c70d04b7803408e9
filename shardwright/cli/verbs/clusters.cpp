#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <ostream>

#include "shardwright/base/error.h"
#include "shardwright/cli/verb.h"
#include "shardwright/cost/cluster.h"
#include "shardwright/cost/cluster_file.h"

namespace shardwright::verbs {
namespace {

nlohmann::json json_of(const Cluster& c) {
  nlohmann::json links = nlohmann::json::array();
  for (const LinkLevel& l : c.links)
    links.push_back({{"kind", l.kind},
                     {"devices", l.devices},
                     {"latency_seconds", l.latency_seconds},
                     {"bytes_per_second", l.bytes_per_second},
                     {"start_seconds", l.start_seconds},
                     {"member_seconds", l.member_seconds},
                     {"wiring", name_of(l.wiring)}});
  nlohmann::json efficiency;
  for (const WorkKind kind : work_kinds) {
    const Efficiency& e = c.efficiency_of(kind);
    efficiency[name_of(kind)] = {{"best", e.best}, {"half_seconds", e.half_seconds}};
  }
  nlohmann::json caches = nlohmann::json::array();
  for (const CacheLevel& cache : c.caches)
    caches.push_back({{"bytes", cache.bytes}, {"bytes_per_second", cache.bytes_per_second}});
  const auto rate = [&](DType t) { return c.flops_per_second.of(t); };
  nlohmann::json kinds = nlohmann::json::array();
  for (const Cluster& kind : c.kinds) kinds.push_back(json_of(kind));
  return {
      {"name", c.name},
      {"nodes", c.nodes},
      {"devices_per_node", c.devices_per_node},
      {"flops_per_second",
       {{"f64", rate(DType::f64)},
        {"f32", rate(DType::f32)},
        {"bf16", rate(DType::bf16)},
        {"fp16", rate(DType::f16)}}},
      {"memory_bytes", c.memory_bytes},
      {"reserved_bytes", c.reserved_bytes},
      {"memory_margin", c.margin()},
      {"memory_bytes_per_second", c.memory_bytes_per_second},
      {"caches", std::move(caches)},
      {"kernel_seconds", c.kernel_seconds},
      {"efficiency", efficiency},
      {"rows", {{"line_bytes", c.rows.line_bytes}, {"product", c.rows.product}, {"batched", c.rows.batched}}},
      {"link_efficiency", c.link_efficiency},
      {"overlap", c.overlap},
      {"price_per_hour", c.price_per_hour ? nlohmann::json(*c.price_per_hour) : nullptr},
      {"links", std::move(links)},
      {"kinds", std::move(kinds)}};
}

std::string table_of(const Cluster& c) {
  const auto tera = [&](DType t) { return c.flops_per_second.of(t) / 1e12; };
  std::string out =
      fmt::format("    per device: {:g} Tflop/s f32, {:g} bf16, {:g} fp16, {:g} f64; {:g} GB at {:g} GB/s\n",
                  tera(DType::f32), tera(DType::bf16), tera(DType::f16), tera(DType::f64),
                  static_cast<double>(c.memory_bytes) / 1e9, c.memory_bytes_per_second / 1e9);
  for (const LinkLevel& l : c.links)
    out += fmt::format("    {}: blocks of {}, {:g} GB/s per device, {:g} us a message, {:g} us to start\n",
                       l.kind, l.devices, l.bytes_per_second / 1e9, l.latency_seconds * 1e6,
                       l.start_seconds * 1e6);
  if (c.price_per_hour) out += fmt::format("    {:g} an hour\n", *c.price_per_hour);
  int first = 0;
  for (const Cluster& kind : c.kinds) {
    out += fmt::format("  devices {} to {}: {}\n{}", first, first + kind.devices() - 1, kind.name,
                       table_of(kind));
    first += kind.devices();
  }
  return out;
}

int run(const Arguments& arguments, Terminal& terminal) {
  if (!arguments.positionals.empty()) {
    const Cluster c = cluster_called(arguments.positionals[0]);
    if (arguments.is_on("--yaml"))
      terminal.out << to_text(c);
    else if (arguments.is_on("--json"))
      terminal.out << json_of(c).dump() << "\n";
    else
      terminal.out << fmt::format("{}: {} nodes of {} devices\n{}", c.name, c.nodes, c.devices_per_node,
                                  table_of(c));
    return 0;
  }
  if (arguments.is_on("--yaml")) throw error("--yaml writes one cluster as a file; say which");
  for (const ClusterPreset& p : cluster_presets()) {
    if (arguments.is_on("--json"))
      terminal.out << nlohmann::json{{"name", p.cluster.name}, {"doc", p.doc}}.dump() << "\n";
    else
      terminal.out << fmt::format("{}:N\n    {}\n", p.cluster.name, p.doc);
  }
  return 0;
}

}  // namespace

std::vector<Verb> clusters() {
  return {{.name = "clusters",
           .doc = "list the clusters there are, or show one: PRESET:N, PRESET:NODESxPER_NODE, several with + "
                  "between, or a YAML file",
           .positionals = {"[CLUSTER]"},
           .flags = {{"--json", "", "JSON documents", ""},
                     {"--yaml", "", "write one cluster as YAML, to edit and give to --cluster", ""}},
           .example = "shardwright clusters a100-80g:2x8",
           .run = run}};
}

}  // namespace shardwright::verbs
