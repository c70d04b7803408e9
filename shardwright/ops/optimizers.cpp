// Updates of weights: sgd, momentum, adagrad, adam, adamw, with the formulas of PyTorch 1.13; lazy_adam with that of its SparseAdam.
//
// Operands: weight, gradient, states, then the count of steps done (f32[], adam and adamw only), with `guarded` a
// number (f32[]) that is 0 where nothing is to be changed, then the learning rate (f64[]) if it is no attribute. Results: the new weight and states, over the old ones.
// All dims are free: that is what lets states be sharded. Scalars are computed in double, as PyTorch does.
//
// With `master` the weight stands in a short type for whoever reads it, and once more, as the last state, in the type
// of the gradient and of the other states, in which it is updated (Micikevicius et al. 2018); the short one is what
// the new master rounds to.

#include <algorithm>
#include <array>
#include <cmath>

#include "shardwright/ops/block.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/ops/optimizers_in_python.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

const OptimizerFacet no_states{.states = {}};
const OptimizerFacet one_state{.states = {"momentum"}};
const OptimizerFacet squares{.states = {"squares"}};
const OptimizerFacet two_states{.states = {"moment1", "moment2"}, .counts_steps = true};

/// Weight, gradient and states: the operands that are tensors of the weight's shape.
std::size_t tensors_of(const OptimizerFacet& facet, const Call& call) {
  return 2 + states_of(facet, call.attributes).size();
}

/// The operand that says whether there is an update, where a call has one.
std::size_t guard_of(const OptimizerFacet& facet, const Call& call) {
  return tensors_of(facet, call) + (facet.counts_steps ? 1 : 0);
}

/// The call in full precision behind one with a master: this stands in the weight's place.
struct OfMaster {
  std::vector<Type> operands, results;
  std::size_t master;  // operand of the outer call, result 1 less

  OfMaster(const OptimizerFacet& facet, const Call& call) : master(tensors_of(facet, call) - 1) {
    operands.assign(call.operands.begin(), call.operands.end());
    operands[0] = operands[master];
    operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(master));
    results.assign(call.results.begin(), call.results.end());
    if (results.empty()) return;
    results[0] = results.back();
    results.pop_back();
  }
};

std::vector<Type> infer(const OptimizerFacet& facet, const Call& call) {
  const std::size_t tensors = tensors_of(facet, call);
  const std::size_t fixed = guard_of(facet, call) + (call.attributes.flag("guarded") ? 1 : 0);
  const bool has_rate = call.attributes.find("rate") != nullptr;
  if (call.operands.size() != fixed + (has_rate ? 0 : 1))
    throw error(
        "has {} operands but takes {}; the rate is an attribute, as in (rate=0.1), or the last operand",
        call.operands.size(), fixed + (has_rate ? 0 : 1));
  if (call.attributes.flag("master")) {
    const Type weight = call.operands[0];
    check_floating(weight.dtype);
    Attributes attributes = call.attributes;
    attributes.set("master", false);
    std::vector<Type> types = infer(facet, {OfMaster(facet, call).operands, {}, attributes});
    if (types[0].shape != weight.shape)
      throw error("the weight is {} but its master is {}", to_text(weight), to_text(types[0]));
    types.push_back(types[0]);
    types[0] = weight;
    return types;
  }
  const Type weight = common_type({call.operands.first(tensors), {}, call.attributes}, tensors);
  for (std::size_t i = tensors; i < call.operands.size(); ++i) {
    const Type scalar{i < fixed ? DType::f32 : DType::f64, {}};
    if (call.operands[i] != scalar)
      throw error("operand {} is {} but must be the scalar {}", i, to_text(call.operands[i]),
                  to_text(scalar));
  }
  return std::vector<Type>(1 + facet.states.size(), weight);
}

