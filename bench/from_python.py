"""What Python adds: an operator called at once, a step, tracing, data. Medians of rounds in turns.

    PYTHONPATH=build/release/python /usr/bin/python3 bench/from_python.py [FOLDER of the build]
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy

import shardwright as sw
from shardwright import _core
from shardwright._tree import name_parameters

build = sys.argv[1] if len(sys.argv) > 1 else "build/release"
rounds = 5


def seconds(function, times):
    start = time.perf_counter()
    for _ in range(times):
        function()
    return (time.perf_counter() - start) / times


def show(what, values, unit, scale):
    print(f"{what:48} {statistics.median(values) * scale:9.2f} {unit}   ({min(values) * scale:.2f} to {max(values) * scale:.2f})")


def eager():
    a, b = sw.Tensor(numpy.arange(16, dtype=numpy.float32)), sw.Tensor(numpy.ones(16, numpy.float32))
    show("add of two tensors of 16 floats", [seconds(lambda: a + b, 20000) for _ in range(rounds)], "us", 1e6)


def command_step():
    """The command's own median, of a run of 400 steps."""
    done = subprocess.run([f"{build}/shardwright", "train", "ffn", "--global-batch", "32", "--steps", "400", "--json", "--optimizer",
                           "momentum", "--log-every", "400"], capture_output=True, text=True, check=True)
    return json.loads(done.stdout.splitlines()[-1])["summary"]["median_step_seconds"]


def steps():
    rng = numpy.random.default_rng(0)
    x, y = rng.random((32, 784), numpy.float32), rng.integers(0, 10, 32).astype(numpy.int32)
    model = sw.model_step("ffn", sw.optim.momentum(0.01), global_batch=32)
    params = {p.name: sw.Parameter(p.numpy(), p.name) for p in model.parameters}

    def loss(params, x, label):
        for i in range(1, 6):
            x = x @ params[f"dense{i}.weight"] + params[f"dense{i}.bias"]
            x = x if i == 5 else sw.ops.relu(x)
        return sw.ops.cross_entropy(x, label)

    traced = sw.train_step(loss, params, sw.optim.momentum(0.01))
    x, y = sw.Tensor(x), sw.Tensor(y)

    def median_of(function):
        return statistics.median(seconds(function, 1) for _ in range(400))

    named, own, command = [], [], []
    for _ in range(rounds):
        command.append(command_step())
        named.append(median_of(lambda: model(input=x, label=y)))
        own.append(median_of(lambda: traced(x, y)))
    show("step of ffn, batch 32: the command", command, "us", 1e6)
    show("the same from Python, by name", named, "us", 1e6)
    show("the same from Python, traced", own, "us", 1e6)
    extra = [b - a for a, b in zip(command, own)]
    show("traced beyond the command", extra, "us", 1e6)


class Block:
    def __init__(self, inputs, width, stride):
        sizes = [(inputs, width, 1, 1), (width, width, 3, stride), (width, 4 * width, 1, 1)]
        self.layers = [(sw.nn.Conv2d(a, b, k, stride=s, padding=k // 2), sw.nn.BatchNorm2d(b)) for a, b, k, s in sizes]
        self.short = None
        if stride > 1 or inputs != 4 * width:
            self.short = sw.nn.Conv2d(inputs, 4 * width, 1, stride=stride), sw.nn.BatchNorm2d(4 * width)

    def __call__(self, x):
        y = x
        for i, (conv, norm) in enumerate(self.layers):
            y = norm(conv(y)) if i == 2 else sw.ops.relu(norm(conv(y)))
        return sw.ops.relu(y + (x if self.short is None else self.short[1](self.short[0](x))))


class ResNet50:
    def __init__(self):
        self.first, self.norm = sw.nn.Conv2d(3, 64, 7, stride=2, padding=3), sw.nn.BatchNorm2d(64)
        self.blocks, inputs = [], 64
        for width, count, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
            for i in range(count):
                self.blocks.append(Block(inputs, width, stride if i == 0 else 1))
                inputs = 4 * width
        self.out = sw.nn.Dense(2048, 1000)

    def __call__(self, x):
        x = sw.ops.max_pool2d(sw.ops.relu(self.norm(self.first(x))), 3, 2, 1)
        for block in self.blocks:
            x = block(x)
        return self.out(sw.ops.mean(x, (2, 3)))


def tracing():
    net = ResNet50()
    name_parameters(net)

    def trace():
        with _core.Trace(training=True) as t:
            sw.ops.cross_entropy(net(t.input("x", [32, 3, 224, 224], "float32")), t.input("y", [32], "int32"))

    show("tracing a ResNet-50", [seconds(trace, 5) for _ in range(rounds)], "ms", 1e3)


def data(folder):
    sw.draw_digits(folder, train=8192, test=64)
    ours = (sw.data.mnist(folder).map(sw.data.rescale(1 / 255), sw.data.normalize([0.1307], [0.3081]), columns="image")
            .shuffle(seed=1).batch(32))
    whole = next(iter(sw.data.mnist(folder).batch(8192)))
    images, labels = (t.numpy() for t in whole)
    rng = numpy.random.default_rng(0)

    def by_numpy():
        order = rng.permutation(len(images))
        for i in range(0, len(order), 32):
            rows = images[order[i:i + 32]].astype(numpy.float32)
            sw.Tensor((rows / 255 - 0.1307) / 0.3081), sw.Tensor(labels[order[i:i + 32]])

    step = sw.train_step(lambda p, x, y: sw.ops.cross_entropy(sw.ops.flatten(x) @ p["w"], sw.ops.cast(y, "int32")),
                         {"w": numpy.zeros((784, 10), numpy.float32)}, sw.optim.sgd(0.01))
    batches = list(ours)

    def read():
        for _ in ours:
            pass

    def train(rows):
        for image, label in rows:
            step(image, label)

    times = {"numpy": [], "ours": [], "steps": [], "both": []}
    train(batches)
    for _ in range(rounds):
        times["numpy"].append(seconds(by_numpy, 1))
        times["ours"].append(seconds(read, 1))
        times["steps"].append(seconds(lambda: train(batches), 1))
        times["both"].append(seconds(lambda: train(ours), 1))
    show("8192 digits in batches of 32: numpy", times["numpy"], "ms", 1e3)
    show("the same by shardwright.data", times["ours"], "ms", 1e3)
    show("256 small steps on batches that are there", times["steps"], "ms", 1e3)
    show("the same steps on shardwright.data", times["both"], "ms", 1e3)


eager()
steps()
tracing()
with tempfile.TemporaryDirectory() as scratch:
    data(scratch)
