"""A residual network, and images in CIFAR-10's format that it learns from: each class has its colours."""

import tempfile
from pathlib import Path

import numpy as np

import mindspore as ms
import mindspore.dataset as ds
import mindspore.dataset.transforms.c_transforms as C
import mindspore.dataset.vision.c_transforms as vision
from mindspore import nn, ops

count = 64


def draw(folder):
    random = np.random.RandomState(7)
    labels = np.arange(count, dtype=np.uint8) % 10
    colours = random.randint(40, 215, (10, 3, 1, 1))
    images = np.clip(colours[labels] + random.randint(-40, 40, (count, 3, 32, 32)), 0, 255).astype(np.uint8)
    rows = np.concatenate([labels[:, None], images.reshape(count, -1)], 1)
    for i, part in enumerate(np.split(rows, 2), 1):
        (Path(folder) / f"data_batch_{i}.bin").write_bytes(part.tobytes())


def create_dataset(batch_size=16, slices=1, own_slice=0, **settings):
    """Of `slices` strips of each image only one."""
    with tempfile.TemporaryDirectory() as folder:
        draw(folder)
        data_set = ds.Cifar10Dataset(folder, shuffle=False, **settings)
    data_set = data_set.map(operations=C.TypeCast(ms.int32), input_columns="label")
    data_set = data_set.map(operations=[vision.Resize((16, 16)), vision.Rescale(1.0 / 255.0, 0.0),
                                        vision.Normalize((0.4465, 0.4822, 0.4914), (0.2010, 0.1994, 0.2023))],
                            input_columns="image")
    columns = ["img" + str(x) for x in range(slices)]
    data_set = data_set.map(operations=vision.SlicePatches(1, slices), input_columns="image", output_columns=columns,
                            column_order=[columns[own_slice], "label"])
    data_set = data_set.map(operations=vision.HWC2CHW(), input_columns=columns[own_slice])
    return data_set.batch(batch_size, drop_remainder=True)


class Block(nn.Cell):
    """Convolutions beside which the input goes on, through one of its own where sizes change."""

    def __init__(self, in_channel, out_channel, stride, **norm):
        super().__init__()
        self.conv1 = nn.Conv2d(in_channel, out_channel, 3, stride=stride, pad_mode="same", weight_init="he_uniform")
        self.bn1 = nn.BatchNorm2d(out_channel, **norm)
        self.conv2 = nn.Conv2d(out_channel, out_channel, 3, pad_mode="pad", padding=1, weight_init="he_uniform")
        self.bn2 = nn.BatchNorm2d(out_channel, gamma_init="zeros", **norm)
        self.relu = nn.ReLU()
        self.down = None
        if stride != 1:
            self.down = nn.SequentialCell([nn.Conv2d(in_channel, out_channel, 1, stride=stride),
                                           nn.BatchNorm2d(out_channel, **norm)])
        self.add = ops.Add()

    def construct(self, x):
        out = self.bn2(self.conv2(self.relu(self.bn1(self.conv1(x)))))
        return self.relu(self.add(out, x if self.down is None else self.down(x)))


class ResNet(nn.Cell):
    def __init__(self, num_classes=10, **norm):
        super().__init__()
        self.conv1 = nn.Conv2d(3, 8, 3, stride=1, pad_mode="same", weight_init="he_uniform")
        self.bn1 = nn.BatchNorm2d(8, **norm)
        self.relu = ops.ReLU()
        self.maxpool = nn.MaxPool2d(kernel_size=2, stride=2)
        self.layer1 = nn.SequentialCell([Block(8, 8, 1, **norm)])
        self.layer2 = nn.SequentialCell([Block(8, 16, 2, **norm)])
        self.mean = ops.ReduceMean(keep_dims=True)
        self.flatten = nn.Flatten()
        self.end_point = nn.Dense(16, num_classes)

    def construct(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer2(self.layer1(x))
        return self.end_point(self.flatten(self.mean(x, (2, 3))))


class SoftmaxCrossEntropyExpand(nn.Cell):
    """Softmax cross entropy, step by step."""

    def __init__(self, sparse=False):
        super().__init__()
        self.exp, self.log, self.sum = ops.Exp(), ops.Log(), ops.ReduceSum(keep_dims=True)
        self.onehot, self.div, self.sub = ops.OneHot(), ops.RealDiv(), ops.Sub()
        self.on_value, self.off_value = ms.Tensor(1.0, ms.float32), ms.Tensor(0.0, ms.float32)
        self.sum_cross_entropy = ops.ReduceSum(keep_dims=False)
        self.mul, self.mul2 = ops.Mul(), ops.Mul()
        self.mean, self.max = ops.ReduceMean(keep_dims=False), ops.ReduceMax(keep_dims=True)
        self.sparse = sparse
        self.eps = ms.Tensor(1e-24, ms.float32)

    def construct(self, logit, label):
        exp = self.exp(self.sub(logit, self.max(logit, -1)))
        softmax_result = self.div(exp, self.sum(exp, -1))
        if self.sparse:
            label = self.onehot(label, ops.shape(logit)[1], self.on_value, self.off_value)
        loss = self.sum_cross_entropy(self.mul(self.log(softmax_result + self.eps), label), -1)
        return self.mean(self.mul2(ops.scalar_to_array(-1.0), loss), -1)