std::string rule(const OptimizerFacet& facet, const Call& call) {
  std::string left, right;
  for (std::size_t i = 0; i < call.operands.size(); ++i)
    left += fmt::format("{}{}", i ? ", " : "", i < tensors_of(facet, call) ? "..." : ".");
  for (std::size_t i = 1; i < tensors_of(facet, call); ++i) right += i > 1 ? ", ..." : "...";
  return left + " -> " + right;
}

/// The learning rate: an attribute, or else element 0 of the last operand.
class Rate {
 public:
  explicit Rate(const Call& call)
      : is_operand_(call.attributes.find("rate") == nullptr),
        value_(call.attributes.number("rate", 0)),
        operand_(call.operands.size() - 1) {}

  double in(const ElementBlock& block) const {
    return is_operand_ ? block.operand<double>(operand_)[0] : value_;
  }

 private:
  bool is_operand_;
  double value_;
  std::size_t operand_;
};

/// w' = w - rate (g + weight_decay w)
BlockKernel sgd_block(const Call& call) {
  const double weight_decay = call.attributes.number("weight_decay", 0);
  return floating_block(
      call, [weight_decay, rate = Rate(call)]<class C>(std::type_identity<C>, const ElementBlock& b) {
        for_each_element<C, 2>(b, [r = static_cast<C>(rate.in(b)), decay = static_cast<C>(weight_decay)](
                                      C w, C g) { return w - r * (g + decay * w); });
      });
}

/// d = g + weight_decay w;  m' = momentum m + d;  w' = w - rate m', with nesterov w - rate (d + momentum m')
template <bool is_nesterov>
BlockKernel momentum_block(const Call& call) {
  const double weight_decay = call.attributes.number("weight_decay", 0);
  const double momentum = call.attributes.number("momentum", default_setting("momentum", "momentum"));
  return floating_block(call, [=, rate = Rate(call)]<class C>(std::type_identity<C>, const ElementBlock& b) {
    const auto r = static_cast<C>(rate.in(b)), decay = static_cast<C>(weight_decay);
    const auto keep = static_cast<C>(momentum);
    for_each_element<C, 3, 2>(b, [r, decay, keep](C w, C g, C m) {
      const C d = g + decay * w;
      const C m2 = keep * m + d;
      return std::array<C, 2>{w - r * (is_nesterov ? d + keep * m2 : m2), m2};
    });
  });
}

BlockKernel momentum_block(const Call& call) {
  return call.attributes.flag("nesterov") ? momentum_block<true>(call) : momentum_block<false>(call);
}

/// d = g + weight_decay w;  s' = s + d^2;  w' = w - rate d / (sqrt(s') + epsilon)
BlockKernel adagrad_block(const Call& call) {
  const double weight_decay = call.attributes.number("weight_decay", 0);
  const double least = call.attributes.number("epsilon", default_setting("adagrad", "epsilon"));
  return floating_block(call, [=, rate = Rate(call)]<class C>(std::type_identity<C>, const ElementBlock& b) {
    const auto r = static_cast<C>(rate.in(b)), decay = static_cast<C>(weight_decay);
    const auto epsilon = static_cast<C>(least);
    for_each_element<C, 3, 2>(b, [r, decay, epsilon](C w, C g, C s) {
      const C d = g + decay * w;
      const C s2 = s + d * d;
      return std::array<C, 2>{w - r * d / (std::sqrt(s2) + epsilon), s2};
    });
  });
}

/// t = count + 1;  m' = beta1 m + (1 - beta1) g;  v' = beta2 v + (1 - beta2) g^2
/// w' = w - rate / (1 - beta1^t) m' / (sqrt(v') / sqrt(1 - beta2^t) + epsilon)
/// With plain_epsilon the denominator is (sqrt(v') + epsilon) / sqrt(1 - beta2^t).
/// Weight decay: adam adds weight_decay w to g; adamw (decoupled) first takes w = (1 - rate weight_decay) w; lazy_adam has none,
/// and the plain epsilon.
enum class Adam : std::uint8_t { coupled, decoupled, lazy };

