"""The network of examples/00_first_steps.cpp on eight virtual devices; one split is said, the others are found."""

import sys

import shardwright as sw


class Net:
    def __init__(self):
        self.dense1, self.dense2 = sw.nn.Dense(784, 512), sw.nn.Dense(512, 10)

    def __call__(self, image):
        dense1 = sw.shard(self.dense1, in_split=[(2, 4)], parameters={"dense1.weight": (4, 1)})
        return self.dense2(sw.ops.relu(dense1(sw.ops.flatten(image))))


def loss(net, image, label):
    return sw.ops.cross_entropy(net(image), label)


digits = (sw.data.mnist(sys.argv[1])
          .map(sw.data.rescale(1 / 255), sw.data.normalize([0.1307], [0.3081]), columns="image")
          .map(sw.data.cast("int32"), columns="label").shuffle(seed=1).batch(32))
step = sw.train_step(loss, Net(), sw.optim.momentum(0.05), devices=8)
for number, (image, label) in enumerate(digits):
    value = step(image, label).item()
    if number % 20 == 0:
        print(f"step {number}: loss {value:.3f}")
print(next(line for line in step.explain().table.splitlines() if line.startswith("mesh")))
