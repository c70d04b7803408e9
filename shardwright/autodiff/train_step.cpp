#include "shardwright/autodiff/train_step.h"

#include <algorithm>

#include "shardwright/autodiff/backward.h"
#include "shardwright/base/text.h"
#include "shardwright/base/unknown.h"
#include "shardwright/graph/builder.h"
#include "shardwright/graph/node_kinds.h"
#include "shardwright/graph/op.h"
#include "shardwright/graph/rewrite.h"
#include "shardwright/graph/verify.h"
#include "shardwright/ops/calls.h"
#include "shardwright/ops/clip_norm.h"
#include "shardwright/ops/loss_scale.h"
#include "shardwright/ops/optimizer_settings.h"
#include "shardwright/ops/row_updates.h"

namespace shardwright {

namespace {

ValueId existing_state(const Graph& graph, std::string_view name) {
  for (const Node& node : graph.nodes)
    if (node.op->kind == OpKind::state && graph.value(node.results.front()).name == name)
      return node.results.front();
  return {};
}

}  // namespace

ValueId existing_step_count(const Graph& graph) { return existing_state(graph, steps_state); }

namespace {

/// A master starts with the values of its parameter, unrounded.
Attributes start_of_master(const Graph& graph, ValueId parameter) {
  Attributes start;
  for (const auto& [name, value] : graph.node(graph.value(parameter).producer).attributes)
    if (name != "master" && name != "comm_fusion" && name != sparse_attribute && name != rate_group &&
        !name.starts_with(own_setting))
      start.set(name, value);
  if (start.text("as", "").empty()) start.set("as", graph.value(parameter).name);
  return start;
}

/// The update, parameter by parameter.
class UpdateStep {
 public:
  UpdateStep(Graph& graph, const OptimizerChoice& optimizer)
      : graph_(graph), builder_(graph), optimizer_(optimizer), op_(optimizer_called(optimizer.name)) {}

  void add(ValueId loss) {
    const LossScale& scale = optimizer_.loss_scale;
    builder_.set_phase(Phase::backward);  // the forward is the same network with a scale and without
    if (scale.is_on()) scale_ = leaf(loss_scale_state, first_scale(scale, graph_.value(loss)));
    auto gradients =
        add_backward(builder_, loss, {.loss_scale = scale_, .in_master_types = !optimizer_.reduces_short});
    if (gradients.empty()) throw error("the loss %{} depends on no parameter", graph_.value(loss).name);
    add(std::move(gradients));
  }

  void add(std::map<ValueId, ValueId> gradients) {
    gradients_ = std::move(gradients);
    builder_.set_phase(Phase::update);
    for (auto& [parameter, gradient] : gradients_)
      if (const auto dtype = master_type(graph_, parameter)) gradient = cast_to(builder_, gradient, *dtype);
    find_rows();
    look_at_gradients();
    count_steps();
    for (const auto& [parameter, gradient] : gradients_) update(parameter, gradient);
  }

 private:
  ValueId leaf(std::string_view name, double start, DType dtype = DType::f32) {
    if (start == 0) return builder_.leaf(OpKind::state, name, {dtype, {}}, {{"init", "zeros"}});
    return builder_.leaf(OpKind::state, name, {dtype, {}}, {{"init", "constant"}, {"value", start}});
  }

  /// The backward starts from the scale in the type of the loss, which may be f16.
  static double first_scale(const LossScale& scale, const Value& loss) {
    constexpr double most = 65504, power_below = 32768;
    if (loss.type.dtype != DType::f16 || scale.initial <= most) return scale.initial;
    if (scale.interval == 0)
      throw error("the loss %{} is f16, which cannot hold a loss scale of {}; give at most {}", loss.name,
                  scale.initial, most);
    return power_below;
  }

