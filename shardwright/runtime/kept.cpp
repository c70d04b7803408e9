#include "shardwright/runtime/kept.h"

#include <algorithm>

#include "shardwright/base/text.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/layout/transfer.h"
#include "shardwright/runtime/gather.h"

namespace shardwright {

KeptValues::KeptValues(const Pipeline& pipeline) : pipeline_(pipeline) {
  for (int s = 0; s < pipeline.stage_count(); ++s) {
    const Graph& graph = pipeline.stage(s).graph;
    for (const Node& node : graph.nodes) {
      if (node.op->kind != OpKind::parameter && node.op->kind != OpKind::state) continue;
      const ValueId v = node.results[0];
      const std::string& name = graph.value(v).name;
      const auto [place, is_new] = index_.try_emplace(name, all_.size());
      if (is_new) all_.push_back({name, {}});
      all_[place->second].places.emplace_back(s, v);
    }
  }
}

const Kept* KeptValues::find(std::string_view name) const {
  const auto it = index_.find(name);
  return it == index_.end() ? nullptr : &all_[it->second];
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

const Node& KeptValues::leaf(const Kept& k) const {
  return pipeline_.stage(k.places.front().first).graph.node(value(k).producer);
}
const Attributes& KeptValues::attributes_of(const Kept& k) const { return leaf(k).attributes; }

bool KeptValues::is_state(const Kept& k) const { return leaf(k).op->kind == OpKind::state; }

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

bool KeptValues::is_cache(const Kept& k) const { return attributes_of(k).flag("cache"); }

bool KeptValues::is_frozen(const Kept& k) const { return shardwright::is_frozen(leaf(k)); }

Type KeptValues::type_of(const Kept& k) const {
  Type type = value(k).global_type();
  type.dtype = dtype_of(attributes_of(k).text("master", "")).value_or(type.dtype);
  return type;
}

std::pair<int, ValueId> KeptValues::place_of(const Kept& k) const {
  const Kept* const master = master_of(k);
  return (master ? *master : k).places.front();
}

std::vector<Box> KeptValues::held_by(int rank, const Kept& k) const {
  std::vector<Box> out;
  for (const Kept* of : {&k, master_of(k)})
    for (std::size_t p = 0; of && p < of->places.size(); ++p) {
      const auto [stage, v] = of->places[p];
      if (!pipeline_.has(stage, rank)) continue;
      Box where = box_of(pipeline_.stage(stage).graph, v, rank - pipeline_.first_rank(stage));
      if (!is_empty(where) && std::ranges::find(out, where) == out.end()) out.push_back(std::move(where));
    }
  return out;
}

std::vector<NamedBox> KeptValues::held_by(int rank) const {
  std::vector<NamedBox> out;
  for (const Kept& k : all_)
    if (&parameter_of(k) == &k)  // a master is told as its parameter
      for (Box& where : held_by(rank, k)) out.push_back({k.name, std::move(where)});
  return out;
}

std::vector<NamedBox> KeptValues::owned_by(int rank) const {
  std::vector<NamedBox> out;
  for (const Kept& k : all_) {
    if (&parameter_of(k) != &k) continue;
    const auto [stage, v] = place_of(k);
    if (!pipeline_.has(stage, rank) || !owns(pipeline_, stage, v, rank)) continue;
    Box where = box_of(pipeline_.stage(stage).graph, v, rank - pipeline_.first_rank(stage));
    if (!is_empty(where)) out.push_back({k.name, std::move(where)});
  }
  return out;
}

}  // namespace shardwright
