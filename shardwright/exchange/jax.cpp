#include "shardwright/exchange/jax.h"

#include <algorithm>
#include <array>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/jax/layouts.h"
#include "shardwright/exchange/jax/package_text.h"
#include "shardwright/exchange/jax/stage_text.h"
#include "shardwright/exchange/python/data.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

using python::Element;
using python::Item;

class JaxPackageWriter : public python::PackageWriter {
 public:
  JaxPackageWriter(const Pipeline& pipeline, const EmittedPlan& plan)
      : PackageWriter(pipeline, plan, python::Steps::in_functions) {}

  python::Files write() {
    python::Files out = stage_files();
    constexpr std::array names{"parallel.py"};
    python::add_fixed_files(out, jax::package_text, names, functions_);
    return out;
  }

 private:
  python::StageText text_of(int stage) const override { return jax::stage_text(pipeline_, stage, elements_); }

  std::string model_head(int stage, const python::StageText&) const override {
    return fmt::format(
        "\"\"\"{}{}: what one rank computes, on {}, by shardwright.\n\n{}\n\"\"\"\n\nimport math\n\nimport "
        "jax\n"
        "import jax.numpy as jnp\nfrom jax import lax\n\nfrom operators import *\n",
        plan_.model, stage_suffix(stage), to_text(pipeline_.stage(stage).graph.meshes[0]), plan_.summary);
  }

  /// How values lie that go into functions or come out of them; of addends along which axes.
  Json values_json(int s) const {
    const Graph& graph = pipeline_.stage(s).graph;
    Json out = Json::object();
    const auto add = [&](ValueId v) {
      const Layout layout = layout_of(graph.value(v));
      Json& one = out[name(s, v)];
      one = placed_json(graph, v);
      one.erase("mesh");
      one["addends"] = Json::array();
      for (const Axes& axes : {layout.sum, layout.max})
        for (int a : axes) one["addends"].push_back(graph.meshes[0].axes[at(a)].name);
    };
    for (const auto& [key, list] : elements_.sections)
      for (const Element& e : list) {
        if (e.item.stage != s) continue;
        std::ranges::for_each(e.reads, add);
        std::ranges::for_each(e.makes, add);
      }
    for (const Node& node : graph.nodes)
      if (python::is_leaf(node)) add(node.results[0]);
    return out;
  }

  Json stage_json(int stage) const override {
    Json out = PackageWriter::stage_json(stage);
    out.erase("functions");
    out["mesh"] = Json::array();
    for (const Axis& axis : pipeline_.stage(stage).graph.meshes[0].axes)
      out["mesh"].push_back({axis.name, axis.size});
    if (pipeline_.stage_count() > 1) out["values"] = values_json(stage);
    return out;
  }

  Json start_of(const Element& e) const override {
    if (pipeline_.crossings[at(e.item.what)].from != e.item.stage) return {};
    return {"send", e.item.what, names(e.item.stage, e.dropped)};
  }
  Json finish_of(const Item& item) const override {
    if (pipeline_.crossings[at(item.what)].to != item.stage) return {};
    return {"receive", item.what};
  }

  std::string links_text() const override {
    Json out = Json::array();
    for (const PlacedCrossing& c : pipeline_.crossings)
      out.push_back({{"sent", name(c.from, c.sent)},
                     {"received", name(c.to, c.received)},
                     {"once", c.time != CrossingTime::micro_batch}});
    return fmt::format("# What goes from stage to stage, each micro-batch or once a step.\nCROSSINGS = {}\n",
                       python_lines(out, 1));
  }
};

}  // namespace

python::Files jax_package(const Pipeline& pipeline, const EmittedPlan& plan) {
  python::check_turns(pipeline);
  jax::check_layouts(pipeline);
  return JaxPackageWriter(pipeline, plan).write();
}

}  // namespace shardwright
