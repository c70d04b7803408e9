"""Settings that are bound to a step: its newer form, with optimizer parallelism."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import get_group_size, init
from mindspore.nn.utils import no_init_parameters
from mindspore.parallel.auto_parallel import AutoParallel
from mindspore.parallel.nn import GradAccumulation
from mindspore.train import LossMonitor, Model

from digits import create_dataset

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64)
        self.relu = nn.ReLU()
        self.layer2 = nn.Dense(64, 10)

    def construct(self, x):
        return self.layer2(self.relu(self.layer1(self.flatten(x))))


with no_init_parameters():
    net = Network()
    optimizer = nn.SGD(net.trainable_params(), 1e-1)
net.layer1.matmul.shard(((1, 1), (get_group_size(), 1)))
loss_fn = nn.CrossEntropyLoss()
grad_fn = ms.value_and_grad(lambda data, target: loss_fn(net(data), target), None, net.trainable_params())


@ms.jit
def train_step(inputs, targets):
    loss, grads = grad_fn(inputs, targets)
    optimizer(grads)
    return loss


parallel_step = AutoParallel(train_step, parallel_mode="semi_auto")
parallel_step.hsdp(threshold=1)
for image, label in create_dataset(32):
    print("loss is %s" % parallel_step(image, label))

parallel_net = AutoParallel(GradAccumulation(nn.WithLossCell(net, loss_fn), 2), parallel_mode="recursive_programming")
parallel_net.full_batch = True
Model(parallel_net, optimizer=optimizer).train(1, create_dataset(32), callbacks=LossMonitor(4))
