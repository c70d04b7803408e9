"""Primitives of networks: their numbers are those of PyTorch, on one device and split as their strategies say."""

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
from mindspore import Tensor, nn, ops

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("settings")
_random = np.random.default_rng(3)


def _drawn(*shape):
    return _random.normal(size=shape).astype(np.float32)


def _torch_conv(x, w):
    return torch.nn.functional.conv2d(x, w, stride=2, padding=1, groups=2)


def _torch_layer_norm(x, gamma, beta):
    return torch.nn.functional.layer_norm(x, x.shape[2:], eps=1e-5) * gamma + beta


def _torch_losses(x, y):
    return torch.nn.functional.cross_entropy(x, y, reduction="none")


_x, _images = _drawn(4, 8), _drawn(4, 4, 8, 8)
_shares = np.exp(_drawn(4, 8))
_shares /= _shares.sum(1, keepdims=True)
_cases = {
    "conv": (ops.Conv2D(6, 3, pad_mode="pad", pad=1, stride=(1, 1, 2, 2), group=2), _torch_conv, (_images, _drawn(6, 2, 3, 3)),
             ((4, 1, 1, 1), (1, 1, 1, 1))),
    "max pool": (ops.MaxPool(2, 2), lambda x: torch.nn.functional.max_pool2d(x, 2), (_images,), ((2, 2, 1, 1),)),
    "mean pool": (ops.AvgPool(2, 2), lambda x: torch.nn.functional.avg_pool2d(x, 2), (_images,), ((2, 1, 2, 1),)),
    "prelu": (ops.PReLU(), torch.nn.functional.prelu, (_images, _drawn(4)), ((2, 2, 1, 1), (2,))),
    "layer norm": (ops.LayerNorm(2, 2, 1e-5), _torch_layer_norm, (_images, _drawn(8, 8), _drawn(8, 8)),
                   ((2, 2, 1, 1), (1, 1), (1, 1))),
    "layer norm, wider weights": (ops.LayerNorm(2, 1, 1e-5), _torch_layer_norm, (_images, _drawn(4, 8, 8), _drawn(4, 8, 8)),
                                  ((1, 4, 1, 1), (4, 1, 1), (4, 1, 1))),
    "l2": (ops.L2Normalize(1, 1e-12), lambda x: torch.nn.functional.normalize(x, dim=1), (_x,), ((4, 1),)),
    "losses": (ops.SoftmaxCrossEntropyWithLogits(), _torch_losses, (_x, _shares), ((4, 1), (4, 1))),
    "running sums": (ops.CumSum(), lambda x: x.cumsum(1), (_x,), ((4, 1),)),
    "difference": (ops.SquaredDifference(), lambda x, y: (x - y) ** 2, (_x, _drawn(8)), ((2, 2), (2,))),
    "angle": (ops.Atan2(), torch.atan2, (_x, _drawn(8)), ((2, 2), (2,))),
    "remainder": (ops.FloorMod(), torch.remainder, (_x, _drawn(4, 8)), ((2, 2), (2, 2))),
    "remainder to zero": (ops.Mod(), torch.fmod, (_x, _drawn(4, 8)), ((2, 2), (2, 2))),
}


def _of_primitive(primitive, arrays):
    def function(*tensors):
        # CumSum alone takes a number behind its tensor
        result = primitive(*tensors, 1) if isinstance(primitive, ops.CumSum) else primitive(*tensors)
        return result[0] if isinstance(result, tuple) else result

    weights = Tensor(_weights(function(*[Tensor(a) for a in arrays]).shape))
    loss_and_gradients = ms.value_and_grad(lambda *t: ops.sum(function(*t) * weights), tuple(range(len(arrays))))
    value = ms.jit(lambda *t: function(*t))(*[Tensor(a) for a in arrays])
    return [value, *loss_and_gradients(*[Tensor(a) for a in arrays])[1]]


def _weights(shape):
    return np.linspace(-1, 1, int(np.prod(shape)), dtype=np.float32).reshape(shape)


def _of_torch(function, arrays):
    tensors = [torch.tensor(a, requires_grad=True) for a in arrays]
    value = function(*tensors)
    (value * torch.tensor(_weights(value.shape))).sum().backward()
    return [value.detach(), *(t.grad for t in tensors)]


@pytest.mark.parametrize("case", _cases)
@pytest.mark.parametrize("devices", [1, 4])
def test_primitive(case, devices, virtual_devices):
    primitive, reference, arrays, strategy = _cases[case]
    if devices > 1:
        virtual_devices(devices, dataset_strategy="full_batch")
    primitive.shard(strategy)
    wanted = _of_torch(reference, arrays)
    if "remainder" in case:  # torch has no gradient of the second operand of these
        wanted = wanted[:2]
    for found, want in zip(_of_primitive(primitive, arrays), wanted):
        np.testing.assert_allclose(found.asnumpy(), want.numpy(), rtol=2e-4, atol=2e-5)


