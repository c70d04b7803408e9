#include "shardwright/cost/cluster_file.h"

#include <algorithm>
#include <cmath>

#include "shardwright/base/file.h"
#include "shardwright/base/quantity.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/mixed_cluster.h"
#include "shardwright/cost/yaml_text.h"

namespace shardwright {
namespace {

/// `80GB`, `5us`, `2039 GB/s`: a number from 0 on, a prefix and `unit`, or the number alone.
double quantity(std::string_view key, std::string_view text, std::string_view unit) {
  const auto out = to_quantity(text, unit);
  if (!out || std::isnan(*out) || *out < 0)
    throw error("{}: '{}' should be a quantity{}, for example 5G{}", key, text,
                unit.empty() ? "" : fmt::format(" in {}", unit), unit);
  constexpr double most = 1e30;  // of bytes, flops and seconds, so that products of them are numbers
  if (*out > most || (*out > 0 && *out < 1 / most))
    throw error("{}: '{}' should be 0, or from 1e-30 to 1e30", key, text);
  return *out;
}

/// Whole bytes.
std::int64_t bytes_in(std::string_view key, std::string_view text, double quantity) {
  constexpr double most = 0x1p60;
  if (quantity > most)
    throw error("{}: '{}' should be at most {} bytes", key, text, static_cast<std::int64_t>(most));
  return std::llround(quantity);
}

/// A map of `known` keys, whose values are quantities, counts or words; what is not asked for with _or must be there.
class Fields {
 public:
  Fields(const YAML::Node& node, std::string where, const std::vector<std::string>& known)
      : map_(node, std::move(where), known, [](const auto& key, const auto& all) {
          return fmt::format("{}; there are {}", near_names(key, all), join(all, ", "));
        }) {}

  bool has(const std::string& key) const { return map_.has(key); }
  YAML::Node at(const std::string& key) const { return map_.need(key); }
  std::string text(const std::string& key) const {
    map_.need(key);
    return *map_.text(key);
  }
  double quantity(const std::string& key, std::string_view unit) const {
    return shardwright::quantity(name(key), text(key), unit);
  }
  double quantity_or(const std::string& key, std::string_view unit, double otherwise) const {
    return has(key) ? quantity(key, unit) : otherwise;
  }
  double positive(const std::string& key, std::string_view unit) const {
    const double q = quantity(key, unit);
    if (q == 0) throw error("{} should be above 0", name(key));
    return q;
  }
  double share(const std::string& key) const {
    const double q = quantity(key, "");
    if (q > 1) throw error("{} should be at most 1", name(key));
    return q;
  }
  double positive_share(const std::string& key) const {
    if (share(key) == 0) throw error("{} should be above 0", name(key));
    return share(key);
  }
  int count(const std::string& key) const {
    const auto n = to_integer(text(key));
    if (!n || *n < 1 || *n > most_devices)
      throw error("{}: '{}' should be an integer from 1 to {}", name(key), text(key), most_devices);
    return static_cast<int>(*n);
  }
  std::string name(const std::string& key) const { return map_.path_of(key); }

