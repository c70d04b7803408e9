// What every operator promises, checked on each of its samples: a new operator is tested without a new test.

#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstring>
#include <map>
#include <set>

#include "shardwright/base/random.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/text.h"
#include "shardwright/graph/verify.h"
#include "shardwright/layout/sharded_tensor.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/runtime/backend/cpu/cpu.h"
#include "tests/support/compare.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"
#include "tests/support/sharded_call.h"

namespace shardwright {
namespace {

// Linear in these operands jointly, but not offered, and why.
const std::set<std::pair<std::string, std::string>> linear_by_intent_unmarked = {
    {"cast", "{0}"},          // rounding is not linear
    {"sgd", "{0,1}"},         // a weight is never partial
    {"momentum", "{0,1,2}"},  // nor is a state
    {"sgd", "{1,2}"},         // the same of masters
    {"sgd", "{0,1,2}"},      {"momentum", "{1,2,3}"}, {"momentum", "{0,1,2,3}"},
    {"sgd_rows", "{0,1}"},   {"sgd_rows", "{1,2}"},   {"sgd_rows", "{0,1,2}"},
};

// Whole dims that could be split on some samples, and why they are not.
const std::set<std::pair<std::string, std::string>> splittable_by_intent_whole = {
    {"attention_turn",
     "e"}};  // every rank would make the same logarithms, which rules can only say as a maximum

const std::vector<Mesh> meshes = {{{{"a", 2}}}, {{{"a", 3}}}, {{{"a", 2}, {"b", 2}}}};

struct Case {
  const OpDef* op = nullptr;
  std::string sample;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.op->name << " " << c.sample; }

std::vector<Case> cases_where(bool (*applies)(const OpDef&, const Sample&)) {
  std::vector<Case> cases;
  for (const OpDef& op : all_ops())
    if (op.kind == OpKind::compute)
      for (const std::string& sample : op.samples)
        if (applies(op, parse_sample(sample))) cases.push_back({&op, sample});
  return cases;
}

TEST(OperatorAttributes, are_each_in_a_sample) {
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute) continue;
    std::set<std::string> sampled;
    for (const std::string& sample : op.samples)
      for (const auto& [name, value] : parse_sample(sample).attributes) sampled.insert(name);
    EXPECT_EQ(sampled, std::set<std::string>(op.attributes.begin(), op.attributes.end())) << op.name;
  }
}

bool overwrites(const OpDef& op, const Sample&) { return !op.overwrites.empty(); }

// The gradient is not the partial derivative, and why.
const std::set<std::string> other_gradient_by_intent = {
    "stop_gradient",
    "batch_norm",  // that of x goes through the moments as well (tests/ops/batch_norm_test.cpp)
};

// Operands to which none flows, and why.
const std::set<std::pair<std::string, std::size_t>> constant_by_intent = {
    {"attention", 3},  // a mask says who sees whom
};

/// A gradient flows through the result.
bool is_differentiable(const OpDef& op, const Sample& sample) {
  if (!op.gradient || other_gradient_by_intent.contains(op.name)) return false;
  std::vector<Type> operands;
  for (const auto& operand : sample.operands) operands.push_back(operand.type);
  return is_floating(infer(op, {operands, {}, sample.attributes})[0].dtype);
}

/// `matmul__f32_4_6__f32_6_12`
std::string name_of_case(const testing::TestParamInfo<Case>& info) {
  std::string out = info.param.op->name + "__";
  for (char c : info.param.sample) {
    if (c == '-') out += "minus";
    if (std::isalnum(static_cast<unsigned char>(c)))
      out += c;
    else if (out.back() != '_')
      out += '_';
  }
  return out;
}

std::string group_text(const std::vector<int>& group) { return fmt::format("{{{}}}", fmt::join(group, ",")); }

class Contract : public testing::TestWithParam<Case> {
 protected:
  const OpDef& op() const { return *GetParam().op; }
  Sample sample(DType floating = DType::f64) const {
    return with_floating(parse_sample(GetParam().sample), floating);
  }
};

Rule bound_rule(const OpDef& op, const Sample& sample) {
  const std::vector<Type> types = types_of(sample);
  const std::vector<Type> results = infer(op, {types, {}, sample.attributes});
  return rule_of(op, {types, results, sample.attributes});
}

