#include "shardwright/frontend/trace.h"

#include "shardwright/graph/node_kinds.h"

#include <algorithm>

namespace shardwright {

const Type& Traced::type() const { return trace->builder().type(id); }

namespace {

void check_dims(std::string_view name, const Type& type) {
  if (std::ranges::any_of(type.shape, [](std::int64_t d) { return d < 1; }))
    throw error("'{}' is {}: dims of a program's tensors start at 1", name, to_text(type));
}

}  // namespace

Traced Trace::input(std::string_view name, Type type) {
  check_dims(name, type);
  return {this, builder_.leaf(OpKind::input, name, std::move(type))};
}

Traced Trace::parameter(const Parameter& p) { return leaf(OpKind::parameter, &p, p); }

Traced Trace::state(const State& s) {
  return leaf(
      OpKind::state, &s,
      {.name = s.name, .shape = s.shape, .initializer = s.initializer, .is_full = true, .dtype = s.dtype});
}

Traced Trace::leaf(OpKind kind, const void* object, const Parameter& p) {
  const auto known = leaves_.find(p.name);
  if (known != leaves_.end()) {
    if (known->second.object != object)
      throw error("two parameters are called '{}'; give each its own name, or use one object to share it",
                  p.name);
    return {this, known->second.value};
  }
  if (p.comm_fusion) constraints_.fusion_numbers[p.name] = *p.comm_fusion;
  Attributes attributes{{"init", p.initializer.name}};
  if (p.initializer.name == "uniform" || p.initializer.name == "normal")
    attributes.set("scale", p.initializer.scale);
  if (p.initializer.shift != 0) attributes.set("shift", p.initializer.shift);
  const DType dtype = p.dtype ? *p.dtype : p.is_full ? precision_.kept() : precision_.compute;
  if (p.is_frozen) attributes.set(std::string(frozen_attribute), true);
  if (!p.dtype && !p.is_frozen && dtype != precision_.kept())
    attributes.set("master", std::string(name_of(precision_.kept())));
  check_dims(p.name, {dtype, p.shape});
  const ValueId v = builder_.leaf(kind, p.name, {dtype, p.shape}, std::move(attributes));
  leaves_[p.name] = {object, v};
  return {this, v};
}

Traced Trace::call(std::string_view op, const std::vector<Traced>& operands, Attributes attributes,
                   std::string_view name) {
  return call_all(op, operands, std::move(attributes), name).front();
}

void Trace::add_loss(Traced loss, std::string_view sum) {
  losses_beside_ = losses_beside_ ? call("add", {*losses_beside_, loss}, {}, sum) : loss;
}

std::vector<Traced> Trace::call_all(std::string_view op, const std::vector<Traced>& operands,
                                    Attributes attributes, std::string_view name) {
  std::vector<ValueId> ids;
  for (const Traced& t : operands) {
    if (t.trace != this) throw error("{}: its operands come from two traces", name.empty() ? op : name);
    ids.push_back(t.id);
  }
  std::vector<Traced> results;
  for (ValueId v : builder_.call_all(find_op(op), std::move(ids), std::move(attributes), name))
    results.push_back({this, v});
  return results;
}

}  // namespace shardwright
