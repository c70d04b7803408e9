"""Optimizer states are split over ranks; collectives have numbers."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, enable_parallel_optimizer=True,
                             parallel_optimizer_config={"parallel_optimizer_threshold": 1})
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64)
        self.layer2 = nn.Dense(64, 64)
        self.layer3 = nn.Dense(64, 10)
        self.relu = nn.ReLU()

    def construct(self, x):
        x = self.relu(self.layer1(self.flatten(x)))
        return self.layer3(self.relu(self.layer2(x)))


net = Network()
net.layer1.set_comm_fusion(0)
net.layer2.set_comm_fusion(1)
net.layer3.set_comm_fusion(2)
train(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 1e-2, 0.9), create_dataset(32))
