"""One network as a command, as a named model, traced from Python and under MindSpore's names: the losses are the same."""

import json
import subprocess

import numpy
import pytest
from mindspore_fixtures import build, settings, virtual_devices  # noqa: F401

import shardwright as sw

steps, batch = 20, 32


@pytest.fixture(scope="module")
def data():
    """Of classes that can be told apart."""
    rng = numpy.random.default_rng(0)
    label = rng.integers(0, 10, (steps, batch)).astype(numpy.int32)
    return (label[..., None] / 10 + rng.random((steps, batch, 784)) / 2).astype(numpy.float32), label


@pytest.fixture(scope="module")
def command(data, tmp_path_factory):
    """Losses of `shardwright train ffn` in a precision, on so many devices."""
    file = str(tmp_path_factory.mktemp("data") / "steps.safetensors")
    sw.save_safetensors(file, {"input": data[0], "label": data[1]})
    done = {}

    def run(precision, devices):
        if (precision, devices) not in done:
            out = subprocess.run([build / "shardwright", "train", "ffn", "--data", file, "--devices", str(devices), "--precision",
                                  precision, "--global-batch", str(batch), "--optimizer", "momentum", "--lr", "0.1", "--json"],
                                 capture_output=True, text=True, check=True).stdout
            lines = [json.loads(line) for line in out.splitlines()]
            done[precision, devices] = [line["loss"] for line in lines if "loss" in line and "step" in line][:steps]
            assert len(done[precision, devices]) == steps
        return done[precision, devices]

    return run


def weights(precision="f32"):
    """With which the named model starts."""
    step = sw.model_step("ffn", sw.optim.momentum(0.1), global_batch=batch, precision=precision)
    return {p.name: p.numpy() for p in step.parameters}


tolerances = {"f64": 1e-9, "f32": 1e-5}


@pytest.mark.parametrize("precision, devices", [("f64", 1), ("f64", 8), ("f32", 8)])
def test_a_named_model_is_the_command(precision, devices, data, command):
    step = sw.model_step("ffn", sw.optim.momentum(0.1), devices=devices, global_batch=batch, precision=precision)
    found = [step(input=x, label=y).item() for x, y in zip(*data)]
    numpy.testing.assert_allclose(found, command(precision, devices), rtol=tolerances[precision])


@pytest.mark.parametrize("precision, devices", [("f64", 1), ("f64", 8), ("f32", 8)])
def test_a_traced_function_is_the_command(precision, devices, data, command):
    def loss(params, x, label):
        x = sw.ops.cast(x, params["dense1.weight"].dtype)
        for i in range(1, 6):
            x = x @ params[f"dense{i}.weight"] + params[f"dense{i}.bias"]
            x = x if i == 5 else sw.ops.relu(x)
        return sw.ops.cross_entropy(x, label)

    params = {name: sw.Parameter(value, name) for name, value in weights(precision).items()}
    step = sw.train_step(loss, params, sw.optim.momentum(0.1), devices=devices)
    found = [step(x, y).item() for x, y in zip(*data)]
    numpy.testing.assert_allclose(found, command(precision, 1), rtol=tolerances[precision])
    assert found[-1] < found[0] - 0.05  # it has learnt something


@pytest.mark.parametrize("devices", [1, 8])
def test_a_program_of_mindspore_is_the_command(devices, data, command, virtual_devices):  # noqa: F811
    import mindspore as ms
    from mindspore import nn

    virtual_devices(devices, full_batch=True)
    net = nn.SequentialCell(*(layer for i, (a, b) in enumerate([(784, 512), (512, 256), (256, 128), (128, 64), (64, 10)])
                              for layer in ([nn.ReLU()] if i else []) + [nn.Dense(a, b)]))
    start = weights()
    for i, dense in enumerate(c for c in net.cells() if isinstance(c, nn.Dense)):
        dense.weight.set_data(ms.Tensor(start[f"dense{i + 1}.weight"].T.copy()))
        dense.bias.set_data(ms.Tensor(start[f"dense{i + 1}.bias"]))
    criterion = nn.CrossEntropyLoss()
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    forward = ms.value_and_grad(lambda x, label: criterion(net(x), label), None, optimizer.parameters)

    @ms.jit
    def step(x, label):
        value, gradients = forward(x, label)
        optimizer(gradients)
        return value

    found = [float(step(ms.Tensor(x), ms.Tensor(y))) for x, y in zip(*data)]
    numpy.testing.assert_allclose(found, command("f32", 1), rtol=tolerances["f32"])
