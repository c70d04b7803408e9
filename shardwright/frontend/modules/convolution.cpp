#include "shardwright/frontend/modules/convolution.h"

#include <cmath>

#include "shardwright/frontend/functions.h"

namespace shardwright {
namespace {

std::vector<std::int64_t> list(const Extent2d& e) { return {e.rows, e.columns}; }

/// What convolution and pooling alike take; what has its default is left out.
Attributes attributes_of(const SlidingWindow& w) {
  Attributes a;
  if (list(w.stride) != list(1)) a.set("strides", list(w.stride));
  if (list(w.dilation) != list(1)) a.set("dilations", list(w.dilation));
  if (list(w.pad) != list(0))
    a.set("pads", std::vector{w.pad.rows, w.pad.columns, w.pad.rows, w.pad.columns});
  return a;
}

Attributes attributes_of(const Conv2d::Options& o) {
  Attributes a = attributes_of(o.window);
  if (o.groups != 1) a.set("groups", o.groups);
  return a;
}

Operator pool(std::string op, std::string name, const SlidingWindow& window) {
  Attributes a = attributes_of(window);
  a.set("kernel", list(window.kernel));
  return {std::move(op), std::move(name), std::move(a)};
}

}  // namespace

Conv2d::Conv2d(const std::string& name, std::int64_t in, std::int64_t out, Options options)
    : conv2d("conv2d", name + ".conv2d", attributes_of(options)),
      expand("expand_dims", name + ".expand", {{"dims", std::vector<std::int64_t>{1, 2}}}),
      add(shardwright::add(name + ".add")),
      has_bias(options.bias) {
  if (options.groups < 1 || in % options.groups != 0 || out % options.groups != 0)
    throw error("{}: {} groups do not divide {} channels in and {} out", name, options.groups, in, out);
  const Extent2d& kernel = options.window.kernel;
  const std::int64_t inputs = in / options.groups * kernel.rows * kernel.columns;
  const Initializer start = uniform(1 / std::sqrt(static_cast<double>(inputs)));
  weight = {name + ".weight",
            {out, in / options.groups, kernel.rows, kernel.columns},
            options.initializer.value_or(start)};
  bias = {name + ".bias", {out}, start};
}

Traced Conv2d::operator()(Traced x) const {
  const Traced y = conv2d(x, weight);
  return has_bias ? add(y, expand(x.trace->parameter(bias))) : y;
}

BatchNorm2d::BatchNorm2d(const std::string& name, std::int64_t channels, Options o)
    : moments("batch_moments", name + ".moments"),
      norm("batch_norm", name + ".norm", {{"epsilon", o.epsilon}}),
      running("running_moments", name + ".running", {{"momentum", o.momentum}}),
      weight{name + ".weight", {channels}, ones(), true},
      bias{name + ".bias", {channels}, zeros(), true},
      running_mean{name + ".running_mean", {channels}, zeros()},
      running_var{name + ".running_var", {channels}, ones()},
      options(o) {}

Traced BatchNorm2d::operator()(Traced x) const {
  Trace& trace = *x.trace;
  const Traced mean = trace.state(running_mean), variance = trace.state(running_var);
  if (options.uses_running)
    return batch_norm_by(x, {trace.parameter(weight), trace.parameter(bias), mean, variance, options.epsilon},
                         norm.name());
  const Shape& shape = x.type().shape;
  const std::int64_t count = element_count(shape) / shape.at(1);
  if (count < 2)
    throw error("{}: {} has one element per channel, but a batch norm that trains needs several", norm.name(),
                to_text(x.type()));
  const Traced of_batch = moments(x);
  const auto moved = running.with("count", static_cast<double>(count)).all(mean, variance, of_batch);
  trace.update(mean, moved[0]);
  trace.update(variance, moved[1]);
  return norm(x, weight, bias, of_batch);
}

Operator max_pool2d(std::string name, const SlidingWindow& window) {
  return pool("max_pool2d", std::move(name), window);
}
Operator avg_pool2d(std::string name, const SlidingWindow& window) {
  return pool("avg_pool2d", std::move(name), window);
}
Operator global_avg_pool2d(std::string name) {
  return {"reduce_mean", std::move(name), {{"dims", std::vector<std::int64_t>{2, 3}}}};
}

}  // namespace shardwright
