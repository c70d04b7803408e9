#include "shardwright/plan/recompute.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/compute.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == text.npos;
}

/// Too large ones are all the same.
std::int64_t number_of(std::string_view digits) {
  return to_integer(digits).value_or(std::numeric_limits<std::int64_t>::max());
}

/// Where the parts of a name end: `layers.0.add1` has them at 6, 8 and 13.
std::vector<std::size_t> ends_of(std::string_view name) {
  std::vector<std::size_t> out;
  for (std::size_t i = 0; i <= name.size(); ++i)
    if (i == name.size() || name[i] == '.' || name[i] == '/') out.push_back(i);
  return out;
}

std::string_view part_of(std::string_view name, const std::vector<std::size_t>& ends, std::size_t i) {
  const std::size_t begin = i == 0 ? 0 : ends[i - 1] + 1;
  return name.substr(begin, ends[i] - begin);
}

/// `4-11`: the first and the last.
std::optional<std::pair<std::int64_t, std::int64_t>> range_of(std::string_view text) {
  const std::size_t dash = text.find('-');
  if (dash == text.npos || !is_number(text.substr(0, dash)) || !is_number(text.substr(dash + 1))) return {};
  return std::pair(number_of(text.substr(0, dash)), number_of(text.substr(dash + 1)));
}

/// `*` stands for anything in one part of a name, `4-11` for numbers.
bool matches(std::string_view part, std::string_view pattern) {
  if (const auto range = range_of(pattern); range && is_number(part))
    return range->first <= number_of(part) && number_of(part) <= range->second;
  if (pattern.empty()) return part.empty();
  if (pattern.front() != '*')
    return !part.empty() && part[0] == pattern[0] && matches(part.substr(1), pattern.substr(1));
  for (std::size_t i = 0; i <= part.size(); ++i)
    if (matches(part.substr(i), pattern.substr(1))) return true;
  return false;
}

/// The module of `name` that `pattern` means, or nothing. A list of layers stands for each of them.
std::string_view module_of(std::string_view name, std::string_view pattern) {
  const auto ends = ends_of(name), wanted = ends_of(pattern);
  if (wanted.size() > ends.size()) return {};
  for (std::size_t i = 0; i < wanted.size(); ++i)
    if (!matches(part_of(name, ends, i), part_of(pattern, wanted, i))) return {};
  std::size_t last = wanted.size() - 1;
  if (last + 1 < ends.size() && is_number(part_of(name, ends, last + 1))) ++last;
  return name.substr(0, ends[last]);
}

/// The outermost repeated module that `name` lies in, or nothing. `ffn.1` is an operator, `layers.1.ffn` in a module.
std::string_view repeated_module_of(std::string_view name) {
  const auto ends = ends_of(name);
  for (std::size_t i = 1; i + 1 < ends.size(); ++i)
    if (is_number(part_of(name, ends, i))) return name.substr(0, ends[i]);
  return {};
}

/// A forward operator, and the name by which it belongs to a module.
struct Named {
  NodeId node;
  std::string_view name, own_name;
};

/// What has no name of its own (a statistic in front of its norm) belongs where the next that has one does.
std::vector<Named> named_operators(const Graph& graph) {
  std::vector<Named> out;
  std::size_t unnamed = 0;
  for (NodeId id : graph.node_ids()) {
    if (graph.node(id).phase != Phase::forward || graph.node(id).op->kind != OpKind::compute) continue;
    const std::string_view name = graph.name_of(id);
    out.push_back({id, is_number(name) ? std::string_view() : name, name});
    if (is_number(name)) continue;
    for (; unnamed < out.size(); ++unnamed) out[unnamed].name = name;
  }
  return out;
}

/// The region that `module` puts an operator in, or nothing.
std::string region_of(const RecomputedModule& module, const Named& op) {
  if (module.nodes.empty()) return std::string(module_of(op.name, module.module));
  const bool is_inside =
      std::find(module.nodes.begin(), module.nodes.end(), op.own_name) != module.nodes.end();
  return is_inside ? module.module : "";
}

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
  Regions(const Graph& graph, const Recompute& recompute)
      : graph_(graph), recompute_(recompute), operators_(named_operators(graph)) {}

  std::vector<RecomputeRegion> run() {
    std::vector<bool> is_said(operators_.size());
    for (const RecomputedModule& module : recompute_.modules)
      for (std::size_t i = 0; module.is_on && i < operators_.size(); ++i) {
        const std::string name = region_of(module, operators_[i]);
        if (name.empty() || is_said[i]) continue;
        is_said[i] = true;
        add(name, operators_[i].node, module.options);
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
    std::map<std::string_view, int> repeated;
    for (const Named& op : operators_)
      if (const auto module = repeated_module_of(op.name); !module.empty()) ++repeated[module];
    if (repeated.size() < 2) return add_parts(is_said);
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
      for (const Named& op : operators_) is_kept[at(op.node.index)] = !region_of(module, op).empty();
      for (RecomputeRegion& region : out_)
        for (NodeId id : region.nodes)
          if (is_kept[at(id.index)]) region.kept.push_back(id);
    }
  }

  const Graph& graph_;
  const Recompute& recompute_;
  std::vector<Named> operators_;
  std::vector<RecomputeRegion> out_;
  std::map<std::string, std::size_t> number_of_;
};

/// Every module and operator that there is.
std::vector<std::string> known_modules(const std::vector<Named>& operators) {
  std::vector<std::string> out{"none", "selected", "full"};
  for (const Named& op : operators)
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
  const std::vector<Named> operators = named_operators(graph);
  std::map<std::string_view, std::string_view> module_of_node;
  std::map<std::string_view, std::size_t> size;  // of a module
  for (const Named& op : operators) {
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

std::vector<RecomputeRegion> regions_of(const Graph& graph, const Recompute& recompute) {
  return Regions(graph, recompute).run();
}

void check(const Recompute& recompute, const Graph& graph) {
  const std::vector<Named> operators = named_operators(graph);
  std::vector<const RecomputedModule*> said(operators.size());
  for (const RecomputedModule& module : recompute.modules) {
    bool exists = false;
    for (std::size_t i = 0; i < operators.size(); ++i) {
      const std::string region = region_of(module, operators[i]);
      if (region.empty()) continue;
      exists = true;
      if (!module.is_on) continue;
      if (said[i] && said[i]->module == module.module)
        throw error("recompute of '{}' is said twice", module.module);
      if (said[i])
        throw error(
            "recompute of '{}' and of '{}' both have {}; say it once, of the outer or of the inner module",
            said[i]->module, module.module, operators[i].name);
      said[i] = &module;
    }
    if (!exists)
      throw error("recompute of '{}': the network has no such module or operator{}", module.module,
                  near_names(module.module, known_modules(operators)));
  }
}

}  // namespace shardwright
