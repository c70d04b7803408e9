#include "shardwright/exchange/torch.h"

#include <algorithm>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/exchange/python/data.h"
#include "shardwright/exchange/torch/package_text.h"
#include "shardwright/exchange/torch/stage_text.h"
#include "shardwright/exchange/torch/transfers.h"
#include "shardwright/exchange/torch_line.h"
#include "shardwright/graph/op.h"
#include "shardwright/plan/json_text.h"
#include "shardwright/simulate/stage_prices.h"
#include "shardwright/simulate/work_json.h"

namespace shardwright {
namespace {

using namespace torch;

class PackageWriter {
 public:
  PackageWriter(const Pipeline& pipeline, const EmittedPlan& plan)
      : pipeline_(pipeline),
        plan_(plan),
        steps_(steps_of(pipeline)),
        lists_(task_lists(pipeline, steps_)),
        elements_(elements_of(pipeline, lists_)) {
    for (const Program& program : pipeline.stages) names_.push_back(python_names(program.graph));
  }

  std::map<std::string, std::string> write() {
    std::map<std::string, std::string> out;
    for (int s = 0; s < pipeline_.stage_count(); ++s) {
      StageText text = stage_text(pipeline_, s, elements_);
      out[module_of(s) + ".py"] = model_head(s, text) + text.text;
      functions_.merge(text.functions);
    }
    for (const char* name : {"parallel.py", "tensors.py", "data.py", "timeline.py", "train.py"})
      out[name] = std::string(package_text(name));
    std::string operators(package_text("operators.py"));
    for (const auto& [name, text] : functions_) operators += "\n\n" + text;
    out["operators.py"] = std::move(operators);
    out["program.py"] = program_text();
    return out;
  }

 private:
  std::string module_of(int stage) const {
    return pipeline_.stage_count() == 1 ? "model" : fmt::format("model_{}", stage);
  }

  std::string model_head(int stage, const StageText& text) const {
    const Mesh& mesh = pipeline_.stage(stage).graph.meshes[0];
    std::string out =
        fmt::format("\"\"\"{}{}: what one rank computes, by shardwright.\n\n{}\n\"\"\"\n\n", plan_.model,
                    pipeline_.stage_count() == 1 ? "" : fmt::format(", stage {}", stage), plan_.summary);
    out += "import math\nimport os\n\nimport torch\nimport torch.nn.functional as F\n\n";
    std::vector<std::string> called{"aten", "device", "evicted", "fetched", "once", "wide"};
    for (const auto& [name, function] : text.functions)
      if (text.text.find(name + "(") != text.text.npos) called.push_back(name);
    std::ranges::sort(called);
    out += fmt::format("from operators import {}\n\n", join(called, ", "));
    out += fmt::format("rank = int(os.environ.get(\"RANK\", \"0\")) - {}  # of the stage's, on {}\n",
                       pipeline_.first_rank(stage), to_text(mesh));
    int stride = mesh.size();
    for (const Axis& axis : mesh.axes) {
      stride /= axis.size;
      out += fmt::format("{} = rank // {} % {}\n", axis.name, stride, axis.size);
    }
    return out;
  }

  const std::string& name(int stage, ValueId v) const { return names_[at(stage)][at(v.index)]; }
  Json names(int stage, const std::vector<ValueId>& values) const {
    Json out = Json::array();
    for (ValueId v : values) out.push_back(name(stage, v));
    return out;
  }

  Json stage_json(int s) const {
    Json out{{"module", module_of(s)}};
    out.update(stage_data(pipeline_, s, elements_, names_[at(s)]));
    out["kernels"] = kernels_json(s);
    return out;
  }

  /// By their first results: what is computed together, and what that takes. Lines that do nothing are none.
  Json kernels_json(int s) const {
    Json out = Json::object();
    if (!plan_.cluster) return out;
    const Program& program = pipeline_.stage(s);
    const Cluster own = plan_.cluster->part(pipeline_.first_rank(s), program.rank_count());
    StagePrices prices(program, s, own);
    for (const Fusion& fusion : fusions_of(program.graph)) {
      const Node& first = program.graph.node(fusion.begin);
      if (first.op->kind != OpKind::compute) continue;
      const Json work = work_json(prices.work_of(fusion.begin.index));
      if (work.is_null()) continue;
      Json nodes = Json::array(), operators = Json::array();
      for (NodeId n = fusion.begin; n < fusion.end; ++n.index) {
        nodes.push_back(program.graph.name_of(n));
        operators.push_back(program.graph.node(n).op->name);
      }
      const Node& last = program.graph.node({fusion.end.index - 1});
      out[name(s, first.results[0])] = {{"last", name(s, last.results[0])},
                                        {"phase", name_of(first.phase)},
                                        {"nodes", std::move(nodes)},
                                        {"operators", std::move(operators)},
                                        {"work", work}};
    }
    return out;
  }

