// Clusters written as files (cluster_file.h).

#include "shardwright/base/quantity.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/cost/yaml_text.h"

namespace shardwright {

RowLines usual_rows(const Cluster& c) { return c.links.front().kind == memory_link ? no_lines : RowLines{}; }

namespace {

void say_flops(YAML::Emitter& out, const PeakFlops& flops) {
  out << YAML::Key << "flops" << YAML::Value << YAML::Flow << YAML::BeginMap;
  for (const auto& [name, rate] :
       {std::pair{"f64", flops.f64}, {"f32", flops.f32}, {"bf16", flops.bf16}, {"fp16", flops.f16}})
    if (rate > 0) out << YAML::Key << name << YAML::Value << quantity_text(rate, "");
  out << YAML::EndMap;
}

void say_host(YAML::Emitter& out, const HostLink& host) {
  out << YAML::Key << "host" << YAML::Value << YAML::BeginMap;
  const auto say = [&](const char* key, double quantity, std::string_view unit) {
    out << YAML::Key << key << YAML::Value << quantity_text(quantity, unit);
  };
  say("bandwidth", host.bytes_per_second, "B/s");
  say("latency", host.latency_seconds, "s");
  if (host.memory_bytes > 0) say("memory", static_cast<double>(host.memory_bytes), "B");
  say_flops(out, host.flops_per_second);
  say("memory_bandwidth", host.memory_bytes_per_second, "B/s");
  out << YAML::EndMap;
}

void say_links(YAML::Emitter& out, const std::vector<LinkLevel>& links) {
  const auto say = [&](std::string_view key, const auto& value) {
    out << YAML::Key << std::string(key) << YAML::Value << value;
  };
  out << YAML::Key << "links" << YAML::Value << YAML::BeginSeq;
  for (const LinkLevel& link : links) {
    out << YAML::Flow << YAML::BeginMap;
    say("kind", link.kind);
    say("devices", link.devices);
    say("latency", quantity_text(link.latency_seconds, "s"));
    say("bandwidth", quantity_text(link.bytes_per_second, "B/s"));
    say("start", quantity_text(link.start_seconds, "s"));
    if (link.member_seconds > 0) say("member", quantity_text(link.member_seconds, "s"));
    say("wiring", std::string(name_of(link.wiring)));
    out << YAML::EndMap;
  }
  out << YAML::EndSeq;
}

void say_devices(YAML::Emitter& out, const Cluster& c, bool is_kind = false) {
  const auto say = [&](std::string_view key, const auto& value) {
    out << YAML::Key << std::string(key) << YAML::Value << value;
  };
  const auto begin = [&](std::string_view key) {
    out << YAML::Key << std::string(key) << YAML::Value << YAML::Flow << YAML::BeginMap;
  };
  constexpr std::int64_t gibibyte = 1LL << 30;  // as memory is sold
  say("memory", c.memory_bytes % gibibyte == 0 ? fmt::format("{}GiB", c.memory_bytes / gibibyte)
                                               : quantity_text(static_cast<double>(c.memory_bytes), "B"));
  say("reserved", quantity_text(static_cast<double>(c.reserved_bytes), "B"));
  say("memory_bandwidth", quantity_text(c.memory_bytes_per_second, "B/s"));
  if (is_kind || !c.caches.empty()) {
    out << YAML::Key << "caches" << YAML::Value << YAML::BeginSeq;
    for (const CacheLevel& cache : c.caches) {
      out << YAML::Flow << YAML::BeginMap;
      say("size", quantity_text(static_cast<double>(cache.bytes), "B"));
      say("bandwidth", quantity_text(cache.bytes_per_second, "B/s"));
      out << YAML::EndMap;
    }
    out << YAML::EndSeq;
  }
  say_flops(out, c.flops_per_second);
  say("kernel_overhead", quantity_text(c.kernel_seconds, "s"));
  out << YAML::Key << "efficiency" << YAML::Value << YAML::BeginMap;
  for (const WorkKind kind : work_kinds) {
    if (general_kind(kind) != kind && c.efficiency_of(kind) == c.efficiency_of(general_kind(kind))) continue;
    begin(name_of(kind));
    say("best", quantity_text(c.efficiency_of(kind).best, ""));
    say("half", quantity_text(c.efficiency_of(kind).half_seconds, "s"));
    out << YAML::EndMap;
  }
  out << YAML::EndMap;
  if (is_kind || c.rows != usual_rows(c)) {
    begin("rows");
    say("line", quantity_text(static_cast<double>(c.rows.line_bytes), "B"));
    say("product", quantity_text(c.rows.product, ""));
    say("batched", quantity_text(c.rows.batched, ""));
    out << YAML::EndMap;
  }
  if (c.price_per_hour) say("price_per_hour", quantity_text(*c.price_per_hour, ""));
}

}  // namespace

std::string to_text(const Cluster& c) {
  YAML::Emitter out;
  const auto say = [&](std::string_view key, const auto& value) {
    out << YAML::Key << std::string(key) << YAML::Value << value;
  };
  out << YAML::BeginMap;
  say("nodes", c.nodes);
  say("devices_per_node", c.devices_per_node);
  if (c.memory_margin) say("margin", share_text(*c.memory_margin));
  say_devices(out, c);
  say_links(out, c.links);
  if (c.host != HostLink{}) say_host(out, c.host);
  say("link_efficiency", quantity_text(c.link_efficiency, ""));
  say("overlap", quantity_text(c.overlap, ""));
  if (c.routing_imbalance != 1) say("routing_imbalance", quantity_text(c.routing_imbalance, ""));
  if (!c.kinds.empty()) {
    out << YAML::Key << "kinds" << YAML::Value << YAML::BeginSeq;
    Cluster usual = c;
    usual.kinds.clear();
    int first = 0;
    for (const Cluster& kind : c.kinds) {
      out << YAML::BeginMap;
      say("devices", kind.devices());
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
