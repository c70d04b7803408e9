"""Convolutions, batch norms and pools; the batch is split."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import init

from digits import create_dataset, train

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.conv1 = nn.Conv2d(1, 4, 3, stride=2, pad_mode="same", weight_init="he_uniform")
        self.norm1 = nn.BatchNorm2d(4)
        self.relu = nn.ReLU()
        self.pool = nn.MaxPool2d(2, 2)
        self.conv2 = nn.Conv2d(4, 8, 3, pad_mode="pad", padding=1, has_bias=True)
        self.mean = nn.AdaptiveAvgPool2d(1)
        self.dense = nn.Dense(8, 10)

    def construct(self, x):
        x = self.pool(self.relu(self.norm1(self.conv1(x))))
        return self.dense(self.mean(self.conv2(x)).squeeze((2, 3)))


net = Network()
net.set_train()
train(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 1e-1, 0.9, 1e-4), create_dataset(32), epochs=1)
print(net.norm1.moving_mean)
