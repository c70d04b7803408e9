#include "shardwright/annotations/degree_checks.h"

#include "shardwright/plan/batch.h"

namespace shardwright {

void check_data(const Graph& graph, const Degrees& degrees) {
  const int data = degrees.sharing(Sharing::batch);
  for (const Node& node : graph.nodes)
    for (std::size_t d : batch_dims_of_leaf(graph, node)) {
      const Value& v = graph.value(node.results.front());
      if (v.type.shape[d] % data)
        throw error("dp={}: does not divide the {} samples of a micro-batch of %{}", data, v.type.shape[d],
                    v.name);
    }
}

}  // namespace shardwright
