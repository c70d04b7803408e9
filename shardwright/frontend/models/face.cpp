// Face recognition as seed 004 shows it: a trunk that makes features of an image, and a classifier of as many classes
// as there are people, by the cosine between features and each class's weights. With the classes split over devices,
// a device computes its own classes' logits; a max and two sums a row join them.

#include "shardwright/frontend/functions.h"
#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/modules/resnet.h"

namespace shardwright::models {
namespace {

constexpr double tiny = 1e-12;  // the least square of a norm

Model build(const ModelArguments& arguments) {
  if (!arguments.loss.empty() && arguments.loss != "cross_entropy")
    throw error("loss {}: a face classifier is trained with cross_entropy", arguments.loss);
  const std::int64_t batch = arguments.integer("batch", 8), image = arguments.integer("image", 64);
  const std::int64_t classes = arguments.integer("classes", 1000000, std::numeric_limits<int>::max());
  const std::int64_t features = arguments.integer("features", 512);
  ResNet::Options options = resnet_called(arguments.text("backbone", "resnet50"));
  options.width = arguments.integer("width", 64, ResNet::most_width);
  Trace trace(arguments.precision);
  const Traced input = trace.input("input", {trace.precision(), {batch, 3, image, image}});
  const Traced label = trace.input("label", {DType::i32, {batch}});
  const ResNet trunk(options);
  const Traced embedded = Dense("embedding", trunk.features(), features)(trunk(input));
  const Parameter weight{"classes.weight", {features, classes}, normal(0.01), true};
  const Traced cosine =
      matmul("classes.matmul")(l2_normalize(embedded, 1, tiny, "embedding.normed"),
                               l2_normalize(trace.parameter(weight), 0, tiny, "classes.normed"));
  const Traced logits = trace.call(
      "scale", {cosine}, {{"factor", static_cast<double>(arguments.integer("scale", 64))}}, "logits");
  const auto [loss, top1] = CrossEntropyAndTop1{}(logits, label);
  Model model = finish_model(trace, loss, top1);
  model.labels.classes = classes;
  return model;
}

}  // namespace

std::vector<ModelDef> face() {
  return {
      {.name = "face",
       .doc =
           "face recognition: a residual network, then a normalised linear layer of many classes; tells the "
           "share of hits (top1)",
       .keys = {{"backbone", "resnet50"},
                {"batch", "8"},
                {"classes", "1000000"},
                {"features", "512"},
                {"image", "64"},
                {"scale", "64"},
                {"width", "64"}},
       .build = build}};
}

}  // namespace shardwright::models
