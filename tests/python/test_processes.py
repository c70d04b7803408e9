"""Programs as several processes: what one of them looks at, what some of them say to each other, who feeds what."""

import re

import numpy
import pytest
import torch

import shardwright as sw
from shardwright import _core


def lines_of(run_program, text, ranks):
    return sorted(run_program("import numpy as np\nimport shardwright as sw\nfrom shardwright import _core, collectives\n"
                              "rank, ranks = _core.own_rank(), _core.rank_count()\n" + text, ranks=ranks).splitlines())


def test_what_one_process_looks_at_asks_no_other(run_program):
    # Level 3 cuts the parameter into the rows of four processes.
    out = lines_of(run_program, """
w = _core.Parameter(np.arange(4 * 8192, dtype=np.float32).reshape(8192, 4) / np.float32(65536), "w")
b = _core.Parameter(np.zeros(4, np.float32), "b")
step = sw.train_step(lambda p, x: sw.ops.mean(sw.ops.square(x @ p["w"] + p["b"])), {"w": w, "b": b}, sw.optim.sgd(0.1),
                     devices=4, parallel="data_parallel", optimizer_parallel="3")
step(np.ones((8, 8192), np.float32))
if rank == 1:
    part, offset = w.own()
    print("1 part", part.shape, offset)
    try:
        w.numpy()
    except ValueError as error:
        print("2", error)
step(np.ones((8, 8192), np.float32))
whole = collectives.gather(w).numpy()
part, offset = w.own()
assert (whole[offset[0]:offset[0] + part.shape[0]] == part.numpy()).all()
other = sw.jit(lambda p: p["w"] * 1.0, devices=4)({"w": w})
assert (other.numpy() == whole).all()
print("3 equal")
""", 4)
    assert out == ["1 part (2048, 4) [2048, 0]",
                   "2 this process has [2048:4096, 0:4] of 'w' f32[8192, 4]: collectives.gather(), which all processes call, "
                   "brings all of it", *["3 equal"] * 4]


def test_a_program_takes_what_its_process_holds_already(run_program):
    # Both programs cut the parameter in the same way: who is late keeps nobody waiting.
    out = lines_of(run_program, """
import time
w = _core.Parameter(np.arange(4 * 8192, dtype=np.float32).reshape(8192, 4) / np.float32(65536), "w")
step = sw.train_step(lambda p, x: sw.ops.mean(sw.ops.square(x @ p)), w, sw.optim.sgd(0.1),
                     devices=4, parallel="data_parallel", optimizer_parallel="3")
for rows in (8, 16, 8):
    step(np.ones((rows, 8192), np.float32))
whole = collectives.gather(w).numpy()
_, other = (found.program for found in step._programs._made.values())
collectives.barrier()
begin = time.monotonic()
if rank == 1:
    time.sleep(1)
other.refresh()
print("waits" if rank != 1 and time.monotonic() - begin > 0.5 else "goes on")
part, offset = other.own("w")
assert (part.numpy() == whole[offset[0]:offset[0] + part.shape[0]]).all() and part.shape[0] == 2048
collectives.barrier()
assert (sw.jit(lambda p: p * 1.0, devices=4)(w).numpy() == whole).all()
""", 4)
    assert out == ["goes on"] * 4


LEAVES = """
import sys, time, numpy as np, shardwright as sw
from shardwright import _core
step = sw.train_step(lambda w, x: sw.ops.mean(x @ w), sw.Parameter(np.ones((4, 4), np.float32), "w"), sw.optim.sgd(0.1), devices=2)
for i in range(4):
    if i == 2 and _core.own_rank() == 1 and "early" in sys.argv:
        sys.exit(0)
    step(np.ones((4, 4), np.float32))
if _core.own_rank() == 0:
    time.sleep(0.5)
print("done")
"""


def test_who_ends_early_ends_all_that_would_wait(run_program):
    assert run_program(LEAVES, ranks=2) == "done\ndone\n"
    done = run_program(LEAVES, "early", ranks=2, status=1, timeout=30)
    assert "rank 1 has ended its program, but rank 0 goes on" in done.stderr


