"""Names and call forms that public programs use beyond those of the guides' first pages."""

import os
import signal

import numpy as np
import pytest
from mindspore_fixtures import digits, run_as_ranks, settings, virtual_devices  # noqa: F401

import mindspore as ms
import mindspore.dataset as ds
from mindspore import Parameter, Tensor, nn, ops

pytestmark = pytest.mark.usefixtures("settings")


# ---- what is missing ----

def test_import_of_a_missing_name_says_what_there_is():
    with pytest.raises(ImportError, match="'mindspore.nn.Dens' is not in this front end; did you mean 'Dense'"):
        from mindspore.nn import Dens  # noqa: F401
    with pytest.raises(ImportError, match="'mindspore.parallel.Layuot' is not in this front end; did you mean 'Layout'"):
        from mindspore.parallel import Layuot  # noqa: F401


def test_attribute_that_is_missing_is_no_import():
    with pytest.raises(AttributeError, match="did you mean 'Dense'"):
        nn.Dens
    assert not hasattr(nn, "Dens")


# ---- old forms of strategies ----

def test_strategy_by_its_old_names(virtual_devices):
    virtual_devices(4)
    x, y = Tensor(np.arange(16, dtype=np.float32).reshape(4, 4)), Tensor(np.ones((4, 4), np.float32))
    for primitive in (ops.Add().shard(strategy=((2, 2), (2, 2))), ops.Add().set_strategy([[2, 2], [2, 2]]),
                      ops.Add().set_strategy(strategy=None)):
        np.testing.assert_array_equal(ms.jit(lambda a, b, p=primitive: p(a, b))(x, y), x.asnumpy() + 1)


def test_algorithm_settings_are_those_of_the_context():
    from mindspore.parallel import get_algo_parameters, reset_algo_parameters, set_algo_parameters
    set_algo_parameters(fully_use_devices=False)
    assert ms.get_algo_parameters("fully_use_devices") is False
    reset_algo_parameters()
    assert get_algo_parameters("fully_use_devices") is not False


def test_algorithm_settings_are_checked():
    for name, value, error, text in (
            ("algo_approxi_epsilon", 0, ValueError, "algo_approxi_epsilon is above 0 and at most 1, not 0"),
            ("algo_approxi_epsilon", "0.1", TypeError, "algo_approxi_epsilon is a number, not '0.1'"),
            ("enable_algo_approxi", 1, TypeError, "enable_algo_approxi is True or False, not 1"),
            ("tensor_slice_align_size", 0, ValueError, "tensor_slice_align_size is from 1 to 1024, not 0"),
            ("tensor_slice_align_size", 2.5, TypeError, "tensor_slice_align_size is a whole number, not 2.5")):
        with pytest.raises(error, match=text):
            ms.set_algo_parameters(**{name: value})
    assert ms.get_algo_parameters("algo_approxi_epsilon") is None


def test_algorithm_settings_reach_dynamic_programming(capfd):
    from mindspore import context
    settings = dict(enable_algo_approxi=True, algo_approxi_epsilon=0.5, tensor_slice_align_enable=True,
                    tensor_slice_align_size=32)
    ms.set_algo_parameters(**settings)
    try:
        assert context._search_options("dynamic") == {"approximate": "1", "approximation": "0.5", "align_slices": "1",
                                                      "slice_size": "32"}
        assert context._search_options("recursive") == {}
        assert "enable_algo_approxi has no effect: search recursive has no use for it" in capfd.readouterr().err
    finally:
        ms.reset_algo_parameters()


# ---- two matrix products of constants, whose losses are known ----

class TwoProducts(nn.Cell):
    def __init__(self):
        super().__init__()
        self.weight = Parameter(Tensor(np.full((32, 8), 0.03, np.float32)), "w")
        self.weight2 = Parameter(Tensor(np.full((8, 16), 0.04, np.float32)), "w2")
        self.matmul, self.relu, self.matmul2 = ops.MatMul(), ops.ReLU(), ops.MatMul()

    def construct(self, x):
        return self.matmul2(self.relu(self.matmul(x, self.weight)), self.weight2)


_losses = [0.0047997184, 0.0047495709, 0.0046943466]


def _step_of(net):
    loss_of, optimizer = nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.3, 0.1)
    gradients = ops.value_and_grad(lambda x, y: loss_of(net(x), y), None, net.trainable_params())

    def step(x, y):
        loss, grads = gradients(x, y)
        optimizer(grads)
        return loss

    return step


def _constants(steps):
    batch = np.full((16, 32), 0.1, np.float32), np.full((16, 16), 0.1, np.float32)
    return ds.GeneratorDataset(lambda: (batch for _ in range(steps)), ["x", "y"])


@pytest.mark.parametrize("sink_size, seen", [(1, _losses), (2, [_losses[1]])])
def test_data_sink_returns_the_last_of_its_steps(virtual_devices, sink_size, seen):
    virtual_devices(8, "auto_parallel", search_mode="sharding_propagation", dataset_strategy="full_batch")
    net = TwoProducts()
    net.matmul.shard(((2, 4), (4, 1)))
    run = ms.data_sink(_step_of(net), _constants(2), sink_size=sink_size, jit_config=ms.JitConfig())
    assert [float(run()) for _ in seen] == pytest.approx(seen, rel=1e-5)


