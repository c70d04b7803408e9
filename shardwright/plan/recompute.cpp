#include "shardwright/plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/repeated_modules.h"

namespace shardwright {
namespace {

/// Of all operators those that a module has.
class Members {
 public:
  explicit Members(const std::vector<NamedOperator>& operators) : operators_(operators) {
    for (std::size_t i = 0; i < operators.size(); ++i) places_.emplace(operators[i].own_name, i);
  }

  struct Member {
    std::size_t place = 0;
    std::string region;
    auto operator<=>(const Member&) const = default;
  };
  /// In the order of the operators.
  std::vector<Member> of(const RecomputedModule& module) const {
    std::vector<Member> out;
    for (const std::string& node : module.nodes)
      if (const auto place = places_.find(node); place != places_.end())
        out.push_back({place->second, module.module});
    if (!module.nodes.empty()) {
      std::ranges::sort(out);
      const auto twice = std::ranges::unique(out);
      out.erase(twice.begin(), twice.end());
      return out;
    }
    for (std::size_t i = 0; i < operators_.size(); ++i)
      if (const auto region = module_of(operators_[i].name, module.module); !region.empty())
        out.push_back({i, std::string(region)});
    return out;
  }

 private:
  const std::vector<NamedOperator>& operators_;
  std::map<std::string_view, std::size_t> places_;
};

/// A product with a parameter: what layers are counted by.
bool is_layer(const Graph& graph, NodeId id) {
  const auto& operands = graph.node(id).operands;
  const bool reads_parameter = std::any_of(operands.begin(), operands.end(), [&](ValueId v) {
    return graph.node(graph.value(v).producer).op->kind == OpKind::parameter;
  });
  return reads_parameter && work_kind(rule_of(graph, graph.node(id))) != WorkKind::streaming;
}

class Regions {
 public:
  Regions(const Graph& graph, const Recompute& recompute, bool has_layers)
      : graph_(graph),
        recompute_(recompute),
        has_layers_(has_layers),
        operators_(named_operators(graph)),
        members_(operators_) {}

  std::vector<RecomputeRegion> run() {
    std::vector<bool> is_said(operators_.size());
    for (const RecomputedModule& module : recompute_.modules) {
      if (!module.is_on) continue;
      for (const auto& [i, region] : members_.of(module)) {
        if (is_said[i]) continue;
        is_said[i] = true;
        add(region, operators_[i].node, module.options);
      }
    }
    if (recompute_.mode != RecomputeMode::none) add_rest(is_said);
    mark_kept();
    return std::move(out_);
  }

 private:
  RecomputeRegion& add(const std::string& name, NodeId node, const RecomputeOptions& options) {
    const auto [it, is_new] = number_of_.try_emplace(name, out_.size());
    if (is_new) out_.push_back({.name = name, .nodes = {}, .kept = {}, .options = options});
    out_[it->second].nodes.push_back(node);
    return out_[it->second];
  }

  void add_by_mode(const std::string& name, NodeId node) {
    add(name, node, recompute_.options).is_selective = recompute_.mode == RecomputeMode::selected;
  }

  /// Regions of the mode: repeated modules, or even parts where there are none.
  void add_rest(const std::vector<bool>& is_said) {
    if (!has_layers_) return add_parts(is_said);
    for (std::size_t i = 0; i < operators_.size(); ++i) {
      if (is_said[i]) continue;
      const std::string module(repeated_module_of(operators_[i].name));
      if (!module.empty())
        add_by_mode(module, operators_[i].node);
      else if (recompute_.mode == RecomputeMode::selected)
        add_by_mode("the rest", operators_[i].node);
    }
  }

