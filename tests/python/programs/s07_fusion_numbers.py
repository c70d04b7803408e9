"""Nested cells: names of parameters and their numbers."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, enable_parallel_optimizer=True)
init()
ms.set_seed(1)


class DenseLayer(nn.Cell):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.dense1 = nn.Dense(in_channels, 32)
        self.relu = nn.ReLU()
        self.dense2 = nn.Dense(32, out_channels)

    def construct(self, x):
        return self.dense2(self.relu(self.dense1(x)))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.head_layer = DenseLayer(28 * 28, 64)
        self.tail_layer = DenseLayer(64, 10)

    def construct(self, x):
        return self.tail_layer(self.head_layer(self.flatten(x)))


net = Net()
net.head_layer.set_comm_fusion(0)
net.head_layer.dense2.set_comm_fusion(3)
for item in net.trainable_params():
    print(f"The parameter {item.name}'s fusion id is {item.comm_fusion}")
train(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 1e-1), create_dataset(32), epochs=1)
