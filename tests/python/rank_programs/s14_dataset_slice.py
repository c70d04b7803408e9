"""Each rank reads a strip of each image: of four, or as many as there are ranks."""

import os

import mindspore as ms
import mindspore.dataset as ds
from mindspore import nn
from mindspore.communication import get_group_size, get_rank, init

ms.set_context(mode=ms.GRAPH_MODE)
ms.set_auto_parallel_context(parallel_mode=ms.ParallelMode.SEMI_AUTO_PARALLEL)
init()
slice_h_num = 1
slice_w_num = min(4, get_group_size())
ms.set_auto_parallel_context(dataset_strategy=((1, 1, slice_h_num, slice_w_num), (1,)))
ms.set_seed(1)
ds.config.set_seed(1000)


class Network(nn.Cell):
    def __init__(self):
        super().__init__()
        self.flatten = nn.Flatten()
        self.layer1 = nn.Dense(28 * 28, 32)
        self.relu1 = nn.ReLU()
        self.layer2 = nn.Dense(32, 10)

    def construct(self, x):
        return self.layer2(self.relu1(self.layer1(self.flatten(x))))


def create_dataset(batch_size):
    data_set = ds.MnistDataset(os.getenv("DATA_PATH"), usage="train", num_samples=5 * batch_size)
    data_set = data_set.map(ds.vision.Rescale(1.0 / 255.0, 0), "image")
    data_set = data_set.map(ds.transforms.TypeCast(ms.int32), "label")
    columns = ["img" + str(x) for x in range(slice_h_num * slice_w_num)]
    data_set = data_set.map(operations=ds.vision.SlicePatches(slice_h_num, slice_w_num), input_columns="image",
                            output_columns=columns)
    own = columns[get_rank() % len(columns)]
    data_set = data_set.map(ds.vision.HWC2CHW(), own)
    return data_set.project([own, "label"]).batch(batch_size)


net = Network()
optimizer = nn.SGD(net.trainable_params(), 1e-1)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
losses = []
for epoch in range(2):
    for image, label in create_dataset(32):
        (loss_value, _), grads = grad_fn(image, label)
        optimizer(grads)
        losses.append(loss_value.item())
print(losses)