def test_data_sink_of_nothing():
    with pytest.raises(ValueError, match="sink_size is a whole number above 0, not 0"):
        ms.data_sink(lambda x, y: x, _constants(1), sink_size=0)
    with pytest.raises(ValueError, match="the data set has no batches"):
        ms.data_sink(lambda x, y: x, _constants(0))()


def test_plan_of_a_parameter_that_is_not_there_is_told(virtual_devices, capsys):
    virtual_devices(8, "auto_parallel", search_mode="sharding_propagation", dataset_strategy="full_batch")
    net = TwoProducts()
    net.shard(in_strategy=((2, 4),), parameter_plan={"weight": (4, 1), "self.w2": (1, 2)})
    step = _step_of(net)
    assert [float(step(x, y)) for x, y in _constants(3)] == pytest.approx(_losses, rel=1e-5)
    assert "parameter_plan of TwoProducts has no effect on 'weight': it has w, w2" in capsys.readouterr().err


def test_device_alone():
    ms.set_device("GPU", 3)
    assert (ms.get_context("device_target"), ms.get_context("device_id")) == ("GPU", 3)
    with pytest.raises(ValueError, match="device_target is CPU, GPU or Ascend, not 'TPU'"):
        ms.set_device("TPU")
    ms.set_device("CPU", 0)


# ---- ending when asked to ----

class _Asks(ms.Callback):
    """Sends this process a signal at a step."""

    def __init__(self, step):
        self.step, self.seen = step, []

    def on_train_step_begin(self, run_context):
        self.seen.append(run_context.original_args().cur_step_num)
        if self.seen[-1] == self.step:
            os.kill(os.getpid(), signal.SIGTERM)


def _train(callbacks, directory):
    net = TwoProducts()
    model = ms.Model(net, nn.MSELoss(), nn.Momentum(net.trainable_params(), 0.3, 0.1))
    model.train(1, _constants(5), callbacks=callbacks)
    return net


def test_training_ends_when_asked_and_goes_on_from_there(tmp_path):
    former = signal.getsignal(signal.SIGTERM)
    asks = _Asks(2)
    stopped = _train([asks, ms.train.OnRequestExit(save_mindir=False, directory=str(tmp_path))], tmp_path)
    assert asks.seen == [1, 2] and signal.getsignal(signal.SIGTERM) is former
    saved = ms.load_checkpoint(str(tmp_path / "rank_0" / "Net_train.ckpt"))
    np.testing.assert_array_equal(saved["w"], stopped.weight)
    assert int(saved["step_num"]) == 2
    (tmp_path / "exit.json").write_text('{"GracefulExit": 1}')
    exit_at_once = ms.train.OnRequestExit(save_mindir=False, directory=str(tmp_path), config_file=str(tmp_path / "exit.json"))
    assert not np.array_equal(_train(exit_at_once, tmp_path).weight, stopped.weight)  # a third step
    whole, third = TwoProducts(), ms.load_checkpoint(str(tmp_path / "rank_0" / "Net_train.ckpt"))["w"]
    step = _step_of(whole)
    for x, y in _constants(3):
        step(x, y)
    np.testing.assert_allclose(third.asnumpy(), whole.weight.asnumpy(), rtol=1e-6)


def test_all_ranks_end_behind_one_step(tmp_path, run_as_ranks):
    program = tmp_path / "program.py"
    program.write_text(f'''
import os, signal, sys
sys.path.insert(0, {os.path.dirname(__file__)!r})
import mindspore as ms
from test_mindspore_names import _Asks, _train
ms.set_context(mode=ms.GRAPH_MODE)
ms.communication.init()
ms.set_auto_parallel_context(parallel_mode="semi_auto_parallel")
asks = _Asks(2 if ms.communication.get_rank() == 1 else 0)
_train([asks, ms.train.OnRequestExit(save_ckpt=False, save_mindir=False)], ".")
print(asks.seen)
''')
    assert run_as_ranks(2, program) == [["[1, 2]"], ["[1, 2]"]]


def test_exit_by_a_signal_that_cannot_be_caught():
    with pytest.raises(ValueError, match="cannot be asked by SIGKILL"):
        ms.train.OnRequestExit(sig=signal.SIGKILL)


# ---- micro-batches ----

@pytest.mark.parametrize("devices", [1, 4])
def test_each_input_is_cut_by_its_own_rows(virtual_devices, devices):
    class Product(nn.Cell):
        def construct(self, x, y):
            return x.mean() * y.mean()

    virtual_devices(devices)
    x, y = np.arange(24, dtype=np.float32).reshape(4, 6), np.arange(8, dtype=np.float32) ** 2
    model = ms.Model(nn.GradAccumulationCell(Product(), 2))
    seen = model.train_network(Tensor(x), Tensor(y))
    assert float(seen) == pytest.approx(sum(x[2 * i:2 * i + 2].mean() * y[4 * i:4 * i + 4].mean() for i in range(2)), rel=1e-5)
    with pytest.raises(ValueError, match="cannot be cut into 2 equal micro-batches"):
        model.train_network(Tensor(x), Tensor(y[:7]))


def test_old_names_of_a_call():
    net = nn.Dense(4, 2)
    net.set_auto_parallel()
    x = Tensor(np.ones((3, 4), np.float32))
    np.testing.assert_array_equal(net.compile_and_run(x), net(x))
