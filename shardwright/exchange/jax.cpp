#include "shardwright/exchange/jax.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/jax/layouts.h"
#include "shardwright/exchange/jax/package_text.h"
#include "shardwright/exchange/jax/stage_text.h"
#include "shardwright/exchange/python/data.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

using torch::Element;
using torch::Item;

class JaxPackageWriter {
 public:
  JaxPackageWriter(const Pipeline& pipeline, const EmittedPlan& plan)
      : pipeline_(pipeline),
        plan_(plan),
        steps_(steps_of(pipeline)),
        lists_(torch::task_lists(pipeline, steps_)),
        elements_(torch::elements_of(pipeline, lists_, torch::Steps::in_functions)) {
    for (const Program& program : pipeline.stages) names_.push_back(torch::python_names(program.graph));
  }

  std::map<std::string, std::string> write() {
    std::map<std::string, std::string> out;
    for (int s = 0; s < pipeline_.stage_count(); ++s) {
      torch::StageText text = jax::stage_text(pipeline_, s, elements_);
      out[module_of(s) + ".py"] = model_head(s) + text.text;
      functions_.merge(text.functions);
    }
    for (const char* name : {"parallel.py", "tensors.py", "data.py", "train.py"})
      out[name] = std::string(jax::package_text(name));
    std::string operators(jax::package_text("operators.py"));
    for (const auto& [name, text] : functions_) operators += "\n\n" + text;
    out["operators.py"] = std::move(operators);
    out["program.py"] = program_text();
    return out;
  }

 private:
  std::string module_of(int stage) const {
    return pipeline_.stage_count() == 1 ? "model" : fmt::format("model_{}", stage);
  }

  std::string model_head(int stage) const {
    return fmt::format(
        "\"\"\"{}{}: what one rank computes, on {}, by shardwright.\n\n{}\n\"\"\"\n\n"
        "import math\n\nimport jax\nimport jax.numpy as jnp\nfrom jax import lax\n\nfrom operators import "
        "*\n",
        plan_.model, pipeline_.stage_count() == 1 ? "" : fmt::format(", stage {}", stage),
        to_text(pipeline_.stage(stage).graph.meshes[0]), plan_.summary);
  }

  const std::string& name(int stage, ValueId v) const { return names_[at(stage)][at(v.index)]; }
  Json names(int stage, const std::vector<ValueId>& values) const {
    Json out = Json::array();
    for (ValueId v : values) out.push_back(name(stage, v));
    return out;
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
      if (torch::is_leaf(node)) add(node.results[0]);
    return out;
  }

  Json stage_json(int s) const {
    Json out{{"module", module_of(s)}};
    out.update(stage_data(pipeline_, s, elements_, names_[at(s)]));
    out.erase("functions");
    out["mesh"] = Json::array();
    for (const Axis& axis : pipeline_.stage(s).graph.meshes[0].axes)
      out["mesh"].push_back({axis.name, axis.size});
    if (pipeline_.stage_count() > 1) out["values"] = values_json(s);
    return out;
  }

  Json crossings_json() const {
    Json out = Json::array();
    for (const PlacedCrossing& c : pipeline_.crossings)
      out.push_back({{"sent", name(c.from, c.sent)},
                     {"received", name(c.to, c.received)},
                     {"once", c.time != CrossingTime::micro_batch}});
    return out;
  }

  /// As parallel.py reads it; null: of the other end.
  Json call_of(const Element& e) const {
    const Item& item = e.item;
    const auto phase = [&] { return name_of(static_cast<Phase>(item.what)); };
    switch (item.act) {
      case Act::compute:
        return {"call", e.name, names(item.stage, e.reads), names(item.stage, e.makes),
                names(item.stage, e.dropped)};
      case Act::start:
        if (pipeline_.crossings[at(item.what)].from != item.stage) return {};
        return {"send", item.what, names(item.stage, e.dropped)};
      case Act::finish:
        if (pipeline_.crossings[at(item.what)].to != item.stage) return {};
        return {"receive", item.what};
      case Act::hand_out: return {"hand_out", phase()};
      case Act::replace: return {"replace", phase()};
      case Act::fill: return Json::array({"fill"});
      default: break;
    }
    return Json::array({"clear"});
  }

  Json sections_json() const {
    Json out = Json::object();
    for (const auto& [key, list] : elements_.sections) {
      Json& section = out[section_name(pipeline_, key.first, key.second)] = Json::array();
      for (const Element& e : list) {
        Json call = call_of(e);
        if (call.is_null()) continue;
        call.push_back(e.item.stage);
        if (e.item.is_last) call.insert(call.begin(), "last");
        section.push_back(std::move(call));
      }
    }
    return out;
  }

  Json tasks_json() const {
    Json out = Json::array();
    for (const std::vector<Item>& tasks : lists_.tasks) {
      Json group = Json::array();
      for (const Item& item : tasks) {
        const bool is_run = item.act == Act::run;
        Json task = is_run ? Json{"run", section_name(pipeline_, item.stage, static_cast<Phase>(item.what)),
                                  item.is_last}
                           : call_of({.item = item});
        if (task.is_null()) continue;
        task.push_back(item.stage);
        task.push_back(item.micro_batch);
        group.push_back(std::move(task));
      }
      out.push_back(std::move(group));
    }
    return out;
  }

  std::string program_text() const {
    Json stages = Json::array();
    for (int s = 0; s < pipeline_.stage_count(); ++s) stages.push_back(stage_json(s));
    std::string out = fmt::format("\"\"\"{}: the step as data, by shardwright.\n\n{}\n\"\"\"\n\n",
                                  plan_.model, plan_.summary);
    out += fmt::format("MODEL = {}\nRANKS = {}\nMICRO_BATCHES = {}\n", Json(plan_.model).dump(),
                       pipeline_.rank_count(), pipeline_.micro_batches());
    const Json synthetic = plan_.synthetic.empty() ? Json() : parse_json(plan_.synthetic);
    out += "SYNTHETIC = " + python_lines(synthetic, 1) + "\n\n";
    out +=
        "# What stages hold: leaves from step to step, inputs; scalars that come out; which leaf takes which "
        "value when.\n";
    out += "STAGES = " + python_lines(stages, 3) + "\n\n";
    out += "# What goes from stage to stage, each micro-batch or once a step.\nCROSSINGS = " +
           python_lines(crossings_json(), 1) + "\n\n";
    out +=
        "# Functions: name, what they read, what they make, what nobody reads behind them; the stage. "
        "`last`: "
        "of the last\n# micro-batch alone.\nSECTIONS = " +
        python_lines(sections_json(), 2) + "\n\n";
    out += "# By devices on the same stages; behind each task its stage and micro-batch.\nTASKS = " +
           python_lines(tasks_json(), 2) + "\n";
    return out;
  }

  const Pipeline& pipeline_;
  const EmittedPlan& plan_;
  std::vector<RankStep> steps_;
  torch::TaskLists lists_;
  torch::Elements elements_;
  std::vector<std::vector<std::string>> names_;
  std::map<std::string, std::string> functions_;
};

}  // namespace

std::map<std::string, std::string> jax_package(const Pipeline& pipeline, const EmittedPlan& plan) {
  jax::check_layouts(pipeline);
  return JaxPackageWriter(pipeline, plan).write();
}

}  // namespace shardwright
