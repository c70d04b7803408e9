"""Nothing is annotated. Labels [32] against outputs [32, 1] broadcast, as the seed has it."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE, save_graphs=2)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.AUTO_PARALLEL, search_mode="recursive_programming")
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64)
        self.layer2 = nn.Dense(64, 64)
        self.layer3 = nn.Dense(64, 1)
        self.relu = nn.ReLU()

    def construct(self, x):
        x = self.relu(self.layer1(self.flatten(x)))
        return self.layer3(self.relu(self.layer2(x)))


net = Network()
net.set_train()
train(net, nn.MAELoss(), nn.Momentum(net.trainable_params(), 1e-2, 0.1), create_dataset(32))