template <Adam kind>
BlockKernel adam_block(const Call& call) {
  constexpr bool is_decoupled = kind == Adam::decoupled;
  const auto setting = [&call](std::string_view name) {
    constexpr std::string_view of = kind == Adam::lazy ? "lazy_adam" : is_decoupled ? "adamw" : "adam";
    return call.attributes.number(name, default_setting(of, name));
  };
  const double beta1 = setting("beta1"), beta2 = setting("beta2");
  const double weight_decay = setting("weight_decay"), least = setting("epsilon");
  const bool is_plain = kind == Adam::lazy || call.attributes.flag("plain_epsilon");
  return floating_block(
      call, [=, rate_of = Rate(call)]<class C>(std::type_identity<C>, const ElementBlock& b) {
        const double t = static_cast<double>(b.operand<float>(4)[0]) + 1, rate = rate_of.in(b);
        const auto b1 = static_cast<C>(beta1), b2 = static_cast<C>(beta2);
        const auto rest1 = static_cast<C>(1 - beta1), rest2 = static_cast<C>(1 - beta2);
        const auto step = static_cast<C>(rate / (1 - std::pow(beta1, t)));
        const double correction = 1 / std::sqrt(1 - std::pow(beta2, t));
        const auto root = static_cast<C>(correction);
        const auto epsilon = static_cast<C>(is_plain ? least * correction : least);
        const auto shrink = static_cast<C>(is_decoupled ? 1 - rate * weight_decay : 1);
        const auto decay = static_cast<C>(is_decoupled ? 0 : weight_decay);
        for_each_element<C, 4, 3>(b, [=](C w, C g, C m, C v) {
          const C w1 = w * shrink;
          const C d = g + decay * w1;
          const C m2 = b1 * m + rest1 * d;
          const C v2 = b2 * v + rest2 * d * d;
          return std::array<C, 3>{w1 - step * m2 / (std::sqrt(v2) * root + epsilon), m2, v2};
        });
      });
}

/// `block` on the master, and what it rounds to as the weight.
BlockKernel with_master(const OptimizerFacet& facet, const Call& call, BlockKernel (*block)(const Call&)) {
  constexpr std::size_t most = 8;
  const OfMaster inner(facet, call);
  require(call.operands.size() <= most, "{} operands", call.operands.size());
  BlockKernel update = block({inner.operands, inner.results, call.attributes}), round;
  visit_floating(inner.results[0].dtype, [&]<class From>(std::type_identity<From>) {
    visit_floating(call.results[0].dtype, [&]<class To>(std::type_identity<To>) {
      round = [](const ElementBlock& b) { convert_elements<From, To>(b.operands[0], b.results[0], b.count); };
    });
  });
  return [update, round, master = inner.master](const ElementBlock& b) {
    std::array<std::byte*, most> operands, results;
    operands[0] = b.operands[master];
    std::size_t count = 1;
    for (std::size_t i = 1; i < b.operands.size(); ++i)
      if (i != master) operands[count++] = b.operands[i];
    results[0] = b.results.back();
    std::copy(b.results.begin() + 1, b.results.end() - 1, results.begin() + 1);
    update({std::span(operands).first(count), std::span(results).first(b.results.size() - 1), b.count});
    round({b.results.last(1), b.results.first(1), b.count});
  };
}

