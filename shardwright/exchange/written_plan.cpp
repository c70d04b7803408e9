#include "shardwright/exchange/written_plan.h"

#include <algorithm>
#include <set>

#include "shardwright/annotations/context_split.h"
#include "shardwright/base/attempt.h"
#include "shardwright/base/index.h"
#include "shardwright/base/text.h"
#include "shardwright/graph/calls.h"
#include "shardwright/graph/forward_operator.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/layout/uneven.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/plan/decided.h"
#include "shardwright/plan/leaves.h"
#include "shardwright/search/planning/make_plan.h"

namespace shardwright {
namespace {

/// `layers.3` of `layers.3.ffn.up.matmul`, `embedding` of `embedding.weight`.
std::string module_of(std::string_view name) {
  const std::size_t dot = name.find('.');
  if (dot == name.npos) return std::string(name);
  const std::size_t end = std::min(name.find('.', dot + 1), name.size());
  return std::string(to_integer(name.substr(dot + 1, end - dot - 1)) ? name.substr(0, end)
                                                                     : name.substr(0, dot));
}

class PartReader {
 public:
  explicit PartReader(const PlannedGraph& planned)
      : graph_(planned.graph),
        updates_(planned.update_layouts),
        calls_(planned.graph),
        readers_(first_forward_readers(planned.graph)) {}

  PlacedPart run() {
    out_.meshes = graph_.meshes;
    std::set<ValueId> trained;
    for (const Node& node : graph_.nodes)
      if (node.op->optimizer) trained.insert(node.operands.front());
    for (const NodeId id : graph_.node_ids()) {
      const Node& node = graph_.node(id);
      if (node.op->kind == OpKind::input) out_.inputs.push_back(leaf(node));
      if (node.op->kind == OpKind::parameter) {
        PlacedTensor& parameter = out_.parameters.emplace_back(leaf(node));
        parameter.is_trained = trained.contains(node.results.front());
        parameter.is_frozen = is_frozen(node);
        parameter.has_own_settings = std::ranges::any_of(node.attributes, [](const auto& attribute) {
          return attribute.first.starts_with(own_setting) || attribute.first == rate_group;
        });
      }
      if (is_forward_operator(node) && node.strategy) add_results(id, node);
    }
    return std::move(out_);
  }

 private:
  PlacedTensor leaf(const Node& node) const {
    const ValueId v = node.results.front();
    const Value& value = graph_.value(v);
    const Layout lies = value.layout.value_or(replicated(value.type.shape.size()));
    PlacedTensor out{.name = value.name, .type = value.type, .layout = lies, .read = lies, .state = lies};
    if (const auto it = updates_.find(v); it != updates_.end()) out.state = it->second;
    const Reader& reader = readers_[at(v.index)];
    if (reader.node.is_valid() && graph_.node(reader.node).strategy)
      out.read = stored(
          layouts_of(calls_.rule(reader.node), *graph_.node(reader.node).strategy).operands[reader.operand]);
    return out;
  }

  void add_results(NodeId id, const Node& node) {
    const NodeLayouts layouts = layouts_of(calls_.rule(id), *node.strategy);
    for (std::size_t i = 0; i < node.results.size(); ++i) {
      const Value& value = graph_.value(node.results[i]);
      const Layout lies = value.layout.value_or(layouts.results[i]);
      out_.activations.push_back(
          {.name = value.name, .type = value.type, .layout = lies, .read = lies, .state = lies});
    }
    const std::string module = module_of(graph_.name_of(id));
    if (std::ranges::find(out_.modules, module) == out_.modules.end()) out_.modules.push_back(module);
  }

  const Graph& graph_;
  const std::map<ValueId, Layout>& updates_;
  Calls calls_;
  std::vector<Reader> readers_;
  PlacedPart out_;
};

/// Operators, and leaves, that lie otherwise in the two plans.
std::vector<std::string> split_otherwise(const Plan& plan, const Plan& other) {
  std::map<std::string, const PlannedOperator*> by_name;
  for (const StagePlan& stage : other.stages)
    for (const PlannedOperator& op : stage.operators) by_name.emplace(op.name, &op);
  std::vector<std::string> out;
  for (const StagePlan& stage : plan.stages)
    for (const PlannedOperator& op : stage.operators) {
      const auto same = by_name.find(op.name);
      if (same == by_name.end() || !decide_alike(op, *same->second)) out.push_back(op.name);
    }
  std::map<std::string, std::string> layouts;
  for (const StagePlan& stage : other.stages) layouts.insert(stage.layouts.begin(), stage.layouts.end());
  for (const StagePlan& stage : plan.stages)
    for (const auto& [name, layout] : stage.layouts)
      if (const auto same = layouts.find(name); same == layouts.end() || same->second != layout)
        out.push_back(name);
  return out;
}

/// Whether both plans have the same operators in each part.
bool cut_alike(const Plan& a, const Plan& b) {
  const auto same = [](const StagePlan& x, const StagePlan& y) {
    return std::ranges::equal(x.operators, y.operators, {}, &PlannedOperator::name, &PlannedOperator::name);
  };
  return std::ranges::equal(a.stages, b.stages, same);
}

class GridFinder {
 public:
  GridFinder(const Plan& plan, const Graph& graph, const std::vector<PlacedPart>& parts, std::int64_t samples)
      : plan_(plan), graph_(graph), parts_(parts), samples_(samples) {}

