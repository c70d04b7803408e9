#include "shardwright/runtime/kept.h"

#include <algorithm>

#include "shardwright/base/text.h"

namespace shardwright {

KeptValues::KeptValues(const Pipeline& pipeline) : pipeline_(pipeline) {
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Graph& graph = pipeline.stage(s).graph;
    for (const Node& node : graph.nodes) {
      if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
      const ValueId v = node.results[0];
      const std::string& name = graph.value(v).name;
      const auto same = std::ranges::find(all_, name, &Kept::name);
      (same == all_.end() ? all_.emplace_back(Kept{name, {}}) : *same).places.emplace_back(s, v);
    }
  }
}

const Kept* KeptValues::find(std::string_view name) const {
  const auto it = std::ranges::find(all_, name, &Kept::name);
  return it == all_.end() ? nullptr : &*it;
}

const Kept& KeptValues::named(std::string_view name) const {
  if (const Kept* const k = find(name)) return *k;
  std::vector<std::string> known;
  for (const Kept& k : all_) known.push_back(k.name);
  throw error("there is no parameter or state '{}'{}", name, near_names(name, known));
}

const Value& KeptValues::value(const Kept& k) const {
  const auto [stage, v] = k.places.front();
  return pipeline_.stage(stage).graph.value(v);
}

const Attributes& KeptValues::attributes_of(const Kept& k) const {
  return pipeline_.stage(k.places.front().first).graph.node(value(k).producer).attributes;
}

const Kept* KeptValues::master_of(const Kept& k) const {
  if (attributes_of(k).text("master", "").empty()) return nullptr;
  return find(fmt::format("{}.{}", k.name, master_state));
}

const Kept& KeptValues::parameter_of(const Kept& master) const {
  const std::string suffix = fmt::format(".{}", master_state);
  if (!master.name.ends_with(suffix)) return master;
  const Kept* const k = find(std::string_view(master.name).substr(0, master.name.size() - suffix.size()));
  return k && master_of(*k) == &master ? *k : master;
}

Type KeptValues::type_of(const Kept& k) const {
  Type type = value(k).global_type();
  type.dtype = dtype_of(attributes_of(k).text("master", "")).value_or(type.dtype);
  return type;
}

}  // namespace shardwright