/// `block`, or what is there where the guard says so.
BlockKernel with_guard(const OptimizerFacet& facet, const Call& call, BlockKernel block) {
  constexpr std::size_t most = 8;
  std::vector<std::size_t> bytes;  // per result of an element
  for (const Type& t : call.results) bytes.push_back(size_of(t.dtype));
  return [block = std::move(block), guard = guard_of(facet, call), bytes](const ElementBlock& b) {
    if (b.operand<float>(guard)[0] == 0) {
      for (std::size_t r = 0; r < b.results.size(); ++r) {  // result 0 is the weight, the others are states
        const std::byte* const from = b.operands[r == 0 ? 0 : r + 1];
        if (from != b.results[r])
          std::copy_n(from, static_cast<std::size_t>(b.count) * bytes[r], b.results[r]);
      }
      return;
    }
    std::array<std::byte*, most> operands;
    std::size_t count = 0;
    for (std::size_t i = 0; i < b.operands.size(); ++i)
      if (i != guard) operands[count++] = b.operands[i];
    block({std::span(operands).first(count), b.results, b.count});
  };
}

/// The kernel of a call with whatever it has beside its formula.
BlockKernel whole_block(const OptimizerFacet& facet, const Call& call, BlockKernel (*block)(const Call&)) {
  if (!call.attributes.flag("guarded"))
    return call.attributes.flag("master") ? with_master(facet, call, block) : block(call);
  std::vector<Type> operands(call.operands.begin(), call.operands.end());
  operands.erase(operands.begin() + static_cast<std::ptrdiff_t>(guard_of(facet, call)));
  Attributes attributes = call.attributes;
  attributes.set("guarded", false);
  return with_guard(facet, call, whole_block(facet, {operands, call.results, attributes}, block));
}

/// Operands as they stand, `None` for what a call does not have, then the settings.
std::string in_torch(const OptimizerFacet& facet, const std::string& name, const Call& c) {
  const std::size_t states = states_of(facet, c.attributes).size();
  const bool has_master = c.attributes.flag("master"), is_guarded = c.attributes.flag("guarded");
  std::string out = name + "{in_place}({0}, {1}";
  for (std::size_t s = 0; s < facet.states.size(); ++s) out += fmt::format(", {{{}}}", 2 + s);
  std::size_t next = 2 + states;
  if (facet.counts_steps) out += fmt::format(", {{{}}}", next++);
  const std::string guard = is_guarded ? fmt::format("{{{}}}", next++) : "";
  out += c.attributes.find("rate") ? ", {rate}" : fmt::format(", {{{}}}", next);
  for (const OptimizerSetting& setting : optimizer_settings)
    if (setting.optimizer == name && setting.name != "rate")
      out += fmt::format(", {0}={{{0}}}", setting.name);
  if (has_master) out += fmt::format(", master={{{}}}", 1 + states);
  if (is_guarded) out += ", guard=" + guard;
  return out + ")";
}

Attributes defaults_of(const std::string& name) {
  Attributes out{{"guarded", false}, {"master", false}};
  for (const OptimizerSetting& setting : optimizer_settings) {
    if (setting.optimizer != name || setting.name == "rate") continue;
    if (setting.kind == OptimizerSetting::Kind::word)
      out.set(std::string(setting.name), setting.otherwise != 0);
    else
      out.set(std::string(setting.name), setting.otherwise);
  }
  return out;
}

OpDef optimizer(const std::string& name, std::string doc, const OptimizerFacet& facet,
                BlockKernel (*block)(const Call&), std::vector<std::string> samples) {
  std::vector<int> overwrites{0};
  for (std::size_t s = 0; s <= facet.states.size(); ++s) overwrites.push_back(static_cast<int>(2 + s));
  std::vector<std::string> attributes{"guarded", "master"};  // these a train step sets
  for (const OptimizerSetting& setting : optimizer_settings)
    if (setting.optimizer == name) attributes.emplace_back(setting.name);
  return {.name = name,
          .doc = std::move(doc),
          .attributes = std::move(attributes),
          .defaults = defaults_of(name),
          .rule_for = [facet](const Call& c) { return rule(facet, c); },
          .infer = [facet](const Call& c) { return infer(facet, c); },
          .block = [facet, block](const Call& c) { return whole_block(facet, c, block); },
          .samples = std::move(samples),
          .optimizer = facet,
          .overwrites = std::move(overwrites),
          .torch = {.line_for = [facet, name](const Call& c) { return in_torch(facet, name, c); },
                    .functions = std::string(optimizers_in_torch) + std::string(optimizer_formulas)},
          .jax = {.functions = std::string(optimizers_in_jax) + std::string(optimizer_formulas)}};
}

}  // namespace

