"""What lies in memory of the host, and runs there: the same numbers, and the plan says where."""

import json

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
from mindspore import Parameter, Tensor, context, nn, ops

_ids = Tensor(np.array([3, 1, 4, 1], np.int32))


class Net(nn.Cell):
    def __init__(self):
        super().__init__()
        self.table = Parameter(Tensor(np.arange(48, dtype=np.float32).reshape(8, 6) / 48), name="table")
        self.gather = ops.Gather()
        self.dense = nn.Dense(6, 2, weight_init="ones")

    def construct(self, ids):
        return self.dense(self.gather(self.table, ids, 0))


@pytest.fixture
def on_host():
    """After it everything is as before."""
    yield
    context._offloaded.clear()
    ms.set_context(device_target="CPU", memory_offload="OFF")


def gradients_and_plan(net):
    function = ms.jit(ms.value_and_grad(lambda ids: net(ids).sum(), None, net.trainable_params()))
    value, gradients = function(_ids)
    planned = function.unit.compile(_ids).planned
    return [value.asnumpy(), *(g.asnumpy() for g in gradients)], json.loads(planned.plan_json()).get("offload", "none")


@pytest.mark.usefixtures("settings", "on_host")
def test_what_is_said_of_the_host_has_an_effect_on_accelerators():
    want, plan = gradients_and_plan(Net())
    assert plan == "none"
    for target, asked in (("CPU", "none"), ("Ascend", "host(gather)")):
        ms.set_context(device_target=target)
        net = Net()
        net.gather.set_device("CPU")
        found, plan = gradients_and_plan(net)
        assert plan == asked
        for a, b in zip(found, want):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("settings", "on_host")
def test_parameters_and_activations_of_the_host():
    want, _ = gradients_and_plan(Net())
    ms.set_context(device_target="Ascend", memory_offload="ON")
    ms.set_offload_context({"offload_param": "cpu"})
    net = Net()
    net.offload()
    found, plan = gradients_and_plan(net)
    assert plan == "parameters,activations"
    for a, b in zip(found, want):
        np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("settings", "on_host")
def test_a_parameter_on_the_host():
    want, _ = gradients_and_plan(Net())
    for target, asked in (("CPU", "none"), ("Ascend", "host(table)")):
        ms.set_context(device_target=target)
        net = Net()
        net.table = Parameter(net.table.value(), name="table", device="CPU")
        assert net.table.clone().device == "CPU"
        found, plan = gradients_and_plan(net)
        assert plan == asked
        for a, b in zip(found, want):
            np.testing.assert_array_equal(a, b)


@pytest.mark.usefixtures("on_host")
def test_wrong_words():
    with pytest.raises(ValueError, match="a parameter's device is 'CPU' or None, not 'GPU'"):
        Parameter(Tensor(np.ones(2, np.float32)), device="GPU")
    with pytest.raises(ValueError, match="offload_param is cpu or disk, not 'gpu'"):
        ms.set_offload_context({"offload_param": "gpu"})
    with pytest.raises(ValueError, match="did you mean 'offload_param'"):
        ms.set_offload_context({"offload_params": "cpu"})
