"""Training in one call: what happens is told as events, and a run that has ended early goes on from what it has saved.

    python3 examples/python/fit.py FOLDER
"""

import sys

import numpy

import shardwright as sw

folder = sys.argv[1]
generator = numpy.random.default_rng(0)
points = generator.normal(size=(512, 2)).astype(numpy.float32)
inside = (numpy.square(points).sum(1) < 1.5).astype(numpy.int32)  # of a circle
train = sw.data.arrays(point=points[:448], label=inside[:448]).shuffle(1).batch(64)


class Net:
    def __init__(self):
        self.hidden, self.out = sw.nn.Dense(2, 32), sw.nn.Dense(32, 2)

    def __call__(self, x):
        return self.out(sw.ops.relu(self.hidden(x)))


net = Net()
step = sw.train_step(lambda net, point, label: sw.ops.cross_entropy(net(point), label), net, sw.optim.adam(0.02), devices=4)
ask = sw.jit(lambda x: net(x), devices=4)


def share_of_hits(steps):
    scores = ask(points[448:]).numpy()
    return {"loss": 0.0, "accuracy": float((scores.argmax(1) == inside[448:]).mean())}


def tell(event):
    if event["kind"] == "evaluated":
        print(f"behind step {event['step']}: {event['accuracy']:.0%} of held-out points are told right")
        return event["accuracy"] > 0.95  # enough: it ends behind this step, saved


ended = sw.fit(step, train, steps=500, lr_schedule="cosine", warmup="5%", save=folder, evaluate=share_of_hits, eval_every=20,
               on_event=tell)
print(f"ended by {ended.by} after {ended.steps} steps")
again = sw.fit(step, train, steps=ended.steps + 20, save=folder, resume="auto")
print(f"went on from step {again.first} to {again.steps}")
