"""What users get wrong, and what Python expects of any number, array and function."""

import copy
import pickle

import numpy
import pytest

import shardwright as sw

f32 = numpy.float32


def squares(params, x, y):
    return sw.ops.mean(sw.ops.square(x @ params["w"] - y))


def step_of(**options):
    return sw.train_step(squares, {"w": numpy.ones((4, 3), f32)}, sw.optim.sgd(0.1), **options)


def test_arrays_of_other_byte_orders_are_the_same_numbers():
    x = numpy.arange(8).reshape(2, 4)
    for kind in ("f4", "f8", "f2", "i4", "i8"):
        ours, other = sw.Tensor(x.astype("<" + kind)), sw.Tensor(x.astype(">" + kind))
        assert ours.dtype == other.dtype and (other.numpy() == x).all()
    y = numpy.ones((2, 3), f32)
    assert step_of()(x.astype(">f4"), y).item() == step_of()(x.astype(f32), y).item()


def test_one_element_is_a_number():
    assert not sw.Tensor(numpy.zeros(1, f32)) and sw.Tensor(2.5) and float(sw.Tensor(2.5)) == 2.5
    assert sw.Tensor(numpy.array([2**62 + 1])).item() == 2**62 + 1
    assert [10, 20][sw.Tensor(1)] == 20
    with pytest.raises(ValueError, match="no single number"):
        bool(sw.Tensor(numpy.ones(3, f32)))
    with pytest.raises(TypeError, match="no whole number"):
        [10, 20][sw.Tensor(1.0)]
    for index in (1.5, numpy.array([0, 1]), "a"):
        with pytest.raises(TypeError, match="index"):
            sw.Tensor(numpy.ones(3, f32))[index]


def test_tensors_are_copied_and_pickled():
    for dtype in ("float32", "bfloat16", "int64", "bool"):
        x = sw.Tensor(f32([1, 0, 3]), dtype)
        for again in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
            assert again.dtype == dtype and (again.numpy() == x.numpy()).all()
    w = sw.Parameter(numpy.ones((4, 3), f32), "w")
    step = sw.train_step(lambda p, x: sw.ops.mean(x @ p), w, sw.optim.sgd(1.0), devices=2)
    step(numpy.ones((2, 4), f32))
    now = copy.deepcopy(w)
    value = w.numpy().copy()
    step(numpy.ones((2, 4), f32))
    assert now.name == "w" and (now.numpy() == value).all() and (w.numpy() != value).all()


def test_functions_in_traces():
    double = sw.jit(lambda x: x * 2)
    assert sw.jit(lambda x: double(x) + 1)(f32([1, 2])).numpy().tolist() == [3, 5]
    step = step_of()
    with pytest.raises(ValueError, match="cannot be part of a traced function"):
        sw.jit(lambda x: step(x, x))(f32([1]))
    kept = []
    sw.jit(lambda x: [kept.append(x), x * 1][1])(f32([1, 2]))
    with pytest.raises(ValueError, match="a trace that has ended"):
        kept[0].numpy()
    with pytest.raises(ValueError, match="is being traced"):
        sw.jit(lambda x: x if x > 0 else -x)(f32(1))


def test_arrays_from_outside_are_read_at_each_run():
    factor, more = numpy.array(2, f32), numpy.ones(3, f32)
    f = sw.jit(lambda x: x * factor + more)
    assert f(numpy.ones(3, f32)).numpy().tolist() == [3, 3, 3]
    factor[...], more[:] = 5, 7
    assert f(numpy.ones(3, f32)).numpy().tolist() == [12, 12, 12]


def test_a_forked_process_has_no_devices(run_program):
    out = run_program("""
import os, sys, numpy as np, shardwright as sw
def made():
    return sw.train_step(lambda p, x: sw.ops.mean(x @ p), np.ones((4, 4), np.float32), sw.optim.sgd(0.1), devices=2)
x, step = np.ones((4, 4), np.float32), made()
step(x)
child = os.fork()
if child == 0:
    try:
        step(x)
    except ValueError as error:
        print(error)
    print(made()(x).item())
    sys.exit(0)
print(os.waitpid(child, 0)[1], step(x).item() < 1e9, flush=True)
""", timeout=30)
    assert out == ("a forked process cannot use devices that its parent has started; build what runs in the child itself\n4.0\n"
                   "0 True\n")


def test_many_kinds_of_calls_are_told(capsys):
    double = sw.jit(lambda x: x * 2)
    for n in range(1, 34):
        double(numpy.ones(n, f32))
    assert capsys.readouterr().err.count("32 kinds of calls were traced") == 1


@pytest.mark.parametrize("wrong, message", [
    (lambda: step_of()(numpy.ones((0, 4), f32), numpy.ones((0, 3), f32)), r"'x' is f32\[0, 4\]: dims of a program's"),
    (lambda: step_of(micro_batches=0), "micro_batches=0 should be at least 1"),
    (lambda: sw.train_step(squares, {}, "sgd"), "optimizer: 'sgd' should be one of shardwright.optim"),
    (lambda: sw.optim.sgd(float("nan")), "sgd: rate=nan should be a number from 0 on"),
    (lambda: sw.optim.adam(beta1="x"), "adam: beta1='x' should be"),
    (lambda: step_of().set_rate(-1), "sgd: rate=-1 should be"),
    (lambda: sw.data.arrays([1, 2]).shuffle(-1), "shuffle: seed -1 should be a whole number from 0 on"),
    (lambda: sw.RateSchedule("cosine", 0.1, 10)(-1), "step -1: steps count from 0"),
])
def test_what_is_wrong_is_said_in_a_line(wrong, message):
    with pytest.raises((ValueError, TypeError), match=message) as caught:
        wrong()
    assert "\n" not in str(caught.value)


def test_what_files_hold_is_told_in_a_line(tmp_path):
    header = b"{'descr': '<\n\xff2', 'fortran_order': False, 'shape': (200,), }".ljust(117) + b"\n"
    path = tmp_path / "t.npy"
    path.write_bytes(b"\x93NUMPY\x01\x00\x76\x00" + header + bytes(400))
    with pytest.raises(OSError, match="holds '< \ufffd2', which are no numbers") as caught:
        sw.data.tokens(str(path), 8)
    assert "\n" not in str(caught.value)
