// In which layouts the update wants values: a weight's update takes the layout of its state, its gradient then too, and
// what the gradient is made of element by element within the update, as clipping does. And how what stands beside it lies:
// states, sums of scalars, a gradient in another type.
#pragma once

#include <functional>
#include <map>
#include <optional>

#include "shardwright/graph/graph.h"

namespace shardwright {

/// The layout of an optimizer node: asked for in `asked`, or that of its first state, or, without states, of the
/// parameter itself.
Layout layout_of_update(const Graph& graph, const Node& node, const std::map<ValueId, Layout>& asked);

/// Gradients, and operands of point-wise update nodes that lead to them, with the layouts of their updates. Leaves of
/// `graph` have layouts.
std::map<ValueId, Layout> update_wishes(const Graph& graph, const std::map<ValueId, Layout>& asked);

/// The strategy under which operands and results of `node` lie as `wishes` says; nothing if it names none of them.
std::optional<Strategy> strategy_of_wishes(const Node& node, const Rule& rule,
                                           const std::map<ValueId, Layout>& wishes);

/// States without a layout of their own lie as their parameter does.
void lay_out_states(Graph& graph);

/// In which layout a value is made.
using LayoutOf = std::function<const Layout&(ValueId)>;

/// A sum of scalars stays partial over all axes over which an addend is: the others are masked, which moves nothing,
/// and the sum is reduced once. Addends of other meshes than the first partial one's are reduced before.
Strategy sum_of_partials(const Graph& graph, const Node& node, const Rule& rule, const LayoutOf& layout);

/// What is linear in its only operand lies as that does, partial too: a gradient in another type.
Strategy as_its_operand(const Graph& graph, const Node& node, const Rule& rule, const LayoutOf& layout);

}  // namespace shardwright
