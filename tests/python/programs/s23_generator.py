"""Batches from a generator of one's own; a loss for each row, of dense labels."""

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import context, nn, ops
from mindspore.common.initializer import initializer
from mindspore.communication import init
from mindspore.nn.loss import SoftmaxCrossEntropyWithLogits
from mindspore.train import LossMonitor, Model

context.set_context(mode=context.GRAPH_MODE, device_target="CPU")
context.set_auto_parallel_context(parallel_mode="auto_parallel", full_batch=True,
                                  auto_parallel_search_mode="recursive_programming")
init()
ms.set_seed(1)


def get_dataset(count, rows, features, classes):
    def generate():
        draw = np.random.RandomState(0)
        for _ in range(count):
            labels = np.eye(classes, dtype=np.float32)[draw.randint(classes, size=rows)]
            yield (draw.rand(rows, features).astype(np.float32), labels)

    return generate


class Net(nn.Cell):
    def __init__(self):
        super(Net, self).__init__()
        self.weight1 = ms.Parameter(initializer("XavierUniform", [32, 64]), "w1")
        self.weight2 = ms.Parameter(initializer("XavierUniform", [64, 16]), "w2")
        self.matmul = ops.MatMul()
        self.relu = ops.ReLU()

    def construct(self, x):
        return self.matmul(self.relu(self.matmul(x, self.weight1)), self.weight2)


net = Net()
data_set = ds.GeneratorDataset(get_dataset(6, 16, 32, 16), column_names=["data", "label"])
optimizer = nn.Momentum(filter(lambda p: p.requires_grad, net.get_parameters()), 0.01, 0.9)
model = Model(net, loss_fn=SoftmaxCrossEntropyWithLogits(), optimizer=optimizer)
model.train(epoch=2, train_dataset=data_set, callbacks=LossMonitor(), dataset_sink_mode=False)