  /// As a method of parallel.Rank and its arguments.
  Json call_of(const Transfers& transfers, const Element& e) const {
    const Item& item = e.item;
    const auto phase = [&] { return name_of(static_cast<Phase>(item.what)); };
    switch (item.act) {
      case Act::compute:
        return {"call", e.name, names(item.stage, e.reads), names(item.stage, e.makes),
                names(item.stage, e.dropped)};
      case Act::start: return {"start", number_of(transfers, item), names(item.stage, e.dropped)};
      case Act::finish: return {"finish", number_of(transfers, item)};
      case Act::hand_out: return {"hand_out", phase()};
      case Act::replace: return {"replace", phase()};
      case Act::fill: return Json::array({"fill"});
      default: break;
    }
    return Json::array({"clear"});
  }

  static int number_of(const Transfers& transfers, const Item& item) {
    return item.is_crossing ? transfers.of_crossing(item.what) : transfers.of_step(item.stage, item.what);
  }

  Json sections_json(const Transfers& transfers) const {
    Json out = Json::object();
    for (const auto& [key, list] : elements_.sections) {
      Json& section = out[section_name(pipeline_, key.first, key.second)] = Json::array();
      for (const Element& e : list) {
        if (e.item.act != Act::compute && !is_worth(transfers, e.item)) continue;
        Json call = call_of(transfers, e);
        call.push_back(e.item.stage);
        if (e.item.is_last) call.insert(call.begin(), "last");
        section.push_back(std::move(call));
      }
    }
    return out;
  }

  static bool is_worth(const Transfers& transfers, const Item& item) {
    return (item.act != Act::start && item.act != Act::finish) || number_of(transfers, item) >= 0;
  }

  Json tasks_json(const Transfers& transfers) const {
    Json out = Json::array();
    for (const std::vector<Item>& tasks : lists_.tasks) {
      Json group = Json::array();
      for (const Item& item : tasks) {
        if (!is_worth(transfers, item)) continue;
        Json task;
        if (item.act == Act::run)
          task = {"run", section_name(pipeline_, item.stage, static_cast<Phase>(item.what)), item.is_last};
        else
          task = call_of(transfers, {.item = item});
        task.push_back(item.stage);
        task.push_back(item.micro_batch);
        group.push_back(std::move(task));
      }
      out.push_back(std::move(group));
    }
    return out;
  }

  std::string program_text() const {
    const Transfers transfers(pipeline_, steps_, names_);
    Json stages = Json::array();
    for (int s = 0; s < pipeline_.stage_count(); ++s) stages.push_back(stage_json(s));
    std::string out = fmt::format("\"\"\"{}: the step as data, by shardwright.\n\n{}\n\"\"\"\n\n",
                                  plan_.model, plan_.summary);
    out += fmt::format("MODEL = {}\nRANKS = {}\nMICRO_BATCHES = {}\n", Json(plan_.model).dump(),
                       pipeline_.rank_count(), pipeline_.micro_batches());
    const Json synthetic = plan_.synthetic.empty() ? Json() : parse_json(plan_.synthetic);
    out += "SYNTHETIC = " + python_lines(synthetic, 1) + "\n";
    out += "CLUSTER = " + Json(plan_.cluster ? to_text(*plan_.cluster) : "").dump() + "\n\n";
    out +=
        "# What stages hold: leaves from step to step, inputs; scalars that come out; which leaf takes which "
        "value when.\n";
    out += "STAGES = " + python_lines(stages, 3) + "\n\n";
    out += "# Each between the values of `parts`.\nTRANSFERS = " + python_lines(transfers.list(), 1) + "\n\n";
    out +=
        "# Functions: name, what they read, what they make, what nobody reads behind them; the stage. "
        "`last`: of the last\n"
        "# micro-batch alone.\nSECTIONS = " +
        python_lines(sections_json(transfers), 2) + "\n\n";
    out += "# By ranks on the same stages; behind each task its stage and micro-batch.\nTASKS = " +
           python_lines(tasks_json(transfers), 2) + "\n";
    return out;
  }

  const Pipeline& pipeline_;
  const EmittedPlan& plan_;
  std::vector<RankStep> steps_;
  TaskLists lists_;
  Elements elements_;
  std::vector<std::vector<std::string>> names_;
  std::map<std::string, std::string> functions_;
};

}  // namespace

std::map<std::string, std::string> torch_package(const Pipeline& pipeline, const EmittedPlan& plan) {
  return PackageWriter(pipeline, plan).write();
}

}  // namespace shardwright