@pytest.mark.parametrize("what, message", [
    ("x = x.astype(np.int64)", r"rank 1 starts a program of x i64\[8, 8\]"),
    ("collectives.gather(w)", r"rank [0123] .*gathers 'w' of a program of x f32|gathers 'w' of a program .*but rank"),
    ("step.save('saved'); step.wait()", "makes ready to save a program of x f32"),
    ("collectives.all_reduce(np.ones(3, np.float32))", r"but rank [0123] (runs at rate 0.1|starts) a program of"),
])
def test_who_does_something_else_is_told(run_program, what, message):
    done = run_program(f"""
import numpy as np, shardwright as sw
from shardwright import _core, collectives
w = _core.Parameter(np.ones((8, 8), np.float32), "w")
step = sw.train_step(lambda w, x: sw.ops.mean(x @ w), w, sw.optim.sgd(0.1), devices=4, parallel="data_parallel",
                     optimizer_parallel="3")
x = np.ones((8, 8), np.float32)
for i in range(6):
    if i == 3 and _core.own_rank() == 1:
        {what}
    step(x)
""", ranks=4, status=1, timeout=60)
    assert re.search(message, done.stderr) and "all processes do the same in the same order" in done.stderr


def test_groups_talk_among_themselves(run_program):
    out = lines_of(run_program, """
group = [rank % 2, rank % 2 + 2]
x = np.float32([rank, 10 * rank])
print(rank, collectives.all_reduce(x, group=group).numpy().tolist(), collectives.all_gather(x, group=group).shape,
      collectives.broadcast(x, root=group[1], group=group).numpy().tolist(), collectives.all_reduce(x, "max").numpy().tolist())
for wrong in ([rank, 7], [(rank + 1) % 4], [2, 0]):
    try:
        collectives.barrier(wrong)
    except ValueError as error:
        print(rank, error) if rank == 3 else None
""", 4)
    sums = {0: [2.0, 20.0], 1: [4.0, 40.0]}
    assert [line for line in out if "(4,)" in line] == [
        f"{r} {sums[r % 2]} (4,) {[float(r % 2 + 2), 10.0 * (r % 2 + 2)]} [3.0, 30.0]" for r in range(4)]
    assert [line for line in out if "(4,)" not in line] == [
        "3 a group is ascending ranks below 4, not [2, 0]", "3 a group is ascending ranks below 4, not [3, 7]",
        "3 rank 3 is not in the group [0]"]


def test_each_process_feeds_its_box(run_program):
    # Ranks 0 and 2 have the left half: the axis of the replicas comes first.
    out = lines_of(run_program, """
import json
with open(f"split{rank}.json", "w") as file:
    json.dump({"dataset": {"in": [["None", "half"]], "device_matrix": [2, 2], "names": ["copy", "half"]}}, file)
image = np.arange(6 * 8, dtype=np.float32).reshape(6, 8)
with _core.Trace() as trace:
    x = trace.input("x", [6, 8], "float32")
    result = sw.ops.sum(sw.ops.square(x), 1)
program = _core.Program(trace, [result], {"devices": "4", "annotate": f"split{rank}.json"})
half = rank % 2 * 4
print(program.run_local([sw.Tensor(image[:, half:half + 4])], [[1, 2]])[0].numpy().tolist() == (image ** 2).sum(1).tolist())
try:
    program.run_local([sw.Tensor(image)], [[3, 1]])
except ValueError as error:
    print(error)
""", 4)
    assert out == ["True"] * 4 + ["f32[6, 8] of each process is cut [3, 1], but there are 4 processes, which should be a "
                                  "multiple of the parts"] * 4


def test_a_function_is_called_back_with_its_gradient():
    w = _core.Parameter(numpy.random.default_rng(0).random((3, 2), numpy.float32), "w")
    start, x = w.numpy().copy(), numpy.float32([[1, 2, 3], [4, 5, 6]])
    seen = []

    def twice(y):
        seen.append(y.shape)
        return sw.ops.concat([y, y], 0)

    def loss(w, x):
        return sw.ops.mean(sw.ops.square(_core.call_back(twice, lambda g: g[:2] + g[2:], x @ w, shape=[4, 2])))

    step = sw.train_step(loss, w, sw.optim.sgd(0.1), devices=1)
    found = [step(x).item() for _ in range(2)]
    reference = torch.tensor(start, requires_grad=True)
    y = torch.from_numpy(x) @ reference
    expected = (torch.cat([y, y]) ** 2).mean()
    expected.backward()
    assert found[0] == pytest.approx(expected.item(), rel=1e-6)
    assert seen == [(2, 2)] * 2
    with torch.no_grad():
        y = torch.from_numpy(x) @ (reference - 0.1 * reference.grad)
    assert found[1] == pytest.approx((y ** 2).mean().item(), rel=1e-5)
    with pytest.raises(ValueError, match="runs on one device"):
        sw.train_step(loss, w, sw.optim.sgd(0.1), devices=2)(x)


