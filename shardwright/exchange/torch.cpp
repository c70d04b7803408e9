#include "shardwright/exchange/torch.h"

#include <algorithm>
#include <array>

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/cost/cluster_file.h"
#include "shardwright/exchange/python/text.h"
#include "shardwright/exchange/torch/package_text.h"
#include "shardwright/exchange/torch/stage_text.h"
#include "shardwright/exchange/torch/transfers.h"
#include "shardwright/graph/op.h"
#include "shardwright/simulate/stage_prices.h"
#include "shardwright/simulate/work_json.h"

namespace shardwright {
namespace {

using python::Element;
using python::Item;

class TorchPackageWriter : public python::PackageWriter {
 public:
  TorchPackageWriter(const Pipeline& pipeline, const EmittedPlan& plan)
      : PackageWriter(pipeline, plan, python::Steps::apart), transfers_(pipeline, steps_, names_) {}

  python::Files write() {
    python::Files out = stage_files();
    constexpr std::array names{"parallel.py", "timeline.py"};
    python::add_fixed_files(out, torch::package_text, names, functions_);
    return out;
  }

 private:
  python::StageText text_of(int stage) const override {
    return torch::stage_text(pipeline_, stage, elements_);
  }

  std::string model_head(int stage, const python::StageText& text) const override {
    const Mesh& mesh = pipeline_.stage(stage).graph.meshes[0];
    std::string out = fmt::format("\"\"\"{}{}: what one rank computes, by shardwright.\n\n{}\n\"\"\"\n\n",
                                  plan_.model, stage_suffix(stage), plan_.summary);
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

  Json stage_json(int stage) const override {
    Json out = PackageWriter::stage_json(stage);
    out["kernels"] = kernels_json(stage);
    out["apart"] = texts_[at(stage)].apart;
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

  Json start_of(const Element& e) const override {
    const int number = number_of(e.item);
    return number < 0 ? Json() : Json{"start", number, names(e.item.stage, e.dropped)};
  }
  Json finish_of(const Item& item) const override {
    const int number = number_of(item);
    return number < 0 ? Json() : Json{"finish", number};
  }
  int number_of(const Item& item) const {
    return item.is_crossing ? transfers_.of_crossing(item.what) : transfers_.of_step(item.stage, item.what);
  }

  std::string links_text() const override {
    return fmt::format(
        "# That the plan is for.\nCLUSTER = {}\n\n# Each between the values of `parts`.\nTRANSFERS = {}\n",
        Json(plan_.cluster ? to_text(*plan_.cluster) : "").dump(), python_lines(transfers_.list(), 1));
  }

  torch::Transfers transfers_;
};

}  // namespace

python::Files torch_package(const Pipeline& pipeline, const EmittedPlan& plan) {
  python::check_turns(pipeline);
  return TorchPackageWriter(pipeline, plan).write();
}

}  // namespace shardwright
