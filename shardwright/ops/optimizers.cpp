// Updates of weights: sgd, momentum, adam, adamw, with the formulas of PyTorch 1.13.
//
// Operands: weight, gradient, states, then the count of steps done (f32[], adam and adamw only), then the
// learning rate (f32[]) if it is no attribute. Results: the new weight and states, over the old ones.
// All dims are free: that is what lets states be sharded. Scalars are computed in double, as PyTorch does.

#include <array>
#include <cmath>

#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

const OptimizerFacet no_states{.states = {}, .settings = {"weight_decay"}};
const OptimizerFacet one_state{.states = {"momentum"}, .settings = {"momentum", "nesterov", "weight_decay"}};
const OptimizerFacet two_states{.states = {"moment1", "moment2"},
                                .counts_steps = true,
                                .settings = {"beta1", "beta2", "epsilon", "weight_decay"}};

/// Weight, gradient and states: the operands that are tensors of the weight's type.
std::size_t tensors_of(const OptimizerFacet& facet) { return 2 + facet.states.size(); }

std::vector<Type> infer(const OptimizerFacet& facet, const Call& call) {
  const std::size_t tensors = tensors_of(facet), fixed = tensors + (facet.counts_steps ? 1 : 0);
  const bool has_rate = call.attributes.find("rate") != nullptr;
  if (call.operands.size() != fixed + (has_rate ? 0 : 1))
    throw error(
        "has {} operands but takes {}; the rate is an attribute, as in (rate=0.1), or the last operand",
        call.operands.size(), fixed + (has_rate ? 0 : 1));
  const Type weight = common_type({call.operands.first(tensors), {}, call.attributes}, tensors);
  for (std::size_t i = tensors; i < call.operands.size(); ++i)
    if (call.operands[i] != Type{DType::f32, {}})
      throw error("operand {} is {} but must be the scalar f32[]", i, to_text(call.operands[i]));
  return std::vector<Type>(1 + facet.states.size(), weight);
}

std::string rule(const OptimizerFacet& facet, const Call& call) {
  std::string left, right;
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    left += fmt::format("{}{}", i ? ", " : "", i < tensors_of(facet) ? "..." : ".");
  for (std::size_t i = 0; i <= facet.states.size(); ++i) right += i ? ", ..." : "...";
  return left + " -> " + right;
}

double scalar(const KernelCall& call, std::size_t i) {
  return static_cast<double>(call.operands[i].as<float>()[0]);
}

double rate_of(const KernelCall& call) {
  if (call.attributes.find("rate")) return call.attributes.number("rate", 0);
  return scalar(call, call.operands.size() - 1);
}

/// w' = w - rate (g + weight_decay w)
void sgd_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto rate = static_cast<C>(rate_of(call));
    const auto decay = static_cast<C>(call.attributes.number("weight_decay", 0));
    const auto w = call.operands[0].as<T>(), g = call.operands[1].as<T>(), w2 = call.results[0].as<T>();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const C wi = static_cast<C>(w[i]);
      w2[i] = static_cast<T>(wi - rate * (static_cast<C>(g[i]) + decay * wi));
    }
  });
}

/// d = g + weight_decay w;  m' = momentum m + d;  w' = w - rate m', with nesterov w - rate (d + momentum m')
void momentum_kernel(const KernelCall& call) {
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto rate = static_cast<C>(rate_of(call));
    const auto decay = static_cast<C>(call.attributes.number("weight_decay", 0));
    const auto keep = static_cast<C>(call.attributes.number("momentum", 0.9));
    const bool nesterov = call.attributes.flag("nesterov");
    const auto w = call.operands[0].as<T>(), g = call.operands[1].as<T>(), m = call.operands[2].as<T>();
    const auto w2 = call.results[0].as<T>(), m2 = call.results[1].as<T>();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const C wi = static_cast<C>(w[i]);
      const C d = static_cast<C>(g[i]) + decay * wi;
      const C mi = keep * static_cast<C>(m[i]) + d;
      m2[i] = static_cast<T>(mi);
      w2[i] = static_cast<T>(wi - rate * (nesterov ? d + keep * mi : mi));
    }
  });
}

