#include <shardwright/shardwright.h>
#include <cstdio>

using namespace shardwright;

int main() {
  const Parameter weight{"weight", {4, 2}, ones()};
  TrainStep step(
      [&](Traced x, Traced y) { return LossAndAux{MeanSquaredError{}(matmul("product")(x, weight), y)}; },
      {{"x", {DType::f32, {8, 4}}}, {"y", {DType::f32, {8, 2}}}}, sgd(0.1), {.devices = 2});
  const Tensor x = make_tensor({DType::f32, {8, 4}}, std::vector<double>(32, 1));
  const Tensor y = make_tensor({DType::f32, {8, 2}}, std::vector<double>(16, 0));
  for (int i = 0; i < 3; ++i) std::printf("loss is %.4f\n", step(x, y));
}