  /// Gradients of tables that are updated by rows.
  void find_rows() {
    for (const auto& [parameter, gradient] : gradients_) {
      const Node& leaf = graph_.node(graph_.value(parameter).producer);
      if (!leaf.attributes.flag(sparse_attribute) || !by_rows(op_, settings_of(parameter))) continue;
      auto found = row_gradient(graph_, gradient);
      if (!found) continue;
      found->rows = cast_to(builder_, found->rows, graph_.value(gradient).type.dtype);
      rows_.emplace(parameter, *found);
    }
  }

  /// All gradients are there: what they are multiplied with, and whether there is an update at all.
  void look_at_gradients() {
    if (optimizer_.clip_norm <= 0 && !scale_.is_valid() && !optimizer_.keeps_norm) return;
    std::vector<ValueId> all;
    for (const auto& [parameter, gradient] : gradients_) {
      const auto rows = rows_.find(parameter);
      all.push_back(rows == rows_.end()
                        ? squares_of(builder_, gradient)
                        : squares_of_rows(builder_, rows->second, graph_.value(parameter).type.shape));
    }
    const ValueId squares = sum_of_squares(builder_, std::move(all));
    if (scale_.is_valid()) {
      factor_ = inverse_of(builder_, scale_);
      is_good_ = is_finite(builder_, squares, "gradients.are_finite");
      move_scale();
    }
    if (optimizer_.clip_norm <= 0 && !optimizer_.keeps_norm) return;
    ValueId norm = norm_of(builder_, squares);
    if (scale_.is_valid()) norm = scaled(builder_, norm, factor_);
    if (optimizer_.keeps_norm) keep(norm);
    if (optimizer_.clip_norm <= 0) return;
    const ValueId clip = clip_factor(builder_, norm, optimizer_.clip_norm);
    factor_ = factor_.is_valid() ? scaled(builder_, clip, factor_) : clip;
  }

  void keep(ValueId norm) {
    const ValueId last =
        builder_.leaf(OpKind::state, norm_state, {DType::f32, {}}, {{"init", "zeros"}, {"cache", true}});
    graph_.updates.push_back({last, cast_to(builder_, norm, DType::f32)});
  }

  void move_scale() {
    const LossScale& settings = optimizer_.loss_scale;
    const ValueId good = leaf(good_steps_state, 0);
    const auto next = next_loss_scale(builder_, scale_, good, is_good_, settings.factor, settings.interval,
                                      std::string(loss_scale_state) + ".next");
    graph_.updates.push_back({scale_, next[0]});
    graph_.updates.push_back({good, next[1]});
  }

  /// Steps that are not taken do not count. Then the count hangs on all gradients, so that only one stage keeps it; what
  /// updates read is a value of the update, which that stage sends to others.
  void count_steps() {
    count_ = op_.optimizer->counts_steps ? step_count(builder_) : existing_step_count(graph_);
    if (!count_.is_valid()) return;
    const auto counts = [&](const Update& u) { return u.leaf == count_; };
    if (std::ranges::any_of(graph_.updates, counts)) return;  // another optimizer of this step does
    const bool is_guarded = is_good_.is_valid();
    const ValueId next = is_guarded ? sum_of(builder_, {count_, is_good_}) : shifted(builder_, count_, 1);
    graph_.updates.push_back({count_, next});
    if (is_guarded) count_ = shifted(builder_, count_, 0, std::string(steps_state) + ".now");
  }

