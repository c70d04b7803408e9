// DenseMatMulNet of seed 004: z = (x w) v, split in the three ways of its slides on 4 devices. The
// annotations are part of the model, so `--parallel semi_auto_parallel --devices 4` shows the slide's
// communication.

#include "shardwright/frontend/model.h"
#include "shardwright/frontend/modules.h"

namespace shardwright::models {
namespace {

struct Form {
  std::vector<Split> first;
  std::vector<Split> second;
};

Form form_called(const std::string& name) {
  if (name == "reid") return {{{4, 1}, {1, 1}}, {{1, 1}, {1, 4}}};
  if (name == "dlrm") return {{{1, 1}, {1, 4}}, {{4, 1}, {1, 1}}};
  if (name == "transformer") return {{{2, 1}, {1, 2}}, {{2, 2}, {2, 1}}};
  throw error("form '{}' does not exist; there are reid, dlrm, transformer", name);
}

Model build(const ModelArguments& arguments) {
  const std::vector<std::int64_t> widths = arguments.widths("64-128-64");
  if (widths.size() != 3) throw error("widths: DenseMatMulNet has two products, so three widths");
  const std::int64_t batch = arguments.integer("batch", 32);
  const Form form = form_called(arguments.text("form", "transformer"));
  Trace trace(arguments.precision);
  const Traced x = trace.input("input", {trace.precision(), {batch, widths[0]}});
  const Traced label = trace.input("label", {trace.kept_precision(), {batch, widths[2]}});
  const Parameter w{"w", {widths[0], widths[1]}, normal(0.1)};
  const Parameter v{"v", {widths[1], widths[2]}, normal(0.1)};
  Operator matmul1 = matmul("matmul1");
  Operator matmul2 = matmul("matmul2");
  matmul1.shard(form.first);
  matmul2.shard(form.second);
  const Traced z = matmul2(matmul1(x, w), v);
  return finish_model(
      trace, loss_called(arguments.loss.empty() ? "mean_squared_error" : arguments.loss, z, label), z);
}

}  // namespace

std::vector<ModelDef> dense_matmul() {
  return {{.name = "dense_matmul",
           .doc = "two products: z = (x w) v, split for 4 devices as ReID, DLRM or Transformer",
           .keys = {{"batch", "32"}, {"form", "transformer"}, {"widths", "64-128-64"}},
           .build = build}};
}

}  // namespace shardwright::models