bool is_integral(const Tensor& t) {
  const std::vector<double> x = to_doubles(t);
  return std::all_of(x.begin(), x.end(), [](double v) { return v == std::floor(v); });
}

// ---- types, memory, text ----

TEST_P(Contract, infers_the_shapes_of_its_rule) {
  const Sample s = sample(DType::f32);
  const std::vector<Type> types = types_of(s);
  const std::vector<Type> results = infer(op(), {types, {}, s.attributes});
  std::vector<Shape> shapes;
  for (const Type& t : results) shapes.push_back(t.shape);
  EXPECT_EQ(result_shapes(bound_rule(op(), s)), shapes);
}

TEST_P(Contract, writes_every_element_of_its_results) {
  const Sample s = sample(DType::f32);
  const Rule rule = bound_rule(op(), s);
  const LoopBox box = whole_box(rule);
  std::vector<Tensor> in = draw(s, Values::reals, 1);
  std::vector<TensorView> in_views;
  for (Tensor& t : in) in_views.push_back(t.view());
  const auto run_over = [&](int garbage) {
    std::vector<Tensor> out;
    for (const Type& t : infer(op(), {types_of(s), {}, s.attributes})) out.emplace_back(t);
    std::vector<TensorView> views;
    for (Tensor& t : out) {
      std::fill(t.bytes().begin(), t.bytes().end(), static_cast<std::byte>(garbage));
      views.push_back(t.view());
    }
    run_kernel(op(), {in_views, views, s.attributes, rule, box});
    return out;
  };
  EXPECT_EQ(run_over(0), run_over(1));
}

class ContractInPlace : public Contract {};

TEST_P(ContractInPlace, may_overwrite_the_operands_it_says) {
  const Sample s = sample(DType::f32);
  const Rule rule = bound_rule(op(), s);
  const LoopBox box = whole_box(rule);
  std::vector<Tensor> in = draw(s, Values::reals, 1);
  const std::vector<Tensor> want = evaluate(op(), in, s.attributes);
  ASSERT_GE(op().overwrites.size(), want.size());  // some calls of an operator have more results
  std::vector<Tensor> out = want;
  std::vector<TensorView> in_views, out_views;
  for (Tensor& t : in) in_views.push_back(t.view());
  for (std::size_t i = 0; i < out.size(); ++i) {
    const TensorView& operand = in_views.at(static_cast<std::size_t>(op().overwrites[i]));
    const bool fits = Type{operand.dtype, operand.shape} == out[i].type();
    out_views.push_back(fits ? operand : out[i].view());
  }
  run_kernel(op(), {in_views, out_views, s.attributes, rule, box});
  for (std::size_t i = 0; i < out.size(); ++i)
    EXPECT_EQ(0, std::memcmp(out_views[i].data, want[i].bytes().data(), want[i].bytes().size()))
        << "result " << i;
}

TEST_P(Contract, prints_and_parses_the_same) {
  const Sample s = sample(DType::f32);
  Graph graph;
  Builder builder(graph);
  std::vector<ValueId> operands;
  for (const SampleOperand& o : s.operands)
    operands.push_back(builder.leaf(OpKind::input, fmt::format("x{}", operands.size()), o.type));
  graph.outputs = builder.call_all(op(), operands, s.attributes, "y");
  const std::string text = to_text(graph);
  EXPECT_EQ(to_text(parse_graph(text)), text);
}

TEST_P(Contract, has_work) { EXPECT_GT(flops_of(op(), bound_rule(op(), sample())), 0); }

TEST_P(Contract, computes_the_same_in_every_floating_type) {
  const std::vector<Tensor> exact = draw(sample(), Values::integers, 1);
  const std::vector<Tensor> want = evaluate(op(), exact, sample().attributes);
  const std::map<DType, double> tolerance = {{DType::f32, 1e-5}, {DType::f16, 5e-3}, {DType::bf16, 4e-2}};
  for (const auto& [dtype, tolerated] : tolerance) {
    const Sample s = sample(dtype);
    const std::vector<Tensor> got = evaluate(op(), draw(s, Values::integers, 1), s.attributes);
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(is_close(convert(got[i], want[i].dtype()), want[i], tolerated)) << name_of(dtype);
  }
}

