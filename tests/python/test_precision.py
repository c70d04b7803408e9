"""Precisions of the command, from Python."""

import numpy
import pytest

import shardwright as sw

draw = numpy.random.RandomState(0)
x, label = draw.randn(16, 8).astype(numpy.float32), draw.randint(0, 4, 16).astype(numpy.int32)
scale = draw.rand(16, 1).astype(numpy.float32)


class Net:
    def __init__(self):
        self.first, self.norm, self.out = sw.nn.Dense(8, 16), sw.nn.LayerNorm(16), sw.nn.Dense(16, 4)

    def __call__(self, x):
        return self.out(sw.ops.relu(self.norm(self.first(x * scale) * 0.5)))


def loss(net, x, label):
    return sw.ops.cross_entropy(net(x), label)


def losses(precision, batch, **options):
    sw.set_seed(3)
    step = sw.train_step(loss, Net(), sw.optim.adam(0.01), precision=precision, **options)
    found = [float(step(batch, label)) for _ in range(6)]
    assert all(p.numpy().dtype == numpy.float32 for p in step.parameters)
    return found


@pytest.mark.parametrize("precision", ["f64", "bf16", "fp16", "products-bf16", "products-fp16", "pure-bf16", "pure-fp16"])
def test_every_precision_of_the_command_trains_default_layers(precision):
    expected = losses("f32", x)
    found = losses(precision, x)
    assert found[-1] < found[0]
    numpy.testing.assert_allclose(found, expected, rtol=1e-4 if precision == "f64" else 0.05)


@pytest.mark.parametrize("devices", [1, 2])
def test_inputs_of_other_types_are_read_in_the_precision(devices):
    torch = pytest.importorskip("torch")
    expected = losses("bf16", x, devices=devices)
    for batch in (sw.Tensor(x), torch.tensor(x), sw.from_dlpack(torch.tensor(x).bfloat16()), x.astype(numpy.float64)):
        assert losses("bf16", batch, devices=devices) == expected


def test_programs_of_two_precisions_hand_parameters_to_each_other():
    net = Net()
    step = sw.train_step(loss, net, sw.optim.sgd(0.1), precision="bf16")
    step(x, label)
    forward = sw.jit(lambda x: net(x))
    short = sw.jit(lambda x: net(x), precision="bf16")
    pure = sw.jit(lambda x: net(x), precision="pure-bf16")
    for other in (short, pure):
        numpy.testing.assert_allclose(other(x).numpy(), forward(x).numpy(), rtol=0.1, atol=0.03)
    step(x, label)
    assert net.out.weight.numpy().dtype == numpy.float32
