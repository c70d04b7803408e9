"""Functions of `mint` that `shard` splits, by integers and by layouts; sums of what comes out."""

import mindspore as ms
import mindspore.runtime as rt
from mindspore import mint, nn
from mindspore.common.initializer import initializer
from mindspore.communication import init
from mindspore.parallel import Layout
from mindspore.parallel.auto_parallel import AutoParallel

from digits import create_dataset

ms.set_context(mode=ms.GRAPH_MODE)
rt.set_memory(max_size="28GB")
init()
ms.set_seed(1)
devices = ms.get_auto_parallel_context("device_num")
rows = 2 if devices > 1 else 1


class Network(nn.Cell):
    def __init__(self, of_matmul1, of_matmul2):
        super().__init__()
        self.flatten = mint.flatten
        self.fc1_weight = ms.Parameter(initializer("normal", [28 * 28, 64], ms.float32))
        self.fc2_weight = ms.Parameter(initializer("normal", [64, 64], ms.float32))
        self.fc3_weight = ms.Parameter(initializer("normal", [64, 10], ms.float32))
        self.matmul1 = ms.parallel.shard(mint.matmul, in_strategy=of_matmul1)
        self.relu1 = ms.parallel.shard(mint.nn.functional.relu, in_strategy=((rows, 1),))
        self.matmul2 = ms.parallel.shard(mint.matmul, in_strategy=of_matmul2)
        self.relu2 = ms.parallel.shard(mint.nn.functional.relu, in_strategy=((devices, 1),))
        self.matmul3 = mint.matmul

    def construct(self, x):
        x = self.flatten(x, start_dim=1, end_dim=3)
        x = self.relu1(self.matmul1(x, self.fc1_weight))
        x = self.relu2(self.matmul2(x, self.fc2_weight))
        return self.matmul3(x, self.fc3_weight)


layout = Layout((rows, devices // rows), ("dp", "mp"))
line = Layout((devices,), ("tp",))
for strategies in ((((rows, devices // rows), (devices // rows, 1)), ((1, devices), (devices, 1))),
                   ((layout("dp", "mp"), layout("mp", "None")), (line("None", "tp"), line("tp", "None")))):
    net = AutoParallel(Network(*strategies), parallel_mode="semi_auto")
    for i, (image, _) in enumerate(create_dataset(32)):
        logits = net(image)
        if i % 4 == 0:
            print("step: %s, forward_sum is %s" % (i, mint.sum(logits * logits).asnumpy()))
