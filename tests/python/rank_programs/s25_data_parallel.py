"""A residual network with known moments; each rank reads its shard of the data, and prints the loss of that."""

import sys
from pathlib import Path

import mindspore as ms
from mindspore import Model, context, nn
from mindspore.communication import get_group_size, get_rank, init
from mindspore.context import ParallelMode
from mindspore.train.callback import LossMonitor

sys.path.append(str(Path(__file__).parent.parent / "programs"))
from cifar import ResNet, SoftmaxCrossEntropyExpand, create_dataset  # noqa: E402

context.set_context(mode=context.GRAPH_MODE)
init()
ms.set_seed(1)
context.set_auto_parallel_context(parallel_mode=ParallelMode.DATA_PARALLEL, gradients_mean=True)
net = ResNet(use_batch_statistics=False)
model = Model(net, loss_fn=SoftmaxCrossEntropyExpand(sparse=True),
              optimizer=nn.Momentum(net.trainable_params(), 0.01, 0.9))
data_set = create_dataset(16 // get_group_size(), num_shards=get_group_size(), shard_id=get_rank())
model.train(2, data_set, callbacks=[LossMonitor()], dataset_sink_mode=True)
print([float(p.asnumpy().sum()) for p in (net.conv1.weight, net.layer2[0].conv2.weight, net.layer2[0].bn2.gamma)])