  /// Nothing where the axes are of no degrees; then `why` says so.
  std::optional<Grid> run(std::string& why) {
    const Mesh& first = plan_.stages.front().meshes.front();
    for (const StagePlan& stage : plan_.stages) {
      if (stage.meshes.size() > 1 || stage.meshes.front() != first) {
        why = "stages have different meshes, or several";
        return std::nullopt;
      }
      for (const Axis& axis : stage.meshes.front().axes)
        if (degree_of_axis(axis.name).empty()) {
          why = fmt::format("its mesh is {}, whose axes are not all degrees such as dp and tp",
                            to_text(first).substr(5));
          return std::nullopt;
        }
    }
    Grid out{.said = decided_by(plan_, samples_)};
    add_settings(out.said);
    out.cut_otherwise = cut_inside();
    std::optional<Grid> best;
    for (const std::optional<ContextWays>& context : contexts(first))
      for (const bool by_sequence : {false, true}) {
        if (best && best->split_otherwise.empty()) return best;
        if (by_sequence && out.of("tp") == 1) continue;
        Grid tried = out;
        tried.said.sequence_parallel = by_sequence;
        tried.said.context = context;
        compare(tried);
        if (!best || tried.split_otherwise.size() < best->split_otherwise.size()) best = std::move(tried);
      }
    return best;
  }

 private:
  /// Which ways the cp of a plan may be gone, whose layouts then say which of them it is.
  std::vector<std::optional<ContextWays>> contexts(const Mesh& mesh) const {
    std::vector<int> sizes;
    for (const Axis& axis : mesh.axes)
      if (degree_of_axis(axis.name) == "cp") sizes.push_back(axis.size);
    if (sizes.empty() || longest_sequence(graph_) == 0) return {std::nullopt};
    std::vector<std::optional<ContextWays>> out;
    for (const ContextWay way : {ContextWay::ring, ContextWay::gather})
      if (sizes.size() > 1) out.emplace_back(ContextWays{way, sizes.back()});
    for (const ContextWay way : {ContextWay::ring, ContextWay::gather, ContextWay::exchange})
      out.emplace_back(ContextWays{way});
    return out;
  }

  /// What decided_by leaves to operators and parameters.
  void add_settings(Constraints& c) const {
    const Constraints unusual = constraints_of(plan_.settings);
    c.zero_threshold = plan_.settings.optimizer_parallel.threshold;
    c.zero_group = unusual.zero_group;
    c.recompute = plan_.settings.recompute.mode;
    c.recompute_communication = unusual.recompute_communication;
    c.recompute_shard_kept = unusual.recompute_shard_kept;
    c.recomputed = unusual.recomputed;
    c.comm_fusion = unusual.comm_fusion;
    c.fusion_numbers = unusual.fusion_numbers;
    c.framework = unusual.framework;
  }

  std::vector<std::string> cut_inside() const {
    std::vector<std::string> out;
    for (std::size_t p = 1; p < parts_.size(); ++p)
      if (!parts_[p].modules.empty() && !parts_[p - 1].modules.empty() &&
          std::ranges::find(parts_[p - 1].modules, parts_[p].modules.front()) != parts_[p - 1].modules.end())
        out.push_back(parts_[p].modules.front());
    return out;
  }

  PlanRequest request_of(const Constraints& c) const {
    PlanRequest out{.model = plan_.model,
                    .origin = plan_.origin,
                    .devices = plan_.devices(),
                    .cluster = plan_.cluster,
                    .parallel = plan_.devices() > 1 ? Parallel::semi_auto_parallel : Parallel::stand_alone,
                    .constraints = c,
                    .is_set = true};
    out.constraints.micro_batch.reset();
    out.constraints.global_batch.reset();
    if (out.constraints.degrees.of("pp") == 1) out.constraints.schedule.reset();
    return out;
  }

