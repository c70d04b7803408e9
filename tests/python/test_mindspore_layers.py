"""Settings of layers, and of the cells around networks, that programs rarely say."""

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Tensor, nn, ops, train

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.usefixtures("settings")


@pytest.mark.parametrize("first, shape", [(-1, (5,)), (2, (5,)), (1, (4, 5)), (-2, (4, 5))])
@pytest.mark.parametrize("devices", [1, 4])
def test_layer_norms_over_several_dims_do_as_torch_does(first, shape, devices, virtual_devices):
    virtual_devices(devices, full_batch=True)
    x = np.random.RandomState(0).randn(8, 4, 5).astype(np.float32)
    norm = nn.LayerNorm(shape, first, first, epsilon=1e-5)
    norm.gamma.set_data(Tensor(np.random.RandomState(1).randn(*shape), ms.float32))
    norm.beta.set_data(Tensor(np.random.RandomState(2).randn(*shape), ms.float32))
    theirs = torch.nn.LayerNorm(shape)
    with torch.no_grad():
        theirs.weight.copy_(torch.tensor(norm.gamma.asnumpy()))
        theirs.bias.copy_(torch.tensor(norm.beta.asnumpy()))
    given = torch.tensor(x, requires_grad=True)
    (theirs(given) ** 3).sum().backward()
    value, (of_x, of_weights) = ms.value_and_grad(lambda v: (norm(v) ** 3).sum(), 0, norm.trainable_params())(Tensor(x))
    np.testing.assert_allclose(of_x.asnumpy(), given.grad.numpy(), rtol=1e-3, atol=1e-4)
    for ours, parameter in zip(of_weights, (theirs.weight, theirs.bias)):
        np.testing.assert_allclose(ours.asnumpy(), parameter.grad.numpy(), rtol=1e-4, atol=1e-4)


def test_norms_that_are_not_there_are_told():
    with pytest.raises(ValueError, match=r"LayerNorm of shape \(4, 5\) from dim 2 on takes no input of shape \(8, 4, 5\)"):
        nn.LayerNorm((4, 5), 2, 2)(Tensor(np.ones((8, 4, 5)), ms.float32))
    with pytest.raises(ValueError, match="begin_params_axis -1 of a LayerNorm is its begin_norm_axis, 1"):
        nn.LayerNorm((4, 5), 1)
    with pytest.raises(ValueError, match="data_format of a BatchNorm2d is NCHW in this front end, not 'NHWC'"):
        nn.BatchNorm2d(3, data_format="NHWC")
    with pytest.raises(ValueError, match="flatten in order 'F' is not in this front end"):
        ops.flatten(Tensor(np.ones((2, 3, 4)), ms.float32), "F")


def test_the_row_of_what_is_padded_begins_with_zeros():
    table = nn.Embedding(6, 3, padding_idx=2).embedding_table.asnumpy()
    assert not table[2].any() and np.count_nonzero(table) == 15
    with pytest.raises(ValueError, match="padding_idx is from 0 to below vocab_size 6, not 6"):
        nn.Embedding(6, 3, padding_idx=6)


def test_steps_that_return_gradients():
    net = nn.Dense(3, 2, weight_init="ones")
    x, y = Tensor(np.arange(12).reshape(4, 3), ms.float32), Tensor(np.zeros((4, 2)), ms.float32)
    with_loss = nn.WithLossCell(net, nn.MSELoss())
    expected = ms.value_and_grad(with_loss, None, net.trainable_params())(x, y)
    loss, gradients = nn.TrainOneStepCell(with_loss, nn.SGD(net.trainable_params(), 0.1), return_grad=True)(x, y)
    assert loss.item() == expected[0].item() and list(gradients) == ["weight", "bias"]
    for found, wanted in zip(gradients.values(), expected[1]):
        np.testing.assert_array_equal(found.asnumpy(), wanted.asnumpy())


def test_metrics_find_their_values_among_results():
    class Evaluated(nn.Cell):
        def construct(self, x, label):
            return label, x, x.sum()

    rows = np.eye(3, dtype=np.float32)[[0, 1, 2, 0]]
    data = ds.NumpySlicesDataset((rows, np.array([0, 1, 2, 1], np.int32)), ["x", "label"], shuffle=False).batch(2)
    model = train.Model(nn.Dense(3, 3), eval_network=Evaluated(), eval_indexes=[2, 1, 0], metrics={"accuracy", "loss"})
    assert model.eval(data) == {"accuracy": 0.75, "loss": 2.0}
    model = train.Model(nn.Dense(3, 3), eval_network=Evaluated(), eval_indexes=[-1, 1, 0], metrics={"accuracy"})
    assert model.eval(data) == {"accuracy": 0.75}
    with pytest.raises(ValueError, match=r"eval_indexes are the places of loss, outputs and label, .* not \[0, 1\]"):
        train.Model(nn.Dense(3, 3), eval_indexes=[0, 1])
