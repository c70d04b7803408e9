"""Two stages (one on one device), four parts of the batch; no auxiliary result."""

import math

import mindspore as ms
from mindspore import nn, ops
from mindspore.common.initializer import HeUniform, initializer
from mindspore.communication import init

from digits import create_dataset

stages = 2 if ms.get_auto_parallel_context("device_num") > 1 else 1
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, pipeline_stages=stages)
init()
ms.set_seed(1)


class MatMulCell(nn.Cell):
    def __init__(self, in_channels, out_channels):
        super().__init__()
        self.weight = ms.Parameter(initializer(HeUniform(math.sqrt(5)), [in_channels, out_channels]), name="param")
        self.matmul = ops.MatMul()

    def construct(self, x):
        return self.matmul(x, self.weight)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = MatMulCell(28 * 28, 64)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Dense(64, 64)
        self.relu2 = nn.ReLU()
        self.layer3 = nn.Dense(64, 10)

    def construct(self, x):
        x = self.relu1(self.layer1(self.flatten(x)))
        return self.layer3(self.relu2(self.layer2(x)))


net = Network()
net.layer1.pipeline_stage = 0
net.relu1.pipeline_stage = 0
net.layer2.pipeline_stage = 0
net.relu2.pipeline_stage = stages - 1
net.layer3.pipeline_stage = stages - 1
with_loss = nn.PipelineCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), 4)
net.set_train()
optimizer = nn.SGD(net.trainable_params(), 1e-2)
grad_reducer = nn.PipelineGradReducer(optimizer.parameters)


def forward_fn(inputs, target):
    return with_loss(inputs, target)


grad_fn = ops.value_and_grad(forward_fn, None, net.trainable_params())


@ms.jit
def train_one_step(inputs, target):
    loss, grads = grad_fn(inputs, target)
    grads = grad_reducer(grads)
    optimizer(grads)
    return loss, grads


for epoch in range(2):
    for i, (data, label) in enumerate(create_dataset(32)):
        loss, grads = train_one_step(data, label)
        if i % 2 == 0:
            print("epoch: %s, step: %s, loss is %s" % (epoch, i, loss))
print([g.sum() for g in grads])