  /// Each begins with a layer. What stands behind the last one is read again at once, and stays.
  void add_parts(const std::vector<bool>& is_said) {
    std::vector<std::size_t> layers;
    for (std::size_t i = 0; i < operators_.size(); ++i)
      if (is_layer(graph_, operators_[i].node)) layers.push_back(i);
    if (layers.empty()) return;
    const auto parts = static_cast<std::size_t>(std::lround(std::sqrt(layers.size())));
    std::size_t begun = 0;
    for (std::size_t i = 0; i <= layers.back(); ++i) {
      if (begun < layers.size() && layers[begun] == i) ++begun;
      const std::size_t part = begun == 0 ? 0 : (begun - 1) * parts / layers.size();
      if (!is_said[i]) add_by_mode(fmt::format("part {} of {}", part + 1, parts), operators_[i].node);
    }
  }

  void mark_kept() {
    for (const RecomputedModule& module : recompute_.modules) {
      if (module.is_on) continue;
      std::vector<bool> is_kept(graph_.nodes.size());
      for (const auto& [i, region] : members_.of(module)) is_kept[at(operators_[i].node.index)] = true;
      for (RecomputeRegion& region : out_)
        for (NodeId id : region.nodes)
          if (is_kept[at(id.index)]) region.kept.push_back(id);
    }
  }

