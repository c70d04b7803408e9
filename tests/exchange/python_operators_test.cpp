// Operators as they are written in PyTorch and JAX beside their kernels: every sample, whole and on each rank of every
// legal strategy. All are run by one Python (tests/outside/operators.py, jax_operators.py), whose findings are the test's.

#include <gtest/gtest.h>

#include <cstdlib>
#include <fstream>
#include <map>
#include <set>

#include "shardwright/exchange/jax/package_text.h"
#include "shardwright/exchange/python/call_line.h"
#include "shardwright/exchange/torch/package_text.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/runtime/safetensors.h"
#include "tests/support/draws.h"
#include "tests/support/evaluate.h"
#include "tests/support/samples.h"
#include "tests/support/scratch.h"
#include "tests/support/sharded_call.h"

namespace shardwright {
namespace {

// Not written in Python, and why.
const std::set<std::string> not_in_python = {
    "cache_rows",     "cached_attention",                   // of networks that are asked, which nobody trains
    "call_back",                                            // a function of this process
    "attention_turn", "attention_turn_grad", "bring_home",  // of keys that go round
};

/// Cases of one Python run: tensors in one file, the rest in another.
class Cases {
 public:
  explicit Cases(Engine engine) : engine_(engine) {}

  void add(const OpDef& op, const Sample& sample, const Rule& rule, const Strategy& strategy,
           const Mesh& mesh, double tolerance) {
    const std::vector<Tensor> in = draw(sample, Values::reals, 4);
    std::vector<RankCall> calls = calls_on_ranks(op, rule, strategy, mesh, in, sample.attributes);
    std::vector<std::vector<TensorView>> operands, results;
    std::vector<KernelCall> kernel_calls;
    for (RankCall& call : calls) {
      for (Tensor& t : (operands.emplace_back(), call.operands)) operands.back().push_back(t.view());
      for (Tensor& t : (results.emplace_back(), call.results)) results.back().push_back(t.view());
    }
    for (std::size_t r = 0; r < calls.size(); ++r)
      kernel_calls.push_back({operands[r], results[r], calls[r].attributes, rule, calls[r].box});
    const std::vector<Type> types = types_of(in), made = infer(op, {types, {}, sample.attributes});
    std::vector<std::string> names;
    for (std::size_t i = 0; i < in.size(); ++i) names.push_back(fmt::format("x{}", i));
    TorchCall call{op, {types, made, sample.attributes}, names, mesh, [&](int r) -> const KernelCall& {
                     return kernel_calls.at(static_cast<std::size_t>(r));
                   }};
    const std::string line = engine_ == Engine::torch ? torch_line(call) : jax_line(call);
    call.is_in_place = true;
    const std::string in_place = engine_ == Engine::torch ? torch_line(call) : line;
    const auto functions =
        engine_ == Engine::torch ? std::string_view(op.torch.functions) : jax_functions(op);
    for (const auto& [name, text] : python_functions(functions)) functions_[name] = text;
    Json one{{"op", op.name},
             {"line", line},
             {"tolerance", tolerance},
             {"may_share", op.torch.may_share},
             {"ranks", Json::array()}};
    for (const Axis& axis : mesh.axes) one["mesh"].push_back({axis.name, axis.size});
    for (std::size_t r = 0; r < calls.size(); ++r) {
      Json rank{{"operands", Json::array()}, {"results", Json::array()}};
      for (Tensor& t : calls[r].operands) rank["operands"].push_back(keep(std::move(t)));
      for (Tensor& t : calls[r].results) rank["results"].push_back(keep(std::move(t)));
      one["ranks"].push_back(std::move(rank));
    }
    cases_.push_back(one);
    if (in_place == line) return;
    one["line"] = in_place;
    one["overwrites"] = std::vector(op.overwrites.begin(), op.overwrites.begin() + std::ssize(made));
    cases_.push_back(std::move(one));
  }

  void write(const std::string& folder) const {
    write_safetensors(folder + "/tensors.safetensors", tensors_);
    std::ofstream(folder + "/cases.json") << cases_.dump();
    std::ofstream operators(folder + "/operators.py");
    operators << (engine_ == Engine::torch ? torch::package_text("operators.py")
                                           : jax::package_text("operators.py"));
    for (const auto& [name, text] : functions_) operators << "\n\n" << text;
  }

 private:
  std::string keep(Tensor t) {
    const std::string name = fmt::format("t{}", tensors_.size());
    tensors_[name] = std::move(t);
    return name;
  }