def test_what_a_called_back_function_raises_ends_the_step():
    def fails(y):
        raise KeyError("no such thing")

    for function, message in ((fails, "no such thing"), (lambda y: y[:1], r"returned f32\[1, 2\] and not f32\[2, 2\]")):
        program = sw.jit(lambda x, f=function: _core.call_back(f, f, x * 2.0), devices=1)
        with pytest.raises(ValueError, match=message):
            program(numpy.ones((2, 2), numpy.float32))


def test_views_keep_what_they_have_seen():
    w = _core.Parameter(numpy.ones((256, 4), numpy.float32), "w")
    step = sw.train_step(lambda w, x: sw.ops.mean(sw.ops.square(x @ w)), w, sw.optim.sgd(0.1), devices=1)
    views = [w.numpy(), numpy.asarray(w), memoryview(w)]
    for _ in range(3):
        step(numpy.ones((2, 256), numpy.float32))
    for view in views:
        assert (numpy.asarray(view) == 1).all()
    assert not (w.numpy() == 1).any()
    with pytest.raises(BufferError, match="bfloat16"):
        memoryview(sw.Tensor([1.0], "bfloat16"))


TOLD = """
import sys, numpy as np, shardwright as sw
from shardwright import _core
what, rank = sys.argv[1], _core.own_rank()
odd = rank == _core.rank_count() - 1
start = np.random.default_rng(5 if what != "weights" else rank).random((8, 8), np.float32)
w = sw.Parameter(start, "w")
factor = sw.Tensor(np.full((8, 8), 3 if what == "constant" and odd else 2, np.float32))
number = 0.5 if what == "number" and odd else 0.25
if what == "seed":
    sw.set_seed(rank + 1)
    w = _core.Parameter.initialized([8, 8], "uniform", 0.5)
step = sw.train_step(lambda w, x: sw.ops.mean(sw.ops.square((x * factor * number) @ w)), w,
                     sw.optim.sgd(0.2 if what == "rate" and odd else 0.1), devices=_core.rank_count(),
                     parallel="data_parallel")
for i in range(4):
    if i == 2 and odd:
        if what == "set_rate":
            step.set_rate(0.5)
        if what == "value":
            w.set(np.ones((8, 8), np.float32))
        if what == "leaves":
            break
    step(np.ones((8, 8), np.float32))
print("trained")
"""


@pytest.mark.parametrize("what, message", [
    ("weights", r"rank 1 was told 'w' = \[0\.\d+, .*\], rank 0 'w' = \[0\.\d+, .*\]"),
    ("constant", r"rank 1 was told 'captured0' = \[3, 3, 3, \.\.\.\], rank 0 'captured0' = \[2, 2, 2, \.\.\.\]"),
    ("number", r"rank 1 has another program than rank 0: `.*0\.5.*`, there `.*0\.25.*`"),
    ("rate", "rank 1 has another program than rank 0: `.*rate.*value=0.2.*`, there `.*rate.*value=0.1.*`"),
    ("seed", "rank 1 was told seed 2, rank 0 seed 1"),
    ("set_rate", r"rank [01] runs at rate 0\.\d a program of .*, but rank [01] runs at rate 0\.\d a program"),
    ("value", "rank 1 sets the value of 'w' of a program"),
    ("leaves", "rank 1 has ended its program, but rank 0 goes on"),
])
def test_who_was_told_something_else_is_told(run_program, what, message):
    done = run_program(TOLD, what, ranks=2, status=1, timeout=60)
    assert re.search(message, done.stderr)
    assert "trained" not in done.stdout or what == "leaves"


def test_who_was_told_the_same_trains(run_program):
    assert run_program(TOLD, "same", ranks=4) == "trained\n" * 4
