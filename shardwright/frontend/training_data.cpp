#include "shardwright/frontend/training_data.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <ostream>

#include "shardwright/frontend/data_columns.h"
#include "shardwright/frontend/lookup_rows.h"
#include "shardwright/frontend/samples.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/runtime/safetensors.h"
#include "shardwright/runtime/synthetic.h"
#include "shardwright/training/finite.h"

namespace shardwright {
namespace {

using Inputs = std::map<std::string, Type>;

/// Throws: Error that names the first element for which `is_odd`, if there is one.
template <class F>
void refuse(const std::vector<double>& values, const Shape& shape, const std::string& where,
            std::string_view why, F is_odd) {
  const auto odd = std::find_if(values.begin(), values.end(), is_odd);
  if (odd != values.end())
    throw error("{} holds {}{}{}", where, *odd,
                element_text(shape, static_cast<std::size_t>(odd - values.begin())), why);
}

bool is_integer_of(double x, DType dtype) {
  bool is_held = false;
  visit(dtype, [&]<class T>(std::type_identity<T>) {
    // The largest integer of 64 bits is 2^63 as a double, one too many.
    is_held = x >= static_cast<double>(std::numeric_limits<T>::lowest()) &&
              x < std::ldexp(1.0, std::numeric_limits<T>::digits) && x == std::trunc(x);
  });
  return is_held;
}

}  // namespace

/// In the type that the model takes. Infinity stays, because a mask may be made of it.
/// Throws: Error that begins with `where` if that type cannot hold a number, or if one is NaN.
Tensor fitting(const Tensor& t, DType dtype, const std::string& where) {
  const bool was_finite = is_finite(t);
  if (!was_finite)
    refuse(to_doubles(t), t.shape(), where, "; nothing can be learnt from that",
           [](double x) { return std::isnan(x); });
  if (t.dtype() == dtype) return t;
  const std::string why = fmt::format(", which {} cannot hold", name_of(dtype));
  if (!is_floating(dtype))
    refuse(to_doubles(t), t.shape(), where, why, [&](double x) { return !is_integer_of(x, dtype); });
  Tensor out = convert(t, dtype);
  if (is_floating(dtype) && !is_finite(out) && was_finite)
    refuse(to_doubles(t), t.shape(), where, why, [&](double x) {
      return !is_finite(make_tensor({dtype, {}}, std::span(&x, 1)));
    });
  return out;
}

namespace {

/// Whether its tensors are of samples, without a dim for steps.
bool holds_samples(const DataColumns& file, const Inputs& inputs) {
  return !inputs.empty() && std::ranges::all_of(inputs, [&](const auto& input) {
    const Shape& batch = input.second.shape;
    if (!file.has(input.first) || batch.empty()) return false;
    const Shape& have = file.type(input.first).shape;
    return have.size() == batch.size() && std::equal(batch.begin() + 1, batch.end(), have.begin() + 1);
  });
}

TrainingData from_samples(const DataColumns& file, const Inputs& inputs, std::uint64_t seed) try {
  std::map<std::string, Tensor> columns;
  for (const auto& [name, type] : inputs)
    columns[name] = fitting(file.read(name), type.dtype, fmt::format("'{}'", name));
  const Dataset data = Dataset(std::move(columns)).shuffle(seed).batch(inputs.begin()->second.shape[0]);
  return {.batch =
              [data](std::int64_t step) {
                const Batch b = data.at_step(step);
                return std::map<std::string, Tensor>(b.columns.begin(), b.columns.end());
              },
          .batches_per_epoch = data.batches_per_epoch(),
          .source = file.path()};
} catch (const Error& e) {
  throw with_context(e, file.path());
}

TrainingData from_file(const Model& model, const Inputs& inputs, const std::string& path,
                       std::uint64_t seed) {
  const DataColumns file = data_columns(model, path);
  if (holds_samples(file, inputs)) return from_samples(file, inputs, seed);
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
                  out[name] = fitting(file.read_slice(name, step % steps), type.dtype,
                                      fmt::format("{}: '{}' of step {}", file.path(), name, step % steps));
                return out;
              },
          .batches_per_epoch = steps,
          .source = path};
}

/// With what they are called and the model's name, where samples do not fit it.
template <class F>
auto in_context_of(const Model& model, const Inputs& inputs, const SampleSource& source, F make) try {
  return make();
} catch (const Error& e) {
  if (e.kind() == ErrorKind::io) throw;
  throw with_context(e, samples_called(model, inputs, source));
}

TrainingData from_folder(const Model& model, const Inputs& inputs, const SampleSource& source,
                         std::uint64_t seed) {
  const Dataset data = in_context_of(model, inputs, source, [&] {
    return samples_for(model, inputs, source, SamplePart::train)
        .shuffle(seed)
        .batch(inputs.begin()->second.shape[0]);
  });
  return {.batch =
              [reader = std::make_shared<StepReader>(data)](std::int64_t step) {
                const Batch b = reader->at(step);
                return std::map<std::string, Tensor>(b.columns.begin(), b.columns.end());
              },
          .batches_per_epoch = data.batches_per_epoch()};
}