  Engine engine_;
  std::map<std::string, Tensor> tensors_;
  std::map<std::string, std::string> functions_;
  Json cases_ = Json::array();
};

TEST(PythonOperators, are_all_written_but_those_that_say_why_not) {
  std::set<std::string> missing;
  for (const OpDef& op : all_ops())
    if (op.kind == OpKind::compute && op.torch.line.empty() && !op.torch.line_for) missing.insert(op.name);
  EXPECT_EQ(missing, not_in_python);
}

/// Whether a dim is split that windows slide over: they reach into parts of neighbours.
bool splits_windows(const Rule& rule, const Strategy& strategy) {
  for (const auto& tensors : {rule.operands, rule.results})
    for (const RuleTensor& t : tensors)
      for (std::size_t d = 0; d < t.windows.size(); ++d)
        for (int l : t.dims[d])
          if (t.windows[d].loop > 0 && !strategy.loops[static_cast<std::size_t>(l)].empty()) return true;
  return false;
}

std::string written_for(Engine engine, const std::map<DType, double>& tolerance) {
  std::vector<Mesh> meshes = {{{{"a", 2}}}, {{{"a", 3}}}, {{{"a", 2}, {"b", 2}}}};
  if (engine == Engine::jax) meshes.resize(1);  // each case is compiled, which takes longer than all else
  Cases cases(engine);
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute || not_in_python.contains(op.name)) continue;
    for (const std::string& text : op.samples) {
      SCOPED_TRACE(op.name + " " + text);
      for (const auto& [dtype, tolerated] : tolerance) {
        const Sample s = with_floating(parse_sample(text), dtype);
        const std::vector<Type> types = types_of(s), results = infer(op, {types, {}, s.attributes});
        const Rule rule = rule_of(op, {types, results, s.attributes});
        cases.add(op, s, rule, whole(rule), {{{"a", 1}}}, tolerated);
        if (dtype != DType::f64) continue;
        for (const Mesh& mesh : meshes)
          for (const Strategy& strategy : legal_strategies(rule, mesh))
            if (engine == Engine::torch || !splits_windows(rule, strategy))
              cases.add(op, s, rule, strategy, mesh, tolerated);
      }
    }
  }
  const std::string folder = scratch_folder();
  cases.write(folder);
  return folder;
}

const std::map<DType, double> all_types = {
    {DType::f64, 1e-12}, {DType::f32, 2e-5}, {DType::f16, 5e-3}, {DType::bf16, 5e-2}};

/// SHARDWRIGHT_FULL=1: in all types, where else one is as exact as it can be and one short.
TEST(TorchOperators, compute_what_the_kernels_compute) {
  if (std::system("/usr/bin/python3 -c 'import torch' > /dev/null 2>&1") != 0)
    GTEST_SKIP() << "no torch here";
  std::map<DType, double> types = all_types;
  if (!testing::is_full()) types.erase(DType::f32), types.erase(DType::bf16);
  const std::string folder = written_for(Engine::torch, types);
  EXPECT_EQ(std::system(("/usr/bin/python3 tests/outside/operators.py " + folder).c_str()), 0);
}

/// Where there is no JAX: every line is an expression of names that there are.
TEST(JaxOperators, are_python_of_what_jax_has) {
  const std::string folder = written_for(Engine::jax, {{DType::f64, 1e-12}});
  EXPECT_EQ(std::system(("/usr/bin/python3 tests/outside/jax_operators.py --names " + folder).c_str()), 0);
}

TEST(SlowJaxOperators, compute_what_the_kernels_compute) {
  const char* python = std::getenv("SHARDWRIGHT_JAX_PYTHON");
  const std::string there =
      python != nullptr ? python : std::string(std::getenv("HOME")) + "/.cache/peers/jx/bin/python";
  if (std::system((there + " -c 'import jax' > /dev/null 2>&1").c_str()) != 0)
    GTEST_SKIP() << "no JAX in " << there << ": SHARDWRIGHT_JAX_PYTHON says which Python has it";
  const std::string folder = written_for(Engine::jax, all_types);
  EXPECT_EQ(std::system((there + " tests/outside/jax_operators.py " + folder).c_str()), 0);
}

/// What is written out as a default is what the kernel takes where nothing is said.
TEST(OperatorDefaults, are_what_kernels_take) {
  for (const OpDef& op : all_ops()) {
    if (op.kind != OpKind::compute) continue;
    for (const std::string& text : op.samples) {
      SCOPED_TRACE(op.name + " " + text);
      const Sample s = with_floating(parse_sample(text), DType::f64);
      const std::vector<Tensor> in = draw(s, Values::reals, 4);
      const std::vector<Type> types = types_of(in), results = infer(op, {types, {}, s.attributes});
      const Attributes all = with_defaults(op, {types, results, s.attributes});
      check_attributes(op, all);
      EXPECT_EQ(evaluate(op, in, all), evaluate(op, in, s.attributes));
    }
  }
}

}  // namespace
}  // namespace shardwright
