"""Tensor parallelism in two dims; the network is called, not trained."""

import numpy as np

import mindspore as ms
from mindspore import Layout, Parameter, Tensor, nn, ops
from mindspore.communication import get_group_size, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
init()
ms.set_seed(1)
n = get_group_size()
layout = Layout({1: (1, 1), 2: (1, 2), 4: (2, 2), 8: (2, 4)}[n], ("x", "y"))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.w1 = Parameter(Tensor(np.arange(16 * 8).reshape(16, 8) % 5 - 2, ms.float32))
        self.w2 = Parameter(Tensor(np.arange(8 * 16).reshape(8, 16) % 7 - 3, ms.float32))
        self.matmul1 = ops.MatMul()
        self.matmul1.add_prim_attr("enable_nd_tp", True)
        self.matmul1.shard((layout("None", ("x", "y")), layout("x", "y")))
        self.relu = ops.ReLU()
        self.relu.shard((layout("None", ("y", "x")),))
        self.matmul2 = ops.MatMul()
        self.matmul2.add_prim_attr("enable_nd_tp", True)
        self.matmul2.shard((layout("None", ("y", "x")), layout("y", "x")))

    def construct(self, x):
        return self.matmul2(self.relu(self.matmul1(x, self.w1)), self.w2)


net = Net()
print(net(Tensor(np.arange(4 * 16).reshape(4, 16) % 3, ms.float32)))
