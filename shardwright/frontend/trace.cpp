#include "shardwright/frontend/trace.h"

namespace shardwright {

const Type& Traced::type() const { return trace->builder().type(id); }

Traced Trace::input(std::string_view name, Type type) {
  return {this, builder_.leaf(OpKind::input, name, std::move(type))};
}

Traced Trace::parameter(const Parameter& p) {
  for (const Node& node : graph_.nodes) {
    const ValueId v = node.results.front();
    if (node.op->kind != OpKind::parameter || graph_.value(v).name != p.name) continue;
    if (graph_.value(v).type.shape != p.shape)
      throw error("parameter '{}' is used with shapes {} and {}; give each parameter its own name", p.name,
                  to_text(graph_.value(v).type.shape), to_text(p.shape));
    return {this, v};
  }
  Attributes attributes{{"init", p.initializer.name}};
  if (p.initializer.name == "uniform" || p.initializer.name == "normal")
    attributes.set("scale", p.initializer.scale);
  if (p.initializer.shift != 0) attributes.set("shift", p.initializer.shift);
  return {this, builder_.leaf(OpKind::parameter, p.name, {precision_, p.shape}, std::move(attributes))};
}

Traced Trace::call(std::string_view op, const std::vector<Traced>& operands, Attributes attributes,
                   std::string_view name) {
  std::vector<ValueId> ids;
  for (const Traced& t : operands) {
    if (t.trace != this) throw error("{}: its operands come from two traces", name.empty() ? op : name);
    ids.push_back(t.id);
  }
  return {this, builder_.call(op, std::move(ids), std::move(attributes), name)};
}

}  // namespace shardwright
