#include "shardwright/lower/lines_behind.h"

#include <algorithm>
#include <utility>

#include "shardwright/base/index.h"
#include "shardwright/graph/op.h"

namespace shardwright {
namespace {

/// ` of stage 1`
int parse_stage(Scanner& in, const Pipeline& pipeline) {
  in.expect("of");
  in.expect("stage");
  const int stage = static_cast<int>(in.integer("a stage"));
  if (stage < 0 || stage >= pipeline.stage_count())
    throw error("there is no stage {} but 0 to {}", stage, pipeline.stage_count() - 1);
  return stage;
}

/// The index in `list` of the value called `name`.
int index_in(const std::vector<ValueId>& list, const Graph& graph, const std::string& name,
             std::string_view what) {
  const auto found = std::ranges::find(list, graph.find(name));
  if (found == list.end()) throw error("%{} is not {}", name, what);
  return static_cast<int>(found - list.begin());
}

void parse_crossing(Scanner& in, Pipeline& pipeline) {
  const std::string sent = value_name(in);
  const int from = parse_stage(in, pipeline);
  const Graph& giver = pipeline.stage(from).graph;
  const int send = index_in(giver.sends, giver, sent, "sent");
  in.expect("to");
  const std::string receive = value_name(in);
  const int to = parse_stage(in, pipeline);
  const Graph& taker = pipeline.stage(to).graph;
  const ValueId received = taker.find(receive);
  if (taker.node(taker.value(received).producer).op->kind != OpKind::receive)
    throw error("%{} of stage {} is not received", receive, to);
  pipeline.place(from, to, giver.sends[at(send)], received);
}

void parse_output(Scanner& in, Pipeline& pipeline) {
  const std::string name = value_name(in);
  const int stage = parse_stage(in, pipeline);
  const Graph& graph = pipeline.stage(stage).graph;
  pipeline.outputs.push_back({stage, index_in(graph.outputs, graph, name, "an output")});
}

void parse_order(Scanner& in, Pipeline& pipeline) {
  OutputInOrder order;
  const int count = static_cast<int>(pipeline.outputs.size());
  const std::string name = value_name(in);
  while (order.output < count && pipeline.output_name(at(order.output)) != name) ++order.output;
  if (order.output == count) throw error("%{} is not handed out", name);
  const Shape shape = pipeline.output_type(pipeline.outputs[at(order.output)]).shape;
  in.expect("dim");
  const std::int64_t dim = in.integer("a dim");
  if (dim < 1 || std::cmp_greater_equal(dim, shape.size()))
    throw error("%{}: dim {} should be behind the batch, and below {}", name, dim, shape.size());
  order.dim = static_cast<int>(dim);
  in.expect("of");
  order.blocks = in.integer("a number of blocks");
  if (order.blocks < 2 || order.blocks % 2 || shape[at(order.dim)] % order.blocks)
    throw error("%{}: {} blocks should be an even number that divides {}", name, order.blocks,
                shape[at(order.dim)]);
  in.expect("blocks");
  pipeline.in_order.push_back(order);
}

}  // namespace

std::string value_name(Scanner& in) {
  in.expect("%");
  return in.name("a value");
}

std::string lines_behind(const Pipeline& pipeline) {
  std::string out;
  const auto name = [&](int stage, ValueId v) { return pipeline.stage(stage).graph.value(v).name; };
  for (const PlacedCrossing& c : pipeline.crossings)
    out += fmt::format("crossing %{} of stage {} to %{} of stage {}\n", name(c.from, c.sent), c.from,
                       name(c.to, c.received), c.to);
  const Pipelining& p = pipeline.pipelining;
  const bool is_program = p == Pipelining{.micro_batches = p.micro_batches, .interleave = p.interleave};
  for (std::size_t i = 0; !is_program && i < pipeline.outputs.size(); ++i)
    out += fmt::format("hand out %{} of stage {}\n", pipeline.output_name(i), pipeline.outputs[i].stage);
  for (const OutputInOrder& o : pipeline.in_order)
    out += fmt::format("in order %{} dim {} of {} blocks\n", pipeline.output_name(at(o.output)), o.dim,
                       o.blocks);
  return out;
}

void parse_line_behind(Pipeline& pipeline, std::string_view line) {
  Scanner in(line, "pipeline");
  if (in.accept("hand")) {
    in.expect("out");
    parse_output(in, pipeline);
  } else if (in.accept("in")) {
    in.expect("order");
    parse_order(in, pipeline);
  } else {
    in.expect("crossing");
    parse_crossing(in, pipeline);
  }
  if (!in.at_end()) in.fail("the end of the line");
}

}  // namespace shardwright