/// Of `inputs`. A network without an input called label learns nothing from one; it gets inputs all the same. One that has
/// its loss itself may take classes by any name.
SyntheticTask synthetic_task(const Model& model, Inputs inputs, std::uint64_t seed) {
  SyntheticTask task{.inputs = std::move(inputs), .label_type = {}, .seed = seed};
  task.vocabulary = model.classes;
  if (!model.classes.empty())  // what other integers stand for, nothing says: they stay few
    for (const auto& [name, type] : task.inputs) task.vocabulary.try_emplace(name, SyntheticTask{}.classes);
  const auto label = task.inputs.find("label");
  const bool has_label = label != task.inputs.end() && !model.classes.contains("label");
  const Shape& first = task.inputs.begin()->second.shape;
  task.label_type = has_label ? label->second : Type{DType::i32, {first.empty() ? 1 : first[0]}};
  if (model.labels.classes > 0) task.classes = model.labels.classes;
  if (!has_label && !model.classes.empty()) task.classes = model.classes.begin()->second;
  for (const auto& [name, looked_up] : lookup_rows(model.graph)) {
    std::int64_t& below = task.vocabulary.try_emplace(name, task.classes).first->second;
    below = std::min(below, looked_up.rows);
  }
  task.label_is_share = model.labels.are_shares;
  if (has_label)
    task.inputs.erase(label);
  else
    task.label.clear();  // no input is called so
  return task;
}

TrainingData synthetic(const Model& model, Inputs inputs, std::uint64_t seed) {
  if (inputs.empty()) return {.batch = [](std::int64_t) { return std::map<std::string, Tensor>{}; }};
  SyntheticTask task = synthetic_task(model, std::move(inputs), seed);
  const bool has_label = !task.label.empty();
  const SyntheticData data(std::move(task));
  return {.batch = [data, has_label](std::int64_t step) {
    Batch b = data.at_step(step);
    if (!has_label) b.columns.erase("");
    return std::map<std::string, Tensor>(b.columns.begin(), b.columns.end());
  }};
}

}  // namespace

namespace {

TrainingData training_data_of(const Model& model, Inputs inputs, const SampleSource& data,
                              const std::string& data_path, std::uint64_t seed, std::ostream& notices) {
  if (data.path.ends_with(".safetensors")) return from_file(model, inputs, data.path, seed);
  if (!data.path.empty()) return from_folder(model, inputs, data, seed);
  if (model.wants_mnist && !data_path.empty()) return from_folder(model, inputs, data_path, seed);
  notices << "no --data" << (model.wants_mnist ? " and no DATA_PATH" : "")
          << ": training on synthetic data of the model's shapes\n";
  return synthetic(model, std::move(inputs), seed);
}

}  // namespace

std::optional<SyntheticTask> synthetic_task(const Model& model, int micro_batches, std::uint64_t seed) {
  Inputs inputs = brought_inputs(model, micro_batches);
  if (inputs.empty()) return std::nullopt;
  return synthetic_task(model, std::move(inputs), seed);
}

TrainingData training_data(const Model& model, int micro_batches, const SampleSource& data,
                           const std::string& data_path, std::uint64_t seed, std::ostream& notices) {
  const Inputs inputs = brought_inputs(model, micro_batches);
  TrainingData out = training_data_of(model, inputs, data, data_path, seed, notices);
  if (!model.label_weights.empty())
    out.batch = [model, batch = std::move(out.batch)](std::int64_t step) {
      std::map<std::string, Tensor> columns = batch(step);
      add_label_weights(model, columns, 1);
      return columns;
    };
  for (const auto& [name, type] : inputs)
    if (!type.shape.empty()) out.samples = std::max(out.samples, type.shape[0]);
  return out;
}

std::map<std::string, Tensor> test_samples(const Model& model, const std::map<std::string, Type>& inputs,
                                           const SampleSource& source) {
  const Dataset data = in_context_of(model, inputs, source,
                                     [&] { return samples_for(model, inputs, source, SamplePart::test); });
  const Batch all = data.batch(data.samples()).get(0, 0);
  return std::map<std::string, Tensor>(all.columns.begin(), all.columns.end());
}

namespace {

/// That in which a parameter is kept: its master's, where it has one.
DType kept_type(const Graph& graph, const Node& parameter) {
  const DType own = graph.value(parameter.results[0]).type.dtype;
  return dtype_of(parameter.attributes.text("master", "")).value_or(own);
}

}  // namespace

std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path) {
  const SafetensorsFile file = SafetensorsFile::open(path);
  std::map<std::string, Tensor> out;
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const std::string& own = graph.value(node.results[0]).name;
    const std::string name = file.has("init." + own) ? "init." + own : own;
    if (file.has(name)) out[own] = file.read(name);
  }
  return initial_parameters(graph, path, std::move(out));
}

std::map<std::string, Tensor> initial_parameters(const Graph& graph, const std::string& path,
                                                 std::map<std::string, Tensor> tensors) {
  std::array<bool, 2> has{};  // of those that are trained, and of frozen ones
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::parameter && tensors.contains(graph.value(node.results[0]).name))
      has[is_frozen(node) ? 1 : 0] = true;
  const bool may_lack = (has[0] || has[1]) && std::ranges::any_of(graph.nodes, is_frozen);
  for (const Node& node : graph.nodes) {
    if (node.op->kind != OpKind::parameter) continue;
    const Value& v = graph.value(node.results[0]);
    const auto found = tensors.find(v.name);
    if (found == tensors.end()) {
      if (may_lack && !has[is_frozen(node) ? 1 : 0]) continue;
      throw io_error("{}: has no tensor '{}' or 'init.{}'", path, v.name, v.name);
    }
    if (found->second.shape() != v.type.shape)
      throw error("{}: '{}' is {} but the model has {}", path, v.name, to_text(found->second.shape()),
                  to_text(v.type.shape));
    const std::string where = fmt::format("{}: '{}'", path, v.name);
    found->second = fitting(found->second, kept_type(graph, node), where);
    fitting(found->second, v.type.dtype, where);  // it can be read in its own type, too
  }
  return tensors;
}

}  // namespace shardwright
