"""What becomes of a step around its calls: checkpoints that do not fit, plans of one trace, names of operators."""

import json

import numpy
import pytest

import shardwright as sw
from shardwright import _core

x, label = numpy.ones((8, 4), numpy.float32), numpy.zeros(8, numpy.int32)


class Net:
    def __init__(self, hidden):
        self.dense1, self.dense2 = sw.nn.Dense(4, hidden), sw.nn.Dense(hidden, 3)

    def __call__(self, x):
        return self.dense2(sw.ops.relu(self.dense1(x)))


def loss(net, x, label):
    return sw.ops.cross_entropy(net(x), label)


def step_of(hidden=6):
    return sw.train_step(loss, Net(hidden), sw.optim.sgd(0.1))


def test_a_checkpoint_of_another_model_is_refused_at_every_step(tmp_path):
    trained = step_of()
    losses = [float(trained(x, label)) for _ in range(3)]
    trained.save(str(tmp_path / "run"))
    trained.wait()
    other = step_of(hidden=5)
    other.load(str(tmp_path / "run"))
    for _ in range(2):
        with pytest.raises(ValueError, match="another model"):
            other(x, label)
    with pytest.raises(ValueError, match="has not run"):
        other.explain()
    running = step_of(hidden=5)
    running(x, label)
    with pytest.raises(ValueError, match="another model"):
        running.load(str(tmp_path / "run"))
    assert running.steps_done == 1
    running(x, label)
    again = step_of()
    assert again.load(str(tmp_path / "run")) == 3
    assert float(again(x, label)) < losses[-1] and again.steps_done == 4


def test_a_cluster_says_how_many_devices_there_are():
    plan = sw.plan("three_layer", cluster="a100-80g:8")
    assert json.loads(plan.json) and "8" in plan.table
    assert step_of().plan(x, label).step_seconds > 0
    with pytest.raises(ValueError, match="has 8 devices but --devices says 4"):
        sw.plan("three_layer", cluster="a100-80g:8", devices=4)


def test_a_trace_may_be_planned_twice():
    with _core.Trace() as trace:
        y = _core.call("relu", [trace.input("x", [4, 4], "float32")])
    plans = [_core.PlannedStep(trace, [y], {"devices": "1"}) for _ in range(2)]
    assert plans[0].explain() == plans[1].explain()
    program = _core.Program(trace, [y], {"devices": "1"})
    assert program.run([_core.array_of(-numpy.ones((4, 4), numpy.float32))])[0].numpy().max() == 0


def test_operators_are_called_after_their_modules():
    step = step_of()
    step(x, label)
    names = set(step._last.operators())
    assert {"dense1.matmul", "dense1.add", "relu", "dense2.matmul", "dense2.add"} <= names, names


@pytest.mark.parametrize("wrong, says", [
    (lambda: _core.set_seed("x"), "set_seed\\(\\) takes \\(arg0: .*int.*\\) -> None; it was called with 'x'"),
    (lambda: _core.Parameter.initialized("x"), "initialized\\(\\) takes .*; it was called with 'x'"),
    (lambda: sw.RateSchedule(3), "__init__\\(\\) takes .*; it was called with .*3")])
def test_arguments_of_other_types_are_told_in_a_line(wrong, says):
    with pytest.raises(TypeError, match=says) as told:
        wrong()
    assert "\n" not in str(told.value)


@pytest.mark.parametrize("reduce, is_told", [(sw.ops.mean, False), (sw.ops.sum, True)])
def test_a_loss_that_depends_on_micro_batches_is_told(capsys, reduce, is_told):
    x = numpy.ones((4, 4), numpy.float32)
    for micro_batches in (1, 2):
        w = sw.Parameter(numpy.ones((4, 1), numpy.float32), "w")
        sw.train_step(lambda w, x: reduce(sw.ops.square(x @ w)), w, sw.optim.sgd(0.01), devices=1, micro_batches=micro_batches)(x)
        told = capsys.readouterr().err
        assert ("works over the samples of a micro-batch, so losses differ from those of the whole batch at once" in told) == (
            is_told and micro_batches == 2)


@pytest.mark.parametrize("optimizer,rows", [(sw.optim.sgd(0.5), "sgd_rows"), (sw.optim.adam(0.5), None)])
def test_a_sparse_table_is_updated_by_rows_or_that_is_told(capsys, optimizer, rows):
    table = sw.Parameter(numpy.arange(20, dtype=numpy.float32).reshape(10, 2), name="table")
    table.is_sparse = True
    ids = numpy.array([[1, 3], [3, 9]], numpy.int32)
    step = sw.train_step(lambda table, ids: sw.ops.sum(sw.ops.gather(table, ids)), table, optimizer)
    step(ids)
    told = "table: each step updates the whole table by adam" in capsys.readouterr().err
    assert told == (rows is None)
    assert ("_rows %" in step.lower()) == (rows is not None)
    if rows is not None:
        want = numpy.arange(20, dtype=numpy.float32).reshape(10, 2) - 0.5 * numpy.bincount(ids.reshape(-1), minlength=10)[:, None]
        assert numpy.array_equal(step.params.numpy(), want)