/// t = count + 1;  m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2
/// w' = w - rate / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + epsilon)
/// Weight decay: adam adds weight_decay w to g; adamw (decoupled) first takes w = (1 - rate weight_decay) w.
template <bool is_decoupled>
void adam_kernel(const KernelCall& call) {
  const double beta1 = call.attributes.number("beta1", 0.9), beta2 = call.attributes.number("beta2", 0.999);
  const double weight_decay = call.attributes.number("weight_decay", is_decoupled ? 0.01 : 0);
  const double t = scalar(call, 4) + 1, rate = rate_of(call);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    const auto b1 = static_cast<C>(beta1), b2 = static_cast<C>(beta2);
    const auto rest1 = static_cast<C>(1 - beta1), rest2 = static_cast<C>(1 - beta2);
    const auto step = static_cast<C>(rate / (1 - std::pow(beta1, t)));
    const auto root = static_cast<C>(std::sqrt(1 - std::pow(beta2, t)));
    const auto epsilon = static_cast<C>(call.attributes.number("epsilon", 1e-8));
    const auto shrink = static_cast<C>(is_decoupled ? 1 - rate * weight_decay : 1);
    const auto decay = static_cast<C>(is_decoupled ? 0 : weight_decay);
    const auto w = call.operands[0].as<T>(), g = call.operands[1].as<T>();
    const auto m = call.operands[2].as<T>(), v = call.operands[3].as<T>();
    const auto w2 = call.results[0].as<T>(), m2 = call.results[1].as<T>(), v2 = call.results[2].as<T>();
    for (std::size_t i = 0; i < w.size(); ++i) {
      const C wi = static_cast<C>(w[i]) * shrink;
      const C d = static_cast<C>(g[i]) + decay * wi;
      const C mi = b1 * static_cast<C>(m[i]) + rest1 * d;
      const C vi = b2 * static_cast<C>(v[i]) + rest2 * d * d;
      m2[i] = static_cast<T>(mi);
      v2[i] = static_cast<T>(vi);
      w2[i] = static_cast<T>(wi - step * mi / (std::sqrt(vi) / root + epsilon));
    }
  });
}

OpDef optimizer(std::string name, std::string doc, const OptimizerFacet& facet, Kernel kernel,
                std::vector<std::string> samples) {
  std::vector<int> overwrites{0};
  for (std::size_t s = 0; s < facet.states.size(); ++s) overwrites.push_back(static_cast<int>(2 + s));
  return {.name = std::move(name),
          .doc = std::move(doc),
          .rule_for = [facet](const Call& c) { return rule(facet, c); },
          .infer = [facet](const Call& c) { return infer(facet, c); },
          .kernel = kernel,
          .samples = std::move(samples),
          .optimizer = facet,
          .overwrites = std::move(overwrites)};
}

}  // namespace

std::vector<OpDef> optimizers() {
  const std::string adam = "f32[4,6], f32[4,6], f32[4,6], f32[4,6]>0, f32[]<5";
  return {
      optimizer("sgd", "w' = w - rate (g + weight_decay w)", no_states, sgd_kernel,
                {"f32[4,6], f32[4,6] (rate=0.5)", "f32[6], f32[6] (rate=0.5, weight_decay=0.25)",
                 "f32[4,6], f32[4,6], f32[]<3"}),
      optimizer("momentum", "m' = momentum m + g + weight_decay w; w' = w - rate m'", one_state,
                momentum_kernel,
                {"f32[4,6], f32[4,6], f32[4,6] (rate=0.5)",
                 "f32[6], f32[6], f32[6] (rate=0.5, momentum=0.5, weight_decay=0.25, nesterov=true)"}),
      optimizer("adam", "Adam with bias correction; weight_decay w is added to the gradient", two_states,
                adam_kernel<false>, {adam + " (rate=0.5)", adam + " (rate=0.5, weight_decay=0.1)"}),
      optimizer("adamw", "Adam with bias correction; the weight decays by itself", two_states,
                adam_kernel<true>,
                {adam + " (rate=0.5)", adam + ", f32[]<3 (beta1=0.5, beta2=0.75, epsilon=0.001)"}),
  };
}

}  // namespace shardwright::ops
