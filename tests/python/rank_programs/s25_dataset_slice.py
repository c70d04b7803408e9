"""A residual network whose split is searched; each rank reads a strip of each image, of so many as there are ranks."""

import sys
from pathlib import Path

import mindspore as ms
from mindspore import LossMonitor, Model, nn, set_auto_parallel_context
from mindspore.communication import get_group_size, get_rank, init

sys.path.append(str(Path(__file__).parent.parent / "programs"))
from cifar import ResNet, SoftmaxCrossEntropyExpand, create_dataset  # noqa: E402

ms.set_context(mode=ms.GRAPH_MODE)
init()
ms.set_seed(1)
slices = get_group_size()
set_auto_parallel_context(parallel_mode=ms.ParallelMode.AUTO_PARALLEL, gradients_mean=True)
set_auto_parallel_context(dataset_strategy=(((1, 1, 1, slices), (1,))))
net = ResNet()
opt = nn.Momentum(filter(lambda x: x.requires_grad, net.get_parameters()), 0.01, 0.9)
model = Model(net, loss_fn=SoftmaxCrossEntropyExpand(sparse=True), optimizer=opt)
model.train(2, create_dataset(slices=slices, own_slice=get_rank() % slices), callbacks=[LossMonitor()],
            dataset_sink_mode=True)
