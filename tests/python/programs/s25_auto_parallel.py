"""A residual network on images in CIFAR-10's format, whose split is searched."""

from mindspore import LossMonitor, Model, context, nn
from mindspore.communication import init
from mindspore.context import ParallelMode

import mindspore as ms
from cifar import ResNet, SoftmaxCrossEntropyExpand, create_dataset

context.set_context(mode=context.GRAPH_MODE)
init()
ms.set_seed(1)
context.set_auto_parallel_context(parallel_mode=ParallelMode.AUTO_PARALLEL, gradients_mean=True, full_batch=True)
net = ResNet()
loss = SoftmaxCrossEntropyExpand(sparse=True)
opt = nn.Momentum(filter(lambda x: x.requires_grad, net.get_parameters()), 0.01, 0.9)
model = Model(net, loss_fn=loss, optimizer=opt)
model.train(2, create_dataset(), callbacks=[LossMonitor()], dataset_sink_mode=True)