  void update(ValueId parameter, ValueId gradient) {
    const std::string name = graph_.value(parameter).name;
    const Type type = graph_.value(gradient).type;
    Attributes attributes;
    for (const auto& [key, setting] : settings_of(parameter))
      if ((key != "rate" || !optimizer_.has_set_rate) &&
          (key != "weight_decay" || !rows_.contains(parameter)))
        attributes.set(key, setting);
    const auto rows = rows_.find(parameter);
    const bool has_rows = rows != rows_.end();
    if (has_rows) gradient = rows->second.rows;
    std::vector<ValueId> operands{parameter,
                                  factor_.is_valid() ? scaled(builder_, gradient, factor_) : gradient};
    for (const std::string& state : op_.optimizer->states)
      operands.push_back(builder_.leaf(OpKind::state, name + "." + state, type, {{"init", "zeros"}}));
    if (master_type(graph_, parameter)) {
      attributes.set("master", true);
      operands.push_back(builder_.leaf(OpKind::state, fmt::format("{}.{}", name, master_state), type,
                                       start_of_master(graph_, parameter)));
    }
    const std::vector<ValueId> states(operands.begin() + 2, operands.end());
    if (op_.optimizer->counts_steps) operands.push_back(count_);
    if (is_good_.is_valid()) {
      attributes.set("guarded", true);
      operands.push_back(is_good_);
    }
    if (has_rows) {
      attributes.set("bag", rows->second.bag);
      operands.push_back(rows->second.ids);
    }
    if (optimizer_.has_set_rate) operands.push_back(rate_of(parameter));
    const OpDef& op = has_rows ? *by_rows(op_, settings_of(parameter)) : op_;
    const auto results = builder_.call_all(op, std::move(operands), std::move(attributes), name + ".new");
    graph_.updates.push_back({parameter, results.front()});
    for (std::size_t i = 0; i < states.size(); ++i) graph_.updates.push_back({states[i], results[i + 1]});
  }

  /// The optimizer's, or the parameter's own.
  Attributes settings_of(ValueId parameter) const {
    Attributes out = optimizer_.attributes;
    for (const auto& [key, value] : graph_.node(graph_.value(parameter).producer).attributes) {
      if (!key.starts_with(own_setting)) continue;
      std::string name = key.substr(own_setting.size());
      const auto is_it = [&](const OptimizerSetting& s) { return s.optimizer == op_.name && s.name == name; };
      if (std::ranges::none_of(optimizer_settings, is_it))
        throw error("parameter '{}' has a {} of its own, which is no setting of {}",
                    graph_.value(parameter).name, name, op_.name);
      out.set(std::move(name), value);
    }
    return out;
  }

  /// The state that tells it.
  ValueId rate_of(ValueId parameter) {
    const std::int64_t group =
        graph_.node(graph_.value(parameter).producer).attributes.integer(rate_group, 0);
    ValueId& rate = rates_[group];
    const std::string name =
        group == 0 ? optimizer_.rate_name : fmt::format("{}.{}", optimizer_.rate_name, group);
    if (!rate.is_valid()) rate = existing_state(graph_, name);
    if (!rate.is_valid()) rate = leaf(name, settings_of(parameter).number("rate", 0), DType::f64);
    return rate;
  }