/// A backend may have a faster kernel, with sums in another order.
TEST_P(Contract, the_backends_kernel_is_the_reference) {
  const std::map<DType, double> tolerance = {
      {DType::f64, 1e-12}, {DType::f32, 1e-5}, {DType::f16, 5e-3}, {DType::bf16, 4e-2}};
  const auto backend = cpu_backend();
  for (const auto& [dtype, tolerated] : tolerance) {
    const Sample s = sample(dtype);
    std::vector<Tensor> in = draw(s, Values::reals, 1);
    const std::vector<Tensor> want = evaluate(op(), in, s.attributes);
    std::vector<Tensor> got;
    for (const Tensor& t : want) got.emplace_back(t.type());
    std::vector<TensorView> operands, results;
    for (Tensor& t : in) operands.push_back(t.view());
    for (Tensor& t : got) results.push_back(t.view());
    const Rule rule = bound_rule(op(), s);
    const LoopBox box = whole_box(rule);
    backend->prepare(op(), {operands, results, s.attributes, rule, box})();
    for (std::size_t i = 0; i < want.size(); ++i)
      EXPECT_TRUE(is_close(got[i], want[i], tolerated)) << name_of(dtype) << ", result " << i;
  }
}

// ---- gradient ----

/// sum of result 0 times `cotangent`.
double weighted(const OpDef& op, const std::vector<Tensor>& in, const Attributes& attributes,
                const std::vector<double>& cotangent) {
  const std::vector<double> y = to_doubles(evaluate(op, in, attributes)[0]);
  double sum = 0;
  for (std::size_t i = 0; i < y.size(); ++i) sum += y[i] * cotangent[i];
  return sum;
}

/// d weighted / d in[operand] by central differences.
Tensor differences(const OpDef& op, std::vector<Tensor> in, std::size_t operand, const Attributes& attributes,
                   const std::vector<double>& cotangent) {
  constexpr double step = 1e-5;
  std::vector<double> out;
  for (std::size_t e = 0; e < static_cast<std::size_t>(in[operand].size()); ++e) {
    const double x = in[operand].as<double>()[e];
    in[operand].as<double>()[e] = x + step;
    const double above = weighted(op, in, attributes, cotangent);
    in[operand].as<double>()[e] = x - step;
    const double below = weighted(op, in, attributes, cotangent);
    in[operand].as<double>()[e] = x;
    out.push_back((above - below) / (2 * step));
  }
  return make_tensor(in[operand].type(), out);
}

class ContractGradient : public Contract {};

TEST_P(ContractGradient, is_that_of_central_differences) {
  const Sample s = sample();
  const std::vector<Tensor> in = draw(s, Values::reals, 2);
  Graph graph;
  Builder builder(graph);
  std::map<std::string, Tensor> leaves;
  std::vector<ValueId> operands;
  for (const Tensor& t : in) {
    const std::string name = fmt::format("x{}", operands.size());
    operands.push_back(builder.leaf(OpKind::input, name, t.type()));
    leaves[name] = t;
  }
  const ValueId y = builder.call(op().name, operands, s.attributes, "y");
  const Type type = graph.value(y).type;
  leaves["dy"] = draw({{{type}}, {}}, Values::reals, 3)[0];
  const std::vector<double> cotangent = to_doubles(leaves["dy"]);
  const ValueId dy = builder.leaf(OpKind::input, "dy", type);
  std::vector<ValueId> of_results(graph.node(graph.value(y).producer).results.size());
  of_results[0] = dy;
  Gradient gradient(builder, graph.value(y).producer, of_results);
  const std::vector<ValueId> found = op().gradient(gradient);
  ASSERT_EQ(found.size(), in.size());
  verify(graph);
  const std::vector<Tensor> values = evaluate(graph, leaves);
  for (std::size_t i = 0; i < in.size(); ++i) {
    const bool is_wanted = in[i].dtype() == DType::f64 && !constant_by_intent.contains({op().name, i});
    if (found[i].is_valid()) {
      ASSERT_EQ(graph.value(found[i]).type, in[i].type()) << "operand " << i;
    }
    if (!is_wanted || size_of(type.dtype) < 4) continue;  // 16 bits are too coarse for differences
    const Tensor want = differences(op(), in, i, s.attributes, cotangent);
    const Tensor none = make_tensor(in[i].type(), std::vector<double>(want.bytes().size() / sizeof(double)));
    const Tensor& got = found[i].is_valid() ? values[static_cast<std::size_t>(found[i].index)] : none;
    EXPECT_TRUE(is_close(got, want, 1e-7)) << "operand " << i;
  }
}

