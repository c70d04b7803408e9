// Dropout: every element is 0 with probability `rate`, and divided by 1 - rate else.
//
// Whether an element is kept is a function of the seed, the name, the count of steps done (operand 1, f32[], as the
// optimizers have it) and the element's index in the global tensor: the same on every plan, another in every step.
// So y is linear in x, nothing is kept for the backward, and the gradient of dropout is the same dropout of dy.
//
// With `micro_batches` M in a step, the count is that of micro-batches done: s M + m in micro-batch m of step s. Its
// elements are those from m N on, of N each, of the tensor of the whole batch, whose dim 0 the batch is: the masks are those
// of one micro-batch.

#include "shardwright/base/random.h"
#include "shardwright/base/vectorize.h"
#include "shardwright/graph/builder.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/strided.h"
#include "shardwright/ops/types.h"

namespace shardwright::ops {
namespace {

std::int64_t micro_batches(const Attributes& attributes) {
  return attributes.integer(micro_batches_attribute, 1);
}

std::vector<Type> infer(const Call& call) {
  check_count(call, 2);
  const Type& x = call.operands[0];
  check_floating(x.dtype);
  if (call.operands[1] != Type{DType::f32, {}})
    throw error("operand 1 is {} but must be the count of steps, f32[]", to_text(call.operands[1]));
  const double rate = call.attributes.number("rate", 0.5);
  if (!(rate >= 0 && rate < 1)) throw error("rate is {} but should be at least 0 and less than 1", rate);
  if (const std::int64_t count = micro_batches(call.attributes); count < 1)
    throw error("micro_batches is {} but should be at least 1", count);
  call.attributes.integer("seed", 0);
  call.attributes.text("name", "");
  return {x};
}

std::vector<ValueId> gradient(Gradient& g) {
  return {g.call("dropout", {g.dy(), g.in(1)}, g.attributes()), ValueId{}};
}

ValueId kept_whole(Builder&, std::span<const ValueId> reads) { return reads[0]; }

/// The step that a micro-batch belongs to, and which one of it it is.
struct Time {
  std::int64_t step = 0, micro_batch = 0;
};

Time time_of(const KernelCall& call) {
  const auto count = static_cast<std::int64_t>(call.operands[1].as<float>()[0]);
  const std::int64_t of_step = micro_batches(call.attributes);
  return {count / of_step, count % of_step};
}

/// The numbers of one step.
RandomStream stream(const KernelCall& call) {
  const auto seed = static_cast<std::uint64_t>(call.attributes.integer("seed", 0));
  const auto step = static_cast<std::uint64_t>(time_of(call).step);
  const Attribute* name = call.attributes.find("name");
  return {splitmix64(seed + splitmix64(step)), name ? std::get<std::string>(*name) : std::string_view()};
}

/// Loops over the local elements (0) and their indices in the global tensor of the whole batch (1).
struct Indices {
  Walk<2> walk;
  std::int64_t first = 0;