  Graph& graph_;
  Builder builder_;
  const OptimizerChoice& optimizer_;
  const OpDef& op_;
  std::map<ValueId, ValueId> gradients_;
  std::map<ValueId, RowGradient> rows_;    // by parameter
  ValueId scale_;                          // of the loss; invalid: none
  ValueId is_good_;                        // 1, or 0 where gradients have overflowed; invalid: nobody asks
  ValueId factor_;                         // of all gradients; invalid: 1
  ValueId count_;                          // of steps done
  std::map<std::int64_t, ValueId> rates_;  // by group, where they are set from outside
};

}  // namespace

bool is_rate(std::string_view name) {
  return name.starts_with(rate_state) && (name.size() == rate_state.size() || name[rate_state.size()] == '.');
}

ValueId step_count(Builder& builder) {
  const ValueId count = existing_step_count(builder.graph());
  if (!count.is_valid())
    return builder.leaf(OpKind::state, steps_state, {DType::f32, {}}, {{"init", "zeros"}});
  return count;
}

LossScale default_loss_scale(const Precision& precision) {
  const bool is_needed =
      precision == Precision::mixed(DType::f16) || precision == Precision::products_in(DType::f16);
  return is_needed ? dynamic_loss_scale() : LossScale{};
}

std::string to_text(const LossScale& scale) {
  if (!scale.is_on()) return "none";
  if (scale == dynamic_loss_scale()) return "dynamic";
  if (scale.interval == 0) return fmt::format("{}", scale.initial);
  return fmt::format("{} by {} every {}", scale.initial, scale.factor, scale.interval);
}

bool is_loss_scale(double scale) { return scale >= least_loss_scale && scale <= most_loss_scale; }

std::optional<LossScale> parse_loss_scale(std::string_view text) {
  if (text == "none") return LossScale{};
  if (text == "dynamic") return dynamic_loss_scale();
  const std::vector<std::string_view> words = split(text, ' ');
  const auto number = to_number(words.front());
  if (!number || !is_loss_scale(*number)) return std::nullopt;
  if (words.size() == 1) return LossScale{.initial = *number};
  if (words.size() != 5 || words[1] != "by" || words[3] != "every") return std::nullopt;
  const auto factor = to_number(words[2]);
  const auto interval = to_integer(words[4]);
  if (!factor || !(*factor > 1) || !interval || *interval < 1) return std::nullopt;
  return LossScale{.initial = *number, .interval = *interval, .factor = *factor};
}

bool reduces_short_called(std::string_view name) {
  if (name != "f32" && name != "short") throw error("{}: there are f32, short", name);
  return name == "short";
}

bool has_master(const Node& node) {
  return node.op->kind == OpKind::parameter && node.attributes.find(master_state) != nullptr;
}

bool has_masters(const Graph& graph) {
  return std::any_of(graph.nodes.begin(), graph.nodes.end(), has_master);
}

const OpDef& optimizer_called(std::string_view name) {
  std::vector<std::string> known;
  for (const OpDef& op : all_ops()) {
    if (!op.optimizer || op.kernel) continue;  // updates by rows are no choice of their own
    if (op.name == name) return op;
    known.push_back(op.name);
  }
  throw unknown("optimizer", name, known);
}

namespace {

/// Of tables that are updated by rows. Values of the forward keep their ids.
void drop_unread_gradients(Graph& graph) {
  std::vector<bool> keep = live_nodes(graph);
  for (std::size_t n = 0; n < keep.size(); ++n) keep[n] = keep[n] || !is_backward(graph.nodes[n].phase);
  const std::vector<ValueId> same(graph.values.size());
  graph = rebuild(std::move(graph), kept(keep), same);
}

}  // namespace

void add_updates(Graph& graph, const std::map<ValueId, ValueId>& gradients,
                 const OptimizerChoice& optimizer) {
  UpdateStep(graph, optimizer).add(gradients);
}

namespace {

/// Operators say gradients of all that they read: those of frozen parameters nobody wants, and they would be priced. The
/// forward stays as it is, with its ids.
Graph without_unwanted_gradients(Graph graph) {
  std::vector<bool> keep = live_nodes(graph);
  for (std::size_t n = 0; n < keep.size(); ++n)
    if (graph.nodes[n].phase == Phase::forward) keep[n] = true;
  const std::vector<ValueId> same(graph.values.size());
  return rebuild(std::move(graph), kept(keep), same);
}

}  // namespace

void add_train_step(Graph& graph, ValueId loss, const OptimizerChoice& optimizer) {
  graph.nodes.reserve(4 * graph.nodes.size());  // about what it will be
  graph.values.reserve(5 * graph.values.size());
  UpdateStep(graph, optimizer).add(loss);
  if (std::ranges::any_of(graph.nodes, updates_rows)) drop_unread_gradients(graph);
  graph.outputs.erase(std::remove(graph.outputs.begin(), graph.outputs.end(), loss), graph.outputs.end());
  graph.outputs.insert(graph.outputs.begin(), loss);
  if (std::any_of(graph.nodes.begin(), graph.nodes.end(), is_frozen))
    graph = without_unwanted_gradients(std::move(graph));
  check_bytes(graph);
}

}  // namespace shardwright
