#include "shardwright/frontend/trace.h"

namespace shardwright {

const Type& Traced::type() const { return trace->builder().type(id); }

Traced Trace::input(std::string_view name, Type type) {
  return {this, builder_.leaf(OpKind::input, name, std::move(type))};
}

Traced Trace::parameter(const Parameter& p) {
  const auto known = parameters_.find(p.name);
  if (known != parameters_.end()) {
    if (known->second.object != &p)
      throw error("two parameters are called '{}'; give each its own name, or use one object to share it",
                  p.name);
    return {this, known->second.value};
  }
  Attributes attributes{{"init", p.initializer.name}};
  if (p.initializer.name == "uniform" || p.initializer.name == "normal")
    attributes.set("scale", p.initializer.scale);
  if (p.initializer.shift != 0) attributes.set("shift", p.initializer.shift);
  const ValueId v = builder_.leaf(OpKind::parameter, p.name, {precision_, p.shape}, std::move(attributes));
  parameters_[p.name] = {&p, v};
  return {this, v};
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
