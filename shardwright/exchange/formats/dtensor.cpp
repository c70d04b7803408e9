// PyTorch's DTensor: a placement for each axis of the device mesh. Shard(d) cuts as torch.chunk does, in pieces of ceil
// size, and the placements of an axis more to the left cut first. Where an axis that is more major in a dim stands more to
// the right in the mesh, what cuts first must leave room for it: _StridedShard(d, split_factor=k) cuts the dim into k
// pieces, and of each of these takes its share; k is the product of those axes.
// Source: torch/distributed/tensor/placement_types.py.

#include <set>

#include "shardwright/base/index.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/python/text.h"
#include "shardwright/exchange/words_left.h"

namespace shardwright::formats {
namespace {

/// Of one tensor, per axis of its mesh.
std::string placements_of(const Layout& layout, const Mesh& mesh) {
  std::string out;
  for (int axis = 0; axis < mesh.axis_count(); ++axis) {
    std::string placement = "Replicate()";
    if (layout.sum.contains(axis)) placement = "Partial(\"sum\")";
    if (layout.max.contains(axis)) placement = "Partial(\"max\")";
    for (std::size_t d = 0; d < layout.dims.size(); ++d) {
      int factor = 1;
      for (const int other : layout.dims[d]) {
        if (other == axis)
          placement = factor == 1 ? fmt::format("Shard({})", d)
                                  : fmt::format("_StridedShard({}, split_factor={})", d, factor);
        if (other == axis) break;
        if (other > axis) factor *= mesh.size_of(other);
      }
    }
    out += (axis ? ", " : "") + placement;
  }
  return "[" + (out.empty() ? "Replicate()" : out) + "]";
}

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), left_(plan) {}

  Exported run() {
    leave_words();
    std::string stages;
    for (const PlacedPart& part : plan_.parts) stages += stage_text(part);
    const std::vector<std::string> lines = left_.lines();
    Exported out{.text = head_text(plan_, "DTensor", lines), .not_carried = lines};
    out.text += head;
    out.text +=
        "# A part of the network each: its first rank, its meshes, and of each tensor the number of its "
        "mesh,\n"
        "# its whole shape and its placements. Weights of dense layers are (in, out): of torch.nn.Linear, "
        "which\n"
        "# has them (out, in), Shard(0) and Shard(1) change places.\n";
    out.text += "STAGES = [\n" + stages + "]\n" + tail;
    return out;
  }

 private:
  /// Each of a tensor that stays, to be distributed; `rank` counts from the first of the stage.
  static constexpr const char* head =
      "from torch.distributed.device_mesh import DeviceMesh\n"
      "from torch.distributed.tensor import Partial, Replicate, Shard, distribute_tensor\n"
      "from torch.distributed.tensor.placement_types import _StridedShard\n\n";
  static constexpr const char* tail =
      "\n\ndef device_mesh(stage, number=0, device_type=\"cuda\"):\n"
      "    import torch\n\n"
      "    names, sizes = zip(*STAGES[stage][\"meshes\"][number])\n"
      "    first = STAGES[stage][\"first_rank\"]\n"
      "    count = torch.Size(sizes).numel()\n"
      "    return DeviceMesh(device_type, torch.arange(first, first + count).view(sizes), "
      "mesh_dim_names=names)\n"
      "\n\ndef distribute(stage, name, tensor, device_type=\"cuda\"):\n"
      "    \"\"\"The whole `tensor` as the plan has the parameter `name`.\"\"\"\n"
      "    mesh, shape, placements = STAGES[stage][\"parameters\"][name]\n"
      "    assert tuple(tensor.shape) == shape, f\"{name} is {tuple(tensor.shape)}, in the plan {shape}\"\n"
      "    return distribute_tensor(tensor, device_mesh(stage, mesh, device_type), placements)\n";

