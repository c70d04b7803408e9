// U-Net (Ronneberger et al. 2015): each level halves the image and doubles the channels, and on the way up sees what went down beside it.
// As it is built today, convolutions keep the size of the image and are followed by batch norms; a mask for each class, any of which a
// pixel may be in.

#include <cmath>

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"

namespace shardwright::models {
namespace {

/// Twice a 3 x 3 convolution, batch norm and relu: NAME.conv1, NAME.bn1, NAME.relu1 and so on.
Traced two_convolutions(const std::string& name, Traced x, std::int64_t channels) {
  for (int i = 1; i <= 2; ++i) {
    const std::int64_t in = x.type().shape[1];
    x = Conv2d(fmt::format("{}.conv{}", name, i), in, channels,
               {.window = {.kernel = 3, .pad = 1},
                .bias = false,
                .initializer = normal(std::sqrt(2 / static_cast<double>(9 * channels)))})(x);
    x = relu(fmt::format("{}.relu{}", name, i))(BatchNorm2d(fmt::format("{}.bn{}", name, i), channels)(x));
  }
  return x;
}

Traced reshaped(Traced x, const std::string& name, Shape shape) {
  return Operator("reshape", name).with("shape", std::move(shape))(x);
}

/// The convolution of 2 x 2 and stride 2 the other way round: every pixel makes four, by a product of its own for each.
Traced twice_as_large(const std::string& name, Traced x, std::int64_t channels) {
  const Shape from = x.type().shape;
  const Traced parts = Conv2d(name, from[1], 4 * channels, {.window = {.kernel = 1}, .bias = false})(x);
  const Traced apart = reshaped(parts, name + ".apart", {from[0], channels, 2, 2, from[2], from[3]});
  const Traced turned = transpose(name + ".turned", {0, 1, 4, 2, 5, 3})(apart);
  return reshaped(turned, name + ".larger", {from[0], channels, 2 * from[2], 2 * from[3]});
}

Model build(const ModelArguments& arguments) {
  const std::int64_t batch = arguments.integer("batch", 4), image = arguments.integer("image", 256, 1 << 14);
  const std::int64_t width = arguments.integer("width", 64, 1 << 12),
                     depth = arguments.integer("depth", 4, 12);
  const std::int64_t classes = arguments.integer("classes", 1, 1 << 16),
                     colours = arguments.integer("channels", 3, 1 << 12);
  if (image % (std::int64_t{1} << depth) != 0)
    throw error("image={}: should be a multiple of {}, for it is halved {} times", image,
                std::int64_t{1} << depth, depth);
  Trace trace(arguments.precision);
  const Traced input = trace.input("input", {trace.precision(), {batch, colours, image, image}});
  const std::string loss = arguments.loss.empty() ? "binary_cross_entropy" : arguments.loss;
  if (loss == "cross_entropy")
    throw error(
        "loss {}: a pixel may be in any of the masks; take binary_cross_entropy, or an error of numbers",
        loss);
  const Labels labels = labels_of(loss, {trace.kept_precision(), {batch, classes, image, image}});
  const Traced label = trace.input("label", labels.type);
  std::vector<Traced> levels{two_convolutions("down0", input, width)};
  for (std::int64_t d = 1; d <= depth; ++d) {
    const std::string name = fmt::format("down{}", d);
    const Traced halved = max_pool2d(name + ".pool", {.kernel = 2, .stride = 2})(levels.back());
    levels.push_back(two_convolutions(name, halved, width << d));
  }
  Traced x = levels.back();
  for (std::int64_t d = depth; d-- > 0;) {
    const std::string name = fmt::format("up{}", d);
    const Traced larger = twice_as_large(name + ".up", x, width << d);
    const Traced both = trace.call("concat", {levels[static_cast<std::size_t>(d)], larger},
                                   {{"dim", std::int64_t{1}}}, name + ".both");
    x = two_convolutions(name, both, width << d);
  }
  const Traced scores = Conv2d("masks", width, classes, {.window = {.kernel = 1}})(x);
  Model model = finish_model(trace, loss_called(loss, scores, label), scores);
  model.labels = labels;
  return model;
}

}  // namespace

std::vector<ModelDef> unet() {
  return {
      {.name = "unet",
       .doc =
           "U-Net: `depth` levels down and up again, a mask for each class of images of image x image pixels",
       .keys = {{"batch", "4"},
                {"channels", "3"},
                {"classes", "1"},
                {"depth", "4"},
                {"image", "256"},
                {"width", "64"}},
       .build = build}};
}

}  // namespace shardwright::models