  /// The plan of the same words, with the stages that there are where layers are not shared out evenly.
  void compare(Grid& tried) const {
    std::string why;
    const auto made = [&] { return make_plan(graph_, request_of(tried.said)); };
    std::optional<Plan> other = attempt(why, made);
    if (plan_.settings.pipelining.parts() > 1 && !(other && cut_alike(plan_, *other))) {
      for (std::size_t p = 0; p < parts_.size(); ++p)
        for (const std::string& module : parts_[p].modules)
          tried.said.stages.emplace(module, static_cast<int>(p));
      other = attempt(why, made);
    }
    if (other) {
      tried.split_otherwise = split_otherwise(plan_, *other);
      return;
    }
    for (const StagePlan& stage : plan_.stages)
      for (const PlannedOperator& op : stage.operators) tried.split_otherwise.push_back(op.name);
  }

  const Plan& plan_;
  const Graph& graph_;
  const std::vector<PlacedPart>& parts_;
  std::int64_t samples_;
};

}  // namespace

std::int64_t ModelSizes::of(const std::string& key) const {
  const auto it = sizes.find(key);
  return it == sizes.end() ? 0 : it->second;
}

namespace {

/// Others cut heads and features evenly or not at all. Vocabularies they pad, or as DTensor cut at other places.
void check_tensor_parts(const WrittenPlan& plan, std::string_view format) {
  for (const PlacedPart& part : plan.parts)
    for (const PlacedTensor& weight : part.parameters) {
      PlacedTensor others = weight;
      for (std::int64_t& size : others.type.shape)
        if (size == plan.what.sizes.of("vocab")) size = 0;
      const std::string why = unevenness(others, weight.read, part.meshes[at(weight.read.mesh)]);
      if (!why.empty()) throw error("{}: {}: {}", format, weight.name, why);
    }
}

}  // namespace

void WrittenPlan::check_equal_shares(std::string_view format) const {
  if (const auto shares = decided_by(plan, 0).batch_shares)
    throw error("{}: has no word for unequal shares of the batch ({}); plan without batch_shares", format,
                shares->empty() ? "by the speed of each stage's devices" : shares_text(*shares));
}

const Grid& WrittenPlan::grid_for(std::string_view format) const {
  if (grid) {
    check_equal_shares(format);
    const std::int64_t samples = what.samples * plan.settings.pipelining.interleave;
    if (samples % grid->of("dp"))
      throw error("{}: dp={} does not divide the {} samples of a micro-batch", format, grid->of("dp"),
                  samples);
    check_tensor_parts(*this, format);
    return *grid;
  }
  throw error(
      "{}: says degrees of parallelism, but {}; take --to dtensor, jax or mindspore, which say layouts, or "
      "plan again with --set or --search auto",
      format, why_no_grid);
}

std::int64_t WrittenPlan::batch() const { return what.samples * plan.settings.pipelining.batch_parts(); }

WrittenPlan written_plan(const Plan& plan, const Graph& graph, WhatIsWritten what) {
  WrittenPlan out{.plan = plan, .what = std::move(what), .parts = {}, .grid = {}, .why_no_grid = {}};
  const PlannedStages planned = apply(plan, graph);
  const Pipelining& p = plan.settings.pipelining;
  for (std::size_t i = 0; i < planned.stages.size(); ++i) {
    out.parts.push_back(PartReader(planned.stages[i]).run());
    out.parts.back().stage = p.stage_of(static_cast<int>(i));
    for (int s = 0; s < out.parts.back().stage; ++s)
      out.parts.back().first_rank += plan.stages[at(p.parts_of(s).front())].devices();
  }
  for (const Crossing& c : planned.crossings)
    if (std::abs(c.to - c.from) > 1)
      out.far_crossings.push_back(fmt::format("{} from {} to {}", c.receive, c.from, c.to));
  out.grid = GridFinder(plan, graph, out.parts, out.what.samples).run(out.why_no_grid);
  return out;
}

std::string unevenness(const PlacedTensor& tensor, const Layout& layout, const Mesh& mesh) {
  for (std::size_t d = 0; d < layout.dims.size(); ++d) {
    if (!is_cut_unevenly(layout, mesh, tensor.type.shape, d)) continue;
    const Axes& axes = layout.dims[d];
    return fmt::format("dim {} of {} is cut over {} devices ({}), which do not divide it{}", d,
                       tensor.type.shape[d], mesh.count(axes), to_text(axes, mesh),
                       axes.grain() > 0 ? fmt::format(" in runs of {}", axes.grain()) : "");
  }
  return "";
}

std::string some_of(const std::vector<std::string>& names) {
  constexpr std::size_t most = 3;
  std::string out;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i)
    out += fmt::format("{}'{}'", i ? ", " : "", names[i]);
  const std::size_t others = names.size() - std::min(names.size(), most);
  return others == 0 ? out : out + fmt::format(" and {} other{}", others, others == 1 ? "" : "s");
}

}  // namespace shardwright
