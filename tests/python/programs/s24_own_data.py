"""A data set object of one's own; training, then prediction and evaluation."""

import numpy as np

import mindspore as ms
from mindspore import Model, Tensor, nn
from mindspore.communication import init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
init()
ms.set_seed(1)


class FakeData:
    def __init__(self, size, batch):
        self.size, self.batch, self.index = size, batch, 0

    def get_dataset_size(self):
        return self.size

    def get_repeat_count(self):
        return 1

    def create_tuple_iterator(self, num_epochs=-1, do_copy=True):
        return self

    def __iter__(self):
        self.index = 0
        return self

    def __next__(self):
        if self.index >= self.size:
            raise StopIteration
        draw = np.random.RandomState(self.index)
        self.index += 1
        return Tensor(draw.randn(self.batch, 16), ms.float32), Tensor(draw.randint(4, size=self.batch), ms.int32)

    def reset(self):
        self.index = 0


net = nn.SequentialCell(nn.Dense(16, 32), nn.ReLU(), nn.Dense(32, 4))
model = Model(net, nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean"),
              nn.Adam(net.trainable_params(), 1e-2), metrics={"accuracy", "loss"})
model.train(3, FakeData(4, 16), callbacks=ms.LossMonitor(2))
print(model.predict(Tensor(np.ones((8, 16)), ms.float32))[:2])
print(sorted(model.eval(FakeData(4, 16)).items()))
