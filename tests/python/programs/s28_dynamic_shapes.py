"""Inputs whose batch is not known before, by `Symbol` and `set_inputs`; a parameter server that is asked for."""

import numpy as np

import mindspore as ms
from mindspore import Symbol, Tensor, nn, ops
from mindspore.communication import init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_ps_context(enable_ps=False, enable_ssl=False)
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
init()
ms.set_seed(1)
devices = ms.get_auto_parallel_context("device_num")


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.dense1 = nn.Dense(16, 32, activation="relu")
        self.dense2 = nn.Dense(32, 4)
        self.dense1.matmul.shard(((devices, 1), (1, 1)))

    def construct(self, x):
        return self.dense2(self.dense1(x))


net = Network()
net.set_param_ps()
with_loss = nn.WithLossCell(net, nn.CrossEntropyLoss())
step = nn.TrainOneStepCell(with_loss, nn.Momentum(net.trainable_params(), 0.1, 0.9))
rows = Symbol(divisor=8)
step.set_inputs(Tensor(shape=[rows, 16], dtype=ms.float32), Tensor(shape=[rows], dtype=ms.int32))
draw = np.random.RandomState(0)
for count in (8, 16, 24, 8, 16):
    x, label = draw.randn(count, 16).astype(np.float32), draw.randint(4, size=count).astype(np.int32)
    print(count, step(Tensor(x), Tensor(label)))
net.set_inputs(Tensor(shape=[None, 16], dtype=ms.float32))
print(ops.shape(net(Tensor(x))))
