// Attributes that make no sense: every operator refuses them in one line, or computes with them.

#include <gtest/gtest.h>

#include <cstdint>

#include "shardwright/graph/builder.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"

namespace shardwright {
namespace {

constexpr std::int64_t huge = std::int64_t{1} << 62;
const std::vector<std::int64_t> absurd = {0,
                                          -1,
                                          2,
                                          7,
                                          std::int64_t{1} << 31,
                                          huge,
                                          huge - 1,
                                          -huge,
                                          INT64_MAX,
                                          INT64_MIN,
                                          -1000,
                                          INT64_MIN + 1,
                                          (std::int64_t{1} << 40) + 1};

/// What may stand where `value` does: other numbers, more and fewer of them, and another kind.
std::vector<Attribute> instead_of(const Attribute& value) {
  std::vector<Attribute> out{std::string("word"), std::vector<std::int64_t>{}, true, 1.5};
  for (std::int64_t n : absurd) {
    out.emplace_back(n);
    out.emplace_back(static_cast<double>(n));
    const auto* list = std::get_if<std::vector<std::int64_t>>(&value);
    if (!list) continue;
    for (std::size_t i = 0; i < list->size(); ++i) {
      std::vector<std::int64_t> other = *list;
      other[i] = n;
      out.emplace_back(other);
    }
    std::vector<std::int64_t> longer = *list;
    longer.push_back(n);
    out.emplace_back(longer);
    out.emplace_back(std::vector<std::int64_t>(list->size(), n));
  }
  return out;
}

bool is_small(const std::vector<Type>& types) {
  for (const Type& t : types)
    if (element_count(t.shape) > 10000) return false;  // throws if it has no count
  return true;
}

/// Empty if the call is refused by inference, or is computed; else what went wrong.
std::string outcome(const OpDef& op, const Sample& sample) {
  std::vector<Type> types = types_of(sample), results;
  try {
    results = infer(op, {types, {}, sample.attributes});
    if (!is_small(results)) return "";
  } catch (const Error& e) {
    return std::string_view(e.what()).find('\n') == std::string_view::npos ? "" : "an error of several lines";
  } catch (const std::exception& e) {
    return fmt::format("inference fails: {}", e.what());
  }
  try {
    rule_of(op, {types, results, sample.attributes});
    evaluate(op, draw(sample, Values::reals, 1), sample.attributes);
    Graph graph;
    Builder builder(graph);
    std::vector<ValueId> operands;
    for (const Type& t : types)
      operands.push_back(builder.leaf(OpKind::input, fmt::format("x{}", operands.size()), t));
    const ValueId y = builder.call_all(op, operands, sample.attributes, "y")[0];
    if (!op.gradient || !is_floating(graph.value(y).type.dtype)) return "";
    const NodeId node = graph.value(y).producer;
    std::vector<ValueId> dy(graph.node(node).results.size());
    dy[0] = builder.leaf(OpKind::input, "dy", graph.value(y).type);
    Gradient gradient(builder, node, dy);
    op.gradient(gradient);
  } catch (const std::exception& e) {
    if (std::string_view(e.what()).starts_with("the index")) return "";  // the sample's, not an attribute
    return fmt::format("inference takes it, and then: {}", e.what());
  }
  return "";
}

TEST(OpAttributes, that_make_no_sense_are_refused_by_inference_or_computed) {
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute) continue;
    for (const std::string& text : op.samples) {
      const Sample sample = with_floating(parse_sample(text), DType::f64);
      for (const auto& [name, value] : sample.attributes)
        for (const Attribute& other : instead_of(value)) {
          Sample changed = sample;
          changed.attributes.set(name, other);
          EXPECT_EQ(outcome(op, changed), "")
              << op.name << " " << text << " with " << name << "=" << to_text(other);
        }
    }
  }
}

}  // namespace
}  // namespace shardwright
