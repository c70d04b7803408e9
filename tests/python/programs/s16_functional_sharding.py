"""A block with splits at its edge and of one parameter, in PyNative mode."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import get_group_size, init

from digits import create_dataset

ms.set_context(mode=ms.PYNATIVE_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.AUTO_PARALLEL, search_mode="sharding_propagation",
                             dataset_strategy="full_batch")
init()
ms.set_seed(1)
n = get_group_size()


class BasicBlock(nn.Cell):
    def __init__(self, channels):
        super().__init__()
        self.dense1 = nn.Dense(channels, channels)
        self.gelu = nn.GELU()
        self.dense2 = nn.Dense(channels, channels)

    def construct(self, x):
        return self.gelu(self.dense2(self.gelu(self.dense1(x))))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64)
        self.block1 = BasicBlock(64)
        self.block1_graph = self.block1.shard(in_strategy=((1, n),),
                                              parameter_plan={"self.block1.dense2.weight": (n, 1)})
        self.layer2 = nn.Dense(64, 10)

    def construct(self, x):
        return self.layer2(self.block1(self.layer1(self.flatten(x))))


net = Net()
optimizer = nn.SGD(net.trainable_params(), 1e-1)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
for i, (image, label) in enumerate(create_dataset(32)):
    (loss_value, _), grads = grad_fn(image, label)
    optimizer(grads)
    if i % 2 == 0:
        print("step: %s, loss is %s" % (i, loss_value))
