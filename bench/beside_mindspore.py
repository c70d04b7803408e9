"""Steps of MindSpore programs by Shardwright's package and by MindSpore itself, on one core, in turns.

    python3 bench/beside_mindspore.py [--rounds N] [--build build/release] [--mindspore PYTHON]

784-512-10 and LeNet at batch 32: the step of graph mode, and in PyNative mode a direct call and value_and_grad. Both sides have the
same program, in a process of their own; milliseconds are medians of the rounds, a ratio is the median of the rounds' ratios, ours
by theirs. Needs MindSpore 2.10 (default: ~/.cache/peers/ms/bin/python).
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time

WHAT = ("graph", "direct", "gradients")


def programs():
    """By network and what is measured: a function that does it once."""
    import mindspore as ms
    import numpy as np
    from mindspore import Tensor, nn

    class Mlp(nn.Cell):
        def __init__(self):
            super().__init__()
            self.hidden, self.out, self.relu = nn.Dense(784, 512), nn.Dense(512, 10), nn.ReLU()

        def construct(self, x):
            return self.out(self.relu(self.hidden(x)))

    class LeNet(nn.Cell):
        def __init__(self):
            super().__init__()
            self.conv1, self.conv2 = nn.Conv2d(1, 6, 5, pad_mode="valid"), nn.Conv2d(6, 16, 5, pad_mode="valid")
            self.pool, self.flatten, self.relu = nn.MaxPool2d(2, 2), nn.Flatten(), nn.ReLU()
            self.fc1, self.fc2, self.fc3 = nn.Dense(400, 120), nn.Dense(120, 84), nn.Dense(84, 10)

        def construct(self, x):
            x = self.pool(self.relu(self.conv1(x)))
            x = self.flatten(self.pool(self.relu(self.conv2(x))))
            return self.fc3(self.relu(self.fc2(self.relu(self.fc1(x)))))

    def of(network, shape):
        draws = np.random.default_rng(0)
        x = Tensor(draws.standard_normal(shape).astype(np.float32))
        labels = Tensor(draws.integers(0, 10, shape[0]).astype(np.int32))
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True, reduction="mean")
        optimizer = nn.Momentum(network.trainable_params(), 0.01, 0.9)

        def forward(x, labels):
            return loss(network(x), labels)

        step = nn.TrainOneStepCell(nn.WithLossCell(network, loss), optimizer)
        step.set_train()
        gradients = ms.value_and_grad(forward, None, optimizer.parameters)

        def graph():
            return step(x, labels).asnumpy()

        def direct():
            return network(x).asnumpy()

        def value_and_gradients():
            return gradients(x, labels)[0].asnumpy()

        return dict(zip(WHAT, (graph, direct, value_and_gradients)))

    return {"784-512-10": of(Mlp(), (32, 784)), "LeNet": of(LeNet(), (32, 1, 32, 32))}


def serve():
    """Answers each line `NETWORK WHAT COUNT` by the median milliseconds."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what the package prints is none
    made = programs()
    import mindspore as ms
    for line in sys.stdin:
        network, what, count = line.split()
        ms.set_context(mode=ms.GRAPH_MODE if what == "graph" else ms.PYNATIVE_MODE)
        once, taken = made[network][what], []
        for i in range(int(count) + 3):
            begin = time.perf_counter()
            once()
            taken += [time.perf_counter() - begin] if i > 2 else []
        print(statistics.median(taken) * 1e3, file=answers, flush=True)


def started(python, environment, folder):
    return subprocess.Popen([python, os.path.abspath(__file__), "serve"], text=True, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
                            stderr=subprocess.DEVNULL, cwd=folder, env={**os.environ, "OMP_NUM_THREADS": "1", **environment})


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("--rounds", type=int, default=7)
    p.add_argument("--build", default=os.path.join(os.path.dirname(os.path.abspath(__file__)), "../build/release"))
    p.add_argument("--mindspore", default=os.path.expanduser("~/.cache/peers/ms/bin/python"), metavar="PYTHON")
    options = p.parse_args()
    if not os.path.exists(options.mindspore):
        sys.exit(f"beside_mindspore.py: no MindSpore in {options.mindspore}")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    package = os.path.join(os.path.abspath(options.build), "python")
    paths = os.pathsep.join([package, os.path.join(package, "shardwright", "_compat")])
    with tempfile.TemporaryDirectory() as folder:  # MindSpore writes where it runs
        sides = {"ours": started("/usr/bin/python3", {"PYTHONPATH": paths}, folder), "theirs": started(options.mindspore, {}, folder)}
        taken = {}
        for _ in range(options.rounds):
            for network in ("784-512-10", "LeNet"):
                for what in WHAT:
                    for side, process in sides.items():
                        print(network, what, 20, file=process.stdin, flush=True)
                        taken.setdefault((network, what, side), []).append(json.loads(process.stdout.readline()))
        for process in sides.values():
            process.stdin.close()
            process.wait()
    for network in ("784-512-10", "LeNet"):
        for what in WHAT:
            ours, theirs = taken[network, what, "ours"], taken[network, what, "theirs"]
            ratios = sorted(a / b for a, b in zip(ours, theirs))
            print(f"| {network:10} | {what:9} | {statistics.median(ours):8.2f} ms | {statistics.median(theirs):8.2f} ms "
                  f"| {statistics.median(ratios):.2f} ({ratios[len(ratios) // 4]:.2f}-{ratios[-1 - len(ratios) // 4]:.2f}) |")


if __name__ == "__main__":
    serve() if sys.argv[1:] == ["serve"] else main()
