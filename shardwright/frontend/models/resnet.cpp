// Residual networks that classify images, as torchvision's.

#include "shardwright/frontend/modules/resnet.h"

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"

namespace shardwright::models {
namespace {

Model build(const std::string& name, const ModelArguments& arguments) {
  const std::int64_t batch = arguments.integer("batch", 32), image = arguments.integer("image", 64);
  const std::int64_t classes = arguments.integer("classes", 10, std::numeric_limits<int>::max());
  ResNet::Options options = resnet_called(name);
  options.width = arguments.integer("width", 64, ResNet::most_width);
  Trace trace(arguments.precision);
  const Traced input = trace.input("input", {trace.precision(), {batch, 3, image, image}});
  const std::string loss = arguments.loss.empty() ? "cross_entropy" : arguments.loss;
  const Labels labels = labels_of(loss, {trace.kept_precision(), {batch, classes}});
  const Traced label = trace.input("label", labels.type);
  const ResNet trunk(options);
  const Traced logits = Dense("fc", trunk.features(), classes)(trunk(input));
  Model model = finish_model(trace, loss_called(loss, logits, label), logits);
  model.labels = labels;
  return model;
}

ModelDef resnet(const std::string& name, std::string doc) {
  return {.name = name,
          .doc = std::move(doc),
          .keys = {{"batch", "32"}, {"classes", "10"}, {"image", "64"}, {"width", "64"}},
          .trained = {256, "He et al., 2016"},
          .build = [name](const ModelArguments& a) { return build(name, a); }};
}

}  // namespace

std::vector<ModelDef> resnet() {
  return {resnet("resnet18", "the residual network of 18 layers, for images of image x image pixels"),
          resnet("resnet50", "the residual network of 50 layers, with bottlenecks")};
}

}  // namespace shardwright::models
