// Clusters written as files (cluster_file.h).

#include "shardwright/base/quantity.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/cost/yaml_text.h"

namespace shardwright {

RowLines usual_rows(const Cluster& c) { return c.links.front().kind == memory_link ? no_lines : RowLines{}; }

namespace {

template <class T>
void say(YAML::Emitter& out, std::string_view key, const T& value) {
  out << YAML::Key << std::string(key) << YAML::Value << value;
}

void say_flops(YAML::Emitter& out, const PeakFlops& flops) {
  out << YAML::Key << "flops" << YAML::Value << YAML::Flow << YAML::BeginMap;
  for (const auto& [name, rate] :
       {std::pair{"f64", flops.f64}, {"f32", flops.f32}, {"bf16", flops.bf16}, {"fp16", flops.f16}})
    if (rate > 0) out << YAML::Key << name << YAML::Value << quantity_text(rate, "");
  out << YAML::EndMap;
}

void say_host(YAML::Emitter& out, const HostLink& host) {
  out << YAML::Key << "host" << YAML::Value << YAML::BeginMap;
  say(out, "bandwidth", quantity_text(host.bytes_per_second, "B/s"));
  say(out, "latency", quantity_text(host.latency_seconds, "s"));
  if (host.memory_bytes > 0) say(out, "memory", quantity_text(static_cast<double>(host.memory_bytes), "B"));
  say_flops(out, host.flops_per_second);
  say(out, "memory_bandwidth", quantity_text(host.memory_bytes_per_second, "B/s"));
  out << YAML::EndMap;
}

void say_links(YAML::Emitter& out, const std::vector<LinkLevel>& links) {
  out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
  for (const LinkLevel& link : links) {
    out << YAML::Flow << YAML::BeginMap;
    say(out, "kind", link.kind);
    say(out, "devices", link.devices);
    say(out, "latency", quantity_text(link.latency_seconds, "s"));
    say(out, "bandwidth", quantity_text(link.bytes_per_second, "B/s"));
    say(out, "start", quantity_text(link.start_seconds, "s"));
    if (link.member_seconds > 0) say(out, "member", quantity_text(link.member_seconds, "s"));
    say(out, "wiring", std::string(name_of(link.wiring)));
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void say_devices(YAML::Emitter& out, const Cluster& c, bool is_kind = false) {
  const auto begin = [&](std::string_view key) {
    out << YAML::Key << std::string(key) << YAML::Value << YAML::Flow << YAML::BeginMap;
  };
  constexpr std::int64_t gibibyte = 1LL << 30;  // as memory is sold
  say(out, "memory",
      c.memory_bytes % gibibyte == 0 ? fmt::format("{}GiB", c.memory_bytes / gibibyte)
                                     : quantity_text(static_cast<double>(c.memory_bytes), "B"));
  say(out, "reserved", quantity_text(static_cast<double>(c.reserved_bytes), "B"));
  say(out, "memory_bandwidth", quantity_text(c.memory_bytes_per_second, "B/s"));
  if (is_kind || !c.caches.empty()) {
    out << YAML::Key << "caches" << YAML::Value << YAML::BeginSeq;
    for (const CacheLevel& cache : c.caches) {
      out << YAML::Flow << YAML::BeginMap;
      say(out, "size", quantity_text(static_cast<double>(cache.bytes), "B"));
      say(out, "bandwidth", quantity_text(cache.bytes_per_second, "B/s"));
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  say_flops(out, c.flops_per_second);
  say(out, "kernel_overhead", quantity_text(c.kernel_seconds, "s"));
  out << YAML::Key << "efficiency" << YAML::Value << YAML::BeginMap;
  for (const WorkKind kind : work_kinds) {
    if (general_kind(kind) != kind && c.efficiency_of(kind) == c.efficiency_of(general_kind(kind))) continue;
    begin(name_of(kind));
    say(out, "best", quantity_text(c.efficiency_of(kind).best, ""));
    say(out, "half", quantity_text(c.efficiency_of(kind).half_seconds, "s"));
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  if (is_kind || c.rows != usual_rows(c)) {
    begin("rows");
    say(out, "line", quantity_text(static_cast<double>(c.rows.line_bytes), "B"));
    say(out, "product", quantity_text(c.rows.product, ""));
    say(out, "batched", quantity_text(c.rows.batched, ""));
    out << YAML::EndMap;
  }
  if (c.price_per_hour) say(out, "price_per_hour", quantity_text(*c.price_per_hour, ""));
}

}  // namespace

std::string to_text(const Cluster& c) {
  YAML::Emitter out;
  out << YAML::BeginMap;
  say(out, "nodes", c.nodes);
  say(out, "devices_per_node", c.devices_per_node);
  if (c.memory_margin) say(out, "margin", share_text(*c.memory_margin));
  say_devices(out, c);
  say_links(out, c.links);
  if (c.host != HostLink{}) say_host(out, c.host);
  say(out, "link_efficiency", quantity_text(c.link_efficiency, ""));
  say(out, "overlap", quantity_text(c.overlap, ""));
  if (c.routing_imbalance != 1) say(out, "routing_imbalance", quantity_text(c.routing_imbalance, ""));
  if (!c.kinds.empty()) {
    out << YAML::Key << "kinds" << YAML::Value << YAML::BeginSeq;
    Cluster usual = c;
    usual.kinds.clear();
    int first = 0;
    for (const Cluster& kind : c.kinds) {
      out << YAML::BeginMap;
      say(out, "devices", kind.devices());
      say_devices(out, kind, true);
      if (usual.part(first, kind.devices()).links != kind.links) say_links(out, kind.links);
      first += kind.devices();
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  out << YAML::EndMap;
  return std::string(out.c_str()) + "\n";
}

}  // namespace shardwright
