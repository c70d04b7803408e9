#include "shardwright/training/told.h"

#include <cmath>

#include "shardwright/graph/op.h"

namespace shardwright {

Told told_by(const Session& session, const std::vector<Tensor>& outputs) {
  Told told{.loss = to_doubles(outputs.front()).front()};
  for (std::size_t i = 1; i < outputs.size(); ++i)
    if (outputs[i].shape().empty())
      told.others.emplace_back(session.pipeline().output_name(i), to_doubles(outputs[i]).front());
  return told;
}

ScaleWatch::ScaleWatch(const Pipeline& pipeline) {
  for (const Program& stage : pipeline.stages)
    for (const Value& v : stage.graph.values) {
      const Node& node = stage.graph.node(v.producer);
      if (v.name == loss_scale_state && node.op->kind == OpKind::state)
        last_ = {.scale = node.attributes.number("value", 0)};
    }
}

std::optional<ScaledBy> ScaleWatch::look(const Session& session) {
  if (!last_) return last_;
  const double before = std::exchange(last_->scale, to_doubles(session.get(loss_scale_state)).front());
  const double good = to_doubles(session.get(good_steps_state)).front();
  last_->has_skipped = good == 0 && last_->scale <= before;
  return last_;
}

void set_rate(Session& session, double rate, std::string_view name) {
  if (!(std::isfinite(rate) && rate >= 0)) throw error("rate {}: should be a number from 0 on", rate);
  session.set(name, make_tensor({DType::f64, {}}, std::span(&rate, 1)));
}

}  // namespace shardwright
