"""A small convolution net with what it keeps offloaded to the host, and arguments of its own."""

import argparse

import mindspore as ms
from mindspore import nn
from mindspore.communication import init

from digits import create_dataset

parser = argparse.ArgumentParser()
parser.add_argument("--batch_size", type=int, default=32)
parser.add_argument("--memory_offload", default="ON")
args_opt, _ = parser.parse_known_args()

ms.set_context(mode=ms.GRAPH_MODE, memory_offload=args_opt.memory_offload, max_device_memory="30GB")
ms.set_offload_context(offload_config={"offload_path": "./offload/", "auto_offload": True, "offload_cpu_size": "512GB",
                                       "offload_disk_size": "1024GB", "enable_pinned_mem": True, "enable_aio": True})
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel", full_batch=True)
init()
ms.set_seed(1)


class Network(nn.Cell):
    def __init__(self, num_classes=10):
        super().__init__()
        self.layers = nn.SequentialCell(
            nn.Conv2d(1, 8, 3, stride=2, pad_mode="same"), nn.BatchNorm2d(8), nn.ReLU(),
            nn.Conv2d(8, 8, 3, pad_mode="pad", padding=1), nn.BatchNorm2d(8), nn.ReLU())
        self.avg_pool = nn.AdaptiveAvgPool2d(3)
        self.squeezed = nn.AdaptiveAvgPool2d((1, 1))
        self.fc = nn.Dense(8, num_classes)

    def construct(self, x):
        x = self.avg_pool(self.layers(x))
        return self.fc(self.squeezed(x).squeeze(2).squeeze(2))


net = Network()
net.set_train()
net.layers.offload()
optimizer = nn.SGD(net.trainable_params(), 1e-1)
loss_fn = nn.CrossEntropyLoss()


def forward_fn(data, target):
    logits = net(data)
    return loss_fn(logits, target), logits


grad_fn = ms.value_and_grad(forward_fn, None, net.trainable_params(), has_aux=True)
for i, (image, label) in enumerate(create_dataset(args_opt.batch_size)):
    (loss_value, _), grads = grad_fn(image, label)
    optimizer(grads)
    if i % 2 == 0:
        print("step: %s, loss is %s" % (i, loss_value))
