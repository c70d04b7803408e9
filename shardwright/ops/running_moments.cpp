// What a batch norm keeps from step to step, and what it takes where a network is only asked: the running mean and
// variance, and the moments that they stand for.

#include <algorithm>

#include "shardwright/graph/builder.h"
#include "shardwright/ops/batch_norm.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::vector<Type> infer_running(const Call& call) {
  check_count(call, 3);
  const Type& mean = call.operands[0];
  check_floating(mean.dtype);
  if (mean.shape.size() != 1 || call.operands[1] != mean)
    throw error("running mean and variance are {} and {} but should be equal, of one dim", to_text(mean),
                to_text(call.operands[1]));
  check_channels(call, 2, {mean.dtype, {1, mean.shape[0]}}, true);
  call.attributes.number("momentum", 0.1);
  if (!(call.attributes.number("count", 0) >= 1))
    throw error("count is {} but should say of how many elements the moments are",
                call.attributes.number("count", 0));
  return {mean, mean};
}

/// As PyTorch: the new value weighs `momentum`, and the variance is that of a sample, with N - 1.
void running_kernel(const KernelCall& call) {
  require(call.operands[2].shape[0] == 2, "moments in {} rows", call.operands[2].shape[0]);
  const double momentum = call.attributes.number("momentum", 0.1), count = call.attributes.number("count", 1);
  const Doubles moments(call.operands[2]);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    const auto mean = call.operands[0].as<T>(), variance = call.operands[1].as<T>();
    const auto new_mean = call.results[0].as<T>(), new_variance = call.results[1].as<T>();
    const auto mixed = [momentum](T old, double fresh) {
      const double kept = static_cast<double>(static_cast<Compute<T>>(old));
      return static_cast<T>(static_cast<Compute<T>>((1 - momentum) * kept + momentum * fresh));
    };
    const auto channels = static_cast<std::int64_t>(mean.size());
    for (std::size_t c = 0; c < mean.size(); ++c) {
      const double m = moments[static_cast<std::int64_t>(c)];
      const double of_batch = std::max(moments[channels + static_cast<std::int64_t>(c)] - m * m, 0.0);
      new_mean[c] = mixed(mean[c], m);
      new_variance[c] = mixed(variance[c], of_batch * count / std::max(count - 1, 1.0));
    }
  });
}

// ---- moments of known statistics ----

std::vector<Type> infer_known(const Call& call) {
  check_count(call, 2);
  const Type& mean = call.operands[0];
  check_floating(mean.dtype);
  if (mean.shape.size() != 1 || call.operands[1] != mean)
    throw error("mean and variance are {} and {} but should be equal, of one dim", to_text(mean),
                to_text(call.operands[1]));
  return {{DType::f64, {2, mean.shape[0]}}};
}

void known_kernel(const KernelCall& call) {
  const Doubles mean(call.operands[0]), variance(call.operands[1]);
  const auto out = call.results[0].as<double>();
  const std::size_t channels = out.size() / 2;
  for (std::size_t c = 0; c < channels; ++c) {
    const double m = mean[static_cast<std::int64_t>(c)];
    out[c] = m;
    out[channels + c] = variance[static_cast<std::int64_t>(c)] + m * m;
  }
}

/// A network that is only asked normalises by the running statistics.
ValueId known_instead(Builder& builder, std::span<const ValueId> reads) {
  return builder.call("known_moments", {reads[0], reads[1]});
}

}  // namespace

std::vector<OpDef> running_moments() {
  return {
      {.name = "running_moments",
       .doc = "running mean and variance of a batch norm, moved by `momentum` towards those of the batch",
       .attributes = {"count", "momentum"},
       .defaults = {{"momentum", 0.1}},
       .rule = "c, c, m^ c -> c, c",
       .infer = infer_running,
       .outside_training = Substitute{.operand = 2, .reads = {0, 1}, .make = known_instead},
       .kernel = running_kernel,
       .samples = {"f32[6], f32[6], f32[2,6] (count=4, momentum=0.25)"},
       .overwrites = {0, 1},
       .torch = {.line = "running_moments({0}, {1}, {2}, {count}, {momentum})",
                 .functions = batch_norm_in_torch},
       .jax = {.functions = batch_norm_in_jax}},
      {.name = "known_moments",
       .doc = "the moments of batch_moments that a known mean and variance stand for, in f64",
       .rule = "c, c -> m^ c",
       .infer = infer_known,
       .kernel = known_kernel,
       .samples = {"f32[6], f32[6]>0"},
       .torch = {.line = "torch.stack([{0}.double(), {1}.double() + {0}.double() ** 2])"},
       .jax = {.line = "jnp.stack([double({0}), double({1}) + double({0}) ** 2])",
               .functions = batch_norm_in_jax}},
  };
}

}  // namespace shardwright::ops