  Indices(const LoopBox& box, std::int64_t micro_batch) {
    std::int64_t local = 1, global = 1;
    for (std::size_t d = box.loops.size(); d-- > 0;) {
      const auto [offset, extent, size] = box.loops[d];
      walk.surround({extent, {local, global}});
      first += offset * global;
      local *= extent;
      global *= size;
    }
    first += micro_batch * global;
  }
};

void kernel(const KernelCall& call) {
  const double rate = call.attributes.number("rate", 0.5);
  // An element is kept if its number, of 53 bits, is at least the rate's.
  const auto threshold = static_cast<std::uint64_t>(rate * 0x1p53);
  visit_floating(call.results[0].dtype, [&]<class T>(std::type_identity<T>) {
    using C = Compute<T>;
    vectorized([=, random = stream(call), indices = Indices(call.box, time_of(call).micro_batch),
                x = call.operands[0].as<T>().data(), y = call.results[0].as<T>().data()] {
      const auto scale = static_cast<C>(1 / (1 - rate));
      const Pass<2> row = indices.walk.row();
      for_each_row(indices.walk, [=](const auto& at) {
        const auto index = static_cast<std::uint64_t>(indices.first + at[1]);
        const auto step = static_cast<std::uint64_t>(row.strides[1]);
        const T* const from = x + at[0];
        T* const to = y + at[0];
#pragma GCC ivdep
        for (std::int64_t i = 0; i < row.extent; ++i) {
          const bool is_kept = random.bits(index + static_cast<std::uint64_t>(i) * step) >> 11 >= threshold;
          const C kept = static_cast<C>(from[i]) * scale;
          to[i] = static_cast<T>(is_kept ? kept : C(0));
        }
      });
    });
  });
}

}  // namespace

std::vector<OpDef> dropout() {
  return {
      {.name = "dropout",
       .doc = "y = 0 with probability `rate`, else x / (1 - rate); operands x and the count of steps done, "
              "f32[]",
       .attributes = {std::string(micro_batches_attribute), "name", "rate", "seed"},
       .defaults = {{std::string(micro_batches_attribute), std::int64_t{1}},
                    {"name", std::string()},
                    {"rate", 0.5},
                    {"seed", std::int64_t{0}}},
       .rule = "..., . -> ...",
       .linear = "{0}",
       .infer = infer,
       .gradient = gradient,
       .outside_training = Substitute{.reads = {0}, .make = kept_whole},
       .kernel = kernel,
       .samples = {"f32[4,6], f32[]<5 (rate=0.5)", "f32[2,6,12], f32[]<9 (rate=0.25, seed=7, name=hidden)",
                   "f32[4,6], f32[]<5 (rate=0.5, micro_batches=2)"},
       .reads_places = true,
       .overwrites = {0},
       .torch = {.line = "dropout({0}, {1}, {rate}, {seed}, {key}, {micro_batches}, {offsets}, {sizes})",
                 .numbers =
                     [](const KernelCall& c) {
                       std::vector<std::int64_t> offsets, sizes;
                       for (const LoopBox::Part& part : c.box.loops) {
                         offsets.push_back(part.offset);
                         sizes.push_back(part.size);
                       }
                       return Attributes{
                           {"key", static_cast<std::int64_t>(hash_of(c.attributes.text("name", "")))},
                           {"offsets", offsets},
                           {"sizes", sizes}};
                     },
                 .functions = R"(
def shifted_right(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def splitmix64(x):
    """SplitMix64 of 64 bits, which stand in signed integers."""
    x = x - 0x61C8864680B583EB
    x = (x ^ shifted_right(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ shifted_right(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ shifted_right(x, 31)


def dropout(x, count, rate, seed, key, micro_batches, offsets, sizes):
    """An element is kept or not by seed, name, step and its place in the whole tensor."""
    done = count.long()
    step, micro_batch = torch.div(done, micro_batches, rounding_mode="floor"), done % micro_batches
    index, stride = torch.zeros((), dtype=torch.int64, device=x.device), 1
    for d in reversed(range(len(sizes))):
        own = (torch.arange(x.shape[d], device=x.device) + offsets[d]) * stride
        index = own.reshape([-1] + [1] * (len(sizes) - 1 - d)) + index
        stride *= sizes[d]
    stream = splitmix64(splitmix64(seed + splitmix64(step)) ^ key)
    bits = splitmix64(stream + splitmix64(index + micro_batch * stride))
    is_kept = shifted_right(bits, 11) >= int(rate * 2.0 ** 53)
    return torch.where(is_kept, wide(x) * (1 / (1 - rate)), torch.zeros_like(wide(x))).to(x.dtype)
)"},
       .jax = {.functions = R"(
def shifted_right(x, bits):
    return (x >> bits) & ((1 << (64 - bits)) - 1)


def splitmix64(x):
    """SplitMix64 of 64 bits, which stand in signed integers."""
    x = x - 0x61C8864680B583EB
    x = (x ^ shifted_right(x, 30)) * -0x40A7B892E31B1A47
    x = (x ^ shifted_right(x, 27)) * -0x6B2FB644ECCEEE15
    return x ^ shifted_right(x, 31)


def dropout(x, count, rate, seed, key, micro_batches, offsets, sizes):
    """An element is kept or not by seed, name, step and its place in the whole tensor."""
    done = count.astype(jnp.int64)
    step, micro_batch = done // micro_batches, done % micro_batches
    index, stride = jnp.zeros((), jnp.int64), 1
    for d in reversed(range(len(sizes))):
        own = (jnp.arange(x.shape[d]) + offsets[d]) * stride
        index = own.reshape((-1,) + (1,) * (len(sizes) - 1 - d)) + index
        stride *= sizes[d]
    stream = splitmix64(splitmix64(seed + splitmix64(step)) ^ key)
    bits = splitmix64(stream + splitmix64(index + micro_batch * stride))
    is_kept = shifted_right(bits, 11) >= int(rate * 2.0 ** 53)
    return jnp.where(is_kept, wide(x) * (1 / (1 - rate)), 0).astype(x.dtype)
)"}}};
}

}  // namespace shardwright::ops