def test_gradient_that_a_loss_hands_out():
    losses, gradient = ops.SoftmaxCrossEntropyWithLogits()(Tensor(_x), Tensor(_shares))
    x = torch.tensor(_x, requires_grad=True)
    _torch_losses(x, torch.tensor(_shares)).sum().backward()
    np.testing.assert_allclose(gradient.asnumpy(), x.grad.numpy(), atol=1e-6)
    labels = np.array([1, 0, 7, 3], np.int32)
    mean = ops.SparseSoftmaxCrossEntropyWithLogits()(Tensor(_x), Tensor(labels))
    assert float(mean) == pytest.approx(float(torch.nn.functional.cross_entropy(torch.tensor(_x), torch.tensor(labels).long())))


def test_largest_and_where():
    values, indices = ops.TopK()(Tensor(_x), 3)
    want = torch.topk(torch.tensor(_x), 3)
    np.testing.assert_array_equal(values, want.values)
    np.testing.assert_array_equal(indices, want.indices)
    assert indices.dtype is ms.int32


def test_whole_numbers_stay_whole():
    x = np.array([7, -7, 123456789, 5], np.int32)
    for y in (3, np.array([2, 2, -10, -3], np.int32)):
        other = y if isinstance(y, int) else Tensor(y)
        for found, want in ((Tensor(x) // other, x // y), (Tensor(x) % other, x % y), (ops.Mod()(Tensor(x), other), np.fmod(x, y)),
                            (17 % Tensor(x), 17 % x), (17 // Tensor(x), 17 // x)):
            assert found.dtype is ms.int32
            np.testing.assert_array_equal(found.asnumpy(), want)
    assert (Tensor([5.5]) % 2).asnumpy() == pytest.approx([1.5])


def test_quotient_by_zero():
    x, y = Tensor([1.0, 2.0, 0.0]), Tensor([0.0, 4.0, 0.0])
    np.testing.assert_array_equal(ops.DivNoNan()(x, y), [0, 0.5, 0])
    gradients = ops.GradOperation(get_all=True)(ops.DivNoNan())(x, y)
    np.testing.assert_array_equal(np.stack([g.asnumpy() for g in gradients]), [[0, 0.25, 0], [0, -0.125, 0]])


def test_strategy_of_one_hot_is_that_of_its_result(virtual_devices):
    virtual_devices(4, dataset_strategy="full_batch")
    on, off = Tensor(2.0, ms.float32), Tensor(-1.0, ms.float32)
    hot = ops.OneHot().shard(((2, 2), (), ()))
    found = ms.jit(lambda i: hot(i, 8, on, off))(Tensor(np.array([1, 7, 3, 0], np.int32)))
    np.testing.assert_array_equal(found, np.eye(8)[[1, 7, 3, 0]] * 3 - 1)


def test_strategy_of_the_primitive_in_a_convolution(virtual_devices):
    def build():
        return nn.Conv2d(4, 8, 3, has_bias=True, weight_init="ones", bias_init="ones")

    want = build()(Tensor(_images)).asnumpy()
    virtual_devices(4, dataset_strategy="full_batch")
    net = build()
    net.conv2d.shard(((2, 1, 1, 1), (2, 1, 1, 1)))
    np.testing.assert_allclose(net(Tensor(_images)).asnumpy(), want, rtol=1e-5, atol=2e-6)
    split = net.compile(Tensor(_images)).planned.explain()
    assert "conv2d" in split and len(net.trainable_params()) == 2


def test_loss_that_its_primitives_split(virtual_devices):
    labels = Tensor(np.array([1, 0, 7, 3], np.int32))

    def losses_and_gradients():
        loss = nn.SoftmaxCrossEntropyWithLogits(sparse=True)
        return loss, ms.value_and_grad(lambda x: loss(x, labels))

    want = losses_and_gradients()[1](Tensor(_x))
    virtual_devices(4, dataset_strategy="full_batch")
    loss, function = losses_and_gradients()
    loss.one_hot.set_strategy(((2, 2), (), ()))
    loss.softmax_cross_entropy.set_strategy(((4, 1), (4, 1)))
    for found, wanted in zip(function(Tensor(_x)), want):
        np.testing.assert_allclose(found.asnumpy(), wanted.asnumpy(), rtol=1e-5, atol=1e-6)
    assert "softmax_cross_entropy" in ms.jit(lambda x: loss(x, labels)).unit.compile(Tensor(_x)).planned.explain()


def test_older_names():
    assert ops.Gelu is ops.GeLU and ops.GatherV2 is ops.Gather


def test_what_a_primitive_cannot():
    with pytest.raises(ValueError, match="mode=3 and data_format=NCHW is not in this front end; there are 1 and NCHW"):
        ops.Conv2D(4, 3, mode=3)
    with pytest.raises(ValueError, match="pad_mode is same, valid or pad, not 'full'"):
        ops.MaxPool(2, pad_mode="full")(Tensor(_images))
