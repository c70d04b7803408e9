#include "bench/harness/drawn_network.h"

#include <fmt/format.h>

#include "shardwright/base/random.h"
#include "shardwright/frontend/modules.h"

namespace shardwright {
namespace {

constexpr std::int64_t classes = 10;

class Drawing {
 public:
  explicit Drawing(std::uint64_t seed) : stream_(seed, "network") {}

  /// One of some numbers, or of some kinds.
  std::int64_t one_of(std::initializer_list<std::int64_t> all) {
    return all.begin()[stream_.below(next_++, static_cast<std::int64_t>(all.size()))];
  }
  /// A name that no other layer has.
  std::string name(const char* what) { return fmt::format("{}{}", what, ++layers_); }

 private:
  RandomStream stream_;
  std::uint64_t next_ = 0;
  int layers_ = 0;
};

Traced activation(Drawing& draw, Traced x) {
  switch (draw.one_of({0, 1, 2, 3})) {
    case 0: return relu(draw.name("relu"))(x);
    case 1: return gelu(draw.name("gelu"), "tanh")(x);
    case 2: return silu(draw.name("silu"))(x);
    default: return tanh(draw.name("tanh"))(x);
  }
}

Traced through_convolutions(Drawing& draw, Traced x) {
  const std::int64_t blocks = draw.one_of({2, 3, 4});
  for (std::int64_t b = 0; b < blocks; ++b) {
    const std::int64_t in = x.type().shape[1], out = draw.one_of({32, 48, 64, 96, 128});
    const std::int64_t kernel = b == 0 ? 3 : draw.one_of({1, 3, 3, 5});
    const std::int64_t stride = b == 0 ? 2 : draw.one_of({1, 1, 2});
    const SlidingWindow window{.kernel = kernel, .stride = stride, .pad = kernel / 2};
    x = Conv2d(draw.name("conv"), in, out, {.window = window, .bias = false})(x);
    if (draw.one_of({0, 1, 1}) == 1) x = BatchNorm2d(draw.name("batch_norm"), out)(x);
    x = activation(draw, x);
  }
  if (draw.one_of({0, 1}) == 1) x = max_pool2d(draw.name("pool"), {.kernel = 2, .stride = 2})(x);
  return x;
}

Traced block_of_attention(Drawing& draw, Traced x) {
  const std::int64_t width = x.type().shape[2], heads = draw.one_of({2, 4, 8});
  const SelfAttention attend(draw.name("attention"), width, {.heads = heads, .kv_heads = heads});
  return add(draw.name("sum"))(x, attend(LayerNorm(draw.name("norm"), width)(x)));
}

Traced block_of_dense(Drawing& draw, Traced x) {
  const std::int64_t width = x.type().shape[2], inner = draw.one_of({256, 384, 512, 768, 1024});
  const Dense up(draw.name("dense"), width, inner), down(draw.name("dense"), inner, width);
  const Traced normed = draw.one_of({0, 1}) == 1 ? LayerNorm(draw.name("norm"), width)(x)
                                                 : RmsNorm(draw.name("norm"), width)(x);
  return add(draw.name("sum"))(x, down(activation(draw, up(normed))));
}

Traced through_sequence(Drawing& draw, Traced x) {
  const Shape image = x.type().shape;  // [batch, channels, rows, columns]
  const Traced pixels = transpose(draw.name("transpose"), {0, 2, 3, 1})(x);
  x = Operator("reshape", draw.name("sequence"))
          .with("shape", Shape{image[0], image[2] * image[3], image[1]})(pixels);
  x = Dense(draw.name("dense"), image[1], draw.one_of({128, 256, 384}))(x);
  const std::int64_t blocks = draw.one_of({2, 3, 4, 5});
  for (std::int64_t b = 0; b < blocks; ++b)
    x = draw.one_of({0, 1}) == 1 ? block_of_attention(draw, x) : block_of_dense(draw, x);
  return x;
}

}  // namespace

Model drawn_network(std::uint64_t seed, std::int64_t batch) {
  Drawing draw(seed);
  Trace trace{Precision{}};
  const std::int64_t pixels = draw.one_of({32, 48, 64});
  const Traced input = trace.input("input", {trace.precision(), {batch, 3, pixels, pixels}});
  const Labels labels = labels_of("cross_entropy", {trace.kept_precision(), {batch, classes}});
  const Traced label = trace.input("label", labels.type);
  const Traced sequence = flatten("flatten")(through_sequence(draw, through_convolutions(draw, input)));
  const Traced logits = Dense("head", sequence.type().shape[1], classes)(sequence);
  Model model = finish_model(trace, loss_called("cross_entropy", logits, label), logits);
  model.labels = labels;
  return model;
}

}  // namespace shardwright
