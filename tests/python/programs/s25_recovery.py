"""Training that is started again from a checkpoint behind its first epoch goes on as if it had not ended."""

import tempfile

import mindspore as ms
from mindspore import (CheckpointConfig, LossMonitor, Model, ModelCheckpoint, context, load_checkpoint,
                       load_param_into_net, nn)
from mindspore.communication import get_rank, init

from cifar import ResNet, SoftmaxCrossEntropyExpand, create_dataset

context.set_context(mode=context.GRAPH_MODE)
init()
context.set_auto_parallel_context(parallel_mode="auto_parallel", gradients_mean=True, full_batch=True)


def model():
    ms.set_seed(1)
    net = ResNet()
    return Model(net, loss_fn=SoftmaxCrossEntropyExpand(sparse=True),
                 optimizer=nn.Momentum(net.trainable_params(), 0.01, 0.9))


model().train(2, create_dataset(), callbacks=[LossMonitor()])
with tempfile.TemporaryDirectory() as folder:
    folder += f"/rank_{get_rank()}"
    checkpoint = ModelCheckpoint("resnet", folder, CheckpointConfig(save_checkpoint_steps=4, integrated_save=False))
    model().train(1, create_dataset(), callbacks=[LossMonitor(), checkpoint])
    started_again = model()
    started_again.infer_train_layout(create_dataset())
    load_param_into_net(started_again.train_network, load_checkpoint(f"{folder}/resnet-1_4.ckpt"))
    started_again.train(1, create_dataset(), callbacks=[LossMonitor()])
