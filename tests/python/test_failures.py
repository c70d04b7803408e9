"""A batch that cannot be computed: one line, and what training has made so far goes on."""

import re

import numpy
import pytest

import shardwright as sw
from shardwright import _core


class Net:
    def __init__(self):
        random = numpy.random.default_rng(0)
        self.table = sw.Parameter(random.random((6, 8), numpy.float32), "table")
        self.weight = sw.Parameter(random.random((8, 5), numpy.float32), "weight")

    def loss(self, tokens, label):
        return sw.ops.cross_entropy(sw.ops.call("gather", self.table, tokens) @ self.weight, label)


def losses(bad, devices=1, **options):
    """Three steps, `bad` ones, and three more."""
    net = Net()
    step = sw.train_step(lambda net, tokens, label: sw.ops.mean(net.loss(tokens, label)), net, sw.optim.adam(0.01),
                         devices=devices, **options)
    random = numpy.random.default_rng(1)
    out = []
    for i in range(6):
        tokens, label = random.integers(0, 6, 8).astype(numpy.int32), random.integers(0, 5, 8).astype(numpy.int32)
        if i == 3:
            bad(step, tokens, label)
        out.append(step(tokens, label).item())
    return out


def changed(array, place, value):
    out = array.copy()
    out[place] = value
    return out


def bad_label(step, tokens, label):
    before = step.parameters[0].numpy().copy()
    with pytest.raises(ValueError, match="label of row 3 is 9 but there are 5 classes: 0 to 4"):
        step(tokens, changed(label, 3, 9))
    assert (step.parameters[0].numpy() == before).all()


def bad_token(step, tokens, label):
    for _ in range(2):
        with pytest.raises(ValueError, match=r"gather: the index at \[7\] is -1 but there are 6 rows: 0 to 5"):
            step(changed(tokens, 7, -1), label)


def other_rate(step, tokens, label):
    step.set_rate(0.5)
    bad_label(step, tokens, label)
    step.set_rate(0.01)


@pytest.mark.parametrize("options", [{}, {"precision": "bf16"}, {"devices": 2, "parallel": "data_parallel"},
                                     {"devices": 2, "parallel": "data_parallel", "optimizer_parallel": "3"}])
@pytest.mark.parametrize("bad", [bad_label, bad_token, other_rate])
def test_a_bad_batch_changes_nothing(bad, options):
    if options.get("parallel") and bad is not bad_token:
        bad = bad_label
    assert losses(bad, **options) == losses(lambda *_: None, **options)


@pytest.mark.parametrize("options", [{}, {"devices": 2, "stages": 2}])
def test_nor_does_one_in_a_later_micro_batch(options):
    def bad(step, tokens, label):
        with pytest.raises(ValueError, match="micro-batch 1: the label of row 3 is 9 but there are 5 classes"):
            step(tokens, changed(label, 7, 9))

    assert losses(bad, micro_batches=2, **options) == losses(lambda *_: None, micro_batches=2, **options)


@pytest.mark.parametrize("micro_batches", [1, 2])
def test_nor_are_running_statistics(micro_batches):
    def trained(fails):
        step = sw.model_step("resnet18:image=8,width=4,batch=8,classes=5", sw.optim.adam(0.01), devices=1,
                             **{"micro_batches": micro_batches} if micro_batches > 1 else {})
        random = numpy.random.default_rng(1)
        for i in range(3):
            image, label = random.random((8, 3, 8, 8), numpy.float32), random.integers(0, 5, 8).astype(numpy.int32)
            if fails and i == 1:
                with pytest.raises(ValueError, match="is 9 but there are 5 classes"):
                    step(input=2 * image, label=changed(label, 7, 9))
            step(input=image, label=label)
        return {name: leaf.numpy().tobytes() for name, leaf in step._store.items().items()}

    assert trained(True) == trained(False)


def test_nor_what_a_called_back_function_raises():
    fails = []

    def looked_at(y):
        if fails:
            raise KeyError("no such thing")
        return y

    w = sw.Parameter(numpy.ones((3, 2), numpy.float32), "w")
    step = sw.train_step(lambda w, x: sw.ops.mean(sw.ops.square(_core.call_back(looked_at, lambda g: g, x @ w))), w,
                         sw.optim.momentum(0.1), devices=1)
    x = numpy.ones((2, 3), numpy.float32)
    out = [step(x).item() for _ in range(2)]
    fails.append(1)
    with pytest.raises(ValueError, match="no such thing"):
        step(x)
    fails.clear()
    assert step(x).item() < out[1] < out[0]


PROCESSES = """
import sys, numpy as np, shardwright as sw
from shardwright import _core
random = np.random.default_rng(0)
table, weight = sw.Parameter(random.random((6, 8), np.float32), "table"), sw.Parameter(random.random((8, 5), np.float32), "weight")
step = sw.train_step(lambda p, tokens, label: sw.ops.mean(sw.ops.cross_entropy(sw.ops.call("gather", p[0], tokens) @ p[1], label)),
                     [table, weight], sw.optim.adam(0.01), devices=_core.rank_count(), precision=sys.argv[2],
                     **dict(stages=2, micro_batches=2) if _core.rank_count() == 4 else
                     dict(parallel="data_parallel", optimizer_parallel="3"))
for i in range(6):
    tokens, label = random.integers(0, 6, 8).astype(np.int32), random.integers(0, 5, 8).astype(np.int32)
    if i % 2 and sys.argv[1] == "bad":
        wrong = label.copy()
        wrong[6] = 9
        try:
            step(tokens, wrong)
        except (ValueError, ConnectionError) as error:
            print(type(error).__name__, error, file=sys.stderr)
    print(step(tokens, label).item())
"""


@pytest.mark.parametrize("precision, ranks", [("f32", 2), ("bf16", 2), ("f32", 4)])
def test_processes_go_on_behind_bad_batches(run_program, precision, ranks):
    good = run_program(PROCESSES, "good", precision, ranks=ranks)
    assert run_program(PROCESSES, "bad", precision, ranks=ranks, timeout=60) == good
    assert len(good.splitlines()) == 6 * ranks


def test_processes_end_where_nobody_catches_it(run_program):
    done = run_program(re.sub(r"try:\n            (.*)\n.*\n.*\n", r"\1\n", PROCESSES), "bad", "f32", ranks=2, status=1, timeout=60)
    assert "the label of row 6 is 9 but there are 5 classes: 0 to 4" in done.stderr
