// JAX: a PartitionSpec for each tensor. Per dim None, an axis of the mesh or a tuple of axes, major to minor, whatever
// their order in the mesh; axes over which a value is an addend stand in `unreduced`.
// Source: jax/_src/partition_spec.py.

#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/exchange/plan_format.h"
#include "shardwright/exchange/python/text.h"
#include "shardwright/exchange/words_left.h"

namespace shardwright::formats {
namespace {

std::string names_of(const Axes& axes, const Mesh& mesh) {
  std::vector<std::string> out;
  for (const int a : axes) out.push_back(Json(mesh.axes[at(a)].name).dump());
  return join(out, ", ");
}

/// `P(("tp", "dp"), None, unreduced={"sp"})`
std::string spec_of(const Layout& layout, const Mesh& mesh) {
  std::vector<std::string> parts;
  for (const Axes& axes : layout.dims)
    parts.push_back(axes.empty()       ? "None"
                    : axes.size() == 1 ? names_of(axes, mesh)
                                       : "(" + names_of(axes, mesh) + ")");
  if (!layout.sum.empty()) parts.push_back("unreduced={" + names_of(layout.sum, mesh) + "}");
  return "P(" + join(parts, ", ") + ")";
}

class Writer {
 public:
  explicit Writer(const WrittenPlan& plan) : plan_(plan), left_(plan) {}

  Exported run() {
    leave_words();
    std::string stages;
    for (const PlacedPart& part : plan_.parts) stages += stage_text(part);
    const std::vector<std::string> lines = left_.lines();
    Exported out{.text = head_text(plan_, "JAX", lines), .not_carried = lines};
    out.text +=
        "import numpy\n"
        "import jax\n"
        "from jax.sharding import AxisType, Mesh, NamedSharding, PartitionSpec as P\n\n"
        "# A part of the network each: its first rank, its meshes, and of each tensor the number of its "
        "mesh,\n"
        "# its whole shape and its spec. Weights of dense layers are (in, out).\n";
    out.text += "STAGES = [\n" + stages + "]\n" + tail;
    return out;
  }

 private:
  static constexpr const char* tail =
      "\n\ndef mesh(stage, number=0, devices=None, axis_type=None):\n"
      "    names, sizes = zip(*STAGES[stage][\"meshes\"][number])\n"
      "    first, count = STAGES[stage][\"first_rank\"], int(numpy.prod(sizes))\n"
      "    devices = jax.devices() if devices is None else devices\n"
      "    types = axis_type and (axis_type,) * len(names)\n"
      "    return Mesh(numpy.array(devices[first:first + count]).reshape(sizes), names, axis_types=types)\n"
      "\n\ndef sharding(stage, kind, name, devices=None):\n"
      "    \"\"\"Of one of STAGES[stage][kind]: `parameters`, `inputs`, `activations`.\n\n"
      "    Unreduced values are of meshes whose axes are explicit: JAX has them in no others.\n"
      "    \"\"\"\n"
      "    number, _, spec = STAGES[stage][kind][name]\n"
      "    explicit = AxisType.Explicit if spec.unreduced else None\n"
      "    return NamedSharding(mesh(stage, number, devices, explicit), spec)\n";

  void leave_words() {
    left_.take({"dp", "tp", "cp", "context", "pp", "sequence_parallel", "operators split otherwise",
                "layers by stage", "layers cut"});
    left_.take({"zero", "zero_threshold", "zero_group"});
    if (plan_.plan.settings.optimizer_parallel.level == 2)
      left_.add("zero=2: gradients are kept as the states lie, which specs of leaves do not say");
  }

  std::string row(const PlacedTensor& t, const Layout& layout, const PlacedPart& part) const {
    std::vector<std::string> sizes;
    for (const std::int64_t n : t.type.shape) sizes.push_back(std::to_string(n));
    const std::string shape = join(sizes, ", ") + (sizes.size() == 1 ? "," : "");
    return fmt::format("            {}: ({}, ({}), {}),\n", Json(t.name).dump(), layout.mesh, shape,
                       spec_of(layout, part.meshes[at(layout.mesh)]));
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

  std::string leaves(const std::vector<PlacedTensor>& tensors, const PlacedPart& part) const {
    std::string out;
    for (const PlacedTensor& t : tensors) {
      if (const std::string why = unevenness(t, t.layout, part.meshes[at(t.layout.mesh)]); !why.empty())
        throw error("JAX: {}: {}; what a program is given must be cut evenly; pad it", t.name, why);
      out += row(t, t.layout, part);
    }
    return out;
  }

  std::string stage_text(const PlacedPart& part) {
    std::string read, states, activations;
    for (const PlacedTensor& t : part.parameters)
      if (t.read != t.layout) read += row(t, t.read, part);
    for (const PlacedTensor& t : part.parameters)
      if (t.state != t.layout) states += state(t, part);
    for (const PlacedTensor& t : part.activations) activations += activation(t, part);
    return fmt::format("    {{\n        \"first_rank\": {},\n        \"meshes\": {},\n", part.first_rank,
                       python_text(meshes_json(part))) +
           "        \"parameters\": {\n" + leaves(part.parameters, part) +
           "        },\n        # As the forward and the backward read them: gathered, where they are stored "
           "in shards.\n"
           "        \"read\": {\n" +
           read +
           "        },\n        # States of the optimizer that lie otherwise than their parameter.\n"
           "        \"states\": {\n" +
           states + "        },\n        \"inputs\": {\n" + leaves(part.inputs, part) +
           "        },\n        \"activations\": {\n" + activations + "        },\n    },\n";
  }

  std::string state(const PlacedTensor& t, const PlacedPart& part) {
    const std::string why = unevenness(t, t.state, part.meshes[at(t.state.mesh)]);
    if (why.empty()) return row(t, t.state, part);
    left_.add(fmt::format("states of {}: {}", t.name, why));
    return "";
  }

  std::string activation(const PlacedTensor& t, const PlacedPart& part) {
    std::string why = unevenness(t, t.layout, part.meshes[at(t.layout.mesh)]);
    if (t.layout.has_halo()) why = "neighbouring pieces overlap";
    if (!t.layout.max.empty()) why = "each rank holds a candidate of a largest value, not an addend";
    if (why.empty()) return row(t, t.layout, part);
    left_.add(fmt::format("{}: {}", t.name, why));
    return "";
  }

  const WrittenPlan& plan_;
  WordsLeft left_;
};

Exported write(const WrittenPlan& plan) {
  plan.check_equal_shares("JAX");
  return Writer(plan).run();
}

}  // namespace

std::vector<PlanFormat> jax() {
  return {{.name = "jax",
           .doc = "a PartitionSpec for each parameter, input and activation, in Python",
           .write = write}};
}

}  // namespace shardwright::formats
