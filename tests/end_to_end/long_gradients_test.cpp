// Gradients that are sums of thousands of addends, with everything in bf16: on one device and on eight as in f64, to two
// roundings. A sum that is kept in bf16 stops growing where an addend is half a unit of its last place, and stops later
// where eight devices share the addends.

#include <gtest/gtest.h>

#include <cmath>

#include "shardwright/annotations/annotations.h"
#include "shardwright/autodiff/train_step.h"
#include "shardwright/base/random.h"
#include "shardwright/graph/text.h"
#include "shardwright/passes/compile.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "shardwright/runtime/session.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

struct LongSum {
  std::string name;
  std::string graph;  // of TYPE; its parameters' gradients are sums over all of a long dim
  std::vector<std::string> parameters;
  std::vector<std::string> splits;  // annotations for 8 devices
};
void PrintTo(const LongSum& c, std::ostream* out) { *out << c.name; }

std::string in_type(std::string text, std::string_view type) {
  for (std::size_t at = text.find("TYPE"); at != std::string::npos; at = text.find("TYPE"))
    text.replace(at, 4, type);
  return text;
}

using Values = std::map<std::string, std::vector<double>>;

/// The loss and the gradients of the first step, which momentum starts with. Inputs and parameters are numbers that bf16
/// can hold.
Values first_step(const LongSum& c, DType type, const std::string& split) {
  Graph graph = parse_graph(in_type(c.graph, name_of(type)));
  std::map<std::string, Tensor> batch, parameters;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::input && node.op->kind != OpKind::parameter) continue;
    const Value& v = graph.value(node.results.front());
    const RandomStream stream(7, v.name);
    std::vector<double> values(static_cast<std::size_t>(element_count(v.type.shape)));
    for (std::size_t i = 0; i < values.size();
         ++i)  // two rows share all indices; else from 1 to 2 in 64 steps
      values[i] = is_floating(v.type.dtype) ? 1 + static_cast<double>(stream.below(i, 64)) / 64
                                            : static_cast<double>(i % 2);
    (node.op->kind == OpKind::input ? batch : parameters)[v.name] = make_tensor(v.type, values);
  }
  add_train_step(graph, graph.outputs.front(), {.name = "momentum", .attributes = {{"rate", 0.5}}});
  PlanRequest request{.model = c.name, .devices = 1, .parallel = Parallel::stand_alone};
  if (!split.empty())
    request = {.model = c.name,
               .devices = 8,
               .parallel = Parallel::auto_parallel,
               .constraints = parse_annotations(split, "split")};
  Session session(compile_pipeline(graph, make_plan(graph, request), {.formats = cpu_formats}));
  for (const auto& [name, value] : parameters) session.set(name, value);
  Values out;
  out["loss"] = to_doubles(session.step(batch).front());
  for (const std::string& name : c.parameters) out[name] = to_doubles(session.get(name + ".momentum"));
  return out;
}

class LongGradients : public ::testing::TestWithParam<LongSum> {};

TEST_P(LongGradients, are_those_of_f64_to_two_roundings_on_one_device_and_on_eight) {
  const Values exact = first_step(GetParam(), DType::f64, "");
  std::vector<std::string> splits = GetParam().splits;
  splits.insert(splits.begin(), "");
  for (const std::string& split : splits) {
    SCOPED_TRACE(split.empty() ? "one device" : split);
    const Values have = first_step(GetParam(), DType::bf16, split);
    for (const auto& [name, want] : exact) {
      double largest = 0;
      for (const double x : want) largest = std::max(largest, std::abs(x));
      for (std::size_t i = 0; i < want.size(); ++i)
        ASSERT_NEAR(have.at(name)[i], want[i], 2 * std::ldexp(largest, -8)) << name << " " << i;
    }
  }
}

const std::vector<LongSum> sums{
    {.name = "attention",
     .graph = R"(%q = input TYPE[1, 8, 4096, 4]
%t = input TYPE[1, 8, 4096, 4]
%k = param TYPE[1, 1, 128, 4]
%v = param TYPE[1, 1, 128, 4]
%y = attention %q, %k, %v (scale=0.5)
%z = mul %y, %t
%l = reduce_mean %z
output %l
)",
     .parameters = {"k", "v"},
     .splits = {R"({"y": {"in": [[1, 8, 1, 1], [1, 1, 1, 1], [1, 1, 1, 1]]}})",
                R"({"y": {"in": [[1, 1, 8, 1], [1, 1, 1, 1], [1, 1, 1, 1]]}})"}},
    {.name = "embedding",
     .graph = R"(%ids = input i32[16384]
%t = input TYPE[16384, 4]
%table = param TYPE[8, 4]
%y = gather %table, %ids (dim=0)
%z = mul %y, %t
%l = reduce_mean %z
output %l
)",
     .parameters = {"table"},
     .splits = {R"({"y": {"in": [[1, 1], [8]]}})", R"({"y": {"in": [[8, 1], [1]]}})"}}};

INSTANTIATE_TEST_SUITE_P(EndToEnd, LongGradients, ::testing::ValuesIn(sums),
                         [](const auto& test) { return test.param.name; });

}  // namespace
}  // namespace shardwright
