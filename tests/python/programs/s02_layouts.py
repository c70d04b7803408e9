"""Two device matrices over the same ranks."""

import mindspore as ms
from mindspore import Layout, nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = ops.Flatten()
        self.fc1_weight = ms.Parameter(initializer("normal", [28 * 28, 64], ms.float32))
        self.fc2_weight = ms.Parameter(initializer("normal", [64, 10], ms.float32))
        self.matmul1 = ops.MatMul()
        self.relu1 = ops.ReLU()
        self.matmul2 = ops.MatMul()

    def construct(self, x):
        x = self.flatten(x)
        x = self.matmul1(x, self.fc1_weight)
        x = self.relu1(x)
        return self.matmul2(x, self.fc2_weight)


n = get_group_size()
net = Network()
layout = Layout((2, 2, 2) if n == 8 else (n, 1, 1), ("dp", "sp", "mp"))
net.matmul1.shard((layout("mp", ("sp", "dp")), layout(("sp", "dp"), "None")))
net.relu1.shard(((min(n, 4), 1),))
layout2 = Layout((n,), ("tp",))
net.matmul2.shard((layout2("None", "tp"), layout2("tp", "None")))
train(net, nn.CrossEntropyLoss(), nn.SGD(net.trainable_params(), 1e-1), create_dataset(32))