  void leave_words() {
    left_.take({"dp", "tp", "cp", "context", "sequence_parallel", "operators split otherwise",
                "layers by stage", "layers cut", "pp"});
    left_.take({"zero", "zero_threshold", "zero_group"});
    if (plan_.plan.settings.optimizer_parallel.level == 2)
      left_.add("zero=2: gradients are kept as the states lie, which placements of leaves do not say");
  }

  static Json meshes_json(const PlacedPart& part) {
    Json out = Json::array();
    for (const Mesh& mesh : part.meshes) {
      Json axes = Json::array();
      for (const Axis& axis : mesh.axes) axes.push_back({axis.name, axis.size});
      if (mesh.axes.empty()) axes.push_back({"x", 1});
      out.push_back(std::move(axes));
    }
    return out;
  }

  static std::string shape_text(const Shape& shape) {
    std::string out;
    for (const std::int64_t n : shape) out += fmt::format("{}, ", n);
    if (shape.size() > 1) out.resize(out.size() - 2);
    return "(" + (shape.size() == 1 ? out.substr(0, out.size() - 1) : out) + ")";
  }

  std::string row(const PlacedTensor& t, const Layout& layout, const PlacedPart& part) const {
    return fmt::format("            {}: ({}, {}, {}),\n", Json(t.name).dump(), layout.mesh,
                       shape_text(t.type.shape), placements_of(layout, part.meshes[at(layout.mesh)]));
  }

  std::string stage_text(const PlacedPart& part) {
    std::string out = fmt::format("    {{\n        \"first_rank\": {},\n        \"meshes\": {},\n",
                                  part.first_rank, python_text(meshes_json(part)));
    std::string read, states;
    out += "        \"parameters\": {\n";
    for (const PlacedTensor& t : part.parameters) {
      check_even(t, t.layout, part);
      out += row(t, t.layout, part);
      if (t.read != t.layout) read += row(t, t.read, part);
      if (t.state != t.layout) states += state(t, part);
    }
    out +=
        "        },\n        # As the forward and the backward read them: gathered, where they are stored in "
        "shards.\n";
    out += "        \"read\": {\n" + read +
           "        },\n        # States of the optimizer that lie otherwise than their parameter.\n"
           "        \"states\": {\n" +
           states + "        },\n        \"inputs\": {\n";
    for (const PlacedTensor& t : part.inputs) {
      check_even(t, t.layout, part);
      out += row(t, t.layout, part);
    }
    out += "        },\n        \"activations\": {\n";
    for (const PlacedTensor& t : part.activations) out += activation(t, part);
    return out + "        },\n    },\n";
  }

  std::string state(const PlacedTensor& t, const PlacedPart& part) {
    const std::string why = unevenness(t, t.state, part.meshes[at(t.state.mesh)]);
    if (why.empty()) return row(t, t.state, part);
    left_.add(fmt::format("states of {}: {}", t.name, why));
    return "";
  }

  std::string activation(const PlacedTensor& t, const PlacedPart& part) {
    if (t.layout.has_halo()) {
      left_.add(fmt::format("{}: neighbouring pieces overlap", t.name));
      return "";
    }
    if (const std::string why = unevenness(t, t.layout, part.meshes[at(t.layout.mesh)]); !why.empty()) {
      left_.add(fmt::format("{}: {}", t.name, why));
      return "";
    }
    return row(t, t.layout, part);
  }

  static void check_even(const PlacedTensor& t, const Layout& layout, const PlacedPart& part) {
    if (const std::string why = unevenness(t, layout, part.meshes[at(layout.mesh)]); !why.empty())
      throw error("DTensor: {}: {}; it cuts into pieces of ceil size, so the ranks would have others; pad it",
                  t.name, why);
  }

  const WrittenPlan& plan_;
  WordsLeft left_;
};

Exported write(const WrittenPlan& plan) {
  plan.check_equal_shares("DTensor");
  return Writer(plan).run();
}

}  // namespace

std::vector<PlanFormat> dtensor() {
  return {{.name = "dtensor",
           .doc = "placements of DTensor for each parameter, input and activation, in Python",
           .write = write}};
}

}  // namespace shardwright::formats
