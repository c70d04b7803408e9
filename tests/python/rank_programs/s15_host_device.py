"""Operators that are to run on the host, beside the device; each rank reads its shard."""

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
init()
ms.set_seed(1)


class Dense(nn.Cell):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.weight = ms.Parameter(initializer("normal", [in_channels, out_channels], ms.float32))
        self.bias = ms.Parameter(initializer("normal", [out_channels], ms.float32))
        self.matmul = ops.MatMul()
        self.add = ops.Add()

    def construct(self, x):
        return self.add(self.matmul(x, self.weight), self.bias)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.layer1 = Dense(16, 32)
        self.relu1 = nn.ReLU()
        self.layer2 = Dense(32, 4)

    def construct(self, x):
        return self.layer2(self.relu1(self.layer1(x)))


net = Network()
net.layer1.matmul.set_device("CPU")
net.layer1.add.set_device("CPU")
net.layer2.matmul.add_prim_attr("primitive_target", "CPU")
draw = np.random.RandomState(0)
rows, labels = draw.randn(64, 16).astype(np.float32), draw.randint(4, size=64).astype(np.int32)
data_set = ds.NumpySlicesDataset((rows, labels), ["data", "label"], shuffle=False, num_shards=get_group_size(),
                                 shard_id=get_rank()).batch(16 // get_group_size())
optimizer = nn.SGD(net.trainable_params(), 1e-1)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
grad_reducer = nn.DistributedGradReducer(optimizer.parameters)
for epoch in range(2):
    for data, label in data_set:
        (loss, _), grads = grad_fn(data, label)
        optimizer(grad_reducer(grads))
print([float(p.asnumpy().sum()) for p in net.trainable_params()])
