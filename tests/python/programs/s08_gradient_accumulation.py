"""Four parts of each batch, one update. The printed loss is the sum over them."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import init
from mindspore.nn.wrap.cell_wrapper import GradAccumulationCell
from mindspore.train import LossMonitor, Model

from digits import create_dataset

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, enable_parallel_optimizer=True)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64)
        self.layer2 = nn.Dense(64, 10)
        self.relu = nn.ReLU()

    def construct(self, x):
        return self.layer2(self.relu(self.layer1(self.flatten(x))))


net = Network()
optimizer = nn.SGD(net.trainable_params(), 1e-2)
with_loss = GradAccumulationCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), 4)
Model(with_loss, optimizer=optimizer).train(2, create_dataset(32), callbacks=[LossMonitor(3)])
