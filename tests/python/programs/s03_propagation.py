"""One operator is annotated, the others are found; a dense cell of one's own."""

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="auto_parallel", search_mode="sharding_propagation")
init()
ms.set_seed(1)


class Dense(nn.Cell):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.weight = ms.Parameter(initializer("normal", [in_channels, out_channels], ms.float32))
        self.bias = ms.Parameter(initializer("normal", [out_channels], ms.float32))
        self.matmul = ops.MatMul()
        self.add = ops.Add()

    def construct(self, x):
        return self.add(self.matmul(x, self.weight), self.bias)


class FFN(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = ops.Flatten()
        self.dense1 = Dense(28 * 28, 64)
        self.relu = ops.ReLU()
        self.dense2 = Dense(64, 10)

    def construct(self, x):
        return self.dense2(self.relu(self.dense1(self.flatten(x))))


net = FFN()
net.dense1.matmul.shard(((1, 1), (1, min(get_group_size(), 4))))
train(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 1e-2, 0.9), create_dataset(32))
