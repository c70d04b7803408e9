"""Networks that compute in f16, and losses that are scaled."""

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, Tensor, nn, ops
from mindspore._compile import last_program
from mindspore.amp import auto_mixed_precision
from mindspore.parallel.auto_parallel import AutoParallel

pytestmark = pytest.mark.usefixtures("settings")
draw = np.random.RandomState(0)
x, y = draw.randn(32, 1, 8, 8).astype(np.float32), draw.randint(4, size=32).astype(np.int32)


def network():
    ms.set_seed(1)
    return nn.SequentialCell(nn.Conv2d(1, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.Flatten(), nn.Dense(256, 4))


def trained(level, epochs=4, **settings):
    net = network()
    data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(16)
    model = ms.Model(net, nn.CrossEntropyLoss(), nn.Momentum(net.trainable_params(), 0.05, 0.9), metrics={"loss"},
                     amp_level=level, **settings)
    model.train(epochs, data)
    return model, net, model.eval(data)["loss"]


def test_parameters_are_read_in_the_type_of_the_cell():
    dense = nn.Dense(64, 8).to_float(ms.float16)
    inputs = Tensor(draw.randn(4, 64).astype(np.float32))
    found = dense(inputs)
    assert found.dtype is ms.float16 and dense.weight.dtype is ms.float32
    halves = [a.asnumpy().astype(np.float16).astype(np.float32) for a in (inputs, dense.weight, dense.bias)]
    np.testing.assert_allclose(found.asnumpy(), halves[0] @ halves[1].T + halves[2], rtol=2e-3, atol=2e-3)
    gradient = ms.grad(lambda v: dense(v).sum(), None, dense.trainable_params())(inputs)[0]
    assert gradient.dtype is ms.float32


@pytest.mark.parametrize("level, types", [("O0", {"f32"}), ("O1", {"f16", "f32"}), ("O2", {"f16", "f32"}), ("O3", {"f16"})])
def test_levels(level, types):
    net = auto_mixed_precision(network(), level)
    found = net(Tensor(x))
    nodes = last_program[0].graph_text()
    of_norm = [line.split(": ")[-1].split("[")[0] for line in nodes.splitlines()
               if line.startswith("%1.") and ": f" in line and not any(k in line for k in ("cast", "= param", "= state"))]
    assert found.dtype is (ms.float32 if level in ("O0", "O1") else ms.float16)
    assert ("f16" in nodes) == ("f16" in types) and set(of_norm) == {"f32" if "f32" in types else "f16"}


def test_products_alone_are_short():
    torch = pytest.importorskip("torch")

    class Net(nn.Cell):
        def __init__(self):
            super().__init__()
            self.dense, self.matmul, self.relu = nn.Dense(8, 6, activation="tanh"), ops.MatMul(), nn.ReLU()
            self.w, self.norm = Parameter(Tensor(draw.randn(6, 4).astype(np.float32))), nn.LayerNorm((4,))

        def construct(self, x):
            return self.norm(self.relu(self.matmul(ops.exp(self.dense(x)), self.w)))

    net, inputs, factors = Net(), *(draw.randn(4, n).astype(np.float32) for n in (8, 4))
    in_f32 = net(Tensor(inputs)).asnumpy()
    found = auto_mixed_precision(net, "O1", ms.bfloat16)(Tensor(inputs))
    gradients = ms.grad(lambda x: net(x) * Tensor(factors), None, net.trainable_params())(Tensor(inputs))
    short = torch.bfloat16
    weights = {p.name: torch.tensor(p.asnumpy(), requires_grad=True) for p in net.trainable_params()}
    dense = torch.tensor(inputs).to(short) @ weights["dense.weight"].to(short).T + weights["dense.bias"].to(short)
    product = torch.tanh(dense).float().exp().to(short) @ weights["w"].to(short)
    expected = torch.nn.functional.layer_norm(torch.relu(product.float()), (4,), weights["norm.gamma"], weights["norm.beta"])
    (expected * torch.tensor(factors)).sum().backward()
    assert found.dtype is ms.float32 and np.abs(found.asnumpy() - in_f32).max() > 1e-4
    np.testing.assert_allclose(found.asnumpy(), expected.detach().numpy(), rtol=2e-2, atol=2e-2)
    for p, g in zip(net.trainable_params(), gradients):
        assert g.dtype is ms.float32
        size = weights[p.name].grad.abs().max().item()
        np.testing.assert_allclose(g.asnumpy() / size, weights[p.name].grad.numpy() / size, atol=3e-2)


@pytest.mark.parametrize("level", ["O1", "O2", "O3"])
def test_training_is_near_that_in_f32(level):
    manager = ms.FixedLossScaleManager(128.0)
    _, net, loss = trained(level, loss_scale_manager=manager)
    _, _, expected = trained("O0")
    assert abs(loss - expected) < 0.02 and net[4].weight.dtype is ms.float32
    assert loss != expected


def test_auto_is_what_the_target_says():
    assert trained("auto", 1)[0].predict(Tensor(x)).dtype is ms.float32
    ms.set_context(device_target="Ascend")
    try:
        assert trained("auto", 1)[0].predict(Tensor(x)).dtype is ms.float16
    finally:
        ms.set_context(device_target="CPU")


def test_a_dynamic_scale_leaves_out_updates_that_overflow():
    w = Parameter(Tensor([1.0]), name="w")

    class Net(nn.Cell):
        def construct(self, v):
            return (w * v).sum()

    scale = nn.DynamicLossScaleUpdateCell(2.0**127, 2, 2)
    step = nn.TrainOneStepWithLossScaleCell(Net(), nn.Momentum([w], 0.5, 0.9, weight_decay=0.1), scale)
    seen = [[t.item() for t in step(Tensor([4.0]))] for _ in range(4)]
    assert [s[1] for s in seen] == [True, True, False, False]
    assert [s[2] for s in seen] == [2.0**127, 2.0**126, 2.0**125, 2.0**125] and scale.scale == 2.0**126
    m1 = 4.1
    w1 = 1 - 0.5 * m1
    m2 = 0.9 * m1 + 4 + 0.1 * w1
    np.testing.assert_allclose(w.asnumpy(), [w1 - 0.5 * m2], rtol=1e-6)
    assert len({id(p) for programs in step._scaled._programs.values() for p in programs}) == 1


def test_a_fixed_scale_that_the_optimizer_takes_out(virtual_devices):
    virtual_devices(4, full_batch=True)
    manager = ms.FixedLossScaleManager(1024.0, drop_overflow_update=False)

    def weights(scale, **settings):
        net = network()
        optimizer = nn.Momentum(net.trainable_params(), 0.05, 0.9, loss_scale=scale)
        data = ds.NumpySlicesDataset((x, y), ["x", "y"], shuffle=False).batch(16)
        ms.Model(net, nn.CrossEntropyLoss(), optimizer, **settings).train(2, data)
        return net[4].weight.asnumpy()

    np.testing.assert_allclose(weights(1024.0, loss_scale_manager=manager), weights(1.0), rtol=1e-4, atol=1e-6)


def test_wrong_settings_are_told():
    net = network()
    with pytest.raises(ValueError, match="amp_level 'O4' is not in this front end.*O0, O1, O2, O3, auto"):
        ms.Model(net, amp_level="O4")
    with pytest.raises(ValueError, match="O1 computes norms in f32"):
        ms.Model(net, amp_level="O1", keep_batchnorm_fp32=False)
    with pytest.raises(ValueError, match="Model takes no 'loss_scale'"):
        ms.Model(net, loss_scale=2)
    for wrong in (lambda: ms.FixedLossScaleManager(0.5), lambda: ms.DynamicLossScaleManager(scale_factor=1)):
        with pytest.raises(ValueError, match="1"):
            wrong()
    step = nn.TrainOneStepWithLossScaleCell(nn.WithLossCell(net, nn.CrossEntropyLoss()), nn.SGD(net.trainable_params()), 2.0)
    with pytest.raises(RuntimeError, match="between programs"):
        AutoParallel(step)(Tensor(x), Tensor(y))
    assert ops.cast(Tensor(1.0), ms.float16).dtype is ms.float16
