"""The same in two stages (one on one device) and four parts of the batch."""

import mindspore as ms
from mindspore import LossMonitor, Model, context, nn
from mindspore.communication import init

from cifar import ResNet, SoftmaxCrossEntropyExpand, create_dataset

stages = 2 if ms.get_auto_parallel_context("device_num") > 1 else 1
context.set_context(mode=context.GRAPH_MODE)
init()
ms.set_seed(1)
context.set_auto_parallel_context(parallel_mode="semi_auto_parallel", gradients_mean=True)
context.set_auto_parallel_context(pipeline_stages=stages, full_batch=True)
net = ResNet()
for cell in (net.conv1, net.bn1, net.maxpool, net.layer1):
    cell.pipeline_stage = 0
for cell in (net.layer2, net.flatten, net.end_point):
    cell.pipeline_stage = stages - 1
net_with_grads = nn.PipelineCell(nn.WithLossCell(net, SoftmaxCrossEntropyExpand(sparse=True)), 4)
model = Model(net_with_grads, optimizer=nn.Momentum(net.trainable_params(), 0.01, 0.9))
model.train(2, create_dataset(32), callbacks=[LossMonitor()], dataset_sink_mode=True)
