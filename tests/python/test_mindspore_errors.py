"""What programs of MindSpore's names are told that are wrong, and several networks in one process."""

import os
import subprocess
import sys

import numpy as np
import pytest
from mindspore_fixtures import environment, settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.usefixtures("settings")


def ones(*shape):
    return Tensor(np.ones(shape), ms.float32)


def split(strategy):
    net = nn.Dense(10, 6)
    net.matmul.shard(strategy)
    return net


@pytest.mark.parametrize("strategy, message", [
    (((1, 1), (4, 1)), "matmul: dim 0 of input 1 has size 6 and cannot be split evenly into 4"),
    (((1, 1, 1), (1, 1)), "matmul: input 0 has 2 dims but its strategy .1, 1, 1. has 3"),
    (((1, 1),), "matmul: in_strategy has 1 entries, but there are 2 inputs"),
    (((4, 2), (1, 2)), "needs 8 devices")])
def test_strategies_that_do_not_fit(strategy, message, virtual_devices):
    virtual_devices(4, full_batch=True)
    with pytest.raises(ValueError, match=message):
        split(strategy)(ones(8, 10))


def test_one_process_cannot_feed_boxes_of_several_ranks(virtual_devices):
    virtual_devices(4, dataset_strategy=((1, 4), (1,)))
    with pytest.raises(RuntimeError, match="a dataset_strategy of splits (.|\n)*mpirun -n 4"):
        ms.jit(lambda x, y: x)(ones(2, 4), ones(2))


@pytest.mark.parametrize("call, error, message", [
    (lambda: nn.CrossEntropyLoss()(ones(4, 3), Tensor([0, 1, 2, 3], ms.int32)), ValueError,
     "label of row 3 is 3 but there are 3 classes"),
    (lambda: nn.CrossEntropyLoss()(ones(4, 3), Tensor([0, 1], ms.int32)), ValueError, r"need labels of shape \[4\]"),
    (lambda: ops.Gather()(ones(4, 3), ones(2), 0), ValueError, "neither i32 nor i64"),
    (lambda: nn.Dense(10, 6)(ones(8, 11)), ValueError, "dim k is 11 in operand 0 but 10"),
    (lambda: nn.Dense(10, 6)(np.ones((8, 10))), TypeError, r"inputs\.x is a numpy array of shape \(8, 10\)"),
    (lambda: nn.Dense(10, 6)(), TypeError, "required positional argument"),
    (lambda: ms.grad(lambda x: x.sum())(Tensor([1, 2], ms.int32)), ValueError, "should be a floating scalar"),
    (lambda: ms.grad(lambda x: None)(ones(2)), TypeError, "should return a tensor, not None"),
    (lambda: ms.Model("net"), TypeError, "Model takes a Cell"),
    (lambda: ms.Model(nn.Dense(1, 1)).train(1, [(ones(1, 1), ones(1, 1))]), TypeError, "takes a data set"),
    (lambda: nn.SGD([], 0.1), ValueError, "needs parameters"),
    (lambda: Tensor([1], "float33"), TypeError, "float33"),
    (lambda: nn.Cell()(ones(2)), AttributeError, "no construct")])
def test_wrong_types_and_shapes(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_names_that_are_not_there_end_the_program(tmp_path):
    program = tmp_path / "program.py"
    for text, told in (("from mindspore import Tensors", "Tensors"), ("from mindspore import nn\nnn.Dens(1, 2)", "Dense"),
                       ("import mindspore.ops as ops\nops.MatMull()", "MatMul")):
        program.write_text(text)
        done = subprocess.run([sys.executable, program], env={**os.environ, **environment}, capture_output=True, text=True,
                              timeout=60)
        assert done.returncode == 1 and told in done.stderr.splitlines()[-1]


def test_a_folder_of_data_that_is_not_there(tmp_path):
    for make in (lambda: ds.MnistDataset(str(tmp_path / "none")), lambda: ds.MnistDataset(os.getenv("NO_SUCH_PATH"))):
        with pytest.raises(ValueError, match="shardwright data digits --out"):
            make()


def train(net, steps=2):
    step = nn.TrainOneStepCell(nn.WithLossCell(net, nn.MSELoss()), nn.Momentum(net.trainable_params(), 0.1, 0.9))
    return [step(ones(8, 4), ones(8, 4) * 0.5).item() for _ in range(steps)]


@pytest.mark.parametrize("devices", [1, 4])
def test_two_networks_of_the_same_names(devices, virtual_devices):
    virtual_devices(devices, full_batch=True)
    first, second = nn.Dense(4, 4, weight_init="ones"), nn.Dense(4, 4, weight_init="zeros")
    expected = train(nn.Dense(4, 4, weight_init="zeros"))
    train(first)
    before = first.weight.asnumpy()
    assert train(second) == expected
    assert (first.weight.asnumpy() == before).all()
    assert list(first.parameters_dict()) == list(second.parameters_dict())


@pytest.mark.parametrize("devices", [1, 4])
def test_a_parameter_in_two_networks_is_one(devices, virtual_devices):
    virtual_devices(devices, full_batch=True)
    backbone = nn.Dense(4, 4)

    class Around(nn.Cell):
        def __init__(self, factor):
            super().__init__()
            self.backbone, self.factor = backbone, factor

        def construct(self, x):
            return self.backbone(x) * self.factor

    one, two = Around(1.0), Around(2.0)
    names = [p.name for p in two.trainable_params()]
    assert [id(p) for p in one.trainable_params()] == [id(p) for p in two.trainable_params()]
    for net in (one, two, one):
        train(net)
        expected = np.ones((8, 4)) @ backbone.weight.asnumpy().T + backbone.bias.asnumpy()
        np.testing.assert_allclose(one(ones(8, 4)).asnumpy(), expected, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(two(ones(8, 4)).asnumpy(), 2 * expected, rtol=1e-5, atol=1e-6)
    assert [p.name for p in two.trainable_params()] == names


def test_a_parameter_of_two_names_in_one_network():
    shared = Parameter(Tensor([2.0]), name="shared")

    class Twice(nn.Cell):
        def __init__(self):
            super().__init__()
            self.a = self.b = shared

        def construct(self, x):
            return x * self.a + self.b

    net = Twice()
    assert len(net.trainable_params()) == 1
    assert ms.grad(net, None, net.trainable_params())(Tensor([3.0]))[0].asnumpy().tolist() == [4.0]
