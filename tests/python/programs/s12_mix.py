"""Found strategies in two stages, with split optimizer states, a part that is computed again, and sink mode."""

import mindspore as ms
from mindspore import nn
from mindspore.communication import get_group_size, init
from mindspore.train import LossMonitor, Model

from digits import create_dataset

init()
stages = min(2, get_group_size())
ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.AUTO_PARALLEL, search_mode="recursive_programming",
                             pipeline_stages=stages, enable_parallel_optimizer=True)
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 64, activation="relu")
        self.block = nn.SequentialCell(nn.Dense(64, 64), nn.ReLU(), nn.Dense(64, 64), nn.ReLU())
        self.layer2 = nn.Dense(64, 1)

    def construct(self, x):
        return self.layer2(self.block(self.layer1(self.flatten(x))))


net = Network()
net.block.recompute()
net.flatten.pipeline_stage = 0
net.layer1.pipeline_stage = 0
net.block.pipeline_stage = stages - 1
net.layer2.pipeline_stage = stages - 1
with_loss = nn.PipelineCell(nn.WithLossCell(net, nn.MAELoss()), 4)
optimizer = nn.Momentum(net.trainable_params(), 1e-3, 0.1)
Model(with_loss, optimizer=optimizer).train(2, create_dataset(32), callbacks=[LossMonitor()], dataset_sink_mode=True)
