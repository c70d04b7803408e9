// Where values come from: batches, parameters, the optimizer's state, constants.

#include <set>

#include "shardwright/graph/builder.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/ops/optimizer_settings.h"

namespace shardwright::ops {
namespace {

void fill_kernel(const KernelCall& call) {
  const double value = call.attributes.number("value", 0);
  const TensorView& out = call.results[0];
  visit(out.dtype, [&]<class T>(std::type_identity<T>) {
    for (T& x : out.as<T>()) x = static_cast<T>(static_cast<Compute<T>>(value));
  });
}

std::vector<Type> fill_type(const Call& call) {
  const auto dtype = dtype_of(call.attributes.text("dtype", "f32"));
  if (!dtype) throw error("dtype {} is unknown", call.attributes.text("dtype", ""));
  call.attributes.number("value", 0);
  Shape shape = call.attributes.integers("shape");
  element_count(shape);  // none is negative
  return {{*dtype, std::move(shape)}};
}

OpDef leaf(std::string name, std::string doc, OpKind kind, std::vector<std::string> attributes = {}) {
  return {.name = std::move(name),
          .doc = std::move(doc),
          .attributes = std::move(attributes),
          .rule = "-> ...",
          .kind = kind};
}

const std::vector<std::string> kept{"init", "value", "scale", "shift", "as", "cache"};  // runtime/initial.h

std::vector<std::string> of_parameters() {
  std::set<std::string> own;
  for (const OptimizerSetting& s : optimizer_settings) own.insert(fmt::format("{}{}", own_setting, s.name));
  std::vector<std::string> out{"init", "value", "scale", "shift", "as", "comm_fusion", "master", "sparse"};
  out.emplace_back(frozen_attribute);
  out.emplace_back(rate_group);
  out.insert(out.end(), own.begin(), own.end());
  return out;
}

}  // namespace

std::vector<OpDef> leaves() {
  return {
      leaf("input", "a batch, or a part of one", OpKind::input),
      leaf("param",
           "a trained parameter; init, value, scale and shift say how it starts, master in which type it "
           "is updated, sparse=true that its gradient is rows of a table (ops/row_updates.h), frozen=true "
           "that it is never "
           "trained, own_NAME what it has instead of the optimizer's setting of that name",
           OpKind::parameter, of_parameters()),
      leaf("state", "a value kept from step to step; cache: by one session, no checkpoint has it",
           OpKind::state, kept),
      leaf("accumulator", "a sum over micro-batches, zero before the first", OpKind::accumulator),
      leaf("receive", "a value of another stage; once: of all micro-batches; batch: its dims, if not 0",
           OpKind::receive, {"once", "batch"}),
      {.name = "fill",
       .doc = "y = value everywhere",
       .attributes = {"dtype", "shape", "value"},
       .defaults = {{"dtype", std::string("f32")}, {"value", 0.0}},
       .rule = "-> ...",
       .infer = fill_type,
       .gradient = [](Gradient&) { return std::vector<ValueId>{}; },
       .localize =
           [](const Call& local) {
             Attributes a = local.attributes;
             a.set("shape", local.results[0].shape);
             return a;
           },
       .kernel = fill_kernel,
       .samples = {"(shape=[6, 4], value=2.5)", "(shape=[], value=1)", "(dtype=f64, shape=[6], value=2.5)"},
       .torch = {.line = "torch.full({shape}, {value}, dtype={dtype}, device=device)"},
       .jax = {.line = "jnp.full({shape}, {value}, {dtype})"}}};
}

}  // namespace shardwright::ops
