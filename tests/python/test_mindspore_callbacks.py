"""What follows a training, and settings of functions that are refused."""

import json

import numpy as np
import pytest
from mindspore_fixtures import settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Tensor, nn, ops, train

pytestmark = pytest.mark.usefixtures("settings")


def _model(optimizer=None, metrics=None):
    net = nn.Dense(3, 2, weight_init="ones")
    model = train.Model(net, nn.MSELoss(), optimizer or nn.SGD(net.trainable_params(), 0.05), metrics)
    rows = np.random.RandomState(0).randn(12, 3).astype(np.float32)
    return net, model, ds.NumpySlicesDataset((rows, rows[:, :2]), ["x", "y"], shuffle=False).batch(4)


def test_a_rate_follows_a_function_of_the_step():
    net = nn.Dense(3, 2)
    optimizer = nn.Momentum(net.trainable_params(), 0.1, 0.9)
    rows = np.ones((8, 3), np.float32)
    data = ds.NumpySlicesDataset((rows, rows[:, :2]), ["x", "y"]).batch(2)
    seen = []
    train.Model(net, nn.MSELoss(), optimizer).train(1, data, callbacks=[
        train.LearningRateScheduler(lambda rate, step: seen.append((round(rate, 5), step)) or rate / 2)], dataset_sink_mode=False)
    assert seen == [(0.1, 1), (0.05, 2), (0.025, 3), (0.0125, 4)] and optimizer.learning_rate.item() == pytest.approx(0.00625)


def test_training_ends_early_where_nothing_gets_better():
    _, model, data = _model(metrics={"mse"})
    history, epochs = train.History(), []
    model.fit(9, data, data, callbacks=[train.EarlyStopping("eval_mse", min_delta=100, patience=2), history, train.LambdaCallback(
        on_train_epoch_end=lambda run: epochs.append(run.original_args().cur_epoch_num))], dataset_sink_mode=False)
    assert epochs == [1, 2, 3] and history.epoch["epoch"] == epochs and len(history.history["mse"]) == 3


def test_times_and_losses_are_written(tmp_path):
    _, model, data = _model()
    with ms.Profiler(output_path=str(tmp_path / "times")):
        model.train(2, data, callbacks=[train.SummaryCollector(str(tmp_path / "summary"), collect_freq=1)], dataset_sink_mode=False)
    times = json.loads((tmp_path / "times" / "times.json").read_text())
    assert [t["steps"] for t in times] == [6] and all(t["least_s"] > 0 for t in times)
    assert "plan of traced network" in (tmp_path / "times" / times[0]["plan"]).read_text()
    written, = (tmp_path / "summary").iterdir()
    assert written.read_bytes().count(b"loss") == 6


def test_parameters_of_an_optimizer_are_shown():
    net, model, data = _model()
    optimizer = nn.Adam(net.trainable_params(), 0.1)
    first = {p.name: p for p in optimizer.get_parameters()}
    assert [n for n in first][:4] == ["global_step", "learning_rate", "beta1_power", "beta2_power"]
    assert not first["moment1.weight"].asnumpy().any() and first["weight"] is net.weight
    step = ms.value_and_grad(lambda x: net(x).sum(), None, net.trainable_params())
    optimizer(step(Tensor(np.ones((2, 3), np.float32)))[1])
    then = {p.name: p.asnumpy() for p in optimizer.get_parameters()}
    assert then["global_step"] == 1 and then["beta1_power"] == pytest.approx(0.9)
    np.testing.assert_allclose(then["moment1.weight"], 0.2, rtol=1e-6)
    with pytest.raises(ValueError, match="'moment1.weight' is a state of an optimizer: load_param_into_net"):
        first["moment1.weight"].set_data(Tensor(np.ones((2, 3), np.float32)))


X = np.ones((2, 3), np.float32)


@pytest.mark.parametrize("call, message", [
    (lambda x: ops.norm(x, 2, (0, 1)), "a norm of matrices of order 2 is not in this front end"),
    (lambda x: ops.pad(x, (1, 1), "wrap"), "mode of a padding is constant, reflect, symmetric, replicate or circular, not 'wrap'"),
    (lambda x: ops.pad(x, (3, 0), "reflect"), "reflect padding of 3 and 0 around a dim of 3 elements: there are too few"),
    (lambda x: ops.einsum("ii->i", x), "a letter twice in one term is not in this front end"),
    (lambda x: ops.inverse(ops.zeros((17, 17))), "inverse of matrices of 17 rows is not in this front end: at most 16"),
    (lambda x: ops.interpolate(x.reshape(1, 2, 3), size=4, mode="bicubic"), "interpolate in mode 'bicubic' of 1 dims is not in this front end"),
    (lambda x: ops.grid_sample(x.reshape(1, 1, 2, 3), ops.zeros((1, 1, 1, 2)), padding_mode="reflection"), "with padding_mode 'reflection'"),
    (lambda x: ops.div(x, x, rounding_mode="up"), "rounding_mode of div is None, 'floor' or 'trunc', not 'up'"),
    (lambda x: ops.kl_div(x, x, "max"), "reduction is mean, sum, batchmean or none, not 'max'"),
    (lambda x: nn.MultiheadAttention(8, 3), "embed_dim 8 of a MultiheadAttention is no multiple of its 3 heads"),
    (lambda x: nn.Conv1d(2, 3, 3, group=2), "group 2 of a Conv1d does not divide 2 and 3 channels"),
    (lambda x: nn.RNN(3, 4, nonlinearity="elu"), "nonlinearity of an RNN is tanh or relu, not 'elu'"),
    (lambda x: nn.FTRL([ms.Parameter(x)], lr_power=1.0), "FTRL takes initial_accum 0.1, l1 0.0 and l2 0.0 from 0 on, and lr_power 1.0 up to 0"),
    (lambda x: nn.GroupNorm(2, 3), "num_groups 2 of a GroupNorm does not divide 3 channels"),
    (lambda x: ms.export(nn.Dense(3, 2), x, file_name="a", file_format="AIR"), "export to AIR is not in this front end"),
    (lambda x: ds.vision.Resize(4, ds.vision.Inter.BICUBIC), "pixels by Inter.CUBIC are not in this front end|Inter.BICUBIC")])
def test_what_is_not_there_is_refused_by_name(call, message):
    with pytest.raises(ValueError, match=message) as told:
        call(Tensor(X))
    assert "\n" not in str(told.value)


def test_masks_run_outside_of_programs_alone():
    x = Tensor(np.arange(4, dtype=np.float32))
    assert x[x > 1].tolist() == [2, 3] and ops.nonzero(x > 2).tolist() == [[3]]
    with pytest.raises(ValueError, match="makes as many elements as its data says, and a program's shapes are known before"):
        ms.jit(lambda t: t[t > 1])(x)
    with pytest.raises(RuntimeError, match="ops.randn in a program would draw the same numbers in each step"):
        ms.jit(lambda t: t + ops.randn(4))(x)


def test_a_setting_that_there_is_not_is_named():
    with pytest.raises(TypeError, match="ELU.* got an unexpected keyword argument 'slope'"):
        nn.ELU(slope=1.0)
    with pytest.raises(TypeError, match="LRN.* got an unexpected keyword argument 'size'"):
        ops.LRN(size=3)