  const Graph& graph_;
  const Recompute& recompute_;
  bool has_layers_ = false;
  std::vector<NamedOperator> operators_;
  Members members_;
  std::vector<RecomputeRegion> out_;
  std::map<std::string, std::size_t> number_of_;
};

/// Every module and operator that there is.
std::vector<std::string> known_modules(const std::vector<NamedOperator>& operators) {
  std::vector<std::string> out{"none", "selected", "full"};
  for (const NamedOperator& op : operators)
    for (std::size_t end : ends_of(op.name))
      if (end > 0) out.emplace_back(op.name.substr(0, end));
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

/// `layers.4-6` goes on with `layers.7`, and then is `layers.4-7`.
bool is_continued(RecomputedModule& m, const RecomputedModule& next) {
  if (!m.nodes.empty() || !next.nodes.empty() || m.options != next.options) return false;
  const std::size_t dot = m.module.rfind('.') + 1, other = next.module.rfind('.') + 1;
  const std::string_view last = std::string_view(m.module).substr(dot);
  const std::string_view added = std::string_view(next.module).substr(other);
  if (m.module.substr(0, dot) != next.module.substr(0, other) || !is_number(added)) return false;
  const auto range =
      is_number(last) ? std::optional(std::pair(number_of(last), number_of(last))) : range_of(last);
  if (!range || range->second != number_of(added) - 1) return false;
  m.module = fmt::format("{}{}-{}", m.module.substr(0, dot), range->first, added);
  return true;
}

bool flag_of(std::string_view name, std::string_view value) {
  if (value != "true" && value != "false")
    throw error("recompute: {}={} should be true or false", name, value);
  return value == "true";
}

/// `communication=false,shard_kept=true`
RecomputeOptions parse_options(std::string_view text, RecomputeOptions options) {
  for (std::string_view setting : split(text, ',')) {
    const std::size_t equals = setting.find('=');
    const std::string_view name = trim(setting.substr(0, equals));
    const std::string_view value = equals == setting.npos ? "" : trim(setting.substr(equals + 1));
    if (name == "communication")
      options.communication = flag_of(name, value);
    else if (name == "shard_kept")
      options.shard_kept = flag_of(name, value);
    else
      throw error("recompute: there is no option '{}'; there are communication and shard_kept", name);
  }
  return options;
}

}  // namespace

std::string_view name_of(RecomputeMode mode) {
  switch (mode) {
    case RecomputeMode::none: return "none";
    case RecomputeMode::selected: return "selected";
    case RecomputeMode::full: return "full";
  }
  return "";
}

RecomputeOptions default_options(RecomputeMode mode) {
  return {.communication = mode != RecomputeMode::selected};
}

Recompute parse_recompute(std::string_view text) {
  const std::size_t colon = text.find(':');
  const std::string_view what = trim(text.substr(0, colon));
  Recompute out;
  if (const std::size_t plus = what.find('+'); plus != what.npos) {
    if (what.substr(0, plus) != "selected")
      throw error("recompute '{}': only selected may stand in front of '+', as in selected+MODULE", text);
    if (colon != text.npos)
      throw error("recompute '{}': modules after selected+ take no options here; set them in annotations",
                  text);
    out = parse_recompute(what.substr(plus + 1));
    if (out.modules.empty()) throw error("recompute '{}': after '+' should be names of modules", text);
    out.mode = RecomputeMode::selected;
    out.options = default_options(out.mode);
    return out;
  }
  std::vector<std::string> modules;
  for (std::string_view name : split(what, ',')) modules.emplace_back(trim(name));
  for (const RecomputeMode mode : {RecomputeMode::none, RecomputeMode::selected, RecomputeMode::full})
    if (what == name_of(mode)) {
      out.mode = mode;
      modules.clear();
    } else if (std::find(modules.begin(), modules.end(), name_of(mode)) != modules.end()) {
      throw error("recompute: '{}' goes without names of modules", name_of(mode));
    }
  RecomputeOptions options = default_options(out.mode);
  if (colon != text.npos) options = parse_options(text.substr(colon + 1), options);
  if (modules.empty()) out.options = options;
  for (std::string& module : modules) {
    if (module.empty())
      throw error("recompute '{}': should be none, selected, full or names of modules", text);
    out.modules.push_back({.module = std::move(module), .nodes = {}, .options = options});
  }
  return out;
}

Recompute with_modules(Recompute said, const std::vector<RecomputedModule>& modules) {
  for (const RecomputedModule& module : modules) {
    std::erase_if(said.modules, [&](const RecomputedModule& m) { return m.module == module.module; });
    said.modules.push_back(module);
  }
  return said;
}

std::vector<RecomputedModule> by_name(std::vector<RecomputedModule> modules, const Graph& graph) {
  const std::vector<NamedOperator> operators = named_operators(graph);
  std::map<std::string_view, std::string_view> module_of_node;
  std::map<std::string_view, std::size_t> size;  // of a module
  for (const NamedOperator& op : operators) {
    const std::string_view module = repeated_module_of(op.name);
    module_of_node[op.own_name] = module;
    ++size[module];
  }
  std::vector<RecomputedModule> out;
  for (RecomputedModule& m : modules) {
    std::set<std::string_view> named;
    for (const std::string& node : m.nodes) named.insert(module_of_node[node]);
    if (named.size() == 1 && !named.begin()->empty() && size[*named.begin()] == m.nodes.size()) {
      m.module = *named.begin();
      m.nodes.clear();
    }
    if (out.empty() || !is_continued(out.back(), m)) out.push_back(std::move(m));
  }
  return out;
}

bool has_layers(const Graph& network) { return repeated_modules(named_operators(network)).size() > 1; }

std::vector<RecomputeRegion> regions_of(const Graph& graph, const Recompute& recompute, bool has_layers) {
  if (!recompute.is_on()) return {};
  return Regions(graph, recompute, has_layers).run();
}

void check(const Recompute& recompute, const Graph& graph) {
  const std::vector<NamedOperator> operators = named_operators(graph);
  const Members members(operators);
  std::vector<const RecomputedModule*> said(operators.size());
  for (const RecomputedModule& module : recompute.modules) {
    const std::vector<Members::Member> own = members.of(module);
    for (const auto& [i, region] : own) {
      if (!module.is_on) continue;
      if (said[i] && said[i]->module == module.module)
        throw error("recompute of '{}' is said twice", module.module);
      if (said[i])
        throw error(
            "recompute of '{}' and of '{}' both have {}; say it once, of the outer or of the inner module",
            said[i]->module, module.module, operators[i].name);
      said[i] = &module;
    }
    if (own.empty())
      throw error("recompute of '{}': the network has no such module or operator{}", module.module,
                  near_names(module.module, known_modules(operators)));
  }
}

}  // namespace shardwright
