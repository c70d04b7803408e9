"""Blocks in a CellList that are computed again; the gradient by the input, inside of a cell."""

import numpy as np

import mindspore as ms
from mindspore import Tensor, nn, ops
from mindspore.common.initializer import TruncatedNormal, initializer

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_seed(1)


class Block(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = ms.Parameter(initializer(TruncatedNormal(0.2), [8, 8], ms.float32))
        self.transpose = ops.Transpose()
        self.softmax = ops.Softmax(axis=-1)
        self.batch_matmul = ops.BatchMatMul()
        self.mul = ops.Mul()

    def construct(self, x):
        scores = self.softmax(self.mul(self.batch_matmul(x, self.transpose(x, (0, 2, 1))), 0.5))
        return x + self.batch_matmul(self.batch_matmul(scores, x), self.weight)


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.blocks = nn.CellList([])
        for _ in range(3):
            block = Block()
            block.recompute()
            self.blocks.append(block)

    def construct(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Grad(nn.Cell):
    def __init__(self, net):
        super().__init__()
        self.grad = ops.GradOperation()
        self.net = net

    def construct(self, x):
        return self.grad(self.net)(x)


x = Tensor(np.arange(2 * 4 * 8).reshape(2, 4, 8) % 7 / 7, ms.float32)
net = Net()
print([p.name for p in net.trainable_params()])
print(Grad(net)(x))
