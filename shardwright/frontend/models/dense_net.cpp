// DenseNet of seed 004: an embedding as a product with a wide table, three dense layers of it, and their products
// (q k^T) v over the batch. Names are the seed's.

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"

namespace shardwright::models {
namespace {

Model build(const ModelArguments& arguments) {
  const std::vector<std::int64_t> widths = arguments.widths("12288-128-768");
  if (widths.size() != 3) throw error("widths: input, embedding and dense layers, so three widths");
  const std::int64_t batch = arguments.integer("batch", 32);
  Trace trace(arguments.precision);
  const Traced input = trace.input("input", {trace.precision(), {batch, widths[0]}});
  const Traced label = trace.input("label", {trace.kept_precision(), {batch, widths[2]}});
  const Parameter table{"embedding_weight", {widths[0], widths[1]}, normal()};
  const Traced x = matmul("embedding")(input, table);
  const auto dense = [&](const std::string& name) {
    return relu(name + ".relu")(Dense(name, widths[1], widths[2])(x));
  };
  const Traced q = dense("fc1"), k = dense("fc2"), v = dense("fc3");
  const Traced turned = Operator("transpose", "transpose", {{"dims", std::vector<std::int64_t>{1, 0}}})(k);
  const Traced s = matmul("matmul2")(matmul("matmul1")(q, turned), v);
  return finish_model(
      trace, loss_called(arguments.loss.empty() ? "mean_squared_error" : arguments.loss, s, label), s);
}

}  // namespace

std::vector<ModelDef> dense_net() {
  return {{.name = "dense_net",
           .doc = "an embedding by product, three dense layers q, k, v of it, (q k^T) v",
           .keys = {{"batch", "32"}, {"widths", "12288-128-768"}},
           .build = build}};
}

}  // namespace shardwright::models
