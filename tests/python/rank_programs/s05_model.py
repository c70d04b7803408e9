"""Data parallelism by a model: each rank reads its shard of the data, and prints its own loss."""

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import comm_func, get_group_size, get_rank, init
from mindspore.train import LossMonitor, Model

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode="data_parallel", gradients_mean=True)
init()
ms.set_seed(1)

draw = np.random.RandomState(0)
rows, labels = draw.randn(64, 16).astype(np.float32), draw.randint(4, size=64).astype(np.int32)
data_set = ds.NumpySlicesDataset((rows, labels), ["data", "label"], shuffle=False, num_shards=get_group_size(),
                                 shard_id=get_rank()).batch(16 // get_group_size())
net = nn.SequentialCell(nn.Dense(16, 32), nn.ReLU(), nn.Dense(32, 4))
Model(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 0.1, 0.9)).train(2, data_set, LossMonitor())
comm_func.barrier()
print(net[0].weight.asnumpy().std(), net[2].weight.asnumpy().std())
