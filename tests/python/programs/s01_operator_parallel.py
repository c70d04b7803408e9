"""Operators split by whole numbers: parts per dim of each input."""

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_context(max_device_memory="28GB")
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = ops.Flatten()
        self.fc1_weight = ms.Parameter(initializer("normal", [28 * 28, 64], ms.float32))
        self.fc2_weight = ms.Parameter(initializer("normal", [64, 64], ms.float32))
        self.fc3_weight = ms.Parameter(initializer("normal", [64, 10], ms.float32))
        self.matmul1 = ops.MatMul()
        self.relu1 = ops.ReLU()
        self.matmul2 = ops.MatMul()
        self.relu2 = ops.ReLU()
        self.matmul3 = ops.MatMul()

    def construct(self, x):
        x = self.flatten(x)
        x = self.matmul1(x, self.fc1_weight)
        x = self.relu1(x)
        x = self.matmul2(x, self.fc2_weight)
        x = self.relu2(x)
        return self.matmul3(x, self.fc3_weight)


n = get_group_size()
half = max(1, n // 2)
net = Network()
net.matmul1.shard(((n // half, half), (half, 1)))
net.relu1.shard(((half, 1),))
net.matmul2.shard(((1, n), (n, 1)))
net.relu2.shard(((n, 1),))
train(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 1e-1), create_dataset(32))