// ---- rules ----

/// The results as joined from what every rank computed.
struct Joined {
  std::vector<Tensor> results;
  bool is_integral = true;  // all parts are, so that sums of them are exact
};

/// Throws where a kernel cannot compute its part or replicas differ.
Joined run_sharded(const OpDef& op, const Rule& rule, const Strategy& strategy, const Mesh& mesh,
                   const std::vector<Tensor>& in, const Attributes& attributes) {
  const NodeLayouts layouts = layouts_of(rule, strategy);
  const auto made = run_on_ranks(op, rule, strategy, mesh, in, attributes);
  const std::vector<Type> types = infer(op, {types_of(in), {}, attributes});
  Joined joined;
  for (std::size_t i = 0; i < made.size(); ++i) {
    joined.is_integral = joined.is_integral && std::ranges::all_of(made[i], is_integral);
    joined.results.push_back(join(made[i], layouts.results[i], mesh, types[i].shape));
  }
  return joined;
}

/// Integral parts must join to exactly what is wanted, others up to the order of sums.
testing::AssertionResult agree(const Joined& got, const std::vector<Tensor>& want, double tolerance) {
  for (std::size_t i = 0; i < want.size(); ++i)
    if (auto close = is_close(got.results[i], want[i], got.is_integral ? 0 : tolerance); !close)
      return close << ", result " << i;
  return testing::AssertionSuccess();
}

TEST_P(Contract, is_right_under_every_legal_strategy) {
  for (const DType dtype : {DType::f64, DType::f32}) {
    const Sample s = sample(dtype);
    const Rule rule = bound_rule(op(), s);
    const std::vector<Tensor> in = draw(s, Values::integers, 4);
    const std::vector<Tensor> want = evaluate(op(), in, s.attributes);
    const double tolerance = dtype == DType::f64 ? 1e-12 : 1e-5;
    for (const Mesh& mesh : meshes)
      for (const Strategy& strategy : legal_strategies(rule, mesh)) {
        SCOPED_TRACE(fmt::format("{} {} {}", name_of(dtype), to_text(mesh), to_text(strategy, rule, mesh)));
        EXPECT_TRUE(agree(run_sharded(op(), rule, strategy, mesh, in, s.attributes), want, tolerance));
      }
  }
}

/// Each dim that may be cut unevenly alone, some ranks without a part of it, and by shares; where it is behind a dim with others, these stay
/// together.
TEST_P(Contract, is_right_where_it_may_be_cut_unevenly) {
  const Sample s = sample();
  const Rule rule = bound_rule(op(), s);
  const std::vector<Tensor> in = draw(s, Values::integers, 4);
  const std::vector<Tensor> want = evaluate(op(), in, s.attributes);
  for (const Mesh& mesh : {Mesh{{{"a", 3}}}, Mesh{{{"a", 4}}}, Mesh{{{"a", 7}}}, Mesh{{{"a", 2, {1, 3}}}},
                           Mesh{{{"a", 3, {1, 4, 2}}}}})
    for (std::size_t l = 0; l < rule.loops.size(); ++l) {
      Strategy strategy = whole(rule);
      strategy.loops[l] = Axes{0}.of_grain(1).by_shares(mesh.has_shares());
      if (violation(rule, strategy, mesh) || !violation_if_even(rule, strategy, mesh)) continue;
      SCOPED_TRACE(fmt::format("{} {}", to_text(mesh), to_text(strategy, rule, mesh)));
      EXPECT_TRUE(agree(run_sharded(op(), rule, strategy, mesh, in, s.attributes), want, 1e-12));
    }
}

