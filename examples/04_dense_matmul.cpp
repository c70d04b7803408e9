// Seed 004: z = (x w) v on four devices in three ways. What moves between the products follows from the
// splits: ReID gathers, DLRM exchanges, Transformer moves nothing and sums at the end.

#include <fmt/core.h>

#include "shardwright/frontend/modules.h"
#include "shardwright/frontend/train_step.h"

using namespace shardwright;

struct DenseMatMulNet {
  Operator matmul1 = matmul("matmul1");
  Operator matmul2 = matmul("matmul2");
  Parameter w{"w", {64, 128}, normal(0.1)};
  Parameter v{"v", {128, 64}, normal(0.1)};

  Traced operator()(Traced x) const { return matmul2(matmul1(x, w), v); }
};

void train(const char* name, const std::vector<Split>& first, const std::vector<Split>& second) {
  DenseMatMulNet net;
  net.matmul1.shard(first);
  net.matmul2.shard(second);
  const MeanSquaredError loss_fn;
  auto forward = [&](Traced x, Traced y) { return LossAndAux{loss_fn(net(x), y)}; };
  const Type type{DType::f32, {32, 64}};
  TrainStep step(forward, {{"x", type}, {"y", type}}, adam(0.01), {.devices = 4});
  fmt::print("{}\n{}", name, step.explain());
  const Tensor x = make_tensor(type, std::vector<double>(32 * 64, 1.0)),
               y = make_tensor(type, std::vector<double>(32 * 64, 0.5));
  for (int i = 0; i < 3; ++i) fmt::print("step: {}, loss is {:.7f}\n", i, step(x, y));
}

int main() {
  train("ReID: data parallel, then model parallel", {{4, 1}, {1, 1}}, {{1, 1}, {1, 4}});
  train("DLRM: model parallel, then data parallel", {{1, 1}, {1, 4}}, {{4, 1}, {1, 1}});
  train("Transformer: both at once", {{2, 1}, {1, 2}}, {{2, 2}, {2, 1}});
}
