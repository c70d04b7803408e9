"""Each rank reads its shard of the data; gradient function, reducer and optimizer are three calls."""

import os

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.DATA_PARALLEL, gradients_mean=True)
init()
ms.set_seed(1)


def create_dataset(batch_size):
    data_set = ds.MnistDataset(os.getenv("DATA_PATH"), usage="train", num_samples=104, num_shards=get_group_size(),
                               shard_id=get_rank())
    data_set = data_set.map([ds.vision.Rescale(1.0 / 255.0, 0), ds.vision.HWC2CHW()], "image")
    return data_set.map(ds.transforms.TypeCast(ms.int32), "label").batch(batch_size)


net = nn.SequentialCell(nn.Flatten(), nn.Dense(28 * 28, 64), nn.ReLU(), nn.Dense(64, 10))
optimizer = nn.SGD(net.trainable_params(), 1e-1)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
grad_reducer = nn.DistributedGradReducer(optimizer.parameters)
for epoch in range(2):
    for data, label in create_dataset(32 // get_group_size()):
        (loss, _), grads = grad_fn(data, label)
        optimizer(grad_reducer(grads))
        print("epoch: %s, loss is %s" % (epoch, loss))
print(net[1].weight.sum(), net[3].weight.sum())