 private:
  YamlMap map_;
};

PeakFlops flops_of(const YAML::Node& node, const std::string& where = "flops") {
  const Fields fields(node, where, {"f64", "f32", "bf16", "fp16"});
  return {.f64 = fields.quantity_or("f64", "", 0),
          .f32 = fields.positive("f32", ""),
          .bf16 = fields.quantity_or("bf16", "", 0),
          .f16 = fields.quantity_or("fp16", "", 0)};
}

using Efficiencies = decltype(Cluster::efficiency);

/// Per kind of work; what is left out keeps its default.
Efficiencies efficiency_of(const YAML::Node& node, Efficiencies out) {
  std::vector<std::string> names;
  for (const WorkKind kind : work_kinds) names.emplace_back(name_of(kind));
  const Fields kinds(node, "efficiency", names);
  for (const WorkKind kind : work_kinds) {
    const std::string name(name_of(kind));
    Efficiency& e = out[static_cast<std::size_t>(kind)];
    if (!kinds.has(name)) {
      if (general_kind(kind) != kind && kinds.has(std::string(name_of(general_kind(kind)))))
        e = out[static_cast<std::size_t>(general_kind(kind))];
      continue;
    }
    const Fields fields(kinds.at(name), kinds.name(name), {"best", "half"});
    e = {.best = fields.positive_share("best"), .half_seconds = fields.quantity_or("half", "s", 0)};
  }
  return out;
}

/// The smallest first.
std::vector<CacheLevel> caches_of(const YAML::Node& node) {
  if (!node.IsSequence() || node.size() > most_caches)
    throw error("caches should be a list of at most {} caches", most_caches);
  std::vector<CacheLevel> out;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Fields fields(node[i], fmt::format("caches[{}]", i), {"size", "bandwidth"});
    const CacheLevel level{.bytes = bytes_in("size", fields.text("size"), fields.positive("size", "B")),
                           .bytes_per_second = fields.positive("bandwidth", "B/s")};
    if (!out.empty() && level.bytes <= out.back().bytes)
      throw error("caches[{}].size: '{}' should be more than that of the cache before it", i,
                  fields.text("size"));
    out.push_back(level);
  }
  return out;
}

Wiring wiring_of(const Fields& fields) {
  if (!fields.has("wiring")) return Wiring::switched;
  const std::string text = fields.text("wiring");
  for (const Wiring w : {Wiring::switched, Wiring::mesh, Wiring::cube})
    if (text == name_of(w)) return w;
  throw error("{}: '{}' should be switched, mesh or cube", fields.name("wiring"), text);
}

/// `all` devices in the last level; each level's block is made of whole blocks of the one before.
std::vector<LinkLevel> links_of(const YAML::Node& node, int all) {
  if (!node.IsSequence() || node.size() == 0) throw error("links should be a list of at least one level");
  std::vector<LinkLevel> out;
  for (std::size_t i = 0; i < node.size(); ++i) {
    const Fields fields(node[i], fmt::format("links[{}]", i),
                        {"kind", "devices", "latency", "bandwidth", "start", "member", "wiring"});
    const bool is_last = i + 1 == node.size();
    LinkLevel level{.kind = fields.text("kind"),
                    .devices = is_last && !fields.has("devices") ? all : fields.count("devices"),
                    .latency_seconds = fields.quantity("latency", "s"),
                    .bytes_per_second = fields.positive("bandwidth", "B/s"),
                    .start_seconds = fields.quantity_or("start", "s", 0),
                    .member_seconds = fields.quantity_or("member", "s", 0),
                    .wiring = wiring_of(fields)};
    const int inner = out.empty() ? 1 : out.back().devices;
    if (is_last && level.devices != all)
      throw error("links[{}].devices: the last link joins all {} devices, not {}", i, all, level.devices);
    if (level.devices % inner != 0)
      throw error("links[{}].devices: blocks of {} are not made of blocks of {}", i, level.devices, inner);
    out.push_back(std::move(level));
  }
  return out;
}

RowLines rows_of(const YAML::Node& node) {
  const Fields fields(node, "rows", {"line", "product", "batched"});
  RowLines out{.line_bytes = bytes_in("rows.line", fields.text("line"), fields.quantity("line", "B"))};
  if (fields.has("product")) out.product = fields.positive_share("product");
  if (fields.has("batched")) out.batched = fields.positive_share("batched");
  return out;
}

/// What is left out keeps its default.
HostLink host_of(const YAML::Node& node, HostLink out) {
  const Fields fields(node, "host", {"bandwidth", "latency", "memory", "flops", "memory_bandwidth"});
  if (fields.has("bandwidth")) out.bytes_per_second = fields.positive("bandwidth", "B/s");
  out.latency_seconds = fields.quantity_or("latency", "s", out.latency_seconds);
  if (fields.has("memory"))
    out.memory_bytes = bytes_in("host.memory", fields.text("memory"), fields.positive("memory", "B"));
  if (fields.has("flops")) out.flops_per_second = flops_of(fields.at("flops"), "host.flops");
  if (fields.has("memory_bandwidth"))
    out.memory_bytes_per_second = fields.positive("memory_bandwidth", "B/s");
  return out;
}

const std::vector<std::string> keys_of_devices{"memory",     "reserved", "memory_bandwidth",
                                               "caches",     "flops",    "kernel_overhead",
                                               "efficiency", "rows",     "price_per_hour"};

/// What of devices is said; else `c` keeps what it has.
void read_devices(const Fields& fields, Cluster& c) {
  if (fields.has("flops")) c.flops_per_second = flops_of(fields.at("flops"), fields.name("flops"));
  if (fields.has("memory_bandwidth")) c.memory_bytes_per_second = fields.positive("memory_bandwidth", "B/s");
  if (fields.has("caches")) c.caches = caches_of(fields.at("caches"));
  if (fields.has("memory")) {
    c.memory_bytes = bytes_in(fields.name("memory"), fields.text("memory"), fields.positive("memory", "B"));
    if (c.memory_bytes < 1)
      throw error("{}: '{}' should be at least 1 byte", fields.name("memory"), fields.text("memory"));
  }
  if (fields.has("reserved"))
    c.reserved_bytes =
        bytes_in(fields.name("reserved"), fields.text("reserved"), fields.quantity("reserved", "B"));
  if (c.reserved_bytes >= c.memory_bytes)
    throw error("{}: '{}' leaves nothing of the memory, which is '{}'", fields.name("reserved"),
                fields.has("reserved") ? fields.text("reserved") : bytes_text(c.reserved_bytes),
                fields.has("memory") ? fields.text("memory") : bytes_text(c.memory_bytes));
  c.kernel_seconds = fields.quantity_or("kernel_overhead", "s", c.kernel_seconds);
  if (fields.has("efficiency")) c.efficiency = efficiency_of(fields.at("efficiency"), c.efficiency);
  if (fields.has("rows")) c.rows = rows_of(fields.at("rows"));
  if (fields.has("price_per_hour")) c.price_per_hour = fields.positive("price_per_hour", "");
}

/// Devices of `usual` from `first` on, but for what the entry says.
Cluster kind_of(const YAML::Node& node, const std::string& where, const Cluster& usual, int first) {
  std::vector<std::string> known{"devices", "device", "links"};
  known.insert(known.end(), keys_of_devices.begin(), keys_of_devices.end());
  const Fields fields(node, where, known);
  const int count = fields.count("devices");
  if (count > usual.devices() - first)
    throw error("{}: there are {} devices left of {}", fields.name("devices"), usual.devices() - first,
                usual.devices());
  Cluster out = usual.part(first, count);
  if (fields.has("device")) try {
      set_devices(out, cluster_called(fields.text("device") + ":1"));
    } catch (const Error& e) {
      throw with_context(e, fields.name("device"));
    }
  read_devices(fields, out);
  if (fields.has("links")) out.links = links_of(fields.at("links"), count);
  return out;
}

std::vector<Cluster> kinds_of(const YAML::Node& node, const Cluster& usual) {
  if (!node.IsSequence() || node.size() == 0) throw error("kinds should be a list of at least one kind");
  std::vector<Cluster> out;
  int first = 0;
  for (std::size_t i = 0; i < node.size(); ++i) {
    out.push_back(kind_of(node[i], fmt::format("kinds[{}]", i), usual, first));
    first += out.back().devices();
  }
  if (first != usual.devices())
    throw error("kinds: they are of {} of the {} devices", first, usual.devices());
  return out;
}

Cluster cluster_of(const YAML::Node& node, const std::string& path) {
  std::vector<std::string> known{"nodes", "devices_per_node"};
  known.insert(known.end(), keys_of_devices.begin(), keys_of_devices.end());
  for (const char* key :
       {"margin", "links", "host", "link_efficiency", "overlap", "routing_imbalance", "kinds"})
    known.emplace_back(key);
  const Fields fields(node, "", known);
  Cluster c{
      .name = path, .nodes = fields.count("nodes"), .devices_per_node = fields.count("devices_per_node")};
  if (c.nodes > most_devices / c.devices_per_node)
    throw error("nodes: there are more than {} devices", most_devices);
  for (const char* key : {"flops", "memory_bandwidth", "memory"}) fields.at(key);
  c.links = links_of(fields.at("links"), c.devices());
  c.rows = usual_rows(c);
  read_devices(fields, c);
  if (fields.has("margin")) {
    c.memory_margin = to_share(fields.text("margin"));
    if (!c.memory_margin) throw error("margin: '{}' {}", fields.text("margin"), what_shares_are);
  }
  if (fields.has("link_efficiency")) c.link_efficiency = fields.positive_share("link_efficiency");
  if (fields.has("overlap")) c.overlap = fields.share("overlap");
  if (fields.has("routing_imbalance")) c.routing_imbalance = fields.positive("routing_imbalance", "");
  if (c.routing_imbalance < 1)
    throw error("routing_imbalance: {} should be at least 1, which is none",
                fields.text("routing_imbalance"));
  if (fields.has("host")) c.host = host_of(fields.at("host"), c.host);
  if (fields.has("kinds")) set_kinds(c, kinds_of(fields.at("kinds"), c));
  return c;
}

}  // namespace

Cluster load_cluster(const std::string& path) {
  return parse_cluster(read_text(path, most_settings_bytes), path);
}

Cluster parse_cluster(const std::string& text, const std::string& where) try {
  return cluster_of(parse_yaml(text), where);
} catch (const YAML::Exception& e) {
  throw error("{}: line {}: {}", where, e.mark.line + 1, e.msg);
} catch (const Error& e) {
  throw with_context(e, where);
}

}  // namespace shardwright
