"""Two stages (one on one device) with two chunks of the network each, which take turns; four parts of the batch."""

import mindspore as ms
from mindspore import nn, train
from mindspore.common import lazy_inline
from mindspore.communication import init

from digits import create_dataset

stages = 2 if ms.get_auto_parallel_context("device_num") > 1 else 1
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL, pipeline_stages=stages,
                             pipeline_config={"pipeline_interleave": True, "pipeline_scheduler": "1f1b"})
init()
ms.set_seed(1)


class Network(nn.Cell):
    @lazy_inline
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layers = nn.CellList([nn.Dense(size, 64, activation="relu") for size in (28 * 28, 64, 64)])
        self.head = nn.Dense(64, 10)

    def construct(self, x):
        x = self.flatten(x)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


net = Network()
for i, cell in enumerate([*net.layers, net.head]):
    cell.pipeline_stage = i % stages
with_loss = nn.PipelineCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), 4)
optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9)
model = train.Model(with_loss, optimizer=optimizer)
model.train(2, create_dataset(32), callbacks=[train.LossMonitor(2)], dataset_sink_mode=False)
