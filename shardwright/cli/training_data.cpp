#include "shardwright/cli/training_data.h"

#include <cmath>
#include <limits>
#include <ostream>

#include "shardwright/graph/op.h"
#include "shardwright/runtime/dataset.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/synthetic.h"

namespace shardwright {
namespace {

std::map<std::string, Type> inputs_of(const Graph& graph) {
  std::map<std::string, Type> out;
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::input)
      out[graph.value(node.results[0]).name] = graph.value(node.results[0]).type;
  return out;
}

/// In the type that the model takes. Throws: Error if that is an integer type which cannot hold a value.
Tensor converted(const Tensor& t, DType dtype, const std::string& path, const std::string& name) {
  if (t.dtype() == dtype) return t;
  const std::vector<double> values = to_doubles(t);
  if (is_floating(dtype)) return convert(t, dtype);
  Tensor out;
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    for (double x : values)
      if (!(x >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
            x <= static_cast<double>(std::numeric_limits<T>::max()) && x == std::trunc(x)))
        throw error("{}: '{}' holds {}, which {} cannot hold", path, name, x, name_of(dtype));
    out = convert(t, dtype);
  });
  return out;
}

TrainingData from_file(const Model& model, const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  const std::map<std::string, Type> inputs = inputs_of(model.graph);
  std::int64_t steps = -1;
  for (const auto& [name, want] : inputs) {
    if (!file.has(name)) throw io_error("{}: has no tensor '{}', which the model needs", path, name);
    const Type& have = file.type(name);
    if (have.shape.empty())
      throw io_error("{}: '{}' is a scalar; it should be [steps, batch, ...]", path, name);
    const Shape step(have.shape.begin() + 1, have.shape.end());
    if (step != want.shape)
      throw error("{}: '{}' has {} per step but the model takes {}", path, name, to_text(step),
                  to_text(want.shape));
    if (steps >= 0 && steps != have.shape[0])
      throw error("{}: '{}' has {} steps but others have {}", path, name, have.shape[0], steps);
    steps = have.shape[0];
  }
  if (steps == 0) throw error("{}: has no steps", path);
  return {.batch =
              [file, inputs, steps](std::int64_t step) {
                std::map<std::string, Tensor> out;
                for (const auto& [name, type] : inputs)
                  out[name] = converted(file.read_slice(name, step % steps), type.dtype, file.path(), name);
                return out;
              },
          .batches_per_epoch = steps};
}

TrainingData from_mnist(const Model& model, const std::string& directory, std::uint64_t seed) try {
  const std::map<std::string, Type> inputs = inputs_of(model.graph);
  const auto input = inputs.find("input"), label = inputs.find("label");
  if (input == inputs.end() || label == inputs.end() || inputs.size() != 2)
    throw error("it has images and labels, but the model takes other inputs");
  const auto sample = [](const Type& t) { return Shape(t.shape.begin() + 1, t.shape.end()); };
  const Dataset data = mnist_dataset(directory)
                           .map("image", {rescale(1 / 255.0, 0), normalize({0.1307}, {0.3081}), hwc_to_chw(),
                                          reshape(sample(input->second)), type_cast(input->second.dtype)})
                           .map("label", {type_cast(label->second.dtype), reshape(sample(label->second))})
                           .shuffle(seed)
                           .batch(input->second.shape[0]);
  return {.batch =
              [data](std::int64_t step) {
                const Batch b = data.at_step(step);
                return std::map<std::string, Tensor>{{"input", b["image"]}, {"label", b["label"]}};
              },
          .batches_per_epoch = data.batches_per_epoch()};
} catch (const Error& e) {
  if (e.kind() == ErrorKind::io) throw;
  throw with_context(e, fmt::format("MNIST for model '{}'", model.name));
}

/// A network without an input called label learns nothing from one; it gets inputs all the same.
TrainingData synthetic(const Model& model, std::uint64_t seed) {
  SyntheticTask task{.inputs = inputs_of(model.graph), .label_type = {}, .seed = seed};
  const auto label = task.inputs.find("label");
  const bool has_label = label != task.inputs.end();
  if (task.inputs.empty()) return {.batch = [](std::int64_t) { return std::map<std::string, Tensor>{}; }};
  const Shape& first = task.inputs.begin()->second.shape;
  task.label_type = has_label ? label->second : Type{DType::i32, {first.empty() ? 1 : first[0]}};
  if (model.classes > 0) task.classes = model.classes;
  if (has_label) task.inputs.erase(label);
  const SyntheticData data(std::move(task));
  return {.batch = [data, has_label](std::int64_t step) {
    Batch b = data.at_step(step);
    if (!has_label) b.columns.erase("label");
    return std::map<std::string, Tensor>(b.columns.begin(), b.columns.end());
  }};
}

}  // namespace

TrainingData training_data(const Model& model, const std::string& data, const std::string& data_path,
                           std::uint64_t seed, std::ostream& notices) {
  if (data.ends_with(".safetensors")) return from_file(model, data);
  if (!data.empty()) return from_mnist(model, data, seed);
  if (model.wants_mnist && !data_path.empty()) return from_mnist(model, data_path, seed);
  notices << "no --data" << (model.wants_mnist ? " and no DATA_PATH" : "")
          << ": training on synthetic data of the model's shapes\n";
  return synthetic(model, seed);
}

std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, Tensor> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const Value& v = graph.value(node.results[0]);
    const std::string name = file.has("init." + v.name) ? "init." + v.name : v.name;
    if (!file.has(name)) throw io_error("{}: has no tensor '{}' or 'init.{}'", path, v.name, v.name);
    if (file.type(name).shape != v.type.shape)
      throw error("{}: '{}' is {} but the model has {}", path, name, to_text(file.type(name).shape),
                  to_text(v.type.shape));
    out[v.name] = convert(file.read(name), v.type.dtype);
  }
  return out;
}

}  // namespace shardwright