std::vector<OpDef> optimizers() {
  const std::string with_master_adam = "bf16[4,6], f32[4,6], f32[4,6], f32[4,6]>0, f32[4,6]";
  const std::string adam = "f32[4,6], f32[4,6], f32[4,6], f32[4,6]>0, f32[]<5";
  return {
      optimizer("sgd", "w' = w - rate (g + weight_decay w)", no_states, sgd_block,
                {"f32[4,6], f32[4,6] (rate=0.5)", "f32[6], f32[6] (rate=0.5, weight_decay=0.25)",
                 "f32[4,6], f32[4,6], f64[]<3", "f32[4,6], f32[4,6], f32[]<2 (rate=0.5, guarded=true)",
                 "bf16[4,6], f32[4,6], f32[4,6] (rate=0.5, master=true)"}),
      optimizer("momentum", "m' = momentum m + g + weight_decay w; w' = w - rate m'", one_state,
                momentum_block,
                {"f32[4,6], f32[4,6], f32[4,6] (rate=0.5)",
                 "f32[6], f32[6], f32[6] (rate=0.5, momentum=0.5, weight_decay=0.25, nesterov=true)",
                 "f16[4,6], f32[4,6], f32[4,6], f32[4,6] (rate=0.5, master=true)",
                 "f32[4,6], f32[4,6], f32[4,6], f32[]<2 (rate=0.5, guarded=true)"}),
      optimizer("adagrad", "s' = s + g^2; w' = w - rate g / (sqrt(s') + epsilon)", squares, adagrad_block,
                {"f32[4,6], f32[4,6], f32[4,6]>0 (epsilon=0.5, rate=0.5)",
                 "f32[6], f32[6], f32[6]>0, f64[]<3 (weight_decay=0.25)",
                 "f32[4,6], f32[4,6], f32[4,6]>0, f32[]<2 (rate=0.5, guarded=true)",
                 "bf16[4,6], f32[4,6], f32[4,6]>0, f32[4,6] (rate=0.5, master=true)"}),
      optimizer("lazy_adam",
                "Adam that leaves moments of a table's rows alone where a batch has none of them", two_states,
                adam_block<Adam::lazy>,
                {adam + " (rate=0.5)", with_master_adam + ", f32[]<5, f64[]<3 (master=true)",
                 adam + ", f32[]<2 (rate=0.5, guarded=true)",
                 adam + " (beta1=0.5, beta2=0.75, epsilon=0.001, rate=0.5)"}),
      optimizer(
          "adam", "Adam with bias correction; weight_decay w is added to the gradient", two_states,
          adam_block<Adam::coupled>,
          {adam + " (rate=0.5)", with_master_adam + ", f32[]<5 (rate=0.5, master=true)",
           adam + ", f32[]<2 (rate=0.5, guarded=true)", adam + " (epsilon=0.5, plain_epsilon=true, rate=0.5)",
           adam + " (beta1=0.5, beta2=0.75, epsilon=0.001, rate=0.5, weight_decay=0.1)"}),
      optimizer("adamw", "Adam with bias correction; the weight decays by itself", two_states,
                adam_block<Adam::decoupled>,
                {adam + " (rate=0.5, weight_decay=0.1)",
                 with_master_adam + ", f32[]<5, f64[]<3 (beta1=0.5, master=true)",
                 with_master_adam + ", f32[]<5, f32[]<2, f64[]<3 (guarded=true, master=true)",
                 adam + ", f64[]<3 (beta1=0.5, beta2=0.75, epsilon=0.001)"}),
  };
}

}  // namespace shardwright::ops
