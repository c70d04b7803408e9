"""Model parallelism by hand: a rank has its columns of each weight; the loss cell adds up what ranks have of the logits."""

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, Tensor, nn, ops
from mindspore.communication import create_group, get_group_size, get_rank, init
from mindspore.train import LossMonitor, Model

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)
rank, size = get_rank(), get_group_size()
draw = np.random.RandomState(0)
first, second = draw.randn(16, 32).astype(np.float32) / 4, draw.randn(32, 4).astype(np.float32) / 6
x, label = draw.randn(64, 16).astype(np.float32), draw.randint(4, size=64).astype(np.int32)
own = slice(rank * 32 // size, (rank + 1) * 32 // size)


class SliceNet(nn.Cell):
    def __init__(self):
        super().__init__()
        self.first = Parameter(Tensor(first[:, own]), name="first")
        self.second = Parameter(Tensor(second[own]), name="second")
        self.matmul, self.relu = ops.MatMul(), ops.ReLU()

    def construct(self, x):
        return self.matmul(self.relu(self.matmul(x, self.first)), self.second)


class LossCell(nn.Cell):
    def __init__(self):
        super().__init__()
        self.all_reduce = ops.AllReduce()
        self.loss = nn.CrossEntropyLoss()

    def construct(self, logits, label):
        return self.loss(self.all_reduce(logits), label) / get_group_size()  # ranks have a share of one loss


net = SliceNet()
data_set = ds.NumpySlicesDataset((x, label), ["x", "label"], shuffle=False).batch(16)
model = Model(net, LossCell(), nn.Momentum(net.trainable_params(), 0.1, 0.9))
model.train(2, data_set, callbacks=LossMonitor(4), dataset_sink_mode=False)
create_group("all", list(range(size)))
print(ops.AllReduce(group="all")(net.first.sum()), ops.AllReduce(group="all")(net.second.sum()))