/// A whole dim is a promise broken to the planner if splitting it would be right.
TEST_P(Contract, keeps_dims_whole_only_where_splitting_is_wrong) {
  const Sample s = sample();
  const Rule rule = bound_rule(op(), s);
  const std::vector<Tensor> in = draw(s, Values::integers, 5);
  const std::vector<Tensor> want = evaluate(op(), in, s.attributes);
  for (std::size_t l = 0; l < rule.loops.size(); ++l) {
    if (rule.loops[l].kind != LoopKind::whole) continue;
    for (const LoopKind kind : {LoopKind::plain, LoopKind::sum, LoopKind::max}) {
      Rule freed = rule;
      freed.loops[l].kind = kind;
      for (const Mesh& mesh : meshes) {
        Strategy strategy = whole(freed);
        strategy.loops[l] = {0};
        if (mesh.axis_count() > 1 || violation(freed, strategy, mesh)) continue;
        bool is_right = false;
        try {
          is_right = bool(agree(run_sharded(op(), freed, strategy, mesh, in, s.attributes), want, 1e-12));
        } catch (const std::exception&) {
          continue;  // a kernel that refuses its part, or replicas that differ
        }
        const bool is_intended = splittable_by_intent_whole.contains({op().name, rule.loops[l].name});
        EXPECT_FALSE(is_right && !is_intended)
            << "dim " << rule.loops[l].name << " could be split on " << to_text(mesh);
      }
    }
  }
}

// ---- linearity ----

/// f(a + b) = f(a) + f(b) in the operands of `group`, the others fixed.
bool adds_up(const OpDef& op, const Sample& s, const std::vector<int>& group, Values values,
             std::uint64_t seed) {
  const std::vector<Tensor> a = draw(s, values, seed), other = draw(s, values, seed + 1);
  std::vector<Tensor> b = a, both = a;
  for (int i : group) {
    const auto o = static_cast<std::size_t>(i);
    b[o] = other[o];
    both[o] = sum_of(a[o], b[o]);
  }
  const auto fa = evaluate(op, a, s.attributes), fb = evaluate(op, b, s.attributes);
  const auto fab = evaluate(op, both, s.attributes);
  for (std::size_t i = 0; i < fab.size(); ++i)
    if (!is_floating(fab[i].dtype()) || !is_close(fab[i], sum_of(fa[i], fb[i]), 1e-12)) return false;
  return true;
}

/// Several draws, since zeros and ties make much look linear.
bool is_linear_in(const OpDef& op, const Sample& s, const std::vector<int>& group) {
  for (std::uint64_t seed = 10; seed < 26; ++seed)
    if (!adds_up(op, s, group, seed % 2 ? Values::integers : Values::reals, 2 * seed)) return false;
  return true;
}

TEST_P(Contract, is_linear_in_exactly_the_groups_it_marks) {
  const Sample s = sample();
  const std::vector<std::vector<int>> marked = bound_rule(op(), s).linear;
  std::vector<int> floating;
  for (std::size_t i = 0; i < s.operands.size(); ++i)
    if (is_floating(s.operands[i].type.dtype) && s.operands[i].domain != Domain::below)
      floating.push_back(static_cast<int>(i));
  for (std::size_t bits = 1; bits < (std::size_t{1} << floating.size()); ++bits) {
    std::vector<int> group;
    for (std::size_t k = 0; k < floating.size(); ++k)
      if (bits >> k & 1) group.push_back(floating[k]);
    const bool is_marked = std::find(marked.begin(), marked.end(), group) != marked.end();
    if (!is_marked && linear_by_intent_unmarked.contains({op().name, group_text(group)})) continue;
    EXPECT_EQ(is_linear_in(op(), s, group), is_marked)
        << "in operands " << group_text(group) << (is_marked ? ", marked" : ", not marked");
  }
}

INSTANTIATE_TEST_SUITE_P(Ops, Contract, testing::ValuesIn(cases_where([](auto&, auto&) { return true; })),
                         name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, ContractInPlace, testing::ValuesIn(cases_where(overwrites)), name_of_case);
INSTANTIATE_TEST_SUITE_P(Ops, ContractGradient, testing::ValuesIn(cases_where(is_differentiable)),
                         name_of_case);

TEST(Ops, have_names_of_their_own) {
  std::set<std::string> names;
  for (const OpDef& op : all_ops()) EXPECT_TRUE(names.insert(op.name).second) << op.name;
}

TEST(Ops, have_samples_and_a_doc) {
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute) continue;
    EXPECT_FALSE(op.samples.empty()) << op.name;
    EXPECT_FALSE(op.doc.empty()) << op.name;
    EXPECT_NE(op.kernel != nullptr, op.block != nullptr) << op.name;
  }
}

}  // namespace
}  // namespace shardwright
